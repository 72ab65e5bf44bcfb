"""Real processes for tests. They are forked from a warm parent, so that a hundred of them start in a second."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

PATIENCE_S = 60  # a child that hangs is killed by its own alarm, so that a test fails instead of waiting for ever


def fork(work: Callable[[], object], *, patience_s: int = PATIENCE_S) -> int:
    """The pid of a child that does `work` and exits: with 0, or with 1 after printing what went wrong."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():  # newer Pythons warn of threads at a fork: that is what these tests are about
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(patience_s)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """What each of `works` returned, as JSON. Each runs in a process of its own, and all of them start together."""
    waiting, gate = os.pipe()
    children = [_behind(gate, waiting, work) for work in works]
    os.close(waiting)
    os.close(gate)
    answers = [_all_of(reading) for _, reading in children]
    codes = [exit_code(pid) for pid, _ in children]

    assert codes == [0] * len(works), "a process failed: its traceback is in the captured stderr"
    return [json.loads(answer) for answer in answers]


def _behind(gate: int, waiting: int, work: Callable[[], Any]) -> tuple[int, int]:
    reading, writing = os.pipe()

    def wait_and_work() -> None:
        os.close(gate)
        os.read(waiting, 1)  # ends when the parent, the last to hold it, closes the gate
        with os.fdopen(writing, "w") as answer:
            json.dump(work(), answer)

    pid = fork(wait_and_work)
    os.close(writing)
    return pid, reading


def _all_of(reading: int) -> bytes:
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read()
