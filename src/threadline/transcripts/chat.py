"""Messages as OpenAI's dicts, for tools that keep them so: whatever they are, and one dict for each result."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from threadline import InvalidMessage, Message, formats


def dicts_of(message: Message) -> list[dict[str, Any]]:
    """One dict or more. A message that no provider would take, such as a user who calls tools, is told plainly."""
    results = message.results
    if len(results) > 1 and len(results) == len(message.parts):
        return [told for result in results for told in dicts_of(replace(message, parts=(result,)))]
    try:
        told = formats.write([message], "openai")
    except InvalidMessage:
        told = []
    return [dict(each) for each in told] or [_plainly(message)]


def _plainly(message: Message) -> dict[str, Any]:
    raw = message.meta.get("openai")
    if isinstance(raw, dict) and isinstance(raw.get("raw"), dict):
        return dict(raw["raw"])
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call.args)}}
        for call in message.calls
    ]
    answered = {"tool_call_id": message.results[0].call_id} if message.results else {}
    return {"role": message.role, "content": message.text, **({"tool_calls": calls} if calls else {}), **answered}


def _arguments(args: dict[str, Any] | str) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
