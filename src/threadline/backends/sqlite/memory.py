"""Working memory on SQLite: a shelf inside a transaction, and what deeds write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import apsw

from threadline.backends.sqlite.rows import many, one, run
from threadline.core.digest import seal
from threadline.core.entries import text
from threadline.errors import Damaged
from threadline.memory.rows import (
    LASTING,
    Change,
    ChainRow,
    Deed,
    Dropped,
    EventRow,
    Extended,
    Found,
    NodeRow,
    Place,
    WorkingRow,
    is_sound,
    row_seal,
    split_addrs,
)
from threadline.memory.words import words_of

T = TypeVar("T")
Rows = TypeVar("Rows", NodeRow, ChainRow, WorkingRow, EventRow)

INDEXED_AT_ONCE = 2_000  # nodes whose words enter the index in one transaction
DROPS = ("memory_drop_nodes", "memory_drop_inputs", "memory_drop_members", "memory_drop_chains", "memory_drop_working")


def act(connection: apsw.Connection, place: Place, deed: Deed[T]) -> T:
    """Run a deed and write what it changes."""
    changes, answer = deed(SqliteShelf(connection, place))
    if changes:
        write(connection, place, changes)
    return answer


def write(connection: apsw.Connection, place: Place, changes: Iterable[Change]) -> None:
    tree = place.tree
    if one(connection, "memory_there", (tree,)) is None:
        run(connection, "memory_begin", (*place.row, seal(*place.row)))
    for change in changes:
        _put(connection, place, tree, change)


def _put(connection: apsw.Connection, place: Place, tree: bytes, change: Change) -> None:
    match change:
        case NodeRow():
            run(connection, "memory_put_node", (tree, *change, row_seal(tree, change)))
            for addr in split_addrs(change.inputs):
                run(connection, "memory_put_input", (tree, change.scope, change.addr, addr))
        case EventRow():
            run(connection, "memory_put_event", (tree, *change, row_seal(tree, change)))
        case WorkingRow():
            run(connection, "memory_put_working", (tree, place.row[1], *change, row_seal(tree, change)))
        case Dropped(scope):
            for statement in DROPS:
                run(connection, statement, (tree, scope))
        case Extended(row, added):
            _put(connection, place, tree, row)
            for addr in added:
                run(connection, "memory_put_member", (tree, row.chain, addr))
        case ChainRow():
            run(connection, "memory_put_chain", (tree, *change, row_seal(tree, change)))


def forget(connection: apsw.Connection, namespace: bytes, session: bytes) -> int:
    """Remove the working memory of a session from every memory of its namespace; how many there were."""
    found = many(connection, "memory_working_anywhere", (namespace, session))
    for tree, scope in found:
        for statement in DROPS:
            run(connection, statement, (tree, scope))
    return len(found)


class SqliteShelf:
    """See `Shelf` for what each method promises."""

    def __init__(self, connection: apsw.Connection, place: Place) -> None:
        self._connection = connection
        self._tree, self._namespace, _ = place.row

    def node(self, scope: bytes, addr: bytes) -> NodeRow | None:
        found = one(self._connection, "memory_node", (self._tree, addr, scope))
        if found is None:
            return None
        *columns, mark = found
        row = NodeRow._make(columns)
        if not is_sound(self._tree, row, mark):
            raise Damaged(None, None, f"node {addr.hex()[:12]} does not match its seal")
        return row

    def nodes_between(self, first: bytes, last: bytes, limit: int) -> list[NodeRow]:
        found = self._rows(NodeRow, "memory_nodes_between", first, last, limit)
        if not found and first == last and many(self._connection, "memory_nodes_between", (self._tree, first, last, 1)):
            raise Damaged(None, None, f"node {first.hex()[:12]} does not match its seal")
        return found

    def nodes_in(self, scope: bytes, *, active: bool) -> list[NodeRow]:
        if active:
            return self._rows(NodeRow, "memory_nodes", scope, 1)
        return self._rows(NodeRow, "memory_all_nodes", scope)

    def origins(self) -> list[NodeRow]:
        return self._rows(NodeRow, "memory_origins")

    def consumers(self, addr: bytes) -> list[NodeRow]:
        return self._rows(NodeRow, "memory_consumers", addr)

    def chain(self, chain: bytes) -> ChainRow | None:
        return next(iter(self._rows(ChainRow, "memory_chain", chain)), None)

    def chains(self, scope: bytes | None = None) -> list[ChainRow]:
        found = self._rows(ChainRow, "memory_chains")
        return found if scope is None else [row for row in found if row.scope == scope]

    def chains_named(self, name: bytes) -> list[ChainRow]:
        return self._rows(ChainRow, "memory_chains_named", name)

    def chains_with(self, addr: bytes) -> list[ChainRow]:
        return self._rows(ChainRow, "memory_chains_with", addr)

    def working(self, scope: bytes) -> WorkingRow | None:
        return next(iter(self._rows(WorkingRow, "memory_working", scope)), None)

    def workings(self, session: bytes | None = None) -> list[WorkingRow]:
        if session is None:
            return self._rows(WorkingRow, "memory_workings")
        found = many(self._connection, "memory_workings_of", (self._namespace, session, self._tree))
        return list(self._sound(WorkingRow, found))

    def events(self, before: int, limit: int) -> list[EventRow]:
        return self._rows(EventRow, "memory_events", before, limit)

    def last_event(self) -> int:
        (number,) = one(self._connection, "memory_last_event", (self._tree,))
        return int(number)

    def holding(self, words: Sequence[str], limit: int) -> list[Found]:
        asked = " AND ".join(f'"{word}"' for word in words)
        query = f"place : {_place(self._tree)} AND words : ({asked})"
        return [Found._make(row) for row in many(self._connection, "memory_holding", (query, self._tree, limit))]

    def unindexed(self, limit: int) -> list[NodeRow]:
        return self._rows(NodeRow, "memory_tail", limit)

    def _rows(self, kind: type[Rows], name: str, *values: Any) -> list[Rows]:
        return list(self._sound(kind, many(self._connection, name, (self._tree, *values))))

    def _sound(self, kind: type[Rows], found: list[Any]) -> Iterator[Rows]:
        """Rows that are what was written. `verify` names the others."""
        for *columns, mark in found:
            row = kind._make(columns)
            if is_sound(self._tree, row, mark):
                yield row


# -- the index of words --------------------------------------------------------------------------------


def lags(connection: apsw.Connection) -> bool:
    upto, last = one(connection, "memory_lag")
    return bool(upto < last)


def catch_up(connection: apsw.Connection) -> bool:
    """Put the next nodes into the index of words; whether there may be more."""
    upto, last = one(connection, "memory_lag")
    found = many(connection, "memory_unindexed", (upto, INDEXED_AT_ONCE))
    for node, tree, domain, content in found:
        run(connection, "memory_index", (node, _place(tree), indexed_words(domain, content)))
    is_all = len(found) < INDEXED_AT_ONCE
    if upto < last:
        run(connection, "memory_indexed", (last if is_all else found[-1][0],))
    return not is_all


def indexed_words(domain: bytes, content: bytes) -> str:
    return " ".join(words_of(f"{text(domain)} {text(content)}"))


def _place(tree: bytes) -> str:
    return f"t{tree.hex()}"


def places(connection: apsw.Connection, after: bytes) -> list[Place]:
    """A page of memories, by their trees."""
    found = many(connection, "memory_places", (after,))
    return [Place(text(namespace), text(project) or None) for namespace, project in found]


