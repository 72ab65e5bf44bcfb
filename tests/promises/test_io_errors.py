"""Promises 1 and 2 on a failing disk: no error loses what was acknowledged, stores half of a call, or lies about it.

A history runs once on a healthy disk, which counts its writes, truncates and syncs. Then it runs again for each of
these calls, which fails: for lack of space or otherwise, once or until it is healed, half of the writes cut short."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import NamedTuple

import apsw
import pytest
from histories import Clock, Step, fast_folder, loaded_dice, next_step, open_store, step_of

from threadline import SessionInfo, Store
from threadline.errors import StoreFailed, StoreFull, Uncertain
from threadline.testing import scaled, seed
from threadline.testing.faults import ErrorKind, FailingDisk

STEPS = 7
THREADS, APPENDS = 6, 4
PATIENCE = 3  # so many errors, then somebody frees space

ERRORS = pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError], ids=["full", "io-error"])
LASTING = pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])


@pytest.fixture(autouse=True)
def small_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.backends.sqlite.backend.CHECKPOINT_PAGES", 8)


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as folder, loaded_dice():
        yield folder


# -- the claims ----------------------------------------------------------------------------------------


@LASTING
@ERRORS
def test_an_error_at_any_call_loses_nothing_halves_nothing_and_is_told_truly(
    folder: Path, error: ErrorKind, lasting: bool
) -> None:
    found: list[str] = []
    for number in range(scaled(2)):
        found += sweep(folder, f"{error.__name__} {lasting} {number}", error, lasting)

    assert found == []


@LASTING
@ERRORS
def test_threads_that_share_a_failing_commit_are_all_told_the_truth(
    folder: Path, error: ErrorKind, lasting: bool
) -> None:
    for at in Random(seed()).choices(range(1, THREADS * APPENDS * 3), k=scaled(25)):
        with FailingDisk(sync_s=0.0005) as disk, open_store(fresh(folder), vfs=disk.name) as store:
            disk.fail(at=disk.calls + at, error=error, lasting=lasting)
            told = threads_appending(store, disk)
            disk.heal()
        with open_store(folder / "store.db") as store:
            found = Counter(message.text for message in store.session("shared").messages())
            assert store.verify().ok

        wrong = {text: outcome for text, outcome in told.items() if found[text] not in COPIES[outcome]}
        assert (at, wrong) == (at, {})


def test_a_crash_after_a_failed_commit_leaves_all_of_it_or_nothing(folder: Path) -> None:
    assert list(crashing_sweep(folder, "0")) == []


def test_an_open_that_fails_leaves_no_file_open(folder: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with FailingDisk() as disk:
        disk.fail(at=1, lasting=True)
        with pytest.raises(StoreFull):
            open_store(folder / "store.db", vfs=disk.name)

    assert len(os.listdir("/dev/fd")) == before


# -- these tests, tested -------------------------------------------------------------------------------


def test_a_store_that_acknowledges_what_failed_is_caught(folder: Path) -> None:
    def acknowledging(told: Told) -> Told:
        return told._replace(outcome="acknowledged")

    assert any(sweep(folder, "0", apsw.FullError, lasting=True, lie=acknowledging))


def test_a_store_that_calls_a_failed_commit_harmless_is_caught(folder: Path) -> None:
    def belittling(told: Told) -> Told:
        return told._replace(outcome=told.outcome.replace("uncertain", "refused"))

    assert any(crashing_sweep(folder, "0", lie=belittling))


# -- running and judging -------------------------------------------------------------------------------


class Told(NamedTuple):
    """What the caller was told of a step."""

    step: Step
    outcome: str  # acknowledged, uncertain or refused


def sweep(
    folder: Path, history: str, error: ErrorKind, lasting: bool, lie: Callable[[Told], Told] | None = None
) -> Iterator[str]:
    """Fail each call of one history in turn, and say what went wrong."""
    for at in range(1, healthy_calls(folder, history) + 1):
        with FailingDisk() as disk:
            disk.fail(at=at, error=error, lasting=lasting)
            told = list(run(fresh(folder), disk, history))
        with open_store(folder / "store.db") as store:
            for finding in findings(store, list(map(lie, told)) if lie else told):
                yield f"seed {seed()}, history {history}, call {at}: {finding}"


def crashing_sweep(folder: Path, history: str, lie: Callable[[Told], Told] | None = None) -> Iterator[str]:
    """Fail each call of one history in turn, and let the process crash when it has told of a failed commit: then what
    lies in the WAL counts, and nothing that SQLite remembers of it."""
    for at in range(1, healthy_calls(folder, history) + 1):
        told: list[Told] = []
        with FailingDisk() as disk:
            disk.fail(at=at, error=apsw.IOError, lasting=False)
            for step in run(fresh(folder), disk, history):
                told.append(step)
                if step.outcome == "uncertain":
                    copy = crashed(folder / "store.db")
                    break
            else:
                continue
        with open_store(copy) as store:
            for finding in findings(store, list(map(lie, told)) if lie else told):
                yield f"seed {seed()}, history {history}, call {at}: {finding}"


def crashed(path: Path) -> Path:
    """The files as a crash would leave them: the database and its WAL, without the index in shared memory."""
    copy = path.parent.with_name(f"{path.parent.name}-crashed") / path.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir()
    for name in (path.name, f"{path.name}-wal"):
        shutil.copyfile(path.with_name(name), copy.with_name(name))
    return copy


def healthy_calls(folder: Path, history: str) -> int:
    with FailingDisk() as disk:
        assert {told.outcome for told in run(fresh(folder), disk, history)} == {"acknowledged"}
        return disk.calls


def run(path: Path, disk: FailingDisk, history: str) -> Iterator[Told]:
    """One history, from making the file to closing it, as a caller lives through it."""
    rng, clock = Random(f"{seed()} {history}"), Clock()
    store = opened(path, disk, clock)
    for clock.step in range(1, STEPS + 1):
        yield attempt(store, next_step(store, rng, clock.step), disk)
    with suppress(StoreFull, StoreFailed):
        store.close()


def opened(path: Path, disk: FailingDisk, clock: Clock) -> Store:
    while True:
        try:
            return open_store(path, clock, vfs=disk.name)
        except (StoreFull, StoreFailed):
            heal_in_time(disk)


def attempt(store: Store, step: Step, disk: FailingDisk) -> Told:
    """Call it; with a key, call it again until it succeeds, as a caller should."""
    while True:
        try:
            step.run(store)
            return Told(step, "acknowledged")
        except Uncertain:
            outcome = "uncertain"
        except (StoreFull, StoreFailed):
            outcome = "refused"
        heal_in_time(disk)
        if not step.key:
            return Told(step, outcome)


def threads_appending(store: Store, disk: FailingDisk) -> dict[str, str]:
    """Threads that append to one session at once, some with keys; what each was told of each text."""
    told: dict[str, str] = {}

    def append_all(thread: int) -> None:
        for number in range(APPENDS):
            step = saying(f"{thread} says {number}", f"{thread}-{number}" if number % 2 else None)
            told[step.what] = attempt(store, step, disk).outcome

    threads = [Thread(target=append_all, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(told) == THREADS * APPENDS  # nobody hangs, nobody got another error
    return told


def saying(text: str, key: str | None) -> Step:
    return Step(0, text, "shared", 1, key, lambda store: store.session("shared").append(text, key=key))


COPIES = {"acknowledged": (1,), "uncertain": (0, 1), "refused": (0,)}


def heal_in_time(disk: FailingDisk) -> None:
    if disk.failures >= PATIENCE:
        disk.heal()


ALLOWED = {"acknowledged": "all", "uncertain": "all or none", "refused": "none"}


def findings(store: Store, told: list[Told]) -> Iterator[str]:
    """Where what is stored and what the caller was told do not agree."""
    for problem in store.verify().problems:
        yield f"damage: {problem}"
    stored = traces(store)
    for step, outcome in told:
        found = {0: "none", step.traces: "all"}.get(stored[step.number], f"{stored[step.number]} of {step.traces}")
        if found not in ALLOWED[outcome].split(" or "):
            yield f"{step.what} was {outcome}, {found} of it is stored"


def traces(store: Store) -> Counter[int]:
    """How much there is of each step; what a fork shares is counted once."""
    found: Counter[int] = Counter()
    for info in store.sessions(root=False):
        found.update(step_of(entry) for entry in store.get(info.id).entries(after=info.origin[1] if info.origin else 0))
        found.update(int(tag.removeprefix("tag-")) for tag in info.tags if not inherited(store, info, tag))
        if info.origin:
            found[int(str(info.key).removeprefix("fork-"))] += 1
        if info.parent:
            found[int(str(info.key).removeprefix("child-"))] += 1
        for request in store.get(info.id).requests():
            if request.request_id:
                found[int(request.request_id.removeprefix("request-"))] += 1
    return found


def inherited(store: Store, info: SessionInfo, tag: str) -> bool:
    older = [info.parent] if info.parent else [info.origin[0]] if info.origin else []
    return any(tag in store.get(id).info.tags for id in older)


def fresh(folder: Path) -> Path:
    for old in folder.iterdir():
        old.unlink()
    return folder / "store.db"
