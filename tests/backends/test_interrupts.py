"""Ctrl-C may come between any two lines of a write: whoever writes next finds nobody in the way who has gone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache, partial
from linecache import getline
from pathlib import Path
from time import sleep
from types import CodeType, FrameType
from typing import Any

import threadline
from threadline.backends.sqlite import writers
from threadline.backends.sqlite.writers import Job, Writers

PATIENCE_S = 20.0


def interrupted(work: Callable[[], object], at: int, files: tuple[str, ...]) -> bool:
    """Do the work, interrupted before the `at`-th line of these files that runs; False if it was done by then."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line" and not leaves_a_block(frame):
            lines += 1
            if lines == at:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def leaves_a_block(frame: FrameType) -> bool:
    """The line of a `with` comes up once more at its end, where no signal is looked at: only calls and jumps do."""
    if not getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith("with "):
        return False
    return frame.f_lasti > first_of_line(frame.f_code, frame.f_lineno)


@cache
def first_of_line(code: CodeType, line: int) -> int:
    return min(start for start, _, of in code.co_lines() if of == line)


def within_reach(work: Callable[[], object]) -> bool:
    """Whether another thread gets it done."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return not thread.is_alive()


class Desk:
    """Writers whose jobs may wait for a gate, or hold it shut behind them."""

    def __init__(self) -> None:
        self.writers = Writers(None, self.commit)
        self.began, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def commit(self, group: list[Job]) -> None:
        self.began.set()
        self.gate.wait(PATIENCE_S)
        for job in group:
            job.answer, job.done = job.run(None), True

    def waited_for(self, _: Any, others: list[threading.Thread]) -> None:
        """A job during which others come to wait."""
        for other in others:
            other.start()
        while len(self.writers._queue) < len(others):
            sleep(0.001)

    def submit(self) -> None:
        assert self.writers.submit(Job(lambda _: "done")) == "done"


HERE = (writers.__file__,)


def test_a_writer_alone() -> None:
    at = 1
    while interrupted((desk := Desk()).submit, at, HERE):
        assert within_reach(desk.submit), at
        assert within_reach(desk.writers.close), at
        at += 1

    assert at > 10


def test_a_writer_for_whom_others_wait() -> None:
    at, ended = 0, False
    while not ended:
        at += 1
        desk = Desk()
        others = [threading.Thread(target=desk.submit, daemon=True) for _ in range(3)]
        ended = not interrupted(partial(desk.writers.submit, Job(desk.waited_for, (others,))), at, HERE)
        for other in others:
            if other.ident is None:  # it was interrupted before they came
                other.start()
            other.join(PATIENCE_S)

        assert not any(other.is_alive() for other in others), at
        assert within_reach(desk.submit), at
    assert at > 20


def test_a_writer_who_waits_for_another() -> None:
    at, ended = 0, False
    while not ended:
        at += 1
        desk = Desk()
        desk.gate.clear()
        leader = threading.Thread(target=desk.submit, daemon=True)
        leader.start()
        desk.began.wait(PATIENCE_S)
        opening = threading.Timer(0.01, desk.gate.set)
        opening.start()
        ended = not interrupted(desk.submit, at, HERE)
        opening.join()
        leader.join(PATIENCE_S)

        assert not leader.is_alive(), at
        assert within_reach(desk.submit), at
    assert at > 15


def test_a_store_can_be_closed_after_any_interrupt(tmp_path: Path) -> None:
    """Also after one between taking a connection and giving it back: nobody will, and nobody waits for it."""
    files = ("sqlite/backend.py", "sqlite/connections.py")

    def interrupted_and_closed(at: int) -> None:
        store = threadline.open(tmp_path / "a.db", durability="relaxed")
        session = store.session("k")
        went_on.append(interrupted(lambda: (session.append("hi"), session.messages()), at, files))
        store.close()

    went_on = [True]
    while went_on[-1]:
        assert within_reach(partial(interrupted_and_closed, len(went_on))), f"interrupted at line {len(went_on)}"

    assert len(went_on) > 40
    with threadline.open(tmp_path / "a.db") as store:
        assert store.verify().ok
