"""What is acknowledged survives kill -9 at any moment, whole, once, and in order.

A child writes and reports each call over a pipe after it returned; it is killed at a random moment; the parent opens
the file and looks. (A page cache outlives a process, so this proves our code; the power cuts prove the disk.)"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from select import select
from typing import Any

import pytest
from processes import exit_code, fork

import threadline
from threadline import Entry, Session, Store
from threadline.testing import scaled, seed

LONGEST_LIFE_S = 0.05  # after the first call, or from birth
FIRST_WORD_S = 30.0
LIVES_OF_A_FILE = 20  # then a new one: what is verified after each death stays small

Acknowledge = Callable[[str], object]
Work = Callable[[Path, str, Acknowledge], None]


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


# -- mutants: children with the bugs that the checker is there for -------------------------------------------


def acknowledges_too_early(path: Path, key: str, acknowledge: Acknowledge) -> None:
    session = threadline.open(path).session(key)
    for n in count():
        name = f"thread:{n}"
        acknowledge(name)
        call_of(name)(session, name)


def writes_in_pieces(path: Path, key: str, acknowledge: Acknowledge) -> None:
    session = threadline.open(path).session(key)
    for n in count():
        for i in range(3):
            session.append(f"mutant:{n}/{i}")
        acknowledge(f"mutant:{n}")


def forgets_its_keys(path: Path, key: str, acknowledge: Acknowledge) -> None:
    session = threadline.open(path).session(key)
    for n in count():
        session.extend([f"mutant:{n}/{i}" for i in range(3)])
        acknowledge(f"mutant:{n}")


# -- a life, a death, and what is found afterwards ---------------------------------------------------------------


def life(path: Path, key: str, work: Work, rng: random.Random) -> list[str]:
    """Let a child work until it is killed, and return what it acknowledged."""
    reading, writing = os.pipe()
    pid = fork(lambda: work(path, key, lambda name: os.write(writing, f"{name}\n".encode())))
    os.close(writing)
    if rng.random() < 0.8:  # the others may die while they open the file
        select([reading], [], [], FIRST_WORD_S)
    time.sleep(rng.uniform(0, LONGEST_LIFE_S))
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


def deaths(folder: Path, work: Work, kills: int) -> list[str]:
    """The problems that so many kills leave behind."""
    rng = random.Random(f"{seed()} {work.__name__}")
    print(f"seed {seed()}, {kills} kills of {work.__name__}")
    found: list[str] = []
    acknowledged = 0
    for n in range(kills):
        path, key = folder / f"{n // LIVES_OF_A_FILE}.db", f"life {n}"
        names = life(path, key, work, rng)
        acknowledged += len(names)
        with threadline.open(path) as store:
            found += problems(store, key, names)
    assert acknowledged > kills, "the children died too young to prove anything"
    return found


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that some of the kills strike in the middle of one."""
    monkeypatch.setattr("threadline.backends.sqlite.backend.CHECKPOINT_PAGES", 20)


@pytest.mark.parametrize(("work", "kills"), [(one_thread, 80), (eight_threads, 60), (eight_tasks, 60)])
def test_kill_loses_nothing_acknowledged_and_leaves_nothing_half(work: Work, kills: int, tmp_path: Path) -> None:
    assert deaths(tmp_path, work, scaled(kills)) == []


@pytest.mark.parametrize(
    ("mutant", "complaint"),
    [(acknowledges_too_early, "lost"), (writes_in_pieces, "half"), (forgets_its_keys, "twice")],
)
def test_the_checker_catches_a_child_that(mutant: Work, complaint: str, tmp_path: Path) -> None:
    found = deaths(tmp_path, mutant, 20)

    assert any(problem.startswith(complaint) for problem in found), found
