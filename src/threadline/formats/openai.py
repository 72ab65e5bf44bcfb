"""OpenAI Chat Completions: tool calls beside the content, results as messages of role `tool`."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any

from threadline.errors import InvalidMessage
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult

CONTENT_KINDS = frozenset({"image_url", "input_audio", "file", "refusal", "input_text", "output_text"})
_MODELLED = frozenset({"role", "content", "tool_calls", "tool_call_id", "reasoning_content"})


def read(raw: dict[str, Any], place: str = "message") -> Message:
    extra = {name: value for name, value in raw.items() if name not in _MODELLED}
    meta = {"extra": extra} if extra else {}
    content = _parts(raw.get("content"), f"{place}.content")
    if raw["role"] == "tool":
        return Message("tool", (_result(raw, content, place),), meta)
    reasoning = (Reasoning(raw["reasoning_content"]),) if raw.get("reasoning_content") else ()
    calls = raw.get("tool_calls") or ()
    return Message(
        raw["role"],
        (*reasoning, *content, *(_call(call, f"{place}.tool_calls[{i}]") for i, call in enumerate(calls))),
        meta,
    )


def _parts(content: Any, place: str) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        raise InvalidMessage(place, f"must be a string, a list or null, not {type(content).__name__}")
    return tuple(_part(part, f"{place}[{i}]") for i, part in enumerate(content))


def _part(part: Any, place: str) -> Part:
    if not isinstance(part, dict):
        raise InvalidMessage(place, f"a part is a dict, not {type(part).__name__}")
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return Text(part["text"], {name: value for name, value in part.items() if name not in ("type", "text")})
    if part.get("type") == "image_url" and isinstance(part.get("image_url"), dict):
        return _image(part)
    return Other(part)


def _image(part: dict[str, Any]) -> Part:
    fields = dict(part["image_url"])
    url = fields.pop("url", "")
    if not url.startswith("data:"):
        return Media("image/*", None, url, None, fields)
    head, _, data = url[5:].partition(",")
    mime, _, encoding = head.partition(";")
    try:
        return Media(mime, b64decode(data, validate=True), None, None, fields) if encoding == "base64" else Other(part)
    except NotBase64:
        return Other(part)


def _call(raw: Any, place: str) -> Part:
    function = raw.get("function") if isinstance(raw, dict) else None
    if not isinstance(function, dict):
        return Other(raw) if isinstance(raw, dict) else _refuse(place, raw)
    if not isinstance(raw.get("id"), str) or not isinstance(function.get("name"), str):
        raise InvalidMessage(place, "a tool call needs an id and a function name")
    extra = {name: value for name, value in raw.items() if name not in ("id", "type", "function")}
    return ToolCall(raw["id"], function["name"], _args(function.get("arguments", "")), extra)


def _args(arguments: Any) -> dict[str, Any] | str:
    """The arguments as an object; the raw string where it does not parse as one."""
    if isinstance(arguments, dict):
        return arguments
    try:
        parsed = json.loads(arguments)
    except (ValueError, TypeError, RecursionError):
        return str(arguments)
    return parsed if isinstance(parsed, dict) else str(arguments)


def _result(raw: dict[str, Any], content: tuple[Part, ...], place: str) -> ToolResult:
    if not isinstance(raw.get("tool_call_id"), str):
        raise InvalidMessage(f"{place}.tool_call_id", "a tool message names the call that it answers")
    text = raw.get("content")
    return ToolResult(raw["tool_call_id"], text if isinstance(text, str) else content)


def _refuse(place: str, raw: Any) -> Part:
    raise InvalidMessage(place, f"a tool call is a dict, not {type(raw).__name__}")
