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
from threadline.memory import promotion
from threadline.memory.rows import LASTING, Deed, NodeRow, Place

T = TypeVar("T")


def act(connection: Connection, durable: bool, place: Place, deed: Deed[T]) -> T:
    """Run a deed and write what it changes."""
    tree, namespace, project = place.row
    realm = realm_of(place.namespace)
    with Transaction(connection, durable=durable) as transaction:
        if not transaction.read("memory_lock", (tree,)):
            row = (tree, realm, namespace, project)
            run(connection, "memory_begin", (*row, seal(*row)))  # waits for whoever begins it at the same time
            many(connection, "memory_lock", (tree,))
        here = shelf(connection, place)
        changes, answer = deed(here)
        if changes:
            transaction.commit(list(writes(here, changes, _indexed)), None, 0)
    return answer


def consult(connection: Connection, place: Place, deed: Deed[T]) -> T:
    """Run a deed that changes nothing, on one moment."""
    if connection.pgconn.transaction_status != IDLE:  # that of a backup
        return deed(shelf(connection, place))[1]
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        return deed(shelf(connection, place))[1]
    finally:
        if not connection.closed:
            roll_back(connection)


def shelf(connection: Connection, place: Place) -> SqlShelf:
    return SqlShelf(partial(many, connection), place, realm_of(place.namespace), _asked, list, lags=False)


def _asked(tree: bytes, words: Sequence[str]) -> str:
    """As a tsquery. Words hold letters and digits only, so that nothing in them is syntax."""
    return " & ".join(f"'{word}'" for word in words)


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
