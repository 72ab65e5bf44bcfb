"""I/O errors. A history runs once on a healthy disk, which counts its calls. Then it runs again for each of these
calls, which fails: for lack of space or otherwise, once or until it is healed, half of the writes cut short. No error
loses what was acknowledged, stores half of a call, or lies about it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread
from typing import NamedTuple

import apsw

from threadline import SessionInfo, Store
from threadline.errors import StoreFailed, StoreFull, Uncertain
from threadline.testing.faults import ErrorKind, FailingDisk
from torture.histories import Clock, Step, fast_folder, fresh, loaded_dice, next_step, open_store, step_of
from torture.power_cuts import checkpoints_every
from torture.runner import Trial, Unit

STEPS = 7
THREADS, APPENDS = 6, 4
PATIENCE = 3  # so many errors, then somebody frees space

Lie = Callable[["Told"], "Told"]


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    kind, sort = list(SORTS.items())[unit.number % len(SORTS)]
    made = 0
    with loaded_dice(), checkpoints_every(8):
        for history in count():
            for wrong in sort(folder, unit.dice(f"{kind} {history}")):
                yield Trial(wrong, kind)
                made += 1
                if made == unit.count:
                    return


# -- every call of a history ---------------------------------------------------------------------------


class Told(NamedTuple):
    """What the caller was told of a step."""

    step: Step
    outcome: str  # acknowledged, uncertain or refused


def sweep(
    folder: Path, dice: str, error: ErrorKind, lasting: bool, reads: bool = False, lie: Lie | None = None
) -> Iterator[str | None]:
    """Fail each call of one history in turn, and say what went wrong."""
    for at in range(1, healthy_calls(folder, dice, reads) + 1):
        with FailingDisk(reads=reads) as disk:
            disk.fail(at=at, error=error, lasting=lasting)
            told = list(run(fresh(folder), disk, dice))
        with open_store(folder / "store.db") as store:
            yield _named(dice, at, findings(store, list(map(lie, told)) if lie else told))


def crashing_sweep(folder: Path, dice: str, lie: Lie | None = None) -> Iterator[str | None]:
    """Fail each call of one history in turn, and let the process crash when it has told of a failed commit: then what
    lies in the WAL counts, and nothing that SQLite remembers of it."""
    for at in range(1, healthy_calls(folder, dice) + 1):
        told: list[Told] = []
        with FailingDisk() as disk:
            disk.fail(at=at, error=apsw.IOError, lasting=False)
            for step in run(fresh(folder), disk, dice):
                told.append(step)
                if step.outcome == "uncertain":
                    copy = crashed(folder / "store.db")
                    break
            else:
                continue
        with open_store(copy) as store:
            yield _named(dice, at, findings(store, list(map(lie, told)) if lie else told))


def _named(dice: str, at: int, found: Iterator[str]) -> str | None:
    said = "; ".join(found)
    return f"history {dice}, call {at}: {said}" if said else None


def crashed(path: Path) -> Path:
    """The files as a crash would leave them: the database and its WAL, without the index in shared memory."""
    copy = path.parent.with_name(f"{path.parent.name}-crashed") / path.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir()
    for name in (path.name, f"{path.name}-wal"):
        shutil.copyfile(path.with_name(name), copy.with_name(name))
    return copy


def healthy_calls(folder: Path, dice: str, reads: bool = False) -> int:
    with FailingDisk(reads=reads) as disk:
        assert {told.outcome for told in run(fresh(folder), disk, dice)} == {"acknowledged"}
        return disk.calls


def run(path: Path, disk: FailingDisk, dice: str) -> Iterator[Told]:
    """One history, from opening the file to closing it, as a caller lives through it. In one of four the file is made,
    too: that takes more calls to the disk than all else."""
    rng, clock = Random(dice), Clock()
    if rng.random() < 0.75:
        path.write_bytes(empty_store())
    store = opened(path, disk, clock)
    try:
        for clock.step in range(1, STEPS + 1):
            yield attempt(store, chosen(store, rng, clock.step, disk), disk)
    finally:  # also where its listener has heard enough: a thousand open files are too many
        with suppress(StoreFull, StoreFailed):
            store.close()


@lru_cache(maxsize=1)
def empty_store() -> bytes:
    with fast_folder() as folder:
        open_store(folder / "store.db").close()
        return (folder / "store.db").read_bytes()


def opened(path: Path, disk: FailingDisk, clock: Clock) -> Store:
    while True:
        try:
            return open_store(path, clock, vfs=disk.name)
        except (StoreFull, StoreFailed):
            heal_in_time(disk)


def chosen(store: Store, rng: Random, number: int, disk: FailingDisk) -> Step:
    """The next step. Choosing it reads, and where that fails it is read again."""
    dice = rng.getstate()
    while True:
        try:
            return next_step(store, rng, number)
        except StoreFailed:
            rng.setstate(dice)
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


def heal_in_time(disk: FailingDisk) -> None:
    if disk.failures >= PATIENCE:
        disk.heal()


# -- threads that share a commit -----------------------------------------------------------------------


def shared_commits(folder: Path, dice: str) -> Iterator[str | None]:
    """Threads whose shared commit fails are all told the truth."""
    rng = Random(dice)
    for _ in range(25):
        at, error, lasting = rng.randrange(1, THREADS * APPENDS * 3), rng.choice(ERRORS), rng.random() < 0.5
        yield _named(dice, at, iter(misled(folder, at, error, lasting)))


def misled(folder: Path, at: int, error: ErrorKind, lasting: bool) -> list[str]:
    """Those whose answer does not agree with what is stored."""
    with FailingDisk(sync_s=0.0005) as disk, open_store(fresh(folder), vfs=disk.name) as store:
        disk.fail(at=disk.calls + at, error=error, lasting=lasting)
        told = threads_appending(store, disk)
        disk.heal()
    with open_store(folder / "store.db") as store:
        found = Counter(message.text for message in store.session("shared").messages())
        wrong = [f"damage: {problem}" for problem in store.verify().problems]
    lies = [text for text, outcome in told.items() if found[text] not in COPIES[outcome]]
    return wrong + [f"{text} was {told[text]} and is there {found[text]} times" for text in lies]


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
    assert len(told) == THREADS * APPENDS, "a thread hangs or got another error"
    return told


def saying(text: str, key: str | None) -> Step:
    return Step(0, text, "shared", 1, key, lambda store: store.session("shared").append(text, key=key))


COPIES = {"acknowledged": (1,), "uncertain": (0, 1), "refused": (0,)}


# -- judging -------------------------------------------------------------------------------------------

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


ERRORS: tuple[ErrorKind, ...] = (apsw.FullError, apsw.IOError)

Sort = Callable[[Path, str], Iterator[str | None]]
SORTS: dict[str, Sort] = {
    "full, once": partial(sweep, error=apsw.FullError, lasting=False),
    "failing, once": partial(sweep, error=apsw.IOError, lasting=False),
    "full, lasting": partial(sweep, error=apsw.FullError, lasting=True),
    "failing, lasting": partial(sweep, error=apsw.IOError, lasting=True),
    "reads, once": partial(sweep, error=apsw.IOError, lasting=False, reads=True),
    "reads, lasting": partial(sweep, error=apsw.IOError, lasting=True, reads=True),
    "crash after a failed commit": crashing_sweep,
    "shared commits": shared_commits,
}
