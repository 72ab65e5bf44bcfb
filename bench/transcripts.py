"""Moving in: JSONL per second of one core, and memory however large the file.

The file is a coding session as in `disk.py`, again and again with other numbers in it, so that nothing is stored once
for many: short questions and calls, edits of some lines, and what tools gave, from a line to a whole file. A line has
1.3 KB in the mean; one in ten is larger than 2 KB, and those are two thirds of the bytes. Reading happens in a process
of its own, which tells its CPU time and the most memory that it had. `BENCH_LARGE_MB` sets the size of a large file."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import threadline
from bench.disk import coding_session
from bench.measure import QUICK, Found
from threadline import Message, Text, ToolResult, transcripts
from threadline.transcripts import mycode, nanobot

SPEED_MB = 16 if QUICK else 100
LARGE_MB = int(os.environ.get("BENCH_LARGE_MB", "64" if QUICK else "1000"))
ROUNDS = 2 if QUICK else 3
MUST_MB_PER_S, MUST_RSS_MB = 40, 200
BEGAN = datetime(2026, 1, 1)

Raw = dict[str, Any]

CHILD = """
import resource, sys, time
import threadline
from threadline import transcripts
with threadline.open(sys.argv[2]) as store:
    begin = time.process_time()
    report = transcripts.read(sys.argv[1], store=store)
    took = time.process_time() - begin
assert report.entries and not report.problems, report
assert report.bytes_read == report.bytes_imported, report
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def moving_in(folder: Path, large: int) -> Iterator[Found]:
    of_mycode, of_nanobot = mycode_home(folder / "mycode", SPEED_MB), nanobot_home(folder / "nanobot", SPEED_MB)
    measured(of_mycode, folder / "first.db")
    ours = exported(folder / "first.db", folder / "ours.jsonl")
    sources = {"our own": ours, "mycode": of_mycode, "nanobot": of_nanobot}
    took: dict[str, list[float]] = {name: [] for name in sources}
    for turn in range(ROUNDS):
        for name, source in sources.items():
            took[name].append(measured(source, folder / f"{name}-{turn}.db")[0])
    for name, source in sources.items():
        yield speed(name, source, took[name])
    yield speed("mycode, again,", of_mycode, [measured(of_mycode, folder / "first.db")[0]], must=False)


def moving_in_a_lot(folder: Path, large: int) -> Iterator[Found]:
    """One file of each after the other: what was read goes before the next is written."""
    home = nanobot_home(folder / "large", LARGE_MB)
    yield memory("nanobot", home, folder / "large.db")
    ours = exported(folder / "large.db", folder / "large.jsonl")
    yield memory("our own", ours, folder / "large-again.db")


def memory(name: str, source: Path, target: Path) -> Found:
    took, rss = measured(source, target)
    detail = f"the most that it had; {size_mb(source) / took:.1f} MB/s of one core"
    return Found(f"memory to import {LARGE_MB:,} MB of {name} JSONL", rss, MUST_RSS_MB, "MB", detail)


def speed(name: str, source: Path, took: list[float], *, must: bool = True) -> Found:
    """By the best round: whatever else the machine does only ever adds."""
    size = size_mb(source)
    each = [seconds / size * MUST_MB_PER_S for seconds in took]
    detail = f"{size / min(took):.1f} MB/s of one core, {size:.0f} MB"
    unit = f"s CPU per {MUST_MB_PER_S} MB"
    return Found(f"import of {name} JSONL", min(each), 1.0 if must else None, unit, detail, min(each), max(each))


def size_mb(source: Path) -> float:
    return sum(file.stat().st_size for file in [source, *source.rglob("*")] if file.is_file()) / 10**6


def measured(source: Path, target: Path) -> tuple[float, float]:
    """Seconds of CPU, and megabytes of memory. Modules are compiled before, as pip does when it installs them."""
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", CHILD, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=compiled)
    took, rss = done.stdout.split()
    return float(took), float(rss)


def exported(store_at: Path, file: Path) -> Path:
    """Our own JSONL of a whole store."""
    with threadline.open(store_at) as store:
        transcripts.write(store, file, "jsonl", raw=True)
    return file


def mycode_home(home: Path, megabytes: int) -> Path:
    """A folder of mycode with one session of that size."""
    fill(home / "sessions" / "long" / "messages.jsonl", megabytes, lambda message, _: mycode.raw_of(message, None))
    return home


def nanobot_home(home: Path, megabytes: int) -> Path:
    """A workspace of nanobot with one session of that size."""
    head = {"_type": "metadata", "key": "cli:direct", "created_at": BEGAN.isoformat(), "metadata": {}}
    fill(home / "sessions" / "cli_direct.jsonl", megabytes, of_nanobot, head)
    return home


def of_nanobot(message: Message, number: int) -> Raw:
    return nanobot.raw_of(message) | {"timestamp": (BEGAN + timedelta(seconds=number)).isoformat()}


def fill(file: Path, megabytes: int, raw_of: Callable[[Message, int], Raw], *first: Raw) -> None:
    file.parent.mkdir(parents=True)
    size, number, messages = 0, count(), [*coding_session(random.Random(7), 0.0)]
    with file.open("w") as lines:
        lines.writelines(json.dumps(raw) + "\n" for raw in first)
        while size < megabytes * 10**6:
            for message in messages:
                at = next(number)
                size += lines.write(json.dumps(raw_of(unlike(message, at), at), ensure_ascii=False) + "\n")


def unlike(message: Message, number: int) -> Message:
    """The same message with a number in every text."""
    parts = tuple(
        Text(f"{number} {part.text}")
        if type(part) is Text
        else ToolResult(part.call_id, f"{number}\n{part.output}")
        if type(part) is ToolResult
        else part
        for part in message.parts
    )
    return Message(message.role, parts)


WORKLOADS = (moving_in, moving_in_a_lot)
