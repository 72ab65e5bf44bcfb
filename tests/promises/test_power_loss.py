"""Promises 1 and 2: what is acknowledged survives a power cut, and nothing is ever there by halves.

A history of the public API is recorded once, then the power is cut at random moments of it. What the store says after
a cut must be exactly what it said after one of the steps, and no earlier one than the last that was acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, NamedTuple

import pytest
from histories import Clock, Step, fast_folder, loaded_dice, next_step, open_store, snapshot

from threadline import Store
from threadline.testing import scaled, seed
from threadline.testing.crash import Crash, Event, Recorder, Sync, crashes

OPENINGS, STEPS = 2, 12  # of one history; closing and opening again is part of it
CRASHES = 100  # of one history; more histories find more than more crashes of one
THREADS, APPENDS = 8, 6

Mutation = Callable[[Sequence[Event]], list[Event]]


@pytest.fixture(autouse=True)
def small_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.backends.sqlite.backend.CHECKPOINT_PAGES", 25)


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as folder, loaded_dice():
        yield folder


# -- the claims ----------------------------------------------------------------------------------------


def test_a_power_cut_loses_nothing_acknowledged_and_leaves_nothing_by_halves(folder: Path) -> None:
    verdicts = judged(folder, scaled(2_000))

    assert set(verdicts) == {"ok"}


def test_relaxed_durability_loses_at_most_the_last_steps_and_never_consistency(folder: Path) -> None:
    verdicts = judged(folder, scaled(400), durability="relaxed")

    assert set(verdicts) == {"ok", "lost acknowledged steps"}


def test_a_keyed_call_repeated_after_a_power_cut_is_stored_once(folder: Path) -> None:
    for recording, crash in trials(folder, scaled(400)):
        interrupted = recording.steps[len(crash.acknowledged) :][:1]
        if interrupted and interrupted[0].key:
            crash.write_to(folder_of(folder, "crashed"))
            after = repeated(folder / "crashed" / "store.db", interrupted[0])

            assert after == recording.moments[interrupted[0].number]


def test_no_thread_is_answered_before_the_commit_that_it_shares(folder: Path) -> None:
    trace = threads_appending(folder_of(folder, "live"))
    syncs, answers = (sum(type(event).__name__ == name for event in trace) for name in ("Sync", "Acknowledge"))
    assert syncs < answers  # or no commit was shared, and this test would show nothing

    for crash in crashes(trace, scaled(200), Random(seed())):
        crash.write_to(folder_of(folder, "crashed"))
        with open_store(folder / "crashed" / "store.db") as store:
            found, report = said(store), store.verify()

        assert report.ok
        assert found >= set(crash.acknowledged)


# -- these tests, tested -------------------------------------------------------------------------------


def test_a_disk_that_ignores_syncs_is_caught(folder: Path) -> None:
    def without_syncs(trace: Sequence[Event]) -> list[Event]:
        return [event for event in trace if not isinstance(event, Sync)]

    verdicts = judged(folder, 200, mutate=without_syncs)

    assert verdicts.count("ok") < 100


def test_a_write_ahead_log_that_is_not_synced_is_caught(folder: Path) -> None:
    def without_wal_syncs(trace: Sequence[Event]) -> list[Event]:
        return [event for event in trace if not (isinstance(event, Sync) and event.file.name.endswith("-wal"))]

    verdicts = judged(folder, 200, mutate=without_wal_syncs)

    assert verdicts.count("ok") < 100


# -- recording and judging -----------------------------------------------------------------------------


class Recording(NamedTuple):
    trace: list[Event]
    steps: list[Step]
    moments: list[dict[str, Any]]  # what the store said before the first step and after each


def record(folder: Path, rng: Random, durability: str) -> Recording:
    """Run one history, acknowledging each step when its call returns."""
    clock, moments, steps = Clock(), [{}], []
    with Recorder() as recorder:
        for _ in range(OPENINGS):
            with open_store(folder / "store.db", clock, vfs=recorder.name, durability=durability) as store:
                for _ in range(STEPS):
                    clock.step = len(moments)
                    steps.append(next_step(store, rng, clock.step, deleting=True))
                    steps[-1].run(store)
                    recorder.acknowledge(clock.step)
                    moments.append(snapshot(store))
    return Recording(recorder.trace, steps, moments)


def trials(
    folder: Path, count: int, durability: str = "full", mutate: Mutation | None = None
) -> Iterator[tuple[Recording, Crash]]:
    """So many crashes, of as many histories as they need."""
    for number, first in enumerate(range(0, count, CRASHES)):
        rng = Random(f"{seed()} {number}")
        recording = record(folder_of(folder, f"live-{number}"), rng, durability)
        trace = mutate(recording.trace) if mutate else recording.trace
        for crash in crashes(trace, min(CRASHES, count - first), rng):
            yield recording, crash


def judged(folder: Path, count: int, durability: str = "full", mutate: Mutation | None = None) -> list[str]:
    verdicts = []
    for recording, crash in trials(folder, count, durability, mutate):
        crash.write_to(folder_of(folder, "crashed"))
        verdicts.append(verdict(folder / "crashed" / "store.db", len(crash.acknowledged), recording.moments))
        if verdicts[-1] != "ok":
            print(f"seed {seed()}, crash {len(verdicts)}, after event {crash.moment}: {verdicts[-1]}")
    return verdicts


def verdict(path: Path, acknowledged: int, moments: Sequence[dict[str, Any]]) -> str:
    """'ok', or what is wrong with the store that a crash left behind."""
    try:
        with open_store(path) as store:
            found, report = snapshot(store), store.verify()
    except Exception as error:
        return f"unreadable: {error!r}"
    if not report.ok:
        return f"damaged: {report.problems[:3]}"
    if found not in moments:
        return "a state that never was"
    return "ok" if found in moments[acknowledged:] else "lost acknowledged steps"  # a deletion may bring a state back


def repeated(path: Path, step: Step) -> dict[str, Any]:
    """What the store says after that step was called again."""
    clock = Clock()
    clock.step = step.number
    with open_store(path, clock) as store:
        step.run(store)
        return snapshot(store)


def threads_appending(folder: Path) -> list[Event]:
    """Threads that append to sessions of their own and to one that they share, and note what was answered."""
    with Recorder(sync_s=0.005) as recorder, open_store(folder / "store.db", vfs=recorder.name) as store:

        def append_all(thread: int) -> None:
            for number in range(APPENDS):
                key, text = ("shared", f"own-{thread}")[number % 2], f"{thread} says {number}"
                store.session(key).append(text)
                recorder.acknowledge((key, text))

        threads = [Thread(target=append_all, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return recorder.trace


def said(store: Store) -> set[tuple[str | None, str]]:
    sessions = [store.get(info.id) for info in store.sessions()]
    return {(session.key, message.text) for session in sessions for message in session.messages()}


def folder_of(folder: Path, name: str) -> Path:
    inner = folder / name
    inner.mkdir(exist_ok=True)
    return inner
