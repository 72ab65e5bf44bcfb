"""Inboxes: messages that wait to enter the log of a session, whose head row is locked meanwhile."""

from __future__ import annotations

from typing import Any

from threadline.backends.backend import STATUSES, Ref, Written
from threadline.backends.postgres.statements import Connection, Statement, many, one
from threadline.backends.postgres.transactions import Transaction, begun, ended, find_key, log_of
from threadline.core.digest import seal
from threadline.core.entries import Entry, text
from threadline.core.inbox import Letter
from threadline.errors import Damaged, KeyReused, NotActive, NotFound

NUMBER = 2  # where it stands in a row


def enqueue(connection: Connection, durable: bool, ref: Ref, letter: Letter) -> Letter:
    """What waits or has entered under the letter's key; the letter itself where nothing has."""
    with Transaction(connection, durable=durable) as transaction:
        writing = begun(connection, transaction, ref, None, None)
        if letter.key is not None and (known := _known(connection, ref, letter)) is not None:
            return known
        if writing.status:
            raise NotActive(ref.id, STATUSES[writing.status])
        (last,) = one(connection, "last_queued", (ref.tree, ref.number))
        row = (ref.tree, ref.number, last + 1, *letter)
        at = writing.updated_at = max(letter.at, writing.updated_at + 1)
        filled = (at, writing.seal, at, ref.tree, ref.number)
        statements: list[Statement] = [("insert_queued", (*row, seal(*row))), ("fill_inbox", filled)]
        transaction.commit(statements, ref.id, writing.state.head)
    return letter


def _known(connection: Connection, ref: Ref, letter: Letter) -> Letter | None:
    """Raises KeyReused if the key names another message."""
    if (found := find_key(connection, ref, letter.key or b"")) is not None:
        seq, _, named = found
        same, at = named == letter.identity(), log_of(connection, ref).row(seq).at
    elif (waiting := one(connection, "queued_by_key", (ref.tree, ref.number, letter.key))) is not None:
        first = _checked(ref, waiting)
        seq, same, at = 0, first.identity() == letter.identity(), first.at
    else:
        return None
    if not same:
        raise KeyReused(text(letter.key or b""), seq)
    return letter._replace(at=at)


def inbox(connection: Connection, ref: Ref) -> list[Letter]:
    found = many(connection, "queued", (ref.tree, ref.number))
    if not found and one(connection, "head", (ref.tree, ref.number)) is None:
        raise NotFound("session", ref.id)
    return [_checked(ref, row) for row in found]


def take(connection: Connection, durable: bool, ref: Ref, at: int, expect: int | None, lease: int | None) -> Written:
    """The first that has not entered yet, into the log and out of the inbox."""
    entries: list[Entry] = []
    removed: list[Statement] = []
    with Transaction(connection, durable=durable) as transaction:
        writing = begun(connection, transaction, ref, expect, lease)
        head, last = writing.state.head, 0
        while not entries and (row := one(connection, "next_queued", (ref.tree, ref.number, last))) is not None:
            letter, last = _checked(ref, row), row[NUMBER]
            known = None if letter.key is None else find_key(connection, ref, letter.key)
            if known is None or known[2] != letter.identity():
                # Under another message's key it enters without one: it is no repetition, and nothing may be lost.
                entries = writing.run((letter if known is None else letter._replace(key=None)).append(at))
            removed.append(("delete_queued", (ref.tree, ref.number, last)))
        if removed:
            drained = ("drain_inbox", (len(removed), ref.tree, ref.number))
            transaction.commit([*ended(connection, writing), *removed, drained], ref.id, head)
    return Written(ref, [entries])


def _checked(ref: Ref, row: Any) -> Letter:
    *columns, mark = row
    if seal(*columns) != mark:
        raise Damaged(ref.id, None, "a message in its inbox does not match its seal")
    return Letter._make(columns[3:])
