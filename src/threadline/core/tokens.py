"""How many tokens a message takes, roughly.

No exact tokenizer exists offline for most models, and the model family matters as much as the method. A quarter of
the UTF-8 bytes comes close on real transcripts, and is kinder to scripts without spaces than counting characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from threadline.core import codec
from threadline.messages import Message, Other, Part, Reasoning, Text, ToolCall, ToolResult

MESSAGE_TOKENS = 4  # role and separators
MEDIA_TOKENS = 1_200  # about what providers charge for one picture


def estimate(message: Message) -> int:
    """The default for `count_tokens`."""
    count = MESSAGE_TOKENS
    for part in message.parts:
        count += estimate_text(part.text) if type(part) is Text else _part(part, estimate_text)
    return count


def count(message: Message, count_text: Callable[[str], int]) -> int:
    """The same with somebody else's count of a text."""
    return MESSAGE_TOKENS + sum(_part(part, count_text) for part in message.parts)


def estimate_text(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4


def _part(part: Part, count_text: Callable[[str], int]) -> int:
    if type(part) is ToolCall:  # no patterns: they take as long as the counting, and every append counts
        return count_text(part.id + part.name) + count_text(_json(part.args))
    if type(part) is ToolResult:
        output = part.output
        shown = count_text(output) if isinstance(output, str) else sum(_part(inner, count_text) for inner in output)
        return count_text(part.call_id) + shown
    if type(part) is Text:
        return count_text(part.text)
    if type(part) is Reasoning:
        return count_text(part.text + (part.signature or "") + (part.encrypted or ""))
    return count_text(_json(part.raw)) if type(part) is Other else MEDIA_TOKENS


def _json(value: Any) -> str:
    return codec.encode(value).decode("utf-8", "surrogatepass")
