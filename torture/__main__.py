"""`python -m torture`: run classes of torture, say what was found, and how to see it again."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import apsw

from torture import mutants, planting  # noqa: F401 - a mutant is planted before what it changes is imported
from torture.classes import ALL
from torture.runner import Run, Torture, Unit, play, report, table


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    if asked.list:
        for torture in ALL.values():
            print(f"{torture.name:<14}{torture.full:>9,}{torture.ci:>8,} in CI   {torture.what}")
        return 0
    if asked.mutants is not None:
        return mutants.main(asked.mutants)
    if asked.trial:
        return _again(asked.trial, asked.seed)
    return _all([ALL[name] for name in asked.classes or ALL], asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument(
        "classes", nargs="*", choices=[[], *ALL], metavar="class", help="which; all by default (--list)"
    )
    parser.add_argument("--scale", default="1", help="'ci', or how many times the full size (default: 1)")
    parser.add_argument("--seed", type=int, default=1, help="of all dice (default: 1)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--trial", metavar="CLASS:UNIT:TRIAL", help="run this one once more")
    parser.add_argument("--json", metavar="PATH", help="write the report there, too")
    parser.add_argument("--list", action="store_true", help="the classes, and how many trials each has")
    parser.add_argument("--mutants", nargs="*", metavar="NAME", help="plant these bugs, or all: each must be caught")
    return parser


def _all(tortures: list[Torture], asked: argparse.Namespace) -> int:
    sizes = [(torture, _size(torture, asked.scale)) for torture in tortures]
    engines = f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    print(f"threadline torture: seed {asked.seed}, scale {asked.scale}, {asked.workers} workers, {engines}", flush=True)
    began, began_s = datetime.now(UTC), time.monotonic()
    results = Run(sizes, asked.seed, sys.stdout).go(asked.workers)
    took_s = time.monotonic() - began_s
    print(f"\n{table(results)}\n")
    violations = sum(len(result.violations) for result in results)
    done = sum(result.trials for result in results)
    print(f"{done:,} trials, {violations:,} violations, {took_s:.0f} s; seed {asked.seed}")
    if asked.json:
        facts = {"seed": asked.seed, "scale": asked.scale, "began": began.isoformat(), "seconds": round(took_s, 1)}
        facts |= {"workers": asked.workers, "cores": os.cpu_count(), "engines": engines}
        Path(asked.json).write_text(json.dumps(report(results, **facts), indent=1) + "\n")
    return 1 if violations else 0


def _size(torture: Torture, scale: str) -> int:
    return torture.ci if scale == "ci" else max(1, round(torture.full * float(scale)))


def _again(name: str, seed: int) -> int:
    """One trial, after those of its unit that came before it: they may have left something behind."""
    kind, number, trial = name.split(":")
    torture = ALL[kind]
    unit = Unit(seed, int(number), torture.unit)
    for n, outcome in enumerate(play(torture, unit, upto=int(trial)), 1):
        if outcome.wrong:
            print(f"{kind}:{number}:{n}: {outcome.wrong}")
            if n == int(trial):
                return 1
    print(f"{name}: nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
