"""Power cuts. A history is recorded once through the public API, then the power is cut at hundreds of its moments; what
the store says after a cut must be exactly what it said after one of the steps, and no earlier one than the last that
was acknowledged. Units differ: whole histories, threads that share commits, upgrades; checkpoints rare or all the
time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, NamedTuple
from unittest.mock import patch

from threadline import Store
from threadline.testing.crash import Crash, Event, Recorder, crashes
from torture.histories import Clock, Step, folder_of, loaded_dice, next_step, open_store, snapshot
from torture.runner import Trial, Unit
from torture.upgrades import check_old, next_version, old_store, version_in

CUTS = 400  # of one recording
THREADS, APPENDS = 6, 4
CHECKPOINT_PAGES = (8, 25, 60, 1_000)  # 1,000 is the real number: then only closing makes one

Mutation = Callable[[Sequence[Event]], list[Event]]


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    rng = Random(unit.dice("power cuts"))
    sort = SORTS[unit.number % len(SORTS)]
    with loaded_dice(), checkpoints_every(rng.choice(CHECKPOINT_PAGES)):
        yield from sort(folder, rng, unit.count)


@contextmanager
def checkpoints_every(pages: int) -> Iterator[None]:
    """And a reserve for full disks that takes less time to make than the rest of a trial."""
    with (
        patch("threadline.backends.sqlite.backend.CHECKPOINT_PAGES", pages),
        patch("threadline.backends.sqlite.reserve.RESERVE_BYTES", 4096),
    ):
        yield


# -- histories -----------------------------------------------------------------------------------------


class Recording(NamedTuple):
    trace: list[Event]
    steps: list[Step]
    moments: list[dict[str, Any]]  # what the store said before the first step and after each


def record(folder: Path, rng: Random, durability: str = "full", openings: int = 2, steps: int = 7) -> Recording:
    """Run one history, acknowledging each step when its call returns. Closing and opening again is part of it."""
    clock, moments, taken = Clock(), [{}], []
    with Recorder() as recorder:
        for _ in range(openings):
            with open_store(folder / "store.db", clock, vfs=recorder.name, durability=durability) as store:
                for _ in range(steps):
                    clock.step = len(moments)
                    taken.append(next_step(store, rng, clock.step, whole_life=True))
                    taken[-1].run(store)
                    recorder.acknowledge(clock.step)
                    moments.append(snapshot(store))
    return Recording(recorder.trace, taken, moments)


def full(folder: Path, rng: Random, count: int) -> Iterator[Trial]:
    """Nothing that was acknowledged is lost, and a call that was cut can be made again."""
    recording = record(folder_of(folder, "live"), rng, openings=rng.choice((1, 2)), steps=rng.choice((5, 8, 12)))
    yield from (
        Trial(again(path, recording, crash) or judge(found, crash, recording.moments), crash.after)
        for crash, path, found in cut(folder, recording.trace, count, rng)
    )


def relaxed(folder: Path, rng: Random, count: int) -> Iterator[Trial]:
    """The last calls may be lost. What is left is a moment that was, all the same."""
    recording = record(folder_of(folder, "live"), rng, "relaxed")
    for crash, _, found in cut(folder, recording.trace, count, rng):
        wrong = judge(found, crash, recording.moments)
        yield Trial(None if wrong == LOST else wrong, crash.after)


LOST = "lost acknowledged steps"


class Found(NamedTuple):
    """What a store said that a cut left behind, or why it could not."""

    said: dict[str, Any]
    wrong: str | None


def cut(
    folder: Path, trace: Sequence[Event], count: int, rng: Random, look: Callable[[Store], Any] = snapshot
) -> Iterator[tuple[Crash, Path, Found]]:
    """Crashes and what is found after each. Of those that leave the same bytes only the first is opened."""
    known: dict[bytes, Found] = {}
    inner = folder_of(folder, "crashed")
    for crash in crashes(trace, count, rng):
        image = digest(crash.files)
        if image not in known:
            crash.write_to(inner)
            known[image] = opened(inner / "store.db", look)
        yield crash, inner / "store.db", known[image]


def opened(path: Path, look: Callable[[Store], Any] = snapshot) -> Found:
    try:
        with open_store(path) as store:
            said, report = look(store), store.verify()
    except Exception as error:
        return Found({}, f"unreadable: {error!r}")
    return Found(said, None if report.ok else f"damaged: {report.problems[:3]}")


def judge(found: Found, crash: Crash, moments: Sequence[dict[str, Any]]) -> str | None:
    """What is wrong with the store that a crash left behind."""
    if found.wrong:
        return found.wrong
    if found.said not in moments:
        return "a state that never was"
    return None if found.said in moments[len(crash.acknowledged) :] else LOST  # a deletion may bring a state back


def again(path: Path, recording: Recording, crash: Crash) -> str | None:
    """Now and then the caller that heard nothing calls again with the same key: that must be stored once."""
    interrupted = recording.steps[len(crash.acknowledged) :][:1]
    if crash.moment % 8 or not interrupted or not interrupted[0].key:
        return None
    crash.write_to(path.parent)
    after = repeated(path, interrupted[0])
    return None if after == recording.moments[interrupted[0].number] else f"{interrupted[0].what} again is not once"


def repeated(path: Path, step: Step) -> dict[str, Any]:
    """What the store says after that step was called again."""
    clock = Clock()
    clock.step = step.number
    with open_store(path, clock) as store:
        step.run(store)
        return snapshot(store)


def digest(files: dict[str, bytes]) -> bytes:
    found = hashlib.sha1(usedforsecurity=False)
    for name, content in sorted(files.items()):
        found.update(f"{name} {len(content)} ".encode())
        found.update(content)
    return found.digest()


# -- threads -------------------------------------------------------------------------------------------


def threads(folder: Path, rng: Random, count: int) -> Iterator[Trial]:
    """No thread is answered before the commit that it shares."""
    trace = threads_appending(folder_of(folder, "live"))
    for crash, _, found in cut(folder, trace, count, rng, look=spoken):
        lost = set(crash.acknowledged) - found.said.keys()
        yield Trial(found.wrong or (f"{LOST}: {sorted(lost)[:3]}" if lost else None), crash.after)


def threads_appending(folder: Path, sync_s: float = 0.002) -> list[Event]:
    """Threads that append to sessions of their own and to one that they share, and note what was answered."""
    with Recorder(sync_s=sync_s) as recorder, open_store(folder / "store.db", vfs=recorder.name) as store:

        def append_all(thread: int) -> None:
            for number in range(APPENDS):
                key, text = ("shared", f"own-{thread}")[number % 2], f"{thread} says {number}"
                store.session(key).append(text)
                recorder.acknowledge((key, text))

        working = [Thread(target=append_all, args=(number,)) for number in range(THREADS)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
    return recorder.trace


def spoken(store: Store) -> dict[tuple[str | None, str], int]:
    sessions = [store.get(info.id) for info in store.sessions()]
    return {(session.key, message.text): 1 for session in sessions for message in session.messages()}


# -- upgrades ------------------------------------------------------------------------------------------


def upgrades(folder: Path, rng: Random, count: int) -> Iterator[Trial]:
    """The old version whole or the new one whole, and an upgrade that was cut is made up for at the next opening."""
    path = folder_of(folder, "live") / "store.db"
    texts = old_store(path, rng)
    with next_version() as new, Recorder() as recorder:
        open_store(path, vfs=recorder.name).close()
        recorder.acknowledge("upgraded")
    for crash in crashes(recorder.trace, count, rng):
        crash.write_to(folder_of(folder, "crashed"))
        yield Trial(_upgraded(folder / "crashed" / "store.db", crash, texts, new), crash.after)


def _upgraded(path: Path, crash: Crash, texts: list[str], new: int) -> str | None:
    version = version_in(path)
    if crash.acknowledged and version != new:
        return f"{LOST}: version {version} after the upgrade was done"
    with next_version():
        return check_old(path, texts) or (None if version_in(path) == new else "it is not upgraded after a cut")


SORTS = (full, full, threads, full, relaxed, full, upgrades, full)
