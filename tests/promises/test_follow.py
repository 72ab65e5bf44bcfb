"""A follower in another process sees every entry once and in order, however often it is killed and begins again."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

from processes import at_once, exit_code, fork

import threadline
from threadline.testing import scaled, seed

PATIENCE_S = 60.0


def write(path: Path, name: str, count: int) -> int:
    with threadline.open(path, durability="relaxed") as store:
        session = store.session("k")
        for n in range(count):
            session.append(f"{name}{n}")
            if n % 10 == 0:
                time.sleep(0.005)
    return count


def follow(path: Path, upto: int) -> list[int]:
    with threadline.open(path) as store:
        got = []
        for entry in store.session("k").follow(timeout=PATIENCE_S):
            got.append(entry.seq)
            if entry.seq == upto:
                break
        return got


def test_followers_in_other_processes_see_all_of_it(tmp_path: Path) -> None:
    path, each = tmp_path / "store.db", scaled(100)
    writers = [lambda name=name: write(path, name, each) for name in "abc"]

    found = at_once(*writers, lambda: follow(path, 3 * each), lambda: follow(path, 3 * each))

    assert found[3:] == [list(range(1, 3 * each + 1))] * 2


def test_a_follower_that_is_killed_goes_on_from_the_last_seq_that_it_told(tmp_path: Path) -> None:
    path, entries, rng = tmp_path / "store.db", scaled(300), random.Random(seed())
    writer = fork(lambda: write(path, "m", entries))
    told: list[int] = []
    kills = 0
    while not told or told[-1] < entries:
        reading, writing = os.pipe()
        after = told[-1] if told else 0

        def work(after: int = after, writing: int = writing) -> None:
            with threadline.open(path) as store:
                for entry in store.session("k").follow(after, timeout=PATIENCE_S):
                    os.write(writing, f"{entry.seq}\n".encode())

        pid = fork(work)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            told.append(int(pipe.readline()))
            time.sleep(rng.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            told += [int(line) for line in pipe.read().split()]
        kills += 1
        assert exit_code(pid) == -signal.SIGKILL

    assert exit_code(writer) == 0
    assert told == list(range(1, entries + 1)), f"seed {seed()}, {kills} kills"


def test_a_forked_child_follows_by_itself(tmp_path: Path) -> None:
    """Its parent's hub does not survive the fork, and was at work."""
    with threadline.open(tmp_path / "store.db") as store:
        session = store.session("k")
        session.append("one")
        got: list[int] = []
        thread = threading.Thread(target=lambda: got.extend(e.seq for e in session.follow(timeout=PATIENCE_S)))
        thread.start()
        while not got:
            time.sleep(0.01)

        def child() -> None:
            entries = iter(session.follow(after=1, timeout=PATIENCE_S))
            threading.Timer(0.05, lambda: session.append("three")).start()
            assert [next(entries).seq, next(entries).seq] == [2, 3]

        pid = fork(child)
        session.append("two")
        assert exit_code(pid) == 0
        while len(got) < 3:
            time.sleep(0.01)
    thread.join()

    assert got == [1, 2, 3]
