"""Hostile inputs to every reader: what providers send, and the files of other tools, cut off at every byte, spliced,
bent and filled with garbage. Whatever they are given, readers answer or refuse in our words; what is read can be
written; of a file every byte is imported or reported, the file stays as it is, and the store stays whole."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import threadline
from threadline import Message, Text, ThreadlineError, ToolCall, formats, transcripts
from threadline.messages import Media, Reasoning
from torture.histories import Clock, folder_of, loaded_dice
from torture.lives import PROVIDERS, native
from torture.runner import Trial, Unit

GARBAGE: tuple[Any, ...] = (
    None, True, 0, -1, 2**70, 1.5, float("nan"), float("inf"), "", "\0", "\ud800", "x" * 5_000, [], {}, [[]], {"": {}},
    {"type": "text"}, {"role": "user"}, [None], {"type": []}, {"id": 1}, "2026-13-45T99:99:99Z", b"bytes", object(),
)  # fmt: skip


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    rng = Random(unit.dice("readers"))
    sorts = [
        *PROVIDERS,
        "threadline",
        *(format.name for format in transcripts.formats() if format.reads and _known(format)),
    ]
    sort = sorts[unit.number % len(sorts)]
    if sort in (*PROVIDERS, "threadline"):
        yield from (Trial(conversation(rng, sort), f"{sort} dicts") for _ in range(unit.count))
    else:
        yield from files(folder, rng, sort, unit)


# -- providers' dicts ----------------------------------------------------------------------------------


def conversation(rng: Random, format: str) -> str | None:
    """Bend a conversation of a provider, and read it."""
    dicts = formats.write(native(rng), format)
    for _ in range(rng.randint(1, 4)):
        dicts = bent(rng, dicts)
    try:
        read = formats.read(dicts, rng.choice((format, format, None)))
        for other in (format, rng.choice(PROVIDERS)):
            formats.write(read, other)
    except ThreadlineError:
        return None
    except Exception as error:
        return f"{error!r} for {dicts!r}"[:1_500]
    return None


def bent(rng: Random, value: Any, depth: int = 0) -> Any:
    """The same value with one place changed: dropped, doubled, swapped for garbage, moved."""
    conversation = depth == 0 and isinstance(value, list)  # stays a list
    if not conversation and (not isinstance(value, list | dict) or not value or (depth and rng.random() < 0.2)):
        return rng.choice(GARBAGE)
    if isinstance(value, list):
        items = list(value)
        at = rng.randrange(len(items) + 1)
        match rng.randrange(5):
            case 0:
                items.insert(at, rng.choice(GARBAGE))
            case 1:
                del items[at:]
            case 2:
                items.insert(at, items[at - 1] if items else {})
            case _ if items:
                items[at - 1] = bent(rng, items[at - 1], depth + 1)
        return items
    name = rng.choice(list(value))
    match rng.randrange(4):
        case 0:
            return {key: inner for key, inner in value.items() if key != name}
        case 1:
            return {**value, rng.choice(("type", "role", "content", "id", "", "extra")): rng.choice(GARBAGE)}
        case _:
            return {**value, name: bent(rng, value[name], depth + 1)}


# -- files of other tools ------------------------------------------------------------------------------


def files(folder: Path, rng: Random, format: str, unit: Unit) -> Iterator[Trial]:
    """A third of the trials cut a file off, at one byte after the other, unit by unit; the others do anything."""
    whole = sample(format)
    for n in range(unit.count):
        name = rng.choice(sorted(whole))
        content = whole[name]
        if n % 3 == 0:
            content = content[: (unit.number * unit.count + n) // 3 % (len(content) + 1)]
        else:
            content = harmed(rng, content, whole)
        shutil.rmtree(folder_of(folder, "source"))
        _put(folder / "source", whole | {name: content})
        yield Trial(brought(folder / "source", format), f"{format} files")


def harmed(rng: Random, content: bytes, others: dict[str, bytes]) -> bytes:
    at, other = rng.randrange(len(content) + 1), rng.choice(sorted(others.values()))
    match rng.randrange(6):
        case 0:
            return content[:at] + rng.choice((b"\0", b"\xff", b"{", b"}\n", b"\n\n", b'"', b"null\n")) + content[at:]
        case 1:
            start = rng.randrange(len(other) + 1)
            return content[:at] + other[start : start + rng.randrange(400)] + content[at:]
        case 2:
            return content[:at] + content[at + rng.randrange(200) :]
        case 3:
            return content[:at] + rng.randbytes(rng.randrange(1, 64)) + content[at + rng.randrange(64) :]
        case 4:
            lines = content.split(b"\n")
            rng.shuffle(lines)
            return b"\n".join(lines)
    return _bent_line(rng, content)


def _bent_line(rng: Random, content: bytes) -> bytes:
    """One line, still JSON, that says something else."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        value = json.loads(lines[at])
        lines[at] = json.dumps(bent(rng, value)).encode("utf-8", "surrogatepass")
    except (ValueError, TypeError):  # no JSON before, or garbage that JSON cannot say
        lines[at] = lines[at][::-1]
    return b"\n".join(lines)


