"""PostgreSQL servers that are killed. Four processes write to two sessions while the whole server gets kill -9 again
and again. WAL that it only holds in memory is gone then, so this tests what is written before a commit is answered."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path
from random import Random
from select import select
from typing import NamedTuple

import threadline
from threadline import Session, Store, ThreadlineError
from threadline.testing.postgres import Server
from torture.processes import fork
from torture.runner import Trial, Unit

WRITERS = 4
LIFE_S = (0.05, 0.4)
FIRST_WORD_S = 30.0


class Report(NamedTuple):
    """What was acknowledged and is not there, what is there twice though it has a key, and what verify says."""

    acknowledged: int
    lost: list[str]
    doubled: list[str]
    holes: list[str]
    problems: list[str]


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    """The last trial of a unit tells what all of its crashes left behind."""
    with Server() as server:
        crashes = crash_under_load(server, "full", unit.count, Random(unit.dice("servers")))
        for _ in range(unit.count - 1):
            next(crashes)
            yield Trial()
        report = told(crashes)
    yield Trial(None if report[1:] == ([], [], [], []) and report.acknowledged else str(report))


def told(crashes: Generator[None, None, Report]) -> Report:
    """Crash until there are no more, and say what was found."""
    while True:
        try:
            next(crashes)
        except StopIteration as over:
            report: Report = over.value
            return report


def crash_under_load(server: Server, durability: str, crashes: int, rng: Random) -> Generator[None, None, Report]:
    reading, writing = os.pipe()
    children = [
        fork(
            lambda w=w: write_on(server.url(), w, durability, lambda name: os.write(writing, f"{name}\n".encode())),  # type: ignore[misc]
            patience_s=600,
        )
        for w in range(WRITERS)
    ]
    os.close(writing)
    heard = b""
    try:
        for _ in range(crashes):
            moment_s = rng.uniform(*LIFE_S)
            heard += _next_words(reading)  # or it would die before it lived: a server takes its time to come up
            time.sleep(moment_s)
            server.kill()
            server.start()
            yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe, threadline.open(server.url()) as store:
        return look(store, [line.decode() for line in (heard + pipe.read()).split()])


def _next_words(reading: int) -> bytes:
    """All that was acknowledged so far, and at least one call more, unless none is for a long time."""
    heard = b""
    while select([reading], [], [], 0)[0]:
        heard += os.read(reading, 1 << 16)
    return heard + (os.read(reading, 1 << 16) if select([reading], [], [], FIRST_WORD_S)[0] else b"")


def write_on(url: str, writer: int, durability: str, acknowledge: Callable[[str], object]) -> None:
    """Appends, batches and rewinds of the view, keyed and not; whatever fails is simply not acknowledged."""
    session: Session | None = None
    for n in count():
        name = f"{writer}:{n}"
        try:
            if session is None:
                session = threadline.open(url, durability=durability).session(f"session {writer % 2}")
            if n % 3 == 0:
                session.append(f"{name}/0")
            elif n % 3 == 1:
                session.extend([f"{name}/{i}" for i in range(3)], key=name)
            else:
                with session.batch() as batch:
                    batch.append(f"{name}/0", key=name)
                    batch.rewind(0, key=f"{name} rewind")
        except ThreadlineError:
            time.sleep(0.02)
            continue
        acknowledge(name)


def look(store: Store, acknowledged: list[str]) -> Report:
    stored: Counter[str] = Counter()
    holes = []
    for info in store.sessions():
        entries = list(store.get(info.id).entries())
        holes += [f"{info.key} after {i}" for i, entry in enumerate(entries) if entry.seq != i + 1]
        stored.update(entry.message.text for entry in entries if entry.message is not None)
    expected = {name: 3 if int(name.split(":")[1]) % 3 == 1 else 1 for name in acknowledged}
    lost = [name for name, pieces in expected.items() if any(not stored[f"{name}/{i}"] for i in range(pieces))]
    doubled = [text for text, times in stored.items() if times > 1]
    return Report(len(acknowledged), lost, doubled, holes, [str(problem) for problem in store.verify().problems])
