"""Anthropic Messages: tool calls are `tool_use` blocks, their results `tool_result` blocks of a user message."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any

from threadline.errors import InvalidMessage
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult


def read(raw: dict[str, Any], place: str = "message") -> Message:
    content = raw.get("content")
    parts = _parts(content, f"{place}.content")
    role = raw["role"]
    if role == "user" and parts and all(type(part) is ToolResult for part in parts):
        role = "tool"
    extra = {name: value for name, value in raw.items() if name not in ("role", "content")}
    return Message(role, parts, {"extra": extra} if extra else {})


def _parts(content: Any, place: str) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        raise InvalidMessage(place, f"must be a string or a list of blocks, not {type(content).__name__}")
    return tuple(_part(block, f"{place}[{i}]") for i, block in enumerate(content))


def _part(block: Any, place: str) -> Part:
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, dict):
        raise InvalidMessage(place, f"a block is a dict, not {type(block).__name__}")
    fields = dict(block)
    kind = fields.pop("type", None)
    try:
        match kind:
            case "text":
                return Text(fields.pop("text"), fields)
            case "tool_use":
                return ToolCall(fields.pop("id"), fields.pop("name"), fields.pop("input", {}), fields)
            case "tool_result":
                return _result(fields, place)
            case "thinking":
                return Reasoning(fields.pop("thinking"), fields.pop("signature", None), None, fields)
            case "redacted_thinking":
                return Reasoning("", None, fields.pop("data"), fields)
            case "image" | "document" if (media := _media(fields)) is not None:
                return media
    except KeyError as missing:
        raise InvalidMessage(place, f"a {kind} block needs {missing.args[0]!r}") from missing
    return Other(block)


def _result(fields: dict[str, Any], place: str) -> ToolResult:
    call_id, error = fields.pop("tool_use_id"), bool(fields.pop("is_error", False))
    content = fields.pop("content", "")
    output = content if isinstance(content, str) else _parts(content, f"{place}.content")
    return ToolResult(call_id, output, error, None, fields)


def _media(fields: dict[str, Any]) -> Media | None:
    """An image or document with its bytes or its address; None for a source of a kind that we do not know."""
    source = fields.get("source")
    if not isinstance(source, dict):
        return None
    extra = {name: value for name, value in fields.items() if name not in ("source", "title")}
    mime, name = source.get("media_type", ""), fields.get("title")
    if source.get("type") == "base64":
        try:
            return Media(mime, b64decode(source.get("data", ""), validate=True), None, name, extra)
        except (NotBase64, TypeError):
            return None
    if source.get("type") == "url":
        return Media(mime, None, source.get("url"), name, extra)
    return None
