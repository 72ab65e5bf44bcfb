"""Run all workloads, print what was reached beside what must be, and write it to a JSON file with --json PATH."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw

from bench import workloads


@dataclass(frozen=True)
class Result:
    work: str
    reached: float
    must: float
    unit: str
    detail: str

    @property
    def met(self) -> bool:
        return self.reached <= self.must


def main(arguments: list[str]) -> int:
    large = int(os.environ.get("BENCH_ENTRIES", "1000000"))
    engines = f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    print(f"threadline bench: {engines}, up to {large:,} entries\n")
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        for work in workloads.ALL:
            for found in work(Path(folder), large):
                results.append(Result(*found))
                show(results[-1])
    missed = [result for result in results if not result.met]
    print(f"\n{len(results) - len(missed)} targets met, {len(missed)} missed")
    if "--json" in arguments:
        Path(arguments[arguments.index("--json") + 1]).write_text(json.dumps([asdict(r) for r in results], indent=1))
    return 0


def show(result: Result) -> None:
    mark = "met   " if result.met else "MISSED"
    reached, must = f"{result.reached:.2f}", f"<= {result.must:g} {result.unit}"
    print(f"{mark} {result.work:<46}{reached:>9} {must:<16} {result.detail}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