def brought(source: Path, format: str) -> str | None:
    """What goes wrong when the source is imported into a new store."""
    before = _all_of(source)
    with threadline.open(":memory:") as store:
        try:
            report = transcripts.read(source, format, store=store)
        except ThreadlineError as error:
            report = None
            if type(error).__name__ not in REFUSALS:
                return f"refused with {error!r}"
        except Exception as error:
            return f"{error!r}"
        problems = store.verify().problems
    if problems:
        return f"verify: {problems[:3]}"
    if _all_of(source) != before:
        return "the source was changed"
    if report is not None and report.bytes_read != report.bytes_imported + report.bytes_reported:
        return f"{report.bytes_read} bytes read, {report.bytes_imported} imported, {report.bytes_reported} reported"
    named = 0 if report is None else sum(problem.length for problem in report.problems)
    if report is not None and report.bytes_reported != named:
        return f"{report.bytes_reported} bytes reported, {named} named: {report.problems}"
    return None


REFUSALS = ("InvalidArgument", "NotFound")  # nothing there is in this format any more


def _put(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _all_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# -- samples -------------------------------------------------------------------------------------------


@lru_cache
def sample(format: str) -> dict[str, bytes]:
    """A healthy source: written by ourselves where we can, else as the tool writes it. The same in every process, so
    that a trial can be played again to the byte."""
    if format in SAMPLES:
        return {name: _lines(lines) for name, lines in SAMPLES[format].items()}
    with tempfile.TemporaryDirectory() as folder, loaded_dice(), threadline.open(":memory:", clock=Clock()) as store:
        path = Path(folder) / "source" / "sample"
        path.parent.mkdir()
        transcripts.write(_memory(store) if format == "mnemo" else _session(store), path, format, raw=True)
        return _all_of(path.parent)


def _known(format: transcripts.Format) -> bool:
    """Whether there is a healthy source to begin with."""
    return format.writes or format.name in SAMPLES


def _session(store: threadline.Store) -> threadline.Session:
    session = store.session("sample", title="A sample", tags=("a",))
    session.append(Message.user("grün 😀", Media("image/png", b"\x89PNG", name="a.png")))
    session.append(Message.assistant("let me see", ToolCall("c1", "look", {"n": 1}), Reasoning("hm", "sig")))
    session.append(Message.tool("c1", "seen"))
    session.append(Message("assistant", (Text("so it is"),)))
    session.compact("in short", keep_turns=0)
    session.append("and now?")
    return session


def _memory(store: threadline.Store) -> threadline.Memory:
    memory = store.memory("sample")
    first = memory.claim("the build needs make", domain="build", session="s1", agent="a", preliminary=True, chain="way")
    second = memory.claim("tests take a minute: 60 s", session="s1", confidence=0.5, meta={"n": 1})
    memory.compress([first.addr, second.addr], "make, one minute")
    memory.supersede(second.addr, "tests take two minutes")
    return memory


def _lines(lines: list[Any]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def _text(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


_TIME = "2026-11-15T18:26:40.540327+00:00"
SAMPLES: dict[str, dict[str, list[Any]]] = {
    "mycode": {
        "sessions/ab12/meta.json": [
            {"id": "ab12", "title": "Fix bug", "cwd": "/w", "created_at": _TIME, "updated_at": _TIME,
             "provider": "anthropic", "model": "claude-x", "api_base": None, "message_format_version": 5}
        ],
        "sessions/ab12/messages.jsonl": [
            _text("user", "fix it"),
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "bash", "input": {"c": "ls"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}]},
            _text("assistant", "done"),
            {"role": "compact", "content": [{"type": "text", "text": "sum"}], "meta": {"compacted_count": 3}},
            _text("user", "more"),
            {"role": "rewind", "meta": {"rewind_to": 1, "created_at": _TIME}},
            _text("user", "else"),
        ],
    },
    "nanobot": {
        "sessions/telegram_1.jsonl": [
            {"_type": "metadata", "key": "telegram:1", "created_at": _TIME, "updated_at": _TIME,
             "metadata": {"title": "t"}, "last_consolidated": 1},
            {"role": "user", "content": "hi", "timestamp": _TIME},
            {"role": "assistant", "content": None, "timestamp": _TIME,
             "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "seen", "timestamp": _TIME},
            {"role": "assistant", "content": "so", "timestamp": _TIME},
        ],
    },
}  # fmt: skip
