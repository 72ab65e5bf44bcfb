"""Exports in our own JSONL: what a megabyte costs on the way out and in, and how much memory that takes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import threadline
from bench.measure import QUICK, Found
from threadline import Message, Store, ToolCall, transcripts

SIZE_MB = 10 if QUICK else 200
MB = 10**6
MUST_MS = 25  # of CPU for a megabyte: 40 MB/s
MUST_MB = 200


def exports(folder: Path, large: int) -> Iterator[Found]:
    path = folder / "export.jsonl"
    with threadline.open(folder / "source.db", durability="relaxed") as store:
        furnish(store, SIZE_MB * MB)
        yield cost("export, raw", path, lambda: transcripts.write(store, path, "jsonl", raw=True), MUST_MS)
        yield cost("export, secrets masked", path, lambda: transcripts.write(store, folder / "masked", "jsonl"), None)
    with threadline.open(folder / "target.db", durability="relaxed") as store:
        yield cost("import of an export", path, lambda: transcripts.read(path, store=store), MUST_MS)
        yield cost("the same again: all is known", path, lambda: transcripts.read(path, store=store), MUST_MS)
    yield peak(path, folder / "another.db")


def cost(work: str, path: Path, call: Callable[[], object], must: float | None) -> Found:
    begin = time.process_time()
    call()
    ms, size = (time.process_time() - begin) * 1_000, path.stat().st_size / MB
    return Found(f"{work}, CPU", ms / size, must, "ms a MB", f"{size:,.0f} MB at {size / ms * 1_000:.0f} MB/s")


def peak(path: Path, target: Path) -> Found:
    """The most memory of a process that does nothing but the import."""
    script = (
        "import resource, sys, threadline; from threadline import transcripts; store = threadline.open(sys.argv[2]); "
        "transcripts.read(sys.argv[1], store=store); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000)"
    )
    command = [sys.executable, "-c", script, str(path), str(target)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Found("memory of an import", float(said), MUST_MB, "MB", f"a file of {path.stat().st_size / MB:,.0f} MB")


def furnish(store: Store, size: int) -> None:
    """Conversations as agents have them: questions, calls, outputs of a few KB."""
    rng = Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(5_000)]

    def text(chars: int) -> str:
        return " ".join(rng.choices(words, k=chars // 6))

    made = 0
    while made < size:
        session = store.new()
        for turn in range(100):
            output, chars = text(rng.choice((500, 2_000, 6_000))), rng.choice((300, 800, 1_500))
            session.extend([
                Message.user(text(chars)),
                Message.assistant(text(chars), ToolCall(f"c{turn}", "read", {"path": text(30)})),
                Message.tool(f"c{turn}", output),
                Message.assistant(text(chars)),
            ])  # fmt: skip
            made += 3 * chars + len(output)


WORKLOADS = (exports,)
