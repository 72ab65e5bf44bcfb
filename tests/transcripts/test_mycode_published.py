"""What mycode's own code shows of a session is what we show of it, for logs of every generation and any order."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import threadline
from threadline import Message, Reasoning, Store, Text, ToolCall, ToolResult, transcripts
from threadline.testing import scaled, seed
from transcripts.folders import MyCode, compact, rewind
from transcripts.published import ask, newer_python

GENERATIONS = [("0.4.2", 5), ("0.7.0", 6), ("0.8.0", 7), ("0.9.0", None), ("0.15.0", None), ("0.21.0", None)]


def random_log(dice: random.Random, version: int | None) -> list[dict[str, Any]]:
    """Turns with tools, compactions and rewinds, in any order that mycode may write."""
    lines: list[dict[str, Any]] = []
    shown = 0
    for n in range(dice.randint(3, 25)):
        match dice.choice("uuaattcr"):
            case "u":
                lines.append({"role": "user", "content": [{"type": "text", "text": f"u{n}"}]})
                shown += 1
            case "a":
                content = [{"type": "thinking", "text": f"hm{n}"}, {"type": "text", "text": f"a{n}"}]
                lines.append({"role": "assistant", "content": content})
                shown += 1
            case "t":
                call = {"type": "tool_use", "id": f"t{n}", "name": "bash", "input": {"command": "ls"}}
                output = {"model_text": f"o{n}", "display_text": f"shown{n}"} if version == 5 else {"output": f"o{n}"}
                result = {"type": "tool_result", "tool_use_id": f"t{n}", "is_error": False, **output}
                lines += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
                shown += 2
            case "c" if shown:
                lines.append(compact(f"S{n}"))
                shown = 2 if version in (5, 6) else shown + 1
            case "r" if shown:
                shown = dice.randint(0, shown)
                lines.append(rewind(shown))
    return lines


def told(store: Store, id: str) -> list[Any]:
    return [_told(message) for message in store.get(id).messages()]


def _told(message: Message) -> list[Any]:
    if "compaction" in message.meta or "summary" in message.meta:
        return ["summary", message.text]
    role = "user" if message.role == "tool" else message.role
    return [role, [_part(part) for part in message.parts]]


def _part(part: Any) -> list[Any]:
    match part:
        case Text(text):
            return ["text", text]
        case Reasoning(text):
            return ["thinking", text]
        case ToolCall(id, name, args):
            return ["call", id, name, args]
        case ToolResult(id, output, error):
            return ["result", id, output, error]
    return [repr(part)]


@pytest.mark.parametrize(("published", "version"), GENERATIONS)
def test_the_view_is_what_mycode_shows(published: str, version: int | None, tmp_path: Path) -> None:
    dice = random.Random(f"{seed()} {published}")
    for number in range(scaled(20)):
        MyCode(tmp_path / "a", f"s{number}", version).write(random_log(dice, version))
    shutil.copytree(tmp_path / "a", tmp_path / "b")  # up to 0.7 reading mends the files: a copy is shown
    python = sys.executable if published != "0.21.0" else newer_python()
    if python is None:
        pytest.skip("NO PYTHON 3.12 OR LATER HERE, which mycode 0.21 needs: it was not asked")
    shown = ask("mycode-sdk", published, "mycode_shows.py", tmp_path / "b" / "sessions", python=python)
    with threadline.open(":memory:") as store:
        transcripts.read(tmp_path / "a", store=store)
        ours = {id: told(store, id) for id in shown}

    assert len(shown) >= scaled(20)
    assert ours == {id: [m for m in messages if m[1]] for id, messages in shown.items()}


def written(store: Store, ids: list[str], folder: Path) -> None:
    for id in ids:
        transcripts.write(store.get(id), folder / id, "mycode", raw=True)


@pytest.mark.parametrize(("published", "version"), GENERATIONS)
def test_what_we_write_back_is_what_was_read(published: str, version: int | None, tmp_path: Path) -> None:
    dice = random.Random(f"{seed()} {published}")
    for number in range(scaled(8)):
        MyCode(tmp_path / "a", f"s{number}", version).write(random_log(dice, version))
    with threadline.open(":memory:") as store:
        ids = transcripts.read(tmp_path / "a", store=store).sessions
        written(store, ids, tmp_path / "b" / "sessions")

    for id in ids:
        one, other = (tmp_path / top / "sessions" / id / "messages.jsonl" for top in "ab")
        assert list(map(json.loads, other.read_text().splitlines())) == list(
            map(json.loads, one.read_text().splitlines())
        )


@pytest.mark.parametrize(("published", "version"), [("0.4.2", 5), ("0.7.0", 6), ("0.21.0", None), ("0.9.0", None)])
def test_mycode_reads_what_was_gone_on_with_here(published: str, version: int | None, tmp_path: Path) -> None:
    """Folds in the middle, expansions, rewinds forward, replacements: all that mycode has no word for."""
    dice = random.Random(f"{seed()} {published} on")
    for number in range(scaled(20)):
        MyCode(tmp_path / "a", f"s{number}", version).write(random_log(dice, version))
    python = newer_python() if published == "0.21.0" else sys.executable
    if python is None:
        pytest.skip("NO PYTHON 3.12 OR LATER HERE, which mycode 0.21 needs: it was not asked")
    with threadline.open(":memory:") as store:
        ids = transcripts.read(tmp_path / "a", store=store).sessions
        for id in ids:
            went_on(store.get(id), dice)
        written(store, ids, tmp_path / "b" / "sessions")
        ours = {id: _mended(told(store, id)) for id in ids}
    shown = ask("mycode-sdk", published, "mycode_shows.py", tmp_path / "b" / "sessions", python=python)

    assert {id: _mended([m for m in messages if m[1]]) for id, messages in shown.items()} == ours


def went_on(session: threadline.Session, dice: random.Random) -> None:
    for n in range(dice.randint(1, 12)):
        seen = [entry.seq for entry in session.view().entries]
        try:
            match dice.choice("uuarrcxpe"):
                case "u":
                    session.append(f"on {n}")
                case "a":
                    session.append(Message.assistant(f"yes {n}", ToolCall(f"n{n}", "bash", {})))
                    session.append(Message.tool(f"n{n}", f"out {n}"))
                case "r":
                    session.rewind(dice.randint(0, session.head))
                case "c" if seen:
                    session.compact(f"C{n}", since=dice.choice(seen[: len(seen) // 2 + 1]), upto=seen[-1])
                case "x":
                    session.clear()
                case "p" if seen:
                    session.replace([f"put {n}"], since=seen[0], upto=seen[len(seen) // 2])
                case "e":
                    folds = [entry.seq for entry in session.view().entries if entry.kind == "compaction"]
                    if folds:
                        session.expand(folds[0])
        except threadline.NothingToCompact:
            continue


def _mended(messages: list[Any]) -> list[Any]:
    """A summary that is not the first is told as what the user said."""
    return [["user", [["text", m[1]]]] if m[0] == "summary" and i else m for i, m in enumerate(messages)]
