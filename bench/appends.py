"""One append of 1 KiB beside a bare transaction with the same bytes, at both durabilities, and beside a bare file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import threadline
from bench.floors import BareLog
from bench.measure import Found, beside, in_turns
from bench.said import BODY, MESSAGE


def append(folder: Path, large: int) -> Iterator[Found]:
    yield from beside_bare(folder, "full", "full", 200)
    yield from beside_bare(folder, "relaxed", "normal", 1_000)


def beside_bare(folder: Path, durability: str, synchronous: str, repeat: int) -> Iterator[Found]:
    bare = BareLog(folder / f"bare-{durability}.db", synchronous)
    file = os.open(folder / f"bare-{durability}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write() -> None:
        os.write(file, BODY + b"\n")
        if durability == "full":
            os.fdatasync(file)

    with threadline.open(folder / f"append-{durability}.db", durability=durability) as store:
        session = store.new()
        calls = {"bare": lambda: bare.append(BODY), "ours": lambda: session.append(MESSAGE), "file": write}
        took = in_turns(calls, repeat)
    os.close(file)
    yield beside(f"append, CPU, {durability}", took["ours"], took["bare"], 2.0, "x bare apsw")
    yield beside(f"append, CPU, {durability}, to a bare file", took["ours"], took["file"], None, "x bare file")


WORKLOADS = (append,)
