"""What a memory tells: nodes by address, by provenance and in order; chains, events, working memories.

Each is a function whose last argument is the shelf, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from threadline.core import codec
from threadline.core.entries import moment, stored, text, text_or_none
from threadline.memory import adoption, rendering
from threadline.memory.adoption import Working
from threadline.memory.chains import Chain, chain_of
from threadline.memory.desk import Desk
from threadline.memory.nodes import Node, in_domain, is_live, node_of
from threadline.memory.rows import LASTING, Change, EventRow, NodeRow, Shelf, split_addrs

T = TypeVar("T")

EVENTS_END = 2**62


class MemoryEvent(Struct, frozen=True):
    """Something that was done in a memory."""

    at: datetime
    what: str
    session: str | None
    agent: str | None
    addrs: tuple[str, ...]
    detail: dict[str, Any]


def answer(read: Callable[..., T], arguments: tuple[Any, ...], shelf: Shelf) -> tuple[list[Change], T]:
    """A deed that only reads."""
    return [], read(*arguments, shelf)


def node(addr: Any, shelf: Shelf) -> Node:
    return node_of(Desk(shelf, 0).reach(addr))


def active(scopes: tuple[bytes, ...], domain: str | None, now: int, shelf: Shelf) -> list[Node]:
    found: dict[bytes, NodeRow] = {}
    for scope in (LASTING, *scopes):
        for row in shelf.nodes_in(scope, active=True):
            if row.promoted_at is None and is_live(row, now) and in_domain(row, domain):
                found.setdefault(row.addr, row)
    return [node_of(row) for row in found.values()]


def provenance(addr: Any, shelf: Shelf) -> list[Node]:
    desk = Desk(shelf, 0)
    first = desk.reach(addr)
    found = {first.addr: first}
    for row in (line := [first]):  # grows while it is walked
        for above in split_addrs(row.inputs):
            known = desk.node(row.scope, above) or desk.node(LASTING, above)
            if known is not None and above not in found:
                found[above] = known
                line.append(known)
    return [node_of(row) for row in found.values()]


def descendants(addr: Any, shelf: Shelf) -> list[Node]:
    first = Desk(shelf, 0).reach(addr)
    found: dict[bytes, NodeRow] = {}
    line = [first.addr]
    for above in line:  # grows while it is walked
        for row in shelf.consumers(above):
            if row.addr not in found and row.addr != first.addr:
                found[row.addr] = row
                line.append(row.addr)
    return [node_of(row) for row in found.values()]


def nodes(scope: bytes, shelf: Shelf) -> list[Node]:
    return [node_of(row) for row in shelf.nodes_in(scope, active=False)]


def workings(shelf: Shelf) -> list[Working]:
    return [adoption.working_of(row) for row in shelf.workings()]


def roots(shelf: Shelf) -> list[Node]:
    return [node_of(row) for row in shelf.origins()]


def chain(name: str, scopes: tuple[bytes, ...] | None, shelf: Shelf) -> Chain:
    return chain_of(Desk(shelf, 0).find_chain(name, scopes))


def chains(status: str | None, session: str | None, agent: str | None, shelf: Shelf) -> list[Chain]:
    return [
        chain_of(row)
        for row in shelf.chains()
        if status in (None, text(row.status))
        and (session is None or row.session == stored(session))
        and (agent is None or row.agent == stored(agent))
    ]


def events(limit: int, shelf: Shelf) -> list[MemoryEvent]:
    return [_event(row) for row in shelf.events(EVENTS_END, limit)]


def _event(row: EventRow) -> MemoryEvent:
    return MemoryEvent(
        moment(row.number),
        text(row.what),
        text_or_none(row.session),
        text_or_none(row.agent),
        tuple(addr.hex() for addr in split_addrs(row.addrs)),
        codec.decode(row.detail),
    )


def profile(now: int, shelf: Shelf) -> list[NodeRow]:
    """What the global memory knows of the user."""
    rows = shelf.nodes_in(LASTING, active=True)
    known = (any(in_domain(row, domain) for domain in rendering.PROFILE_DOMAINS) for row in rows)
    return [row for row, is_profile in zip(rows, known, strict=True) if is_profile and is_live(row, now)]
