"""One piece of work on one peer, in a process of its own: python -m bench.peers.harness DRIVER WORK FOLDER [NUMBER].

A driver is a module with INSTALL (what pip installs), IMPORT (what a program imports), DURABILITY (in words) and Peer:

    Peer(folder)                    opens the store there, or goes on with it
    .append(session, role, text)    one message, the way its users do it
    .fill(session, count, text)     so many at once, where there is a quicker public way
    .last(session, count)           the last messages, as texts
    .sessions(count)                the latest sessions; None where there is no such call
    .close()
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

TEXT = "0123456789abcdef" * 64  # 1 KiB
WRITERS = 4
PATIENCE_S = 15  # of CPU for filling a store; what is reached by then is told


def main(driver: str, work: str, folder: str, number: str = "0") -> None:
    begin = time.process_time()
    module = import_module(f"bench.peers.{driver}")
    imported_ms = (time.process_time() - begin) * 1_000
    found = WORKS[work](module.Peer, Path(folder), int(number))
    print(json.dumps({"imported_ms": imported_ms, **found}))


def append(make: Any, folder: Path, size: int) -> dict[str, Any]:
    """CPU of one append in a session of so many messages; the median of seven rounds, a second each at most."""
    peer = make(folder)
    reached = filled(peer, "it", size)
    begin = time.process_time()
    peer.append("it", "user", TEXT)
    repeat = max(5, min(100, int(1 / (time.process_time() - begin))))
    rounds = []
    for _ in range(7):
        begin = time.process_time()
        for _ in range(repeat):
            peer.append("it", "user", TEXT)
        rounds.append((time.process_time() - begin) / repeat * 1e6)
    return {"size": reached, "us": sorted(rounds)[3], "low": min(rounds), "high": max(rounds)}


def context(make: Any, folder: Path, size: int) -> dict[str, Any]:
    """CPU of the last 120 messages: of a store that was just opened, and again."""
    peer = make(folder)
    reached = filled(peer, "it", size)
    peer.close()
    peer = make(folder)
    begin = time.process_time()
    told = peer.last("it", 120)
    first = (time.process_time() - begin) * 1_000
    again = []
    for _ in range(5 if first < 1_000 else 1):
        begin = time.process_time()
        peer.last("it", 120)
        again.append((time.process_time() - begin) * 1_000)
    return {"size": reached, "first_ms": first, "again_ms": sorted(again)[len(again) // 2], "told": len(told)}


def listing(make: Any, folder: Path, size: int) -> dict[str, Any]:
    peer = make(folder)
    if peer.sessions(1) is None:
        return {"size": 0, "ms": None}
    begin, reached = time.process_time(), 0
    while reached < size and time.process_time() - begin < PATIENCE_S:
        peer.append(f"session-{reached}", "user", "how do I list my sessions?")
        reached += 1
    peer.close()
    peer = make(folder)
    rounds = []
    for _ in range(5):
        begin = time.process_time()
        found = peer.sessions(50)
        rounds.append((time.process_time() - begin) * 1_000)
    return {"size": reached, "ms": sorted(rounds)[2], "listed": len(found)}


def writer(make: Any, folder: Path, number: int) -> dict[str, Any]:
    """One of four processes on one session: 50 appends. What is refused is not tried again."""
    peer = make(folder)
    wait_for_all(folder.parent, number)
    refused: Counter[str] = Counter()
    for n in range(50):
        try:
            peer.append("shared", "user", f"<{number}:{n}>")
        except Exception as error:
            refused[type(error).__name__] += 1
    peer.close()
    return {"refused": refused}


def wait_for_all(folder: Path, number: int) -> None:
    """Until all writers are there: imports take longer than appends."""
    (folder / f"ready-{number}").touch()
    begin = time.monotonic()
    while len(list(folder.glob("ready-*"))) < WRITERS and time.monotonic() - begin < 60:
        time.sleep(0.001)


def survivors(make: Any, folder: Path, number: int) -> dict[str, Any]:
    """What is left of the appends of four processes."""
    found = Counter(word for text in make(folder).last("shared", 100_000) for word in text.split() if word[:1] == "<")
    return {"stored": len(found), "duplicated": sum(count - 1 for count in found.values())}


def begin_session(make: Any, folder: Path, number: int) -> dict[str, Any]:
    peer = make(folder)
    peer.append("shared", "user", "first")
    peer.close()
    return {}


def bytes_on_disk(make: Any, folder: Path, number: int) -> dict[str, Any]:
    """A coding session, message by message, as role and text; `folder` holds transcript.jsonl. What an empty store
    takes is not counted."""
    lines = (folder / "transcript.jsonl").read_text().splitlines()
    make(folder / "store").close()
    empty = on_disk(folder / "store")
    peer = make(folder / "store")
    begin, done, jsonl = time.process_time(), 0, 0
    for line in lines:
        message = json.loads(line)
        peer.append("it", message["role"], message["content"])
        done, jsonl = done + 1, jsonl + len(line.encode()) + 1
        if time.process_time() - begin > PATIENCE_S:
            break
    peer.close()
    size, blocks = (after - before for after, before in zip(on_disk(folder / "store"), empty, strict=True))
    return {"messages": done, "jsonl": jsonl, "bytes": size, "blocks": blocks}


def on_disk(folder: Path) -> tuple[int, int]:
    """The bytes of all files, and those of the blocks that they take."""
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum(each.st_size for each in files), sum(each.st_blocks * 512 for each in files)


def appends(make: Any, folder: Path, number: int) -> dict[str, Any]:
    """So many appends and nothing else, for who counts system calls."""
    peer = make(folder)
    for _ in range(number):
        peer.append("it", "user", TEXT)
    return {}


def filled(peer: Any, session: str, size: int) -> int:
    """Fill a session, as far as patience goes; how far that was."""
    begin, reached, step = time.process_time(), 0, max(1, min(1_000, size // 10))
    whole = getattr(peer, "fill_at_once", False)  # it writes all of a session each time: it may do so once
    while reached < size and time.process_time() - begin < PATIENCE_S:
        count = size if whole else min(step, size - reached)
        peer.fill(session, count, TEXT)
        reached += count
    return reached


WORKS = {
    "append": append,
    "context": context,
    "listing": listing,
    "begin": begin_session,
    "writer": writer,
    "survivors": survivors,
    "disk": bytes_on_disk,
    "appends": appends,
}


class Filling:
    """For peers without a quicker way: message by message."""

    def fill(self, session: str, count: int, text: str) -> None:
        for n in range(count):
            self.append(session, "user" if n % 2 == 0 else "assistant", text)  # type: ignore[attr-defined]

    def close(self) -> None: ...


if __name__ == "__main__":
    main(*sys.argv[1:])
