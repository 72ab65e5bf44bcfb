"""The gist of a message: what a context must know of it to choose turns and to tell whether anything must be mended.

A gist is a pure function of the message. So it may be kept beside a row that is remembered, where the message itself
may not: that holds dicts which a caller may change."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from threadline.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult

ROLES = frozenset({"system", "user", "assistant", "tool"})

# Who may not say what: an assistant has no results, and only an assistant thinks and calls.
NOT_ASSISTANT, NOT_OTHERS = frozenset({ToolResult}), frozenset({ToolCall, Reasoning})


class Gist(Struct, frozen=True, gc=False):
    """`asks` if a user says something; `delivers` if the assistant spoke of its own accord; `sound` if a context sends
    the message as it is; `calls` and `results` are the ids of its calls and of what its results answer, in their
    order; `besides` if it has parts that are neither."""

    role: str
    asks: bool = False
    delivers: bool = False
    sound: bool = True
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    besides: bool = True


QUESTION, ANSWER = Gist("user", asks=True), Gist("assistant")  # what most messages are


def gist_of(message: Message) -> Gist:
    if len(message.parts) == 1 and not message.meta and (simple := _simple(message.role, message.parts[0])) is not None:
        return simple
    calls = tuple([part.id for part in message.parts if type(part) is ToolCall])
    results = tuple([part.call_id for part in message.parts if type(part) is ToolResult])
    return Gist(
        message.role,
        asks(message),
        message.role == "assistant" and not calls and not results and bool(message.meta.get("proactive")),
        is_clean(message) and sanitised(message) is message,
        calls,
        results,
        len(calls) + len(results) < len(message.parts),
    )


def _simple(role: str, part: Part) -> Gist | None:
    """The gist of what nearly all messages are; None for everything else."""
    if type(part) is Text:
        if part.text and not part.text.isspace():
            if role == "user":
                return QUESTION
            if role == "assistant" and "[" not in part.text:
                return ANSWER
    elif type(part) is ToolResult and role == "tool" and type(part.output) is str:
        return Gist("tool", results=(part.call_id,), besides=False)
    return None


def asks(message: Message) -> bool:
    """Whether a user says something here; blanks are no turn, because no context would tell them."""
    return message.role == "user" and any(
        type(part) is not ToolResult and not is_silent(part) for part in message.parts
    )


def is_clean(message: Message) -> bool:
    """Whether its role is known, and may say all that it says, and nothing of it is blank."""
    role, parts = message.role, message.parts
    alien = NOT_ASSISTANT if role == "assistant" else NOT_OTHERS
    for part in parts:
        kind = type(part)
        if kind is Text:
            if is_blank(part):
                return False
        elif kind in alien or (kind is ToolResult and not is_clean_result(part)):
            return False
    return bool(parts) and role in ROLES and (role != "tool" or all(type(part) is ToolResult for part in parts))


def is_clean_result(part: Part) -> bool:
    return type(part) is not ToolResult or isinstance(part.output, str) or not any(map(is_blank, part.output))


def is_blank(part: Part) -> bool:
    """Whether a part is text that says nothing and carries nothing: several providers refuse it."""
    return type(part) is Text and not part.extra and (not part.text or part.text.isspace())


def is_silent(part: Part) -> bool:
    """Whether a part is text, or a thought, that says nothing; it may still carry a provider's signature."""
    return (type(part) is Text or type(part) is Reasoning) and (not part.text or part.text.isspace())


# -- what an assistant copies --------------------------------------------------------------------------

# Compiled by `re` when they are first needed, and kept there: most assistants copy nothing.
_STAMP = r"\A\s*\[(?:Message Time: [^\]\n]*|\d{4}-\d\d-\d\d \d\d:\d\d UTC)\]\s*"
_CRUMB = r"(?m)^[ \t]*\[(?:image|audio|video|file): [^\]\n]*\][ \t]*(?:\n|\Z)"


def sanitised(message: Message) -> Message:
    """An assistant's message without stamps and breadcrumbs that it copied: it would go on writing them."""
    if message.role != "assistant" or not [part for part in message.parts if type(part) is Text and "[" in part.text]:
        return message
    parts = tuple(_without_artefacts(part) if type(part) is Text else part for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _without_artefacts(part: Text) -> Text:
    text = re.sub(_CRUMB, "", re.sub(_STAMP, "", part.text))
    return part if text == part.text else replace(part, text=text)
