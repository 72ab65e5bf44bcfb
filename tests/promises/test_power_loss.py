"""What is acknowledged survives a power cut, and nothing is ever there by halves. `torture.power_cuts` has the
trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from histories import fast_folder, loaded_dice
from torture import power_cuts
from torture.histories import folder_of
from torture.power_cuts import LOST, Mutation, checkpoints_every, cut, judge, record, threads_appending
from torture.runner import Trial

from threadline.testing import scaled, seed
from threadline.testing.crash import Acknowledge, Event, Sync

CUTS = 200  # of one history; more histories find more than more cuts of one


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as folder, loaded_dice(), checkpoints_every(25):
        yield folder


# -- the claims ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", dict.fromkeys(power_cuts.SORTS))
def test_a_power_cut_loses_nothing_acknowledged_and_leaves_nothing_by_halves(folder: Path, sort: object) -> None:
    trials: list[Trial] = []
    for number in range(scaled(3 if sort is power_cuts.full else 1)):
        trials += sort(folder_of(folder, f"{number}"), Random(f"{seed()} {number}"), CUTS)  # type: ignore[operator]

    assert [trial.wrong for trial in trials if trial.wrong] == []


def test_relaxed_durability_loses_only_the_last_steps(folder: Path) -> None:
    """And it does: or the check could not see a loss."""
    recording = record(folder_of(folder, "live"), Random(seed()), "relaxed")
    verdicts = {
        judge(found, crash, recording.moments) for crash, _, found in cut(folder, recording.trace, CUTS, Random(1))
    }

    assert verdicts == {None, LOST}


def test_threads_share_their_syncs_or_the_cuts_would_show_nothing(folder: Path) -> None:
    """Whether threads meet is up to the scheduler of a busy machine: one of a few runs must show it."""

    def shared(number: int) -> bool:
        with checkpoints_every(10_000):  # they sync the WAL, too
            trace = threads_appending(folder_of(folder, f"{number}"), sync_s=0.002 * 2**number)
        commits = [event for event in trace if isinstance(event, Sync) and event.file.name.endswith("-wal")]
        return len(commits) < sum(isinstance(event, Acknowledge) for event in trace)

    assert any(map(shared, range(5)))


# -- these tests, tested -------------------------------------------------------------------------------


def without_syncs(trace: Sequence[Event]) -> list[Event]:
    return [event for event in trace if not isinstance(event, Sync)]


def without_wal_syncs(trace: Sequence[Event]) -> list[Event]:
    return [event for event in trace if not (isinstance(event, Sync) and event.file.name.endswith("-wal"))]


@pytest.mark.parametrize("mutation", [without_syncs, without_wal_syncs])
def test_a_disk_is_caught_that_is(folder: Path, mutation: Mutation) -> None:
    recording = record(folder_of(folder, "live"), Random(seed()))
    crashes = cut(folder, mutation(recording.trace), CUTS, Random(seed()))
    verdicts = [judge(found, crash, recording.moments) for crash, _, found in crashes]

    assert verdicts.count(None) < CUTS * 0.8
