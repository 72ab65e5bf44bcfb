"""How things are measured: CPU time, in turns, medians with their spread; and what a workload tells."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

QUICK = os.environ.get("BENCH") == "quick"
ROUNDS = 3 if QUICK else 9


class Found(NamedTuple):
    """One number that was measured. It is met if it is at most `must`; without `must` it is only told."""

    work: str
    reached: float
    must: float | None
    unit: str
    detail: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.must is None else self.reached <= self.must


@dataclass(frozen=True)
class Curve:
    """How something grows: for each name, points of (size, value)."""

    title: str
    unit: str
    lines: dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Timing:
    """Microseconds of CPU per call, round by round."""

    rounds: tuple[float, ...] = field(repr=False)

    @property
    def median_us(self) -> float:
        return statistics.median(self.rounds)

    def __str__(self) -> str:
        return f"{self.median_us:.1f} us ({min(self.rounds):.1f} to {max(self.rounds):.1f})"


def in_turns(calls: dict[str, Callable[[], object]], repeat: int, rounds: int = ROUNDS) -> dict[str, Timing]:
    """Time several things in turns, so that whatever else the machine does falls on all of them alike."""
    for call in calls.values():
        _once(call, repeat)
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(_once(call, repeat))
    return {name: Timing(tuple(us)) for name, us in found.items()}


def beside(work: str, ours: Timing, floor: Timing, must: float | None, unit: str, scale: float = 1.0) -> Found:
    """One timing as a multiple of another: the median of the ratios of their rounds, and their spread."""
    ratios = [a / b * scale for a, b in zip(ours.rounds, floor.rounds, strict=True)]
    detail = f"{ours} beside {floor}"
    return Found(work, statistics.median(ratios), must, unit, detail, min(ratios), max(ratios))


def _once(call: Callable[[], object], repeat: int) -> float:
    begin = time.process_time_ns()
    for _ in range(repeat):
        call()
    return (time.process_time_ns() - begin) / repeat / 1_000


def cpu_ms_of_script(script: str, rounds: int = ROUNDS - 2) -> float:
    """CPU time of a new process that runs the script, without that of an empty one.

    The least of some runs: whatever else the machine does only ever adds. Modules are compiled before, as pip does when
    it installs them."""
    rounds = max(3, rounds)
    return min(child_ms(script) for _ in range(rounds)) - min(child_ms("pass") for _ in range(rounds))


def child_ms(script: str, python: str = sys.executable) -> float:
    """CPU time of a new process that runs the script."""
    measured = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print((used.ru_utime + used.ru_stime) * 1000)"
    )
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [python, "-c", measured, script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=compiled)
    return float(done.stdout)
