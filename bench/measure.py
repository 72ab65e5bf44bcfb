"""How things are measured: CPU time, in turns, medians with their spread."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 9


@dataclass(frozen=True)
class Timing:
    """Microseconds of CPU per call: the median of the rounds, and their spread."""

    median_us: float
    low_us: float
    high_us: float

    def __str__(self) -> str:
        return f"{self.median_us:.1f} us ({self.low_us:.1f} to {self.high_us:.1f})"


def in_turns(calls: dict[str, Callable[[], object]], repeat: int, rounds: int = ROUNDS) -> dict[str, Timing]:
    """Time several things in turns, so that whatever else the machine does falls on all of them alike."""
    for call in calls.values():
        _once(call, repeat)
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(_once(call, repeat))
    return {name: Timing(statistics.median(us), min(us), max(us)) for name, us in found.items()}


def _once(call: Callable[[], object], repeat: int) -> float:
    begin = time.process_time_ns()
    for _ in range(repeat):
        call()
    return (time.process_time_ns() - begin) / repeat / 1_000


def cpu_ms_of_script(script: str, rounds: int = 7) -> float:
    """CPU time of a new process that runs the script, without that of an empty one."""
    return min(child_ms(script) for _ in range(rounds)) - min(child_ms("pass") for _ in range(rounds))


def child_ms(script: str) -> float:
    measured = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print((used.ru_utime + used.ru_stime) * 1000)"
    )
    done = subprocess.run([sys.executable, "-c", measured, script], capture_output=True, text=True, check=True)
    return float(done.stdout)
