"""On a failing disk no error loses what was acknowledged, stores half of a call, or lies about it. `torture.io_errors`
and `torture.full_disks` have the trials."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import apsw
import pytest
from histories import fast_folder, loaded_dice, open_store
from torture.full_disks import filled
from torture.histories import fresh
from torture.io_errors import APPENDS, THREADS, Told, crashing_sweep, misled, sweep
from torture.power_cuts import checkpoints_every

import threadline
from threadline.errors import StoreFailed, StoreFull, Uncertain
from threadline.testing import scaled, seed
from threadline.testing.faults import ErrorKind, FailingDisk

ERRORS = pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError], ids=["full", "io-error"])
LASTING = pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as folder, loaded_dice(), checkpoints_every(8):
        yield folder


# -- the claims ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [False, True], ids=["writes", "reads"])
@LASTING
@ERRORS
def test_an_error_at_any_call_loses_nothing_halves_nothing_and_is_told_truly(
    folder: Path, error: ErrorKind, lasting: bool, reads: bool
) -> None:
    trials = islice(sweep(folder, f"{seed()} {error.__name__} {lasting}", error, lasting, reads), scaled(60))

    assert [wrong for wrong in trials if wrong] == []


@LASTING
@ERRORS
def test_threads_that_share_a_failing_commit_are_all_told_the_truth(
    folder: Path, error: ErrorKind, lasting: bool
) -> None:
    for at in Random(seed()).choices(range(1, THREADS * APPENDS * 3), k=scaled(8)):
        assert (at, misled(folder, at, error, lasting)) == (at, [])


def test_a_crash_after_a_failed_commit_leaves_all_of_it_or_nothing(folder: Path) -> None:
    assert [wrong for wrong in crashing_sweep(folder, "0") if wrong] == []


def test_a_full_disk_refuses_whole_calls_stays_readable_and_goes_on_when_there_is_room(folder: Path) -> None:
    for n in range(scaled(5)):
        assert filled(fresh(folder), Random(f"{seed()} {n}")) == []


def test_an_open_that_fails_leaves_no_file_open(folder: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with FailingDisk() as disk:
        disk.fail(at=1, lasting=True)
        with pytest.raises(StoreFull):
            open_store(folder / "store.db", vfs=disk.name)

    assert len(os.listdir("/dev/fd")) == before


def test_a_close_that_fails_leaves_no_file_open(folder: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with FailingDisk() as disk:
        store = open_store(folder / "store.db", vfs=disk.name)
        store.new().append("hello")
        disk.fail(at=disk.calls + 1, error=apsw.IOError, lasting=True)
        with pytest.raises(StoreFailed):
            store.close()
        disk.heal()

    assert len(os.listdir("/dev/fd")) == before


def test_a_disk_that_fails_at_everything_after_a_commit_is_told_in_our_words(folder: Path) -> None:
    """The commit fails, and no new connection can be opened in its place: what is uncertain is called so."""
    with FailingDisk(reads=True) as disk, open_store(folder / "store.db", vfs=disk.name) as store:
        session = store.session("s")
        session.append("before")
        outcomes = []
        for at in range(1, 30):
            disk.fail(at=disk.calls + at, error=apsw.IOError, lasting=True)
            try:
                session.append(f"{at}")
            except (StoreFailed, Uncertain) as error:
                outcomes.append((f"{at}", type(error)))
            disk.heal()
        found = [message.text for message in session.messages()]

    assert {error for _, error in outcomes} == {StoreFailed, Uncertain}
    assert [text for text, error in outcomes if error is StoreFailed and text in found] == []


def test_a_reader_that_cannot_connect_is_told_in_our_words(folder: Path) -> None:
    with FailingDisk(reads=True) as disk, open_store(folder / "store.db", vfs=disk.name) as store:
        session = store.session("s")
        session.append("one")
        store._backend._pool._idle.pop().close()  # the next reader needs a connection of its own
        disk.fail(at=disk.calls + 1, error=apsw.IOError, lasting=True)
        with pytest.raises(threadline.ThreadlineError):
            session.messages()
        disk.heal()

        assert [message.text for message in session.messages()] == ["one"]


# -- these tests, tested -------------------------------------------------------------------------------


def test_a_store_that_acknowledges_what_failed_is_caught(folder: Path) -> None:
    def acknowledging(told: Told) -> Told:
        return told._replace(outcome="acknowledged")

    assert any(sweep(folder, "0", apsw.FullError, lasting=True, lie=acknowledging))


def test_a_store_that_calls_a_failed_commit_harmless_is_caught(folder: Path) -> None:
    def belittling(told: Told) -> Told:
        return told._replace(outcome=told.outcome.replace("uncertain", "refused"))

    assert any(crashing_sweep(folder, "0", lie=belittling))
