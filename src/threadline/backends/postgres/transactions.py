"""Transactions that take more than one round trip: lock and read, think in Python, then write and commit at once.

Each function is one operation. Nothing is written before the last round trip, which holds the COMMIT as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import psycopg

from threadline.backends.backend import STATUSES, Ref, Written
from threadline.backends.log import PiecedLog
from threadline.backends.postgres.rows import body_of, opened, opening_of, row_of, said, stored_or_none
from threadline.backends.postgres.statements import SQL, Connection, Statement, is_gone, many, one
from threadline.backends.postgres.usage import find_request
from threadline.backends.postgres.wire import roll_back
from threadline.backends.postgres.writing import Known, Writing
from threadline.core import holds
from threadline.core.about import About, Change, changed
from threadline.core.digest import seal
from threadline.core.entries import stored
from threadline.core.ops import Op
from threadline.core.tombstones import hidden
from threadline.errors import NotActive, NotFound, Uncertain

ENTRIES = ("row", "rows", "rows_reverse")  # what gives whole entries


SAID = 9  # where what is said of it begins in a session's row


class Transaction:
    """One transaction: `lock` begins it, `commit` writes all of it and ends it."""

    def __init__(self, connection: Connection, *, durable: bool) -> None:
        self._connection = connection
        self._durable = durable
        self.lease: bytes | None = None  # of the session that is locked

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *exc: object) -> None:
        """Undone, unless it was committed."""
        if not self._connection.closed and not self._idle:
            roll_back(self._connection)

    @property
    def _idle(self) -> bool:
        return self._connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    def lock(self, ref: Ref) -> tuple[Any, ...]:
        """Begin, and wait for the session's other writers. The columns of its head row from `realm` on."""
        found = self.read("lock", (ref.tree, ref.number))
        if not found:
            raise NotFound("session", ref.id)
        *head, self.lease = found[0]
        return tuple(head)

    def read(self, name: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Begin, and read."""
        with self._connection.pipeline():
            self._begin()
            cursor = self._connection.execute(SQL[name], values, prepare=True, binary=True)
        return cursor.fetchall()

    def lock_tree(self, tree: bytes) -> dict[int, int]:
        """Begin, and wait for all writers of a tree: its sessions, and their heads."""
        self._begin()
        heads: dict[int, int] = {}
        while True:  # a session that was made while we waited is locked in the next round
            found = dict(many(self._connection, "lock_tree", (tree,)))
            if found.keys() <= heads.keys():
                return found
            heads |= found

    def lock_each(self, refs: Sequence[Ref]) -> dict[int, tuple[Any, ...]]:
        """Begin, and wait for the writers of several sessions, one after the other; their head rows as `lock` gives
        them, of those that are there."""
        with self._connection.pipeline():
            self._begin()
            cursors = [
                self._connection.execute(SQL["lock"], (ref.tree, ref.number), prepare=True, binary=True) for ref in refs
            ]
        heads = zip(refs, (cursor.fetchone() for cursor in cursors), strict=True)
        return {ref.number: head[:-1] for ref, head in heads if head is not None}

    def commit(self, statements: Sequence[Statement], session: str | None, head: int) -> list[int]:
        """Write, in one round trip; how many rows each statement wrote. Raises Uncertain where the server went while it
        was to commit."""
        begun = not self._idle
        try:
            with self._connection.pipeline():
                if not begun:
                    self._begin()
                cursors = [self._connection.execute(SQL[name], values, prepare=True) for name, values in statements]
                self._connection.execute("COMMIT")
        except psycopg.Error as error:
            if is_gone(error, self._connection):
                raise Uncertain(session, head) from error
            raise
        return [cursor.rowcount for cursor in cursors]

    def _begin(self) -> None:
        self._connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        self._connection.execute(SQL["durably"], (self._durable,), prepare=True)


def select(connection: Connection, tree: bytes, name: str, values: tuple[Any, ...]) -> list[Any]:
    """How a log reads its pieces: every statement names its tree."""
    found = many(connection, name, values if name == "blob" else (tree, *values))
    return [row_of(row) for row in found] if name in ENTRIES else found


def log_of(connection: Connection, ref: Ref) -> PiecedLog:
    return PiecedLog(ref, partial(select, connection, ref.tree))


# -- writing to a session that exists ------------------------------------------------------------------


def write(
    connection: Connection,
    durable: bool,
    ref: Ref,
    ops: Sequence[Op],
    expect: int | None,
    change: Change | None,
    lease: int | None,
) -> Written:
    with Transaction(connection, durable=durable) as transaction:
        writing = begun(connection, transaction, ref, expect, lease)
        head = writing.state.head
        entries = [writing.run(op) for op in ops]
        statements = ended(connection, writing, change)
        if statements:
            transaction.commit(statements, ref.id, head)
    return Written(ref, entries)


def begun(connection: Connection, transaction: Transaction, ref: Ref, expect: int | None, lease: int | None) -> Writing:
    """A session that is locked, ready for ops."""
    head = transaction.lock(ref)
    guard = partial(check_lease, connection, ref, transaction.lease, lease)
    return Writing(
        ref,
        head,
        log_of(connection, ref),
        partial(find_key, connection, ref),
        expect,
        guard,
        partial(find_request, connection, ref),
    )


def ended(connection: Connection, writing: Writing, change: Change | None = None) -> list[Statement]:
    """All that is to be stored after the ops; nothing if there is nothing."""
    statements = [*writing.statements(), *writing.moved()]
    if writing.opening is not None or change is not None:
        statements += _changed(connection, writing, change)
    return statements


def check_lease(connection: Connection, ref: Ref, lease: bytes | None, token: int | None) -> None:
    """Raise LeaseHeld or LeaseLost if that is the lease of a locked session and a write comes with that token."""
    if lease is not None or token is not None:
        holds.check(holds.decode(lease), token, now_us(connection, ref), ref.id)


def now_us(connection: Connection, ref: Ref) -> int:
    """Asked for after the lock: waiting for it takes time, too."""
    found = one(connection, "clock", (ref.tree, ref.number))
    if found is None:
        raise NotFound("session", ref.id)
    return int(found[0])


def find_key(connection: Connection, ref: Ref, key: bytes) -> Known | None:
    found: Known | None = one(connection, "find_key", (key, hidden(key), ref.tree, ref.number))
    return found


def change_about(connection: Connection, durable: bool, ref: Ref, change: Change) -> None:
    with Transaction(connection, durable=durable) as transaction:
        head = transaction.lock(ref)
        writing = Writing(ref, head, log_of(connection, ref), lambda key: None, None)
        transaction.commit(list(_changed(connection, writing, change)), ref.id, 0)


def _changed(connection: Connection, writing: Writing, change: Change | None) -> Iterator[Statement]:
    """What is said of the session, anew: its opening words, and what was asked for."""
    row = session_row(connection, writing.ref)
    about = said(*row[SAID:])
    if writing.opening is not None:
        about = opened(about, writing.opening)
    if change is not None:
        about = changed(about, change)
    yield from set_about(writing.ref, row, about)
    if change is not None:
        yield from set_status(writing, change)


def changed_about(connection: Connection, ref: Ref, about: About) -> Iterator[Statement]:
    """What is said of a session, replaced by `about`."""
    return set_about(ref, session_row(connection, ref), about)


def about_now(connection: Connection, ref: Ref) -> About:
    return said(*session_row(connection, ref)[SAID:])


def session_row(connection: Connection, ref: Ref) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = one(connection, "about", (ref.tree, ref.number))
    if row is None:
        raise NotFound("session", ref.id)
    return row


def set_about(ref: Ref, row: tuple[Any, ...], about: About) -> Iterator[Statement]:
    """Say something else of a session; it loses its parent where `about` names none."""
    realm, namespace, id, key, created_at, origin, nth, parent, _, *opening = row
    before = said(*opening)
    if about == before:
        return
    if parent is not None and about.parent is None:
        parent, nth = None, 0
        yield "set_child", (0, ref.tree, ref.number)
    cwd, agent, call_id = map(stored_or_none, (about.cwd, about.agent, about.call_id))
    body = body_of(about)
    place = (origin, nth, parent, call_id)
    mark = seal(ref.tree, ref.number, realm, namespace, id, key, created_at, cwd, agent, *place, body)
    yield "set_about", (cwd, agent, nth, parent, call_id, body, mark, *opening_of(about), ref.tree, ref.number)
    for tag in set(before.tags) - set(about.tags):
        yield "delete_tag", (ref.tree, ref.number, stored(tag))
    for tag in set(about.tags) - set(before.tags):
        yield "insert_tag", (ref.tree, ref.number, stored(tag), realm)


def set_status(writing: Writing, change: Change) -> Iterator[Statement]:
    if change.status is not None:
        writing.status = STATUSES.index(change.status)
    elif writing.status:
        raise NotActive(writing.ref.id, STATUSES[writing.status])
    writing.updated_at = max(change.at, writing.updated_at + 1)
    moved = (writing.status, writing.updated_at, writing.seal, writing.updated_at)
    yield "set_status", (*moved, writing.ref.tree, writing.ref.number)
