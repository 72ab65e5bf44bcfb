"""A memory looked at as a whole: every row against its seal, every address against what it names, every index against
what it says. Rows come as they are stored; what is wrong comes out in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from threadline.core import codec
from threadline.core.digest import seal
from threadline.core.entries import text, text_or_none
from threadline.memory.nodes import address
from threadline.memory.rows import (
    LASTING,
    ChainRow,
    EventRow,
    NodeRow,
    Place,
    WorkingRow,
    split_addrs,
    total_of,
    working_scope,
)

# What a row that is not what was written may make reading it raise.
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)


class Audit:
    """One memory. Give it all rows, then ask for what only all of them together tell."""

    def __init__(self, tree: bytes, place: Place) -> None:
        self._tree = tree
        self._place = place
        self._inputs: set[tuple[bytes, bytes, bytes]] = set()
        self._members: set[tuple[bytes, bytes]] = set()
        self._scopes: set[bytes] = set()
        self._used: set[bytes] = set()
        self._marks: list[bytes] = []

    def memory(self, row: tuple[Any, ...], mark: bytes) -> Iterator[str]:
        if seal(*row) != mark or self._place.tree != self._tree:
            yield "its row does not match its seal"

    def node(self, row: NodeRow, mark: bytes) -> Iterator[str]:
        self._marks.append(mark)
        try:
            yield from self._node(row, mark)
        except UNREADABLE as error:
            yield f"a node cannot be read: {error}"

    def _node(self, row: NodeRow, mark: bytes) -> Iterator[str]:
        name = f"node {row.addr.hex()[:12]}"
        if seal(self._tree, *row) != mark:
            yield f"{name} does not match its seal"
        if address(text(row.type), text(row.content), split_addrs(row.inputs)) != row.addr:
            yield f"{name} is not what its address names"
        codec.decode(row.about)
        self._inputs |= {(row.scope, row.addr, addr) for addr in split_addrs(row.inputs)}
        self._used.add(row.scope)

    def chain(self, row: ChainRow, mark: bytes) -> Iterator[str]:
        try:
            if seal(self._tree, *row) != mark:
                yield f"chain {text(row.chain)} does not match its seal"
            codec.decode(row.about)
            self._members |= {(row.chain, addr) for addr in split_addrs(row.members)}
            self._used.add(row.scope)
        except UNREADABLE as error:
            yield f"a chain cannot be read: {error}"

    def working(self, row: WorkingRow, mark: bytes) -> Iterator[str]:
        try:
            self._scopes.add(row.scope)
            whose = f"the working memory of session {text(row.session)!r}"
            if seal(self._tree, *row) != mark:
                yield f"{whose} does not match its seal"
            if working_scope(text(row.session), text_or_none(row.agent)) != row.scope:
                yield f"{whose} is not where it belongs"
        except UNREADABLE as error:
            yield f"a working memory cannot be read: {error}"

    def event(self, row: EventRow, mark: bytes) -> Iterator[str]:
        try:
            if seal(self._tree, *row) != mark:
                yield f"event {row.number} does not match its seal"
            codec.decode(row.detail)
        except UNREADABLE as error:
            yield f"an event cannot be read: {error}"

    def together(
        self, inputs: Iterable[tuple[bytes, bytes, bytes]], members: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[str]:
        if {*inputs} != self._inputs:
            yield "the index of what nodes were made of is not what they say"
        if {*members} != self._members:
            yield "the index of which chains hold a node is not what they say"
        for scope in self._used - self._scopes - {LASTING}:
            yield f"nodes or chains belong to no working memory ({scope.hex()[:12]})"

    def count(self, nodes: int, total: int) -> Iterator[str]:
        """What is kept of all nodes together, changed by whoever writes one: it tells which rows there should be."""
        if nodes != len(self._marks):
            yield f"{len(self._marks)} nodes are there, {nodes} were written"
        elif total != total_of(self._marks):
            yield "one of its nodes is not what was written last"


def named(place: Place) -> str:
    return "the global memory" if place.project is None else f"the memory of {place.project!r}"
