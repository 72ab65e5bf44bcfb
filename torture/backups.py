"""Backups under load. Processes write entries, pairs that belong together, sessions and forks, as fast as they can;
each backup taken meanwhile is a store like any other, and a prefix of every log that the original has in the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import threadline
from threadline import Session, Store
from torture.processes import exit_code, fork
from torture.runner import Trial, Unit

WRITERS = 2


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    rng, path = Random(unit.dice("backups")), folder / "store.db"
    copies = [folder / f"copy{n}.db" for n in range(unit.count)]
    heads = []
    with threadline.open(path) as store, under_load(path, WRITERS):
        until_busy(store.session("shared"), 10)
        for copy in copies:
            time.sleep(rng.uniform(0, 0.03))
            heads.append(store.session("shared").head)
            store.backup(copy)
    with threadline.open(path) as store:
        finally_there = logs(store)
    for copy, head in zip(copies, heads, strict=True):
        yield Trial("; ".join(findings(copy, head, finally_there)) or None)


def findings(copy: Path, head: int, finally_there: dict[str, list[str]]) -> Iterator[str]:
    """What is wrong with a backup that began when the shared log had reached `head`."""
    with threadline.open(copy) as store:
        yield from (f"verify: {problem}" for problem in store.verify().problems)
        yield from torn_pairs(store)
        for id, texts in logs(store).items():
            if finally_there.get(id, [])[: len(texts)] != texts:
                yield f"{id} is no prefix of what it became"
        if store.session("shared").head < head:
            yield f"it has {store.session('shared').head} of the {head} entries that were answered before it began"


@contextmanager
def under_load(path: Path, writers: int) -> Iterator[None]:
    """So many processes write until the block ends: entries, pairs that belong together, sessions, forks."""
    over, end = os.pipe()
    pids = [fork(partial(_write, path, f"writer{i}", over, end)) for i in range(writers)]
    os.close(over)
    try:
        yield
    finally:
        os.close(end)
        assert [exit_code(pid) for pid in pids] == [0] * writers


def _write(path: Path, writer: str, over: int, end: int) -> None:
    os.close(end)
    ended = threading.Event()
    threading.Thread(target=lambda: (os.read(over, 1), ended.set()), daemon=True).start()
    with threadline.open(path) as store:
        shared, n = store.session("shared"), 0
        while not ended.is_set():
            shared.append(f"{writer}:{n}", key=f"{writer}:{n}")
            own = store.session(f"{writer} {n // 20}")
            own.extend([f"{n} a", f"{n} b"])
            if n % 20 == 19:
                own.fork().append("forked")
            n += 1


def until_busy(session: Session, entries: int = 40) -> None:
    """Wait until the log has grown by so many entries."""
    head = session.head
    while session.head < head + entries:
        time.sleep(0.001)


def logs(store: Store) -> dict[str, list[str]]:
    """Every session's entries by its id, and that they have no holes."""
    found = {}
    for info in store.sessions(order="created"):
        entries = list(store.get(info.id).entries())
        assert [entry.seq for entry in entries] == list(range(1, info.head + 1)), "there are holes in a log"
        found[info.id] = [entry.message.text for entry in entries if entry.message]
    return found


def torn_pairs(store: Store) -> Iterator[str]:
    """What was written in one call is there whole or not at all."""
    for info in store.sessions():
        if (info.key or "").startswith("writer") and info.head % 2:
            yield f"{info.key} has half of a pair"
