"""The shapes in which providers carry messages, read into ours and written again.

`threadline` (our own), `anthropic` (Messages), `openai` (Chat Completions), `responses` (OpenAI's items) and `gemini`
(contents). Writing what was read gives the same dicts. Writing for another provider gives what that one accepts:
names made valid, results where it wants them, and without what only the first one understands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from threadline.core.models import Model, name_of, plain
from threadline.errors import InvalidArgument, InvalidMessage
from threadline.formats import leftovers
from threadline.formats.loading import FORMATS as FORMATS
from threadline.formats.loading import THREADLINE, check_format, format_of
from threadline.messages import Message, ToolCall, ToolResult


def read(dicts: Iterable[dict[str, Any] | Model], format: str | None = None) -> list[Message]:
    """Messages from dicts in one of the formats, one of each; None guesses for each.

    Objects of the providers' SDKs are read as the dicts that they carry. Raises InvalidMessage, naming the place,
    for what is no message in that format."""
    if isinstance(dicts, str | bytes | dict) or not isinstance(dicts, Iterable):
        raise InvalidMessage("messages", f"must be a list of dicts, not {type(dicts).__name__}")
    if format is not None:
        check_format(format)
    given = list(dicts) if format else plain(list(dicts))  # what is asked for needs no guess
    names = _guesses(given) if format is None else [format] * len(given)
    return [read_one(raw, name, f"messages[{i}]") for i, (raw, name) in enumerate(zip(given, names, strict=True))]


def read_one(raw: Any, format: str | None = None, place: str = "message") -> Message:
    """One message from a dict in one of the formats, or from an object of an SDK; None guesses."""
    if format is not None:
        check_format(format)
    try:
        return _read_any(raw, format, place)
    except RecursionError as error:
        raise InvalidMessage(place, "is nested too deep") from error


def _read_any(raw: Any, format: str | None, place: str) -> Message:
    try:
        return _read_one(raw, format, place)
    except InvalidMessage as error:
        if (made := plain(raw)) is raw:  # asked late: nearly all are plain, and it takes a walk to know
            raise
        refused = error
    try:
        return _read_one(made, format, place)
    except InvalidMessage as error:
        raise InvalidMessage(place, f"{refused.why}, and within: {error}") from error


def _read_one(raw: Any, format: str | None, place: str) -> Message:
    if not isinstance(raw, dict):
        raise InvalidMessage(place, f"a message is a Message of threadline, a dict or a string, not {name_of(raw)}")
    name = format or guess(raw, otherwise="")
    if not name and not isinstance(raw.get("role"), str):
        raise InvalidMessage(place, f"a message is a dict with a role and content{_hint(raw)}")
    message: Message = format_of(name or PLAIN).read(raw, place)
    return message


def _hint(raw: dict[str, Any]) -> str:
    """What to store of a whole response, or of something else that is not a message."""
    for name, where in _WITHIN.items():
        if isinstance(raw.get(name), list):
            return f": store {where} of this response"
    if isinstance(kind := raw.get("type"), str):
        return f", not only a type: an item of OpenAI Responses of the new kind {kind!r} needs format='responses'"
    return ""


_WITHIN = {
    "choices": "choices[0].message",
    "candidates": "candidates[0].content",
    "output": "each item of output (extend takes them all)",
}


def write(messages: Iterable[Message], format: str) -> list[dict[str, Any]]:
    """The messages as dicts of a format, ready to send.

    What was read from that format comes out as it went in, and a conversation that is legal in any format is legal
    in this one. Hidden messages are never written, nor are reasoning and parts of unknown kind that another provider
    made. Repairs nothing: a call without its result is written without it."""
    target = format_of(format)
    if isinstance(messages, Message) or not isinstance(messages, Iterable):
        raise InvalidArgument(f"messages is a list of Message, not {type(messages).__name__}")
    sent = [_checked(message, i) for i, message in enumerate(messages) if not _hidden(message)]
    if format != THREADLINE:
        sent = [leftovers.without_foreign(message, format)[0] for message in sent]
    written: list[dict[str, Any]] = target.write(sent, target.names())
    return written


def problems(dicts: Sequence[Any], format: str) -> list[str]:
    """Why a provider would refuse this conversation, in words, each with its place. Empty: it is legal."""
    found: list[str] = format_of(format).problems(dicts)
    return found


def without_foreign(message: Message, format: str) -> tuple[Message, list[str]]:
    """The message with only what a format's provider understands, and what was left out, in words."""
    return (message, []) if check_format(format) == THREADLINE else leftovers.without_foreign(message, format)


PLAIN = "openai"  # a role and a text look the same to everybody: the format that most tools speak


def guess(raw: dict[str, Any], otherwise: str = PLAIN) -> str:
    """The format of one message, told by the names that only one provider uses; `otherwise` where there are none."""
    return _told(raw) or otherwise


def _guesses(dicts: Sequence[Any]) -> list[str]:
    """A guess for each: what could be several providers' is taken for the one that most of the others are."""
    told = [_told(raw) if isinstance(raw, dict) else None for raw in dicts]
    usual = Counter(filter(None, told)).most_common(1)
    return [name or (usual[0][0] if usual else PLAIN) for name in told]


def _told(raw: dict[str, Any]) -> str | None:
    role, content = raw.get("role"), raw.get("content")
    if "parts" in raw:
        return "gemini" if _is_gemini(raw) else "threadline"
    if not isinstance(role, str):
        return "responses" if format_of("responses").is_item(raw.get("type")) else None
    if raw.get("type") == "message":
        return "anthropic" if "stop_reason" in raw or "model" in raw else "responses"
    if raw.keys() & _OPENAI_NAMES or role in ("tool", "function"):
        return "openai"
    kinds = {kind for block in content if (kind := _kind(block))} - {"text"} if isinstance(content, list) else set()
    if not kinds:
        if isinstance(content, list) and any(isinstance(block, dict) and "cache_control" in block for block in content):
            return "anthropic"
        return None if "content" in raw else "threadline"
    if kinds & format_of("responses").CONTENT_KINDS:
        return "responses"
    return "openai" if kinds & format_of("openai").CONTENT_KINDS else "anthropic"


_OPENAI_NAMES = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content", "name", "audio", "annotations"}
)


def _kind(block: Any) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


def _is_gemini(raw: dict[str, Any]) -> bool:
    """Gemini's parts have no type: what they are is the name of a field."""
    parts = raw["parts"]
    typed = isinstance(parts, list) and any(not isinstance(part, dict) or "type" in part for part in parts)
    return raw.get("role") == "model" or (bool(parts) and not typed and "meta" not in raw)


def _hidden(message: Any) -> bool:
    return type(message) is Message and bool(message.meta) and bool(message.meta.get("hidden"))


def _checked(message: Any, at: int) -> Message:
    """A message that some provider can express: calls are an assistant's, results are not."""
    if type(message) is not Message:
        raise InvalidMessage(f"messages[{at}]", f"is not a Message but {type(message).__name__}")
    assistant = message.role == "assistant"
    for part in message.parts:
        if type(part) is ToolCall and not assistant:
            raise InvalidMessage(f"messages[{at}]", f"only an assistant calls tools, not the role {message.role!r}")
        if type(part) is ToolResult and assistant:
            raise InvalidMessage(f"messages[{at}]", "an assistant cannot answer its own calls: a tool or user does")
    return message
