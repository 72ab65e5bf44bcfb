"""The desk: a shelf, and what a deed has changed on it so far. It reads its own changes."""

from __future__ import annotations

from typing import Any

from threadline.core import codec
from threadline.core.entries import stored, text
from threadline.errors import InvalidArgument, NotActive, NotFound
from threadline.memory.rows import (
    ADDR_BYTES,
    LASTING,
    ChainRow,
    Change,
    Dropped,
    EventRow,
    Extended,
    NodeRow,
    Shelf,
    WorkingRow,
    split_addrs,
    working_scope,
)

PREFIX_MIN = 4  # characters of an address that are enough to ask for it
CANDIDATES = 16  # of an ambiguous address that are looked at
TOUCHED_US = 1_000_000  # how exactly it is known when a working memory was used last
HINT = "mem.active() and mem.recall(query) show addresses"


class Desk:
    def __init__(self, shelf: Shelf, now: int) -> None:
        self.shelf = shelf
        self.now = now
        self._nodes: dict[tuple[bytes, bytes], NodeRow] = {}
        self._chains: dict[bytes, Extended] = {}
        self._workings: dict[bytes, WorkingRow] = {}
        self._events: list[EventRow] = []
        self._dropped: list[Dropped] = []

    @property
    def changes(self) -> list[Change]:
        return [
            *self._dropped,
            *self._workings.values(),
            *self._nodes.values(),
            *self._chains.values(),
            *self._events,
        ]

    # -- nodes -----------------------------------------------------------------------------------------

    def node(self, scope: bytes, addr: bytes) -> NodeRow | None:
        return self._nodes.get((scope, addr)) or self.shelf.node(scope, addr)

    def put(self, row: NodeRow) -> NodeRow:
        self._nodes[row.scope, row.addr] = row
        return row

    def copies(self, named: Any) -> list[NodeRow]:
        """A node by its address or the beginning of it: one row for each scope that has it, the lasting one first.

        Raises NotFound, or InvalidArgument where several nodes begin so."""
        first, last = addr_range(named)
        found = {(row.addr, row.scope): row for row in self.shelf.nodes_between(first, last, CANDIDATES)}
        found |= {(r.addr, r.scope): r for r in self._nodes.values() if first <= r.addr <= last}
        addrs = sorted({addr for addr, _ in found})
        if not addrs:
            raise NotFound("node", getattr(named, "addr", named), HINT)
        if len(addrs) > 1:
            short = ", ".join(addr.hex()[:16] for addr in addrs[:4])
            raise InvalidArgument(f"{named!r} is the beginning of several addresses ({short} …): give more of it")
        return [found[key] for key in sorted(found)]

    def reach(self, named: Any, scopes: tuple[bytes, ...] | None = None) -> NodeRow:
        """The node where it counts: in a working memory of `scopes` if it is there, else lasting, else anywhere."""
        rows = self.copies(named)
        for scope in scopes or ():
            for row in rows:
                if row.scope == scope:
                    return row
        return rows[0]

    # -- chains ----------------------------------------------------------------------------------------

    def chain(self, chain: bytes) -> ChainRow | None:
        known = self._chains.get(chain)
        return self.shelf.chain(chain) if known is None else known.row

    def put_chain(self, row: ChainRow, added: tuple[bytes, ...] = ()) -> ChainRow:
        before = self._chains.get(row.chain)
        self._chains[row.chain] = Extended(row, (() if before is None else before.added) + added)
        return row

    def chains_named(self, name: str) -> list[ChainRow]:
        found = {row.chain: row for row in self.shelf.chains_named(stored(name))}
        found |= {known.row.chain: known.row for known in self._chains.values() if known.row.name == stored(name)}
        return list(found.values())

    def find_chain(self, named: Any, scopes: tuple[bytes, ...] | None = None) -> ChainRow:
        """A chain by its id or its name: in `scopes`, in their order, or anywhere. Raises NotFound, InvalidArgument."""
        if not isinstance(named, str) or not named:
            raise InvalidArgument(f"a chain is given by its name or its id, not {named!r}")
        found = self.chain(stored(named))
        if found is not None:
            return self._followed(found)
        rows = self.chains_named(named)
        for scope in scopes or (LASTING,):
            if here := [row for row in rows if row.scope == scope]:
                return _latest(here)
        if not rows or scopes is not None:
            raise NotFound("chain", named, "mem.chains() lists them")
        if len({row.scope for row in rows}) > 1:
            ids = ", ".join(text(row.chain) for row in rows[:4])
            raise InvalidArgument(f"several sessions have a chain {named!r} ({ids}): give its id, or session=")
        return _latest(rows)

    def _followed(self, row: ChainRow) -> ChainRow:
        """The lasting chain that a chain was promoted into."""
        after = codec.decode(row.about).get("promoted_to")
        return (None if after is None else self.chain(stored(after))) or row

    def chains_with(self, addr: bytes) -> list[ChainRow]:
        found = {row.chain: row for row in self.shelf.chains_with(addr)}
        for known in self._chains.values():
            if addr in split_addrs(known.row.members):
                found[known.row.chain] = known.row
        return list(found.values())

    # -- working memories ------------------------------------------------------------------------------

    def working(self, scope: bytes) -> WorkingRow | None:
        return self._workings.get(scope) or self.shelf.working(scope)

    def put_working(self, row: WorkingRow) -> WorkingRow:
        self._workings[row.scope] = row
        return row

    def workings(self, session: str) -> list[WorkingRow]:
        found = {row.scope: row for row in self.shelf.workings(stored(session))}
        return list((found | {s: r for s, r in self._workings.items() if r.session == stored(session)}).values())

    def enter(self, session: str, agent: str | None, *, make: bool = True) -> WorkingRow | None:
        """The working memory of a session, used now. Raises NotActive if it has ended."""
        scope = working_scope(session, agent)
        row = self.working(scope)
        if row is None:
            if not make:
                return None
            row = WorkingRow(scope, stored(session), _stored(agent), self.now, self.now, None, 0, 0)
            return self.put_working(row)
        if row.ended_at is not None:
            raise ended(session)
        if self.now - row.touched_at >= TOUCHED_US:
            row = self.put_working(row._replace(touched_at=self.now))
        return row

    def drop(self, scope: bytes) -> None:
        self._dropped.append(Dropped(scope))

    # -- events ----------------------------------------------------------------------------------------

    def tell(
        self,
        what: str,
        addrs: tuple[bytes, ...] = (),
        session: str | None = None,
        agent: str | None = None,
        **detail: Any,
    ) -> None:
        last = self._events[-1].number if self._events else self.shelf.last_event()
        self._events.append(
            EventRow(
                max(self.now, last + 1),
                stored(what),
                _stored(session),
                _stored(agent),
                b"".join(addrs),
                codec.encode({name: value for name, value in detail.items() if value is not None}),
            )
        )


def ended(session: str) -> NotActive:
    return NotActive(session, "ended", f"its working memory is archived: mem.recover({session!r}) brings it back")


def addr_range(named: Any) -> tuple[bytes, bytes]:
    """The first and the last address that begin so. Raises InvalidArgument for what is no address."""
    addr = getattr(named, "addr", named)
    digits = addr.lower() if isinstance(addr, str) else ""
    if not PREFIX_MIN <= len(digits) <= 2 * ADDR_BYTES or digits.strip("0123456789abcdef"):
        raise InvalidArgument(
            f"an address is {2 * ADDR_BYTES} hexadecimal digits, or {PREFIX_MIN} and more of the first, not {named!r}"
        )
    full = 2 * ADDR_BYTES
    return bytes.fromhex(digits.ljust(full, "0")), bytes.fromhex(digits.ljust(full, "f"))


def _latest(rows: list[ChainRow]) -> ChainRow:
    """Of chains of one name in one scope the one that is still worked on, else the one touched last."""
    live = [row for row in rows if row.status in (b"preliminary", b"active", b"stashed")]
    return max(live or rows, key=lambda row: (row.extended_at, row.chain))


def _stored(value: str | None) -> bytes | None:
    return None if value is None else stored(value)
