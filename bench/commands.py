"""The command line: what a person waits for, in a new process, all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import threadline
from bench.measure import ROUNDS, Found, child_ms


def commands(folder: Path, large: int) -> Iterator[Found]:
    """`threadline --help`, and `threadline ls` of 100,000 sessions: CPU time of a process, the interpreter included."""
    sessions = max(100, large // 10)
    path = listed(folder / f"list-{sessions}.db", sessions)
    told = "a new process, the interpreter included"
    yield Found("threadline --help", took(["--help"]), 100, "ms CPU", told)
    yield Found(f"threadline ls of {sessions:,} sessions", took(["--store", str(path), "ls"]), 150, "ms CPU", told)


def took(arguments: list[str]) -> float:
    script = f"import sys; sys.stdout = open('/dev/null', 'w'); from threadline.cli import main; main({arguments!r})"
    return min(child_ms(script) for _ in range(ROUNDS))


def listed(path: Path, sessions: int) -> Path:
    """The store that the listing was measured on, or one like it."""
    if not path.exists():
        with threadline.open(path, durability="relaxed") as store:
            for n in range(sessions):
                store.new(title=f"how do I list my sessions? {n}", cwd=f"/work/{n % 1_000}")
    return path


WORKLOADS = (commands,)
