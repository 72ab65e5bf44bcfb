"""A message of the inbox enters the log exactly once and in order, whoever is killed while taking it."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from pathlib import Path

from processes import at_once, exit_code, fork

import threadline
from threadline.testing import scaled, seed

MESSAGES = 150
PATIENCE_S = 60.0


def take_for_ever(path: Path, alive: int) -> None:
    session = threadline.open(path).session("k")
    os.write(alive, b"!")
    while True:
        session.take()


def test_killed_takers_lose_nothing_and_take_nothing_twice(tmp_path: Path) -> None:
    path, rng = tmp_path / "store.db", random.Random(seed())
    messages, kills = scaled(MESSAGES), 0
    with threadline.open(path, durability="relaxed") as store:
        for n in range(messages):
            store.session("k").enqueue(f"m{n}", key=f"update-{n}")
    while True:
        reading, writing = os.pipe()
        pids = [fork(partial(take_for_ever, path, writing)) for _ in range(2)]
        os.read(reading, 1)
        time.sleep(rng.uniform(0, 0.02))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            assert exit_code(pid) == -signal.SIGKILL
        os.close(reading)
        os.close(writing)
        kills += 2
        with threadline.open(path) as store:
            session = store.session("k")
            taken, left = [m.text for m in session.messages()], [q.text for q in session.queued()]
            assert taken + left == [f"m{n}" for n in range(messages)], f"seed {seed()}, after {kills} kills"
            assert session.info.queued == len(left)
            if not left:
                break

    assert kills > 2, "the takers were too quick to be killed at work"
    with threadline.open(path) as store:
        assert store.verify().ok
        for n in range(messages):
            store.session("k").enqueue(f"m{n}", key=f"update-{n}")
        assert store.session("k").queued() == []


def test_many_processes_fill_and_take_and_every_key_enters_once(tmp_path: Path) -> None:
    path, each = tmp_path / "store.db", scaled(40)

    def fill() -> int:
        with threadline.open(path, durability="relaxed") as store:
            for n in range(each):
                store.session("k").enqueue(f"m{n}", key=f"update-{n}")  # both deliver the same
        return each

    def take() -> int:
        with threadline.open(path, durability="relaxed") as store:
            session, taken, ends_at = store.session("k"), 0, time.monotonic() + PATIENCE_S
            while session.head < each and time.monotonic() < ends_at:
                taken += session.take() is not None
            return taken

    found = at_once(fill, fill, take, take)

    with threadline.open(path) as store:
        session = store.session("k")
        assert found[2] + found[3] == each
        assert [message.text for message in session.messages()] == [f"m{n}" for n in range(each)]
        assert session.queued() == []
