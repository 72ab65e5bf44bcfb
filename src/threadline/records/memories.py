"""Working memory as records: nodes, chains, the lives of working memories, and what was done.

A node is addressed by its content. One in which a secret was masked has another address, and so have all that were made
of it; chains and events name the new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from msgspec import Raw

from threadline.backends.backend import Backend
from threadline.core import codec
from threadline.core.entries import micros, moment, stored, text, text_or_none
from threadline.memory import copies
from threadline.memory.copies import Rest
from threadline.memory.nodes import address
from threadline.memory.rows import ChainRow, EventRow, NodeRow, Place, WorkingRow, split_addrs, working_scope
from threadline.records.shapes import (
    ChainRecord,
    EventRecord,
    Masking,
    MemoryRecord,
    NodeRecord,
    WorkingRecord,
)
from threadline.working_memory import Memory

PORTION = 500  # nodes, or events, of one transaction
AFTER_ALL = 2**62  # of the numbers of events

Addresses = dict[bytes, bytes]  # by those that they had before anything was masked


# -- reading -------------------------------------------------------------------------------------------


def memory_records(backend: Backend, place: Place, mask: Masking | None) -> Iterator[MemoryRecord]:
    """A memory: its nodes by address, its chains and working memories by their age, its events, the newest first."""
    rows, addresses = _masked(backend, place, mask)
    said = (place.project, place.namespace)
    for row in rows:
        yield _node(row, said)
    rest = _rest(backend, place, AFTER_ALL)
    for chain in sorted(rest.chains, key=lambda row: (row.created_at, row.chain)):
        yield _chain(chain, said, mask, addresses)
    for working in sorted(rest.workings, key=lambda row: (row.started_at, row.scope)):
        yield _working(working, said)
    while rest.events:
        for event in rest.events:
            yield _event(event, said, mask, addresses)
        rest = _rest(backend, place, rest.events[-1].number)


def _nodes(backend: Backend, place: Place) -> Iterator[NodeRow]:
    after: tuple[bytes, bytes] | None = copies.START
    while after is not None:
        found = backend.consult(place, partial(copies.portion, after, PORTION))
        yield from found.nodes
        after = found.after


def _rest(backend: Backend, place: Place, before: int) -> Rest:
    return backend.consult(place, partial(copies.rest, before, PORTION))


def _masked(backend: Backend, place: Place, mask: Masking | None) -> tuple[Iterable[NodeRow], Addresses]:
    """The nodes with their secrets masked, and the addresses that changed. Only then are all held in memory."""
    rows = _nodes(backend, place)
    if mask is None or not any(_hides(row, mask) for row in rows):
        return _nodes(backend, place), {}
    found = [_without_secrets(row, mask) for row in _nodes(backend, place)]
    addresses = _readdressed(found)
    renamed = {
        (addresses[row.addr], row.scope): row._replace(addr=addresses[row.addr], inputs=_led(row.inputs, addresses))
        for row in found
    }
    return [renamed[place_of] for place_of in sorted(renamed)], addresses


def _hides(row: NodeRow, mask: Masking) -> bool:
    return _without_secrets(row, mask) != row


def _without_secrets(row: NodeRow, mask: Masking) -> NodeRow:
    return row._replace(content=stored(mask.text(text(row.content))), about=mask.json(row.about))


def _readdressed(rows: list[NodeRow]) -> Addresses:
    """The address of each node, by the one that it had; those of inputs first, however deep they go."""
    known = {row.addr: row for row in rows}
    addresses: Addresses = {}
    waiting = [*known]
    while waiting:
        row = known[waiting[-1]]
        inputs = split_addrs(row.inputs)
        left = [addr for addr in inputs if addr in known and addr not in addresses]
        if row.addr in addresses or not left:
            waiting.pop()
            led = [addresses.get(addr, addr) for addr in inputs]
            addresses[row.addr] = address(text(row.type), text(row.content), led)
        else:
            waiting += left
    return addresses


def _led(joined: bytes, addresses: Addresses) -> bytes:
    return b"".join(dict.fromkeys(addresses.get(addr, addr) for addr in split_addrs(joined)))


def _node(row: NodeRow, said: tuple[str | None, str]) -> NodeRecord:
    return NodeRecord(
        row.addr.hex(),
        text(row.type),
        text(row.content),
        moment(row.created_at),
        moment(row.touched_at),
        Raw(row.about),
        *said,
        row.scope.hex(),
        bool(row.active),
        None if row.expires_at is None else moment(row.expires_at),
        None if row.promoted_at is None else moment(row.promoted_at),
        text_or_none(row.session),
        text_or_none(row.agent),
        text(row.domain),
        _hex(row.inputs),
    )


def _chain(row: ChainRow, said: tuple[str | None, str], mask: Masking | None, addresses: Addresses) -> ChainRecord:
    name = text(row.name)
    return ChainRecord(
        text(row.chain),
        name if mask is None else mask.text(name),
        text(row.status),
        moment(row.created_at),
        moment(row.extended_at),
        Raw(row.about if mask is None else mask.json(row.about)),
        *said,
        row.scope.hex(),
        text_or_none(row.session),
        text_or_none(row.agent),
        text(row.domain),
        _hex(_led(row.members, addresses)),
    )


def _working(row: WorkingRow, said: tuple[str | None, str]) -> WorkingRecord:
    return WorkingRecord(
        row.scope.hex(),
        text(row.session),
        moment(row.started_at),
        moment(row.touched_at),
        *said,
        text_or_none(row.agent),
        None if row.ended_at is None else moment(row.ended_at),
        row.turns,
        row.folded,
    )


def _event(row: EventRow, said: tuple[str | None, str], mask: Masking | None, addresses: Addresses) -> EventRecord:
    return EventRecord(
        row.number,
        text(row.what),
        Raw(row.detail if mask is None else mask.json(row.detail)),
        *said,
        text_or_none(row.session),
        text_or_none(row.agent),
        _hex(_led(row.addrs, addresses)),
    )


def _hex(joined: bytes) -> tuple[str, ...]:
    return tuple(addr.hex() for addr in split_addrs(joined))


def memory_of(memory: Memory, mask: Masking | None = None) -> Iterator[MemoryRecord]:
    """The records of one memory."""
    return memory_records(memory._store._backend, memory._place, mask)


def address_of(kind: str, content: str, inputs: Iterable[str] = ()) -> str:
    """The address that a node has."""
    return address(kind, content, [bytes.fromhex(addr) for addr in inputs]).hex()


def scope_of(session: str, agent: str | None = None) -> str:
    """The name of a working memory."""
    return working_scope(session, agent).hex()


# -- taking in -----------------------------------------------------------------------------------------


class MemoryLoader:
    """Rows of memories on their way into a store; those of one memory in one transaction, or a few."""

    def __init__(self, backend: Backend, namespace: str, *, dry_run: bool) -> None:
        self.added = self.known = 0
        self._backend, self._namespace, self._dry_run = backend, namespace, dry_run
        self._place: Place | None = None
        self._nodes: list[NodeRow] = []
        self._rest = Rest([], [], [])

    def take(self, record: MemoryRecord) -> str | None:
        """None, or what is wrong with it."""
        try:
            row = _row(record)
            codec.decode(bytes(record.about if isinstance(record, NodeRecord | ChainRecord) else b"{}"))
        except ValueError as error:
            return f"it is no part of a memory: {error}"
        place = Place(self._namespace or record.namespace, record.project)
        if place != self._place or len(self._nodes) + len(self._rest.events) >= PORTION:
            self.flush()
            self._place = place
        match row:
            case NodeRow():
                if address(text(row.type), text(row.content), split_addrs(row.inputs)) != row.addr:
                    return "its address is not that of its content"
                self._nodes.append(row)
            case ChainRow():
                self._rest.chains.append(row)
            case WorkingRow():
                self._rest.workings.append(row)
            case EventRow():
                self._rest.events.append(row)
        return None

    def flush(self) -> None:
        nodes, rest, self._nodes, self._rest = self._nodes, self._rest, [], Rest([], [], [])
        if self._place is None or not (nodes or any(rest)):
            return
        changed = (
            len(nodes) if self._dry_run else self._backend.remember(self._place, partial(copies.adopt, nodes, rest))
        )
        self.added += changed
        self.known += len(nodes) - changed


def _row(record: MemoryRecord) -> NodeRow | ChainRow | WorkingRow | EventRow:
    session, agent = (None if name is None else stored(name) for name in (record.session, record.agent))
    match record:
        case NodeRecord():
            return NodeRow(
                bytes.fromhex(record.scope),
                bytes.fromhex(record.addr),
                stored(record.kind),
                int(record.active),
                micros(record.created_at),
                micros(record.touched_at),
                None if record.expires_at is None else micros(record.expires_at),
                None if record.promoted_at is None else micros(record.promoted_at),
                session,
                agent,
                stored(record.domain),
                b"".join(map(bytes.fromhex, record.inputs)),
                bytes(record.about),
                stored(record.content),
            )
        case ChainRecord():
            return ChainRow(
                bytes.fromhex(record.scope),
                stored(record.chain),
                stored(record.name),
                stored(record.status),
                micros(record.created_at),
                micros(record.extended_at),
                session,
                agent,
                stored(record.domain),
                b"".join(map(bytes.fromhex, record.members)),
                bytes(record.about),
            )
        case WorkingRecord():
            times = (micros(record.started_at), micros(record.touched_at))
            ended = None if record.ended_at is None else micros(record.ended_at)
            return WorkingRow(
                bytes.fromhex(record.scope), session or b"", agent, *times, ended, record.turns, record.folded
            )
        case EventRecord():
            addrs = b"".join(map(bytes.fromhex, record.addrs))
            return EventRow(record.number, stored(record.what), session, agent, addrs, bytes(record.detail))
