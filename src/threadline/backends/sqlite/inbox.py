"""Inboxes inside a write transaction."""

from __future__ import annotations

from functools import partial
from typing import Any

from threadline.backends.backend import STATUSES, Ref, Target, Written
from threadline.backends.log import PiecedLog
from threadline.backends.sqlite import transactions
from threadline.backends.sqlite.rows import Connection, many, one, run
from threadline.core.digest import seal
from threadline.core.entries import text
from threadline.core.inbox import Letter
from threadline.errors import Damaged, KeyReused, NotActive


def enqueue(connection: Connection, target: Target, letter: Letter) -> tuple[Ref, Letter]:
    """The session, and what waits or has entered under the letter's key; the letter itself where nothing has."""
    ref = transactions.write(connection, target, (), None).ref
    if letter.key is not None and (known := _known(connection, ref, letter)) is not None:
        return ref, known
    namespace, log, status, opened, updated_at, *_ = transactions.head_of(connection, ref)
    if status:
        raise NotActive(ref.id, STATUSES[status])
    (last,) = one(connection, "last_queued", (ref.number,))
    row = (ref.number, last + 1, *letter)
    run(connection, "insert_queued", (*row, seal(*row)))
    updated_at = max(letter.at, updated_at + 1)
    mark = transactions.head_seal(ref.number, namespace, log, status, opened, updated_at)
    run(connection, "fill_inbox", (updated_at, mark, ref.number))
    return ref, letter


def _known(connection: Connection, ref: Ref, letter: Letter) -> Letter | None:
    """Raises KeyReused if the key names another message."""
    if (found := transactions.find_key(connection, ref, letter.key or b"")) is not None:
        seq, _, named = found
        same, at = named == letter.identity(), PiecedLog(ref, partial(many, connection)).row(seq).at
    elif (waiting := one(connection, "queued_by_key", (ref.number, letter.key))) is not None:
        first = _checked(ref, waiting)
        seq, same, at = 0, first.identity() == letter.identity(), first.at
    else:
        return None
    if not same:
        raise KeyReused(text(letter.key or b""), seq)
    return letter._replace(at=at)


def inbox(connection: Connection, ref: Ref) -> list[Letter]:
    transactions.head_of(connection, ref)  # raises NotFound if it is gone
    return [_checked(ref, row) for row in many(connection, "queued", (ref.number,))]


def take(connection: Connection, ref: Ref, at: int, expect: int | None, lease: int | None) -> Written:
    """The first that has not entered yet, into the log and out of the inbox."""
    while (row := one(connection, "first_queued", (ref.number,))) is not None:
        letter = _checked(ref, row)
        known = None if letter.key is None else transactions.find_key(connection, ref, letter.key)
        if known is None or known[2] != letter.identity():
            # Under another message's key it enters without one: it is no repetition, and nothing may be lost.
            op = (letter if known is None else letter._replace(key=None)).append(at)
            written = transactions.write(connection, Target(ref), (op,), expect, None, lease)
            _remove(connection, ref, row[1])
            return written
        _remove(connection, ref, row[1])
    return Written(ref, [[]])


def _remove(connection: Connection, ref: Ref, number: int) -> None:
    run(connection, "delete_queued", (ref.number, number))
    run(connection, "drain_inbox", (ref.number,))


def _checked(ref: Ref, row: Any) -> Letter:
    *columns, mark = row
    if seal(*columns) != mark:
        raise Damaged(ref.id, None, "a message in its inbox does not match its seal")
    return Letter._make(columns[2:])
