"""Bytes on disk: a coding session beside its own JSONL.

What is said is real: the files of this project, read whole and in slices, searched and edited, and the output of its
tests. Who says it when is made up: an agent goes through the files, reads each, edits it and reads it once more, as
agents do; the share of reading again is told beside the numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import threadline
from bench.measure import Found
from threadline import Message, ToolCall
from threadline.core import codec

SOURCES = Path(threadline.__file__).parent


def disk(folder: Path, large: int) -> Iterator[Found]:
    for work, again in (("coding session", 0.5), ("coding session, no file read twice", 0.0)):
        messages = list(coding_session(random.Random(7), again))
        jsonl = sum(len(codec.encode(message)) + 1 for message in messages)
        stored = on_disk(folder / f"disk-{again}.db", messages)
        searched = indexed(folder / f"disk-{again}.db") + stored
        musts = (0.5, 0.9) if again else (None, None)
        detail = f"JSONL {jsonl:,}, {len(messages):,} messages, {again:.0%} of the files read twice"
        for what, size, must in (("", stored, musts[0]), (" with its search index", searched, musts[1])):
            yield Found(f"bytes on disk, {work}{what}", size / jsonl, must, "x its JSONL", f"{size:,} bytes, {detail}")


def on_disk(path: Path, messages: list[Message]) -> int:
    """The size of the file once it is closed, without that of an empty store."""
    with threadline.open(path, durability="relaxed"):
        pass
    empty = path.stat().st_size
    with threadline.open(path, durability="relaxed") as store:
        session = store.new()
        for message in messages:
            session.append(message)
    return path.stat().st_size - empty


def indexed(path: Path) -> int:
    """How much the file grows when all of it can be searched."""
    before = path.stat().st_size
    with threadline.open(path, durability="relaxed") as store:
        store.index()
    return path.stat().st_size - before


def coding_session(dice: random.Random, again: float) -> Iterator[Message]:
    """Some thousand messages: each file is looked for, read, edited in places, tested, and perhaps read again."""
    files = sorted(SOURCES.rglob("*.py")) + sorted(SOURCES.rglob("*.sql"))
    dice.shuffle(files)
    calls = (f"call_{n:05}" for n in range(10**6))
    for file in files:
        lines = file.read_text().splitlines()
        name = str(file.relative_to(SOURCES.parent))
        yield Message.user(
            f"Look at {name}: is there anything in it that could be simpler? Change it, and run the tests."
        )
        yield from told(
            next(calls), "grep", {"pattern": name}, "\n".join(matches(files, file.stem)), "Let me see who uses it."
        )
        yield from told(next(calls), "read_file", {"path": name}, numbered(lines), "Now the file itself.")
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(max(1, len(lines) - 8))
            old = "\n".join(lines[at : at + 6])
            edit = {"path": name, "old": old, "new": old.replace("    ", "  ")}
            yield from told(
                next(calls), "edit_file", edit, f"edited {name}: 1 replacement at line {at + 1}", "I change this part."
            )
        yield from told(next(calls), "bash", {"command": "pytest -q"}, outcome(dice, files), "The tests.")
        if dice.random() < again:
            yield from told(next(calls), "read_file", {"path": name}, numbered(lines), "Once more, to be sure.")
        yield Message.assistant(f"{name} has {len(lines)} lines. I simplified what could be, and the tests pass.")


def told(call_id: str, tool: str, args: dict[str, object], output: str, words: str) -> Iterator[Message]:
    yield Message.assistant(words, ToolCall(call_id, tool, args))
    yield Message.tool(call_id, output)


def numbered(lines: list[str]) -> str:
    return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines, 1))


def matches(files: list[Path], word: str) -> list[str]:
    """What a search for a word finds, a few lines of it."""
    found = (
        f"{file.name}:{n}: {line.strip()}"
        for file in files
        for n, line in enumerate(file.read_text().splitlines(), 1)
        if word in line
    )
    return [line for line, _ in zip(found, range(30), strict=False)]


def outcome(dice: random.Random, files: list[Path]) -> str:
    lines = [
        f"tests/{dice.choice(files).stem}/test_it.py::test_{dice.randrange(999)} PASSED"
        for _ in range(dice.randint(5, 40))
    ]
    return "\n".join([*lines, json.dumps({"passed": len(lines), "seconds": round(dice.uniform(0.5, 9), 2)})])


WORKLOADS = (disk,)
