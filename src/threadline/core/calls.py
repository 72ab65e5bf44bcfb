"""Open tool calls, as a stack that never forgets.

Each entry points at the node that was the top of the stack right after it. A node holds a few calls and points
at the node below. Nothing is ever changed in place, so "which calls were open after entry n" is one pointer,
for any n: a rewind or a fork costs the same however long the history is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct

from threadline.core import codec
from threadline.errors import Damaged
from threadline.messages import ToolCall, ToolResult


class OpenCall(Struct, frozen=True, array_like=True):
    """A call without a result: the entry that made it, its id, and the entry that started it (0: not started)."""

    seq: int
    id: str
    started: int = 0


class Node(Struct, frozen=True, array_like=True):
    """One node of the stack: `pending` calls are open in it and below it together."""

    pending: int
    calls: tuple[OpenCall, ...]
    below: int


class Top(NamedTuple):
    """The stack after an entry: where its top is, the node to store with that entry, and how many calls are open."""

    open: int
    node: Node | None
    pending: int


Nodes = Callable[[int], Node]  # the node stored with an entry


def encode(node: Node) -> bytes:
    return codec.encode(node)


def decode(body: bytes) -> Node:
    try:
        return _decode(body)
    except (*codec.NOT_QUICKLY, TypeError):  # an id with a lone surrogate, or damage
        return _decode_slowly(body)


def _decode_slowly(body: bytes) -> Node:
    try:
        return msgspec.convert(codec.decode(body), Node)
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(None, None, f"the open calls cannot be read: {error}") from error


_decode = msgspec.json.Decoder(Node).decode


def after(top: int, seq: int, parts: Iterable[ToolCall | ToolResult], nodes: Nodes) -> Top:
    """The stack after entry `seq` said `parts`: calls are pushed, a result closes the latest call of its id."""
    stack = _Stack(top, nodes)
    for part in parts:
        if isinstance(part, ToolCall):
            stack.push(OpenCall(seq, part.id))
        else:
            stack.replace(part.call_id, None)
    return stack.top(seq)


def started(top: int, seq: int, call_id: str, nodes: Nodes) -> Top:
    """The stack after entry `seq` said that a call began."""
    stack = _Stack(top, nodes)
    stack.replace(call_id, seq)
    return stack.top(seq)


def anew(seq: int, said: Iterable[tuple[int, ToolCall | ToolResult]], marks: dict[tuple[int, str], int]) -> Top:
    """The stack of a whole view, read from its beginning; `marks` are the calls that are known to have started."""
    stack = _Stack(0, _nothing_below)
    for place, part in said:
        if isinstance(part, ToolCall):
            stack.push(OpenCall(place, part.id, marks.get((place, part.id), 0)))
        else:
            stack.replace(part.call_id, None)
    return stack.top(seq)


def _nothing_below(seq: int) -> Node:
    raise AssertionError(f"the stack of a whole view stands on nothing, not on entry {seq}")


def walk(top: int, nodes: Nodes) -> Iterator[OpenCall]:
    """The open calls, latest first."""
    while top:
        node = nodes(top)
        yield from reversed(node.calls)
        top = node.below


class _Stack:
    """The stack while one entry works on it: the calls on top that were looked at, and the node below them."""

    def __init__(self, top: int, nodes: Nodes) -> None:
        self._nodes = nodes
        self._was = top
        self._below = top
        self._calls: list[OpenCall] = []
        self._changed = False

    def push(self, call: OpenCall) -> None:
        self._calls.append(call)
        self._changed = True

    def replace(self, call_id: str, started: int | None) -> None:
        """Close the latest call of that id (`started` None), or mark it as started. An unknown id changes nothing."""
        calls, below, i = self._calls, self._below, len(self._calls)
        while True:
            i = next((j for j in range(i - 1, -1, -1) if calls[j].id == call_id), -1)
            if i >= 0 or not below:
                break
            node = self._nodes(below)
            calls, below, i = [*node.calls, *calls], node.below, len(node.calls)
        if i < 0:
            return
        found = calls[i]
        calls[i : i + 1] = [] if started is None else [OpenCall(found.seq, found.id, started)]
        self._calls, self._below, self._changed = calls, below, True

    def top(self, seq: int) -> Top:
        beneath = self._nodes(self._below).pending if self._below else 0
        pending = beneath + len(self._calls)
        if not self._changed:
            return Top(self._was, None, pending)
        if not self._calls:
            return Top(self._below, None, pending)
        return Top(seq, Node(pending, tuple(self._calls), self._below), pending)
