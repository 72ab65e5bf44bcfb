"""A round is the calls of one assistant turn and their results, which most providers want right behind it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from msgspec.structs import replace

from threadline.messages import Message, Part, ToolCall, ToolResult

Place = tuple[int, int]  # the n-th message, the m-th part of it


def settled(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with each result right behind the assistant turn that called for it.

    The same list where that is so already, as in any conversation that its own provider accepts."""
    return messages if _in_place(messages) else _gathered(messages)


def _in_place(messages: Sequence[Message]) -> bool:
    open_calls: set[str] = set()
    for message in messages:
        if message.role == "assistant":
            if open_calls:
                return False
            open_calls = {part.id for part in message.parts if type(part) is ToolCall}
        else:
            answers = {part.call_id for part in message.parts if type(part) is ToolResult}
            if (open_calls and not answers) or answers - open_calls:
                return False
            open_calls -= answers
    return True


def _gathered(messages: Sequence[Message]) -> list[Message]:
    """Assistant messages with open calls become one, and the first result of each call follows; the rest stays."""
    waiting = _results_of(messages)
    moved: set[Place] = set()
    out: list[Message] = []
    at = 0
    while at < len(messages):
        message = _rest(messages[at], at, moved)
        at += 1
        if message.role == "assistant" and message.calls:
            while at < len(messages) and messages[at].role == "assistant":
                message = replace(message, parts=message.parts + messages[at].parts)
                at += 1
            out += [message, *_answers(message, at, messages, waiting, moved)]
        elif message.parts or message is messages[at - 1]:
            out.append(message)
    return out


def _results_of(messages: Sequence[Message]) -> dict[str, deque[Place]]:
    """Where the results for each call stand."""
    waiting: dict[str, deque[Place]] = defaultdict(deque)
    for at, message in enumerate(messages):
        for nth, part in enumerate(message.parts):
            if type(part) is ToolResult:
                waiting[part.call_id].append((at, nth))
    return waiting


def _rest(message: Message, at: int, moved: set[Place]) -> Message:
    parts = tuple(part for nth, part in enumerate(message.parts) if (at, nth) not in moved)
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)


def _answers(
    message: Message,
    since: int,
    messages: Sequence[Message],
    waiting: dict[str, deque[Place]],
    moved: set[Place],
) -> list[Message]:
    """The results of a message's calls, from wherever they stand behind it, in the order they stand there."""
    found: dict[int, list[Part]] = defaultdict(list)
    places = sorted(place for call in message.calls if (place := _first(waiting[call.id], since)))
    for at, nth in places:
        moved.add((at, nth))
        found[at].append(messages[at].parts[nth])
    return [
        messages[at] if len(parts) == len(messages[at].parts) else Message("tool", tuple(parts))
        for at, parts in found.items()
    ]


def _first(places: deque[Place], since: int) -> Place | None:
    while places and places[0][0] < since:
        places.popleft()
    return places.popleft() if places else None


def joined(messages: Sequence[Message]) -> list[Message]:
    """Neighbours that carry results as one message, results first: what answers one turn is one turn."""
    out: list[Message] = []
    carrying = False
    for message in messages:
        before, carrying = carrying, message.role != "assistant" and _carries(message)
        if before and carrying:
            out[-1] = _one(out[-1], message)
        else:
            out.append(message)
    return out


def _carries(message: Message) -> bool:
    return any(type(part) is ToolResult for part in message.parts)


def _one(first: Message, second: Message) -> Message:
    parts = first.parts + second.parts
    results = tuple(part for part in parts if type(part) is ToolResult)
    others = tuple(part for part in parts if type(part) is not ToolResult)
    return Message("user" if others else "tool", results + others, _plain_meta(first.meta))


def _plain_meta(meta: dict[str, object]) -> dict[str, object]:
    """Without what was kept of single dicts: two messages in one are neither."""
    return {name: value for name, value in meta.items() if not isinstance(value, dict)}
