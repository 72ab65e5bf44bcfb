"""What can be found of an entry: all text that somebody said, thought, asked a tool for or got from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from threadline.core import codec
from threadline.core.entries import Row
from threadline.core.words import clipped
from threadline.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult

SUMMARY, NOTE, GOAL, TITLE = "summary", "note", "goal", "title"
TEXTS = {"compaction": SUMMARY, "note": NOTE, "goal": GOAL}  # what is no message, and whose role it has in a hit

DEPTH_MAX = 32  # of a value whose strings are looked for


class Findable(NamedTuple):
    role: str
    text: str


def findable(row: Row) -> Findable | None:
    """Who said what in an entry; None where there is nothing to find. Raises Damaged or ValueError for what cannot be
    read."""
    if row.kind == "message":
        message = codec.decode_message(row.body)
        return _found(message.role, "\n".join(filter(None, texts_of(message))))
    role = TEXTS.get(row.kind)
    if role is None:
        return None
    data = codec.decode(row.body)
    told = data.get("summary") if role == SUMMARY else data
    return _found(role, "\n".join(_strings(told)))


def _found(role: str, text: str) -> Findable | None:
    return Findable(role, clipped(text)) if text and not text.isspace() else None


def texts_of(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield from _texts(part)


def _texts(part: Part) -> Iterator[str]:
    match part:
        case Text(text) | Reasoning(text):
            yield text
        case ToolCall(_, name, args):
            yield name
            yield from _strings(args)
        case ToolResult(_, output, _, display):
            if isinstance(output, str):
                yield output
            else:
                for inner in output:
                    yield from _texts(inner)
            if display is not None and display != output:
                yield display
        case Media(_, _, uri, name):
            yield name or ""
            if uri and not uri.startswith("data:"):
                yield uri
        case _:
            yield from _strings({name: value for name, value in part.raw.items() if name != "type"})


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """The strings of a JSON value; of an object its names, too."""
    if isinstance(value, str):
        yield value
    elif depth > DEPTH_MAX:
        return
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _strings(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner, depth + 1)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
