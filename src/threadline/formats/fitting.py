"""Fitting a legal conversation to one provider, before it is written: what only another one understands, or what this
one refuses wherever it stands, is left out or put otherwise, and said in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from threadline.core.gists import is_silent
from threadline.core.legal import Mended, Said, opened
from threadline.formats import attachments, leftovers
from threadline.formats.arguments import as_object
from threadline.formats.leftovers import Dict, kind_of, noted
from threadline.formats.loading import ANTHROPIC, GEMINI, RESPONSES, format_of
from threadline.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult

_THINKS_AHEAD = (ANTHROPIC, RESPONSES)  # refuse reasoning that leads to nothing
_FREEFORM = frozenset({"custom", "custom_tool_call"})  # kinds of calls whose arguments are text, not JSON


def fit(said: Sequence[Said], format: str) -> Mended:
    """What was said as a provider takes it, and what had to be changed for that."""
    out: list[Said] = []
    repairs: list[str] = []
    for each in reversed(said):  # what comes behind a thought decides whether it led to something
        if _is_for_anyone(each.message):
            out.append(each)
            continue
        message, words = _fitted(each.message, format, leads_on=bool(out) and out[-1].message.role == "assistant")
        repairs += [f"entry {each.seq}: {what}" for what in reversed(words)]
        if message is each.message:
            out.append(each)
        elif message.parts:
            out.append(Said(each.seq, message))
        elif not words:
            repairs.append(f"entry {each.seq}: an empty message left out")
    told = repairs[::-1]
    return Mended(opened(out[::-1], told), told)  # the user's first words may have been nothing to this provider


def written(said: Sequence[Said], format: str) -> tuple[list[Dict], list[str]]:
    """What was fitted, as dicts that the provider accepts whatever they were made of."""
    target = format_of(format)
    dicts = target.in_turn(target.write([each.message for each in said], target.names()))
    found = target.problems(dicts)
    if not found:
        return dicts, []
    dicts = target.in_turn(target.write([each.message for each in plain(said)], target.names()))
    return dicts, [f"sent as plain text, calls and results, because {what}" for what in found[:1]]


def _is_for_anyone(message: Message) -> bool:
    """Whether every provider takes a message as it is, wherever it stands: one text, or results in text, mostly."""
    role, parts = message.role, message.parts
    if role == "tool":
        return not [part for part in parts if type(part) is not ToolResult or type(part.output) is not str]
    if len(parts) != 1 or (role != "user" and role != "assistant"):
        return False
    (part,) = parts
    return type(part) is Text and bool(part.text) and not part.text[-1].isspace()


def _fitted(message: Message, format: str, *, leads_on: bool) -> tuple[Message, list[str]]:
    message, words = leftovers.without_foreign(message, format)
    if any(_is_silent(part, format) for part in message.parts):  # first: a thought before a blank leads to nothing
        message = replace(message, parts=tuple(part for part in message.parts if not _is_silent(part, format)))
    if message.role == "assistant":
        message = _speaking(message, format, leads_on, words)
    if message.role == "system" and format in (ANTHROPIC, GEMINI):
        message = replace(message, role="user", meta={})  # there, it could stand only by what comes behind it
    return message, words


def _is_silent(part: Part, format: str) -> bool:
    """Whether a part is blank text that its provider refuses; Gemini signs some."""
    if type(part) is not Text or not is_silent(part):
        return False
    return format != GEMINI or noted(part, format, "thoughtSignature") is None


def _speaking(message: Message, format: str, leads_on: bool, words: list[str]) -> Message:
    """An assistant's message with arguments that are objects, and thoughts that lead somewhere."""
    parts = tuple(_with_object(part, format, words) for part in message.parts)
    if format in _THINKS_AHEAD and any(type(part) is Reasoning for part in parts):
        parts = tuple(_leading_thoughts(parts, format, leads_on, words))
    if format == ANTHROPIC and not leads_on:
        parts = _without_last_blanks(parts)
    return (
        message if all(map(_same, parts, message.parts)) and len(parts) == len(message.parts) else _new(message, parts)
    )


def _same(one: Part, other: Part) -> bool:
    return one is other


def _new(message: Message, parts: tuple[Part, ...]) -> Message:
    return replace(message, parts=parts)


def _with_object(part: Part, format: str, words: list[str]) -> Part:
    if type(part) is not ToolCall or isinstance(part.args, dict) or kind_of(part, format) in _FREEFORM:
        return part
    if part.extra.get("kind") not in _FREEFORM:
        words.append(f"the arguments of the call {part.id!r} are no JSON object; sent as its input")
    extra = {name: value for name, value in part.extra.items() if name not in ("arguments", "kind")}
    return replace(part, args=as_object(part.args), extra=extra)


def _leading_thoughts(parts: tuple[Part, ...], format: str, leads_on: bool, words: list[str]) -> Iterator[Part]:
    """Thoughts only before what they led to; where the provider signs them, only signed ones, and before any call."""
    last = max((at for at, part in enumerate(parts) if type(part) is not Reasoning), default=-1)
    called = False
    for at, part in enumerate(parts):
        called = called or type(part) is ToolCall
        if type(part) is not Reasoning:
            yield part
        elif at > last and not leads_on:
            words.append("reasoning that led to nothing left out")
        elif format == ANTHROPIC and (called or (part.signature is None and part.encrypted is None)):
            words.append("reasoning behind a call left out" if called else "unsigned reasoning left out")
        else:
            yield part


def _without_last_blanks(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Without the blanks at the end: a final assistant message must not end with any."""
    last = parts[-1] if parts else None
    if type(last) is not Text or last.text == last.text.rstrip():
        return parts
    return (*parts[:-1], replace(last, text=last.text.rstrip()))


def plain(said: Sequence[Said]) -> list[Said]:
    """The same conversation in nothing but text, calls and results: what every provider takes from anyone."""
    out = []
    for seq, message in said:
        parts = tuple(plainer for part in message.parts if (plainer := _plain(part)) is not None)
        if parts:
            out.append(Said(seq, Message(message.role, parts)))
    return out


def _plain(part: Part) -> Part | None:
    match part:
        case Text(text):
            return Text(text) if text.strip() else None
        case ToolCall(id, name, args):
            return ToolCall(id, name, as_object(args))
        case ToolResult(call_id, output, error):
            return ToolResult(call_id, attachments.readable(output), error)
        case Media():
            return Text(attachments.breadcrumb(part))
    return None
