"""Moving in: JSONL per second of one core, and memory however large the file.

The file is a coding session as in `disk.py`, again and again with other numbers in it, so that nothing is stored once
for many. Reading happens in a process of its own, which tells its CPU time and the most memory that it had."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import threadline
from bench.disk import coding_session
from bench.measure import QUICK, Found
from threadline import Message, Text, ToolResult, transcripts
from threadline.transcripts import mycode

SPEED_MB, MEMORY_MB = (16, 64) if QUICK else (100, 1_000)
MUST_MB_PER_S, MUST_RSS_MB = 40, 200

CHILD = """
import resource, sys, time
import threadline
from threadline import transcripts
with threadline.open(sys.argv[2]) as store:
    begin = time.process_time()
    report = transcripts.read(sys.argv[1], store=store)
    took = time.process_time() - begin
assert report.entries and not report.problems, report
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def moving_in(folder: Path, large: int) -> Iterator[Found]:
    home = written(folder / "mycode", SPEED_MB)
    yield speed("mycode", home, folder / "mycode.db")
    with threadline.open(folder / "mycode.db") as store:
        transcripts.write(store, folder / "ours.jsonl", "jsonl", raw=True)
    yield speed("our own", folder / "ours.jsonl", folder / "ours.db")
    yield speed("mycode, again", home, folder / "mycode.db", must=False)


def moving_in_a_lot(folder: Path, large: int) -> Iterator[Found]:
    home = written(folder / "large", MEMORY_MB)
    _, rss = measured(home, folder / "large.db")
    yield Found(f"memory to import {MEMORY_MB:,} MB of mycode JSONL", rss, MUST_RSS_MB, "MB", "the most that it had")


def speed(name: str, source: Path, target: Path, *, must: bool = True) -> Found:
    size = sum(file.stat().st_size for file in [source, *source.rglob("*")] if file.is_file()) / 10**6
    took, rss = measured(source, target)
    detail = f"{size / took:.1f} MB/s of one core, {size:.0f} MB, at most {rss:.0f} MB of memory"
    each = took / size * MUST_MB_PER_S
    return Found(f"import of {name} JSONL", each, 1.0 if must else None, f"s CPU per {MUST_MB_PER_S} MB", detail)


def measured(source: Path, target: Path) -> tuple[float, float]:
    """Seconds of CPU, and megabytes of memory."""
    command = [sys.executable, "-c", CHILD, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took, rss = done.stdout.split()
    return float(took), float(rss)


def written(home: Path, megabytes: int) -> Path:
    """A folder of mycode with one session of that size."""
    session = home / "sessions" / "long"
    session.mkdir(parents=True)
    size, dice, number = 0, random.Random(7), count()
    with (session / "messages.jsonl").open("w") as file:
        while size < megabytes * 10**6:
            for message in coding_session(dice, 0.0):
                line = json.dumps(mycode.raw_of(unlike(message, next(number)), None), ensure_ascii=False) + "\n"
                size += len(line)
                file.write(line)
    return home


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
