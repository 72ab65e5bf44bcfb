"""Working memory on PostgreSQL. Whoever writes to a memory holds its row; all of it lies in one tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from threadline.backends.postgres.connections import IDLE
from threadline.backends.postgres.places import realm_of
from threadline.backends.postgres.statements import Connection, Statement, many, run
from threadline.backends.postgres.transactions import Transaction
from threadline.backends.postgres.wire import roll_back
from threadline.backends.shelf import SqlShelf, drops, node_words, writes
from threadline.core.digest import seal
from threadline.core.entries import stored, text
from threadline.core.words import VERSION
from threadline.memory import promotion
from threadline.memory.rows import LASTING, Change, Deed, NodeRow, Place, Shelf

T = TypeVar("T")


def act(connection: Connection, durable: bool, place: Place, deed: Deed[T]) -> T:
    """Run a deed and write what it changes."""
    tree, namespace, project = place.row
    realm = realm_of(place.namespace)
    with Transaction(connection, durable=durable) as transaction:
        found = transaction.read("memory_lock", (tree,))
        if not found:
            row = (tree, realm, namespace, project)
            run(connection, "memory_begin", (*row, seal(*row), VERSION))  # waits for whoever begins it at the same time
            found = many(connection, "memory_lock", (tree,))
        here = shelf(connection, place)
        statements = [] if found == [(VERSION,)] else _reworded(connection, here)
        changes, answer = deed(here)
        statements += writes(here, changes, _indexed) if changes else ()
        if statements:
            transaction.commit(statements, None, 0)
    return answer


def _reworded(connection: Connection, shelf: SqlShelf) -> list[Statement]:
    """Make the words of all lasting nodes anew, because other rules made them; what is left to write down then."""
    rows = [NodeRow._make(columns) for *columns, _ in many(connection, "memory_all_nodes", (shelf.tree, LASTING))]
    with connection.pipeline():
        for row in rows:
            run(connection, "memory_reword", (*_indexed(row), shelf.tree, row.addr))
    return [("memory_reworded", (VERSION, shelf.tree))]


def lags(connection: Connection, place: Place) -> bool:
    """Whether the words of a memory were made by other rules than ours."""
    return many(connection, "memory_version", (place.row[0],)) not in ([], [(VERSION,)])


def change_nothing(shelf: Shelf) -> tuple[Sequence[Change], None]:
    return (), None


def consult(connection: Connection, place: Place, deed: Deed[T], lagging: bool) -> T:
    """Run a deed that changes nothing, on one moment; what `lagging` words would not find is read."""
    if connection.pgconn.transaction_status != IDLE:  # that of a backup
        return deed(shelf(connection, place))[1]
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        return deed(shelf(connection, place, lagging=lagging))[1]
    finally:
        if not connection.closed:
            roll_back(connection)


def shelf(connection: Connection, place: Place, *, lagging: bool = False) -> SqlShelf:
    asked = _nothing if lagging else _asked
    return SqlShelf(partial(many, connection), place, realm_of(place.namespace), asked, list, lags=lagging)


def _asked(tree: bytes, words: Sequence[str]) -> str:
    """As a tsquery. Words hold letters and digits only, so that nothing in them is syntax."""
    return " & ".join(f"'{word}'" for word in words)


def _nothing(tree: bytes, words: Sequence[str]) -> str:
    """What no rules make a word of, so that nothing is found twice."""
    return "'-'"


def _indexed(row: NodeRow) -> tuple[Any, ...]:
    return (node_words(row.domain, row.content) if row.scope == LASTING else None,)


def forget(connection: Connection, durable: bool, namespace: str, session: str) -> int:
    """Remove the working memory of a session from every memory of its namespace; how many there were."""
    with Transaction(connection, durable=durable) as transaction:
        transaction.read("memory_working_anywhere", (realm_of(namespace), stored(session)))
        statements = list(forgetting(connection, namespace, [session]))
        if statements:
            transaction.commit(statements, session, 0)
    return sum(name == "memory_drop_working" for name, _ in statements)


def forgetting(connection: Connection, namespace: str, sessions: Iterable[str]) -> Iterator[Statement]:
    """Inside a transaction: what removes the working memories of sessions, their memories held from now on."""
    found = [
        place
        for session in sessions
        for place in many(connection, "memory_working_anywhere", (realm_of(namespace), stored(session)))
    ]
    for tree in sorted({tree for tree, _ in found}):
        many(connection, "memory_lock", (tree,))
    for tree, scope in found:
        yield from drops(partial(many, connection), tree, scope)


def unname(connection: Connection, namespace: str, sessions: Sequence[str]) -> None:
    """Inside a transaction: let nothing in any memory name sessions that are to be erased. One after the other, because
    a node may name several."""
    realm = realm_of(namespace)
    for tree, project in many(connection, "memories_of", (realm,)):
        many(connection, "memory_lock", (tree,))
        here = shelf(connection, Place(namespace, text(project) or None))
        for session in sessions:
            for name, values in writes(here, promotion.unname(session, here)[0], _indexed):
                run(connection, name, values)


def places(connection: Connection, after: bytes) -> list[Place]:
    """A page of memories, by their trees."""
    found = many(connection, "memory_places", (after,))
    return [Place(text(namespace), text(project) or None) for namespace, project in found]
