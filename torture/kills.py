"""kill -9. A child writes and reports each call over a pipe after it returned; it is killed at a random moment, or at a
certain call to the disk; the parent opens the file and looks: what was acknowledged is there, whole, once, in order.

(A page cache outlives a process, so this proves our code; the power cuts prove the disk.)"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from select import select
from typing import Any

import apsw

import threadline
from threadline import Entry, Session, Store
from threadline.backends.sqlite.backend import SqliteBackend
from torture.power_cuts import checkpoints_every
from torture.processes import exit_code, fork
from torture.runner import Trial, Unit

LONGEST_LIFE_S = 0.02  # after the first call, or from birth
FIRST_WORD_S = 30.0
LIVES_OF_A_FILE = 10  # then a new one: what is verified after each death stays small
CALLS_TO_THE_DISK = 150  # a child that dies at one of them; opening a new file takes some sixty

Acknowledge = Callable[[str], object]
Work = Callable[[Path, str, Acknowledge], None]


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    rng = Random(unit.dice("kills"))
    work = WORKS[unit.number % len(WORKS)]
    acknowledged = 0
    with checkpoints_every(rng.choice((5, 20, 100))):
        for n in range(unit.count):
            path, key = folder / f"{n // LIVES_OF_A_FILE}.db", f"life {n}"
            names = life(path, key, work, rng)
            acknowledged += len(names)
            yield Trial(wrong_with(path, key, names), work.__name__)
    if not acknowledged:
        yield Trial("the children died too young to prove anything")


def wrong_with(path: Path, key: str, acknowledged: list[str]) -> str | None:
    with threadline.open(path) as store:
        return "; ".join(problems(store, key, acknowledged)) or None


# -- what a child writes: calls that are recognised, whole or not, in the log ------------------------------


def plain(session: Any, name: str) -> Any:
    return session.append(f"{name}/0")


def keyed(session: Any, name: str) -> Any:
    return session.append(f"{name}/0", key=name)


def several(session: Any, name: str) -> Any:
    return session.extend([f"{name}/{i}" for i in range(3)], key=name)


def rewound(session: Session, name: str) -> None:
    with session.batch() as b:
        b.append(f"{name}/0", key=name)
        b.rewind(0, key=f"{name} rewind")
        b.append(f"{name}/1", key=f"{name} again")


def compacted(session: Session, name: str) -> None:
    with session.batch() as b:
        b.extend([f"{name}/0", f"{name}/1"], key=name)
        b.compact(f"{name}/2", keep_turns=1, key=f"{name} compact")


CALLS: tuple[Callable[[Any, str], Any], ...] = (plain, keyed, several, rewound, compacted)
KINDS = {
    plain: ("message",),
    keyed: ("message",),
    several: ("message",) * 3,
    rewound: ("message", "rewind", "message"),
    compacted: ("message", "message", "compaction"),
}


CALLS_OF = {"thread": CALLS, "task": CALLS[:3], "mutant": (several,)}


def call_of(name: str) -> Callable[[Any, str], Any]:
    """What the n-th call of a writer is."""
    writer, n = name.split(":")
    calls = CALLS_OF[writer.rstrip("01234567")]
    return calls[int(n) % len(calls)]


# -- how a child writes ----------------------------------------------------------------------------------------


def one_thread(path: Path, key: str, acknowledge: Acknowledge) -> None:
    _write_on(threadline.open(path).session(key), "thread", acknowledge)


def one_thread_to_a_call(path: Path, key: str, acknowledge: Acknowledge) -> None:
    """Killed by the disk: before or in the middle of a call to it that is the same whenever the dice are."""
    disk = DeadlyDisk(Random(key).randint(1, CALLS_TO_THE_DISK))
    _write_on(Store(SqliteBackend(str(path), vfs=disk.name)).session(key), "thread", acknowledge)


class DeadlyDisk(apsw.VFS):
    """Kills its process at a call that changes the disk; half of the deadly writes are cut short."""

    def __init__(self, last: int) -> None:
        self.name = "threadline-deadly-disk"
        self.left = last
        super().__init__(self.name, "")

    def count(self) -> None:
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        self.count()
        return _DeadlyFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.count()
        super().xDelete(filename, syncdir)


class _DeadlyFile(apsw.VFSFile):
    def __init__(self, disk: DeadlyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        if self._disk.left == 1 and offset % 3:
            super().xWrite(bytes(data)[:512], offset)
        self._disk.count()
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.count()
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._disk.count()  # and no more: a page cache outlives a process, so that nothing needs to be synced


def eight_threads(path: Path, key: str, acknowledge: Acknowledge) -> None:
    session = threadline.open(path).session(key)
    for i in range(7):
        threading.Thread(target=_write_on, args=(session, f"thread{i}", acknowledge), daemon=True).start()
    _write_on(session, "thread7", acknowledge)


def eight_tasks(path: Path, key: str, acknowledge: Acknowledge) -> None:
    async def task(session: threadline.AsyncSession, writer: str) -> None:
        for n in count():
            name = f"{writer}:{n}"
            await call_of(name)(session, name)
            acknowledge(name)

    async def work() -> None:
        session = await (await threadline.aopen(path)).session(key)
        await asyncio.gather(*(task(session, f"task{i}") for i in range(8)))

    asyncio.run(work())


def _write_on(session: Session, writer: str, acknowledge: Acknowledge) -> None:
    for n in count():
        name = f"{writer}:{n}"
        call_of(name)(session, name)
        acknowledge(name)


# -- a life, a death, and what is found afterwards ---------------------------------------------------------------


def life(path: Path, key: str, work: Work, rng: Random) -> list[str]:
    """Let a child work until it is killed, and return what it acknowledged."""
    reading, writing = os.pipe()
    pid = fork(lambda: work(path, key, lambda name: os.write(writing, f"{name}\n".encode())))
    os.close(writing)
    moment_s, grown_up = (
        rng.uniform(0, LONGEST_LIFE_S),
        rng.random() < 0.8,
    )  # the others may die while they open the file
    if work is not one_thread_to_a_call:
        if grown_up:
            select([reading], [], [], FIRST_WORD_S)
        time.sleep(moment_s)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading) as pipe:
        acknowledged = pipe.read().split()

    assert exit_code(pid) == -signal.SIGKILL, "the child ended before it was killed"
    return acknowledged


def problems(store: Store, key: str, acknowledged: list[str]) -> Iterator[str]:
    """All that is wrong with the session of one life, in words."""
    yield from (f"verify: {problem}" for problem in store.verify().problems)
    session = store.find(key)
    if session is None:
        if acknowledged:
            yield f"lost: the session, and with it {len(acknowledged)} calls"
        return
    written = yield from whole_calls(list(session.entries()))
    known, heard = _by_writer(written), _by_writer(acknowledged)
    for writer in known | heard:
        if known[writer] < heard[writer]:
            yield f"lost: {writer} acknowledged {heard[writer]} calls, {known[writer]} are there"
        if known[writer] > heard[writer] + 1:
            yield f"invented: {writer} acknowledged {heard[writer]} calls, {known[writer]} are there"
    yield from doubled(session, written)


def whole_calls(log: list[Entry]) -> Iterator[str]:
    """The names of the calls that the log is made of, end to end; yields the ones that are not whole."""
    names: list[str] = []
    while log:
        name = _text(log[0]).partition("/")[0]
        kinds = KINDS[call_of(name)]
        found, log = log[: len(kinds)], log[len(kinds) :]
        texts = [_text(entry) for entry in found if entry.kind != "rewind"]
        if tuple(entry.kind for entry in found) != kinds or texts != [f"{name}/{i}" for i in range(len(texts))]:
            yield f"half: {name} from entry {found[0].seq} on is {texts}"
            return names
        names.append(name)
    for writer, calls in _by_writer(names).items():
        if [name for name in names if name.startswith(f"{writer}:")] != [f"{writer}:{n}" for n in range(calls)]:
            yield f"disorder: the calls of {writer} are not 0 to {calls - 1}, once each"
    return names


def doubled(session: Session, written: list[str]) -> Iterator[str]:
    """Repeat the last keyed call of every writer, as one does who never heard of its end."""
    last = {name.partition(":")[0]: name for name in written if call_of(name) is not plain}
    for name in last.values():
        head = session.head
        call_of(name)(session, name)
        if session.head != head:
            yield f"twice: {name} was written again"


def _by_writer(names: list[str]) -> Counter[str]:
    return Counter(name.partition(":")[0] for name in names)


def _text(entry: Entry) -> str:
    if entry.kind == "compaction":
        return str(entry.data["summary"])
    return "" if entry.message is None else entry.message.text


WORKS: tuple[Work, ...] = (one_thread, eight_threads, one_thread_to_a_call, eight_tasks)
