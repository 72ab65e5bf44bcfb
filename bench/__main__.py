"""Run all workloads and print what was reached beside what must be.

    python -m bench [--only append,context] [--json FILE] [--docs FOLDER]

`BENCH=quick` takes two minutes instead of fifteen; `BENCH_ENTRIES` sets the size of the largest log, `BENCH_DIR` the
disk. `--docs` writes the table into benchmarks.md there, and numbers and plots into bench/ beside it."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

import bench
from bench.measure import QUICK, Curve, Found
from bench.plots import plot

Workload = Callable[[Path, int], Iterator[Found | Curve]]


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    large = int(os.environ.get("BENCH_ENTRIES", "20000" if QUICK else "1000000"))
    told = machine(large)
    print(f"threadline bench: {told}\n")
    found: dict[str, list[Found | Curve]] = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        for work in chosen(options.only):
            found[work.__name__] = list(run(work, Path(folder), large))
    numbers = [each for yielded in found.values() for each in yielded if isinstance(each, Found)]
    missed = sum(each.met is False for each in numbers)
    print(f"\n{sum(each.met is True for each in numbers)} targets met, {missed} not met")
    if options.json:
        Path(options.json).write_text(json.dumps(plain(found, told), indent=1) + "\n")
    if options.docs:
        publish(Path(options.docs), found, told)
    return 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--only", help="names of workloads, with commas between them")
    parser.add_argument("--json", help="a file for the numbers")
    parser.add_argument("--docs", help="the folder of the documents, to publish there")
    return parser.parse_args(arguments)


def chosen(only: str | None) -> list[Workload]:
    """The workloads of all modules in this folder, or those that were named."""
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name != "__main__")
    modules = [importlib.import_module(f"bench.{name}") for name in names]
    works = [work for module in modules for work in getattr(module, "WORKLOADS", ())]
    wanted = {*only.split(",")} if only else {work.__name__ for work in works}
    if unknown := wanted - {work.__name__ for work in works}:
        raise SystemExit(f"no workload {min(unknown)}: there are {', '.join(work.__name__ for work in works)}")
    return [work for work in works if work.__name__ in wanted]


def run(work: Workload, folder: Path, large: int) -> Iterator[Found | Curve]:
    begin = time.monotonic()
    try:
        for each in work(folder, large):
            if isinstance(each, Found):
                print(line(each), flush=True)
            yield each
    except Exception as error:  # the others go on; what failed is not met
        yield Found(f"{work.__name__} failed", float("inf"), 0.0, f"({type(error).__name__})", str(error))
        traceback.print_exc()
    print(f"       {work.__name__}: {time.monotonic() - begin:.0f} s", flush=True)


MARKS = {True: "met", False: "NOT MET", None: "told"}


def line(found: Found) -> str:
    must = found.unit if found.must is None else f"<= {found.must:g} {found.unit}"
    return f"{MARKS[found.met]:<8}{found.work:<50}{found.reached:>9.2f}  {must:<22} {found.detail}"


def machine(large: int) -> str:
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    engines = f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    load = f"load average {os.getloadavg()[0]:.0f}"  # a busy machine makes times longer, and ratios less so
    return f"{date}, {engines}, {os.cpu_count()} cores, {load}, up to {large:,} entries"


# -- for machines and for readers ----------------------------------------------------------------------


def plain(found: dict[str, list[Found | Curve]], told: str) -> dict[str, Any]:
    works = {
        name: {
            "numbers": [each._asdict() | {"met": each.met} for each in yielded if isinstance(each, Found)],
            "curves": [vars(each) for each in yielded if isinstance(each, Curve)],
        }
        for name, yielded in found.items()
    }
    return {"machine": told, "workloads": works}


def publish(docs: Path, found: dict[str, list[Found | Curve]], told: str) -> None:
    """The table into benchmarks.md, numbers and plots into bench/; what was not run stays as it was."""
    (docs / "bench").mkdir(exist_ok=True)
    numbers = docs / "bench" / "results.json"
    results = plain(found, told)
    if numbers.exists():
        results["workloads"] = json.loads(numbers.read_text())["workloads"] | results["workloads"]
    numbers.write_text(json.dumps(results, indent=1) + "\n")
    for name, yielded in found.items():
        (docs / "bench" / f"{name}.svg").write_text(plot(name, yielded))
    page = docs / "benchmarks.md"
    before, _, rest = page.read_text().partition("<!-- results -->\n")
    _, _, after = rest.partition("<!-- end of results -->\n")
    page.write_text(f"{before}<!-- results -->\n{table(results)}<!-- end of results -->\n{after}")


def table(results: dict[str, Any]) -> str:
    rows = [
        f"The last run: {results['machine']}.\n\n",
        "| work | reached | spread | must reach | | plot |\n|---|---|---|---|---|---|\n",
    ]
    for name, work in results["workloads"].items():
        rows += [row(number, name) for number in work["numbers"]]
    return "".join(rows)


def row(number: dict[str, Any], name: str) -> str:
    spread = "" if number["low"] is None else f"{number['low']:.2f} to {number['high']:.2f}"
    must = "" if number["must"] is None else f"{number['must']:g}"
    mark = {True: "met", False: "**not met**", None: ""}[number["met"]]
    reached = f"{number['reached']:.2f} {number['unit']}"
    return f"| {number['work']} | {reached} | {spread} | {must} | {mark} | [{name}](bench/{name}.svg) |\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
