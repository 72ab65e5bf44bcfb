"""Run units of trials in several processes, show how far it is, and gather what was found.

A worker that dies or hangs is a finding, too: it is named by the trial that it was at, and another takes its place."""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any, NamedTuple, TextIO

from torture.histories import fast_folder
from torture.processes import fork

SHOWN_EVERY_S = 2.0
SAID_EVERY_S = 0.2
SHOWN_VIOLATIONS = 20  # of a class; the report has all of them
STOPS = (signal.SIGINT, signal.SIGTERM)
PATIENCE_S = 60  # a trial takes milliseconds, the slowest (a server that recovers) seconds


class Unit(NamedTuple):
    """The dice of some trials: all that a class needs to make them again. `count` is how many there are to be."""

    seed: int
    number: int
    count: int

    def dice(self, what: str) -> str:
        """The seed of a random generator."""
        return f"{self.seed} {what} {self.number}"


class Trial(NamedTuple):
    """How one went: `wrong` says what promise was broken, `kind` what sort of trial it was, for the counts."""

    wrong: str | None = None
    kind: str = ""


Trials = Callable[[Unit, Path], Iterator[Trial]]


@dataclass(frozen=True)
class Torture:
    """A class of torture: how its trials are made, how many of them a unit has, how many there are at each size."""

    name: str
    what: str
    trials: Trials
    unit: int
    full: int
    ci: int

    def units(self, seed: int, count: int) -> list[Unit]:
        """At least so many trials. Every unit is whole, so that the same dice make the same trials at any scale."""
        return [Unit(seed, n, self.unit) for n in range(-(-count // self.unit))]


@dataclass
class Result:
    """What became of a class."""

    name: str
    what: str
    planned: int
    trials: int = 0
    seconds: float = 0.0  # of all workers, waiting included
    cpu_seconds: float = 0.0  # of them and their children: what another machine would take
    violations: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


# -- one unit ------------------------------------------------------------------------------------------


def play(torture: Torture, unit: Unit, upto: int | None = None) -> Iterator[Trial]:
    """The trials of a unit, up to one of them. An error that nobody expected is a violation, and ends the unit."""
    done = 0
    try:
        with fast_folder() as folder:
            for done, trial in enumerate(torture.trials(unit, folder), 1):
                yield trial
                if done == upto:
                    return
    except Exception as error:
        yield Trial(f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-8:])}")
        return
    if done < unit.count and upto is None:
        yield Trial(f"only {done} of {unit.count} trials were made")


# -- all of them ---------------------------------------------------------------------------------------

Job = tuple[Torture, Unit]


class Worker:
    """A process that plays units and tells of them; forked, so that it starts warm."""

    def __init__(self, jobs: Sequence[Job], queue: int) -> None:
        self.telling, telling = os.pipe()
        self.at: tuple[int, int] | None = None  # the job and the trial that it is at
        self.heard_s = time.monotonic()
        self._rest = b""
        self.pid = fork(lambda: _work(jobs, queue, telling), patience_s=0)
        os.close(telling)

    def heard(self) -> list[dict[str, Any]] | None:
        """What it told since; None when it is gone."""
        said = os.read(self.telling, 1 << 16)
        if not said:
            return None
        self.heard_s = time.monotonic()
        *lines, self._rest = (self._rest + said).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> int:
        os.close(self.telling)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _work(jobs: Sequence[Job], queue: int, telling: int) -> None:
    _die_when_asked()
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what trials print is of no interest here
    while ticket := os.read(queue, 4):
        (job,) = struct.unpack("<i", ticket)
        _tell_of(*jobs[job], job, telling)


def _tell_of(torture: Torture, unit: Unit, job: int, telling: int) -> None:
    def say(**words: Any) -> None:
        os.write(telling, json.dumps({"job": job, **words}).encode() + b"\n")

    say(trial=0)
    began_s = said_s = time.monotonic()
    began_cpu_s = sum(os.times()[:4])
    kinds: Counter[str] = Counter()
    number = 0
    for number, trial in enumerate(play(torture, unit), 1):
        kinds[trial.kind] += 1
        if trial.wrong is not None:
            say(trial=number, wrong=trial.wrong[:2_000])
        if time.monotonic() - said_s > SAID_EVERY_S:
            said_s = time.monotonic()
            say(trial=number)
    cpu_s = sum(os.times()[:4]) - began_cpu_s
    say(trial=number, seconds=time.monotonic() - began_s, cpu_seconds=cpu_s, kinds=kinds)


class Run:
    """So many trials of each class, by so many workers."""

    def __init__(self, tortures: Sequence[tuple[Torture, int]], seed: int, out: TextIO) -> None:
        self.results = {torture.name: Result(torture.name, torture.what, count) for torture, count in tortures}
        self._jobs = [(torture, unit) for torture, count in tortures for unit in torture.units(seed, count)]
        self._seed = seed
        self._asked_to_stop = False
        self._done: Counter[int] = Counter()  # trials, by job
        self._show = Show(self.results, out)

    def go(self, workers: int) -> list[Result]:
        """Until all is done, or until Ctrl-C or SIGTERM. The results are in the order of the classes."""
        before = {sign: signal.signal(sign, self._stop) for sign in STOPS}
        self._queue, tickets = os.pipe()
        feeder = _feed(tickets, len(self._jobs), self._queue)
        os.close(tickets)
        crew = [self._worker() for _ in range(workers)]
        while crew and not self._asked_to_stop:
            ready = select([worker.telling for worker in crew], [], [], 1.0)[0]
            crew = [at_work for worker in crew if (at_work := self._look_at(worker, worker.telling in ready))]
            self._show.now(self._done.total())
        for worker in crew:
            os.kill(worker.pid, signal.SIGKILL)
            worker.end()
        os.close(self._queue)
        os.waitpid(feeder, 0)
        for sign, handler in before.items():
            signal.signal(sign, handler)
        return list(self.results.values())

    def _stop(self, *_: object) -> None:
        """No exception: one that is raised while a process is forked is lost, and a second one would hurt the first."""
        self._asked_to_stop = True

    def _worker(self) -> Worker:
        return Worker(self._jobs, self._queue)

    def _look_at(self, worker: Worker, ready: bool) -> Worker | None:
        """The worker, another in its place, or nobody when there is nothing left to do."""
        if not ready:
            if time.monotonic() - worker.heard_s <= PATIENCE_S:
                return worker
            os.kill(worker.pid, signal.SIGKILL)
            worker.end()
            return self._after(worker, f"it hangs: nothing for {PATIENCE_S} seconds")
        told = worker.heard()
        if told is None:
            return self._after(worker, f"the process died: {worker.end()}")
        for words in told:
            self._note(worker, **words)
        return worker

    def _after(self, worker: Worker, what: str) -> Worker | None:
        if worker.at is None:
            return None
        job, trial = worker.at
        self._violation(job, trial + 1, what)
        return self._worker()

    def _note(
        self,
        worker: Worker,
        job: int,
        trial: int,
        wrong: str | None = None,
        seconds: float | None = None,
        cpu_seconds: float = 0.0,
        kinds: dict[str, int] | None = None,
    ) -> None:
        torture, _ = self._jobs[job]
        result = self.results[torture.name]
        result.trials += trial - self._done[job]
        self._done[job] = trial
        worker.at = (job, trial) if seconds is None else None
        self._show.at = torture.name
        if wrong is not None:
            self._violation(job, trial, wrong)
        if seconds is not None:
            result.seconds += seconds
            result.cpu_seconds += cpu_seconds
            result.kinds.update({kind: n for kind, n in (kinds or {}).items() if kind})

    def _violation(self, job: int, trial: int, what: str) -> None:
        torture, unit = self._jobs[job]
        name, violations = f"{torture.name}:{unit.number}:{trial}", self.results[torture.name].violations
        violations.append(f"{name}: {what}")
        if len(violations) <= SHOWN_VIOLATIONS:
            self._show.line(f"VIOLATION {name}: {what}\n  again: python -m torture --seed {self._seed} --trial {name}")


def _die_when_asked() -> None:
    for sign in STOPS:
        signal.signal(sign, signal.SIG_DFL)


def _feed(tickets: int, count: int, queue: int) -> int:
    """A process that hands out tickets: a pipe holds only so many."""

    def hand_out() -> None:
        _die_when_asked()
        os.close(queue)
        with suppress(BrokenPipeError):  # nobody wants them any more
            for ticket in range(count):
                os.write(tickets, struct.pack("<i", ticket))

    return fork(hand_out, patience_s=0)


# -- what a person sees --------------------------------------------------------------------------------


class Show:
    """How far it is and how fast, on one line of a terminal or now and then in a file."""

    def __init__(self, results: dict[str, Result], out: TextIO) -> None:
        self.at = ""
        self._results = results
        self._out = out
        self._tty = out.isatty()
        self._began_s = self._shown_s = time.monotonic()
        self._before = (time.monotonic(), 0)

    def line(self, text: str) -> None:
        self._out.write(("\r\033[K" if self._tty else "") + text + "\n")
        self._out.flush()

    def now(self, done: int) -> None:
        now = time.monotonic()
        if self.at and now - self._shown_s > (SHOWN_EVERY_S if self._tty else 10 * SHOWN_EVERY_S):
            result = self._results[self.at]
            rate = (done - self._before[1]) / (now - self._before[0])
            self._shown_s, self._before = now, (now, done)
            violations = sum(len(result.violations) for result in self._results.values())
            text = (
                f"{now - self._began_s:6.0f} s  {self.at:<12}{result.trials:>9,} of {result.planned:,}  {rate:,.0f}/s"
            )
            self._out.write(("\r\033[K" if self._tty else "") + text + f"  {violations} violations" * bool(violations))
            self._out.write("" if self._tty else "\n")
            self._out.flush()


def table(results: Sequence[Result]) -> str:
    rows = [f"{'class':<14}{'trials':>10}{'violations':>12}{'seconds':>10}{'of a core':>12}  what"]
    for result in results:
        seconds = f"{result.seconds:>10.1f}{result.cpu_seconds:>12.1f}"
        numbers = f"{result.trials:>10,}{len(result.violations):>12,}{seconds}"
        rows.append(f"{result.name:<14}{numbers}  {result.what}")
    return "\n".join(rows)


def report(results: Sequence[Result], **facts: Any) -> dict[str, Any]:
    return {**facts, "classes": [{**vars(result), "kinds": dict(result.kinds)} for result in results]}
