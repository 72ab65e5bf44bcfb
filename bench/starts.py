"""A new process: the import alone, and up to the first append."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.measure import Found, cpu_ms_of_script


def start(folder: Path, large: int) -> Iterator[Found]:
    yield Found("import threadline", cpu_ms_of_script("import threadline"), 60, "ms CPU", "over an empty process")
    script = f"import threadline; threadline.open({str(folder / 'start.db')!r}).session('k').append('hi')"
    yield Found("first append of a process", cpu_ms_of_script(script), 120, "ms CPU", "over an empty process")


WORKLOADS = (start,)
