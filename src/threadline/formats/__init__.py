"""Providers' message shapes, read into ours: `threadline`, `anthropic` and `openai` (chat) dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from threadline.core.codec import message_of
from threadline.errors import InvalidMessage
from threadline.formats import anthropic, openai
from threadline.messages import Message

READERS: dict[str, Callable[[dict[str, Any], str], Message]] = {
    "threadline": message_of,
    "anthropic": anthropic.read,
    "openai": openai.read,
}


def read(dicts: Iterable[dict[str, Any]], format: str | None = None) -> list[Message]:
    """Messages from dicts in one of the formats; None guesses for each."""
    return [read_one(raw, format, f"messages[{i}]") for i, raw in enumerate(dicts)]


def read_one(raw: Any, format: str | None = None, place: str = "message") -> Message:
    if not isinstance(raw, dict):
        raise InvalidMessage(place, f"a message is a Message, a dict or a string, not {type(raw).__name__}")
    if not isinstance(raw.get("role"), str) or not raw["role"]:
        raise InvalidMessage(f"{place}.role", "must be a non-empty string")
    name = format or guess(raw)
    if name not in READERS:
        raise InvalidMessage(place, f"unknown format {name!r}: use one of {', '.join(READERS)}")
    return READERS[name](raw, place)


def guess(raw: dict[str, Any]) -> str:
    """The format of one message, told by the names that only one provider uses."""
    if "parts" in raw or not raw.keys() & (_OPENAI_NAMES | {"content"}):
        return "threadline"
    if raw["role"] in ("tool", "function", "developer") or raw.keys() & _OPENAI_NAMES:
        return "openai"
    content = raw.get("content")
    blocks = content if isinstance(content, list) else ()
    kinds = {block.get("type") for block in blocks if isinstance(block, dict)}
    return "openai" if kinds & openai.CONTENT_KINDS else "anthropic"


_OPENAI_NAMES = frozenset({"tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content", "name"})
