"""Appends: ops as arguments of a function on the server, which does all of it in one round trip."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from threadline.backends.backend import STATUSES, Ref
from threadline.backends.blobs import LARGE_BYTES
from threadline.backends.postgres import usage
from threadline.backends.postgres.blobs import Cut
from threadline.backends.postgres.statements import Connection, is_gone
from threadline.backends.postgres.wire import (
    BYTEA,
    NO_BYTES,
    NO_FLAGS,
    NO_NUMBERS,
    TEXT,
    Value,
    array,
    call,
    flags,
    number,
    numbers,
    prepare,
)
from threadline.core.about import opening_words
from threadline.core.entries import ASSISTANT, CALLER, STRUCTURAL, USER, Draft, calls_and_results, stored, text
from threadline.core.ops import Append, Op
from threadline.errors import KeyReused, NotActive, NotFound, Stale, Uncertain
from threadline.messages import ToolResult

WRITTEN, NO_SESSION, KEY_REUSED, NOT_ACTIVE, STALE, LEASED, CHARGED = range(7)  # charged: a request of that id is known

OPENED_BY = {ASSISTANT: 1, CALLER: 1, USER: 2}  # whose words open the session; the user's stay
OPENED_BY_USER = 2
RESHAPING = STRUCTURAL | {"call_started"}  # what only the fold in Python knows how to write


def is_plain(op: Op) -> bool:
    """Whether the server can fold it: entries that are known beforehand and leave the view as it is, or add to it."""
    if type(op) is not Append or not op.entries:
        return False
    for draft in op.entries:  # noqa: SIM110  (every append comes this way, and a generator costs more than the check)
        if draft.kind != "message" and draft.kind in RESHAPING:
            return False
    return True


def are_plain(ops: Sequence[Op]) -> bool:
    """Whether the server can do all of them at once. What a request grows to is reckoned in Python."""
    if not all(map(is_plain, ops)):
        return False
    if len(ops) == 1:
        return True
    ids = [op.spent.charge.id for op in ops if op.spent is not None and op.spent.charge.id is not None]
    return len(ids) == len(set(ids))


class Charged(Exception):
    """The tree knows a request of that id: it grows, and nothing was written yet."""


def append(
    connection: Connection,
    durable: bool,
    ref: Ref,
    ops: Sequence[Append],
    expect: int | None,
    lease: int | None,
    seen: tuple[int, int],
) -> list[int] | None:
    """Run plain ops, and give the server's answer if it wrote them; raise what speaks against it. None if that is the
    lease: who holds it, and until when, only the head row says.

    `seen` is what is known of the session: the last head, and `opened`: words that open it no more are not sent.
    Raises Uncertain where the server went before it answered."""
    head, opened = seen
    if opened == OPENED_BY_USER and len(ops) == 1 and _is_small(ops[0]):
        name, values = b"append", _of_one(ops[0])
    else:
        name, values = _of_many(ops, opened)
    expected = None if expect is None else number(expect)
    held = None if lease is None else number(lease)
    arguments = (ref.tree, number(ref.number), expected, held, _FLAGS[durable], *values)
    prepare(connection, name, len(arguments))
    try:
        answer = call(connection, name, arguments)
    except psycopg.Error as error:
        if is_gone(error, connection):
            raise Uncertain(ref.id, head if expect is None else expect) from error
        raise
    if answer[0] == LEASED:
        return None
    if answer[0] == CHARGED:
        raise Charged
    if answer[0] != WRITTEN:
        _refuse(answer, ref, ops, expect)
    return answer


_FLAGS = (b"\0", b"\1")


def _is_small(op: Append) -> bool:
    """One entry without tools, nothing out of line, and no request to count."""
    if op.spent is not None or len(op.entries) != 1 or len(op.entries[0].body) >= LARGE_BYTES:
        return False
    message = op.entries[0].message
    return message is None or not calls_and_results(message)


def _of_one(op: Append) -> tuple[Value, ...]:
    (draft,) = op.entries
    return (
        op.key,
        op.identity,
        number(op.at),
        draft.kind.encode(),
        number(draft.at),
        number(draft.tokens),
        number(draft.voice),
        draft.digest,
        draft.usage,
        draft.body,
    )


def _of_many(ops: Sequence[Append], opened: int) -> tuple[bytes, tuple[Value, ...]]:
    """The statement, and its values. Those of large strings and of requests are only sent where there are some."""
    drafts = [draft for op in ops for draft in op.entries]
    cut = Cut([draft.body for draft in drafts])
    spent = [(place, op.spent) for place, op in enumerate(ops, 1) if op.spent is not None]
    values = _of_drafts(ops, drafts, cut.bodies, opened)
    if not cut and not spent:
        return b"write", values
    return b"write_more", (*values, *cut.values(), *usage.values(spent))


def _of_drafts(
    ops: Sequence[Append], drafts: Sequence[Draft], bodies: Sequence[bytes], opened: int
) -> tuple[Value, ...]:
    return (
        array(BYTEA, [op.key for op in ops]),
        array(BYTEA, [op.identity for op in ops]),
        numbers(len(op.entries) for op in ops),
        numbers(op.at for op in ops),
        array(TEXT, [draft.kind.encode() for draft in drafts]),
        numbers(draft.at for draft in drafts),
        numbers(draft.tokens for draft in drafts),
        numbers(draft.voice for draft in drafts),
        array(BYTEA, [draft.digest for draft in drafts]),
        array(BYTEA, [draft.usage for draft in drafts]),
        array(BYTEA, bodies),
        *_parts(drafts),
        *_openings(drafts, opened),
    )


NO_PARTS = (NO_NUMBERS, NO_FLAGS, NO_BYTES)
NO_OPENING = (NO_NUMBERS, NO_NUMBERS, NO_BYTES)


def _parts(drafts: Sequence[Draft]) -> tuple[Value, ...]:
    """The tool calls and results of the visible entries: in which of them, whether it is a result, its id."""
    found = [
        (place, part)
        for place, draft in enumerate(drafts, 1)
        if draft.voice and draft.message is not None
        for part in calls_and_results(draft.message)
    ]
    if not found:
        return NO_PARTS
    ids = [stored(part.call_id if isinstance(part, ToolResult) else part.id) for _, part in found]
    places, results = (place for place, _ in found), (type(part) is ToolResult for _, part in found)
    return numbers(places), flags(results), array(BYTEA, ids)


def _openings(drafts: Sequence[Draft], opened: int) -> tuple[Value, ...]:
    """Words that may open the session: by whom, in which entry, and the words."""
    if opened >= OPENED_BY_USER:
        return NO_OPENING
    found = []
    for place, draft in enumerate(drafts, 1):
        by = OPENED_BY.get(draft.voice, 0)
        if by > opened and draft.message is not None and (words := opening_words(draft.message)):
            found.append((by, place, stored(words)))
            opened = by
    if not found:
        return NO_OPENING
    by_whom, places, openings = zip(*found, strict=True)
    return numbers(by_whom), numbers(places), array(BYTEA, openings)


def _refuse(answer: list[int], ref: Ref, ops: Sequence[Op], expect: int | None) -> None:
    match answer:
        case [2, op, seq]:
            raise KeyReused(text(ops[op - 1].key or b""), seq)
        case [3, status]:
            raise NotActive(ref.id, STATUSES[status])
        case [4, head]:
            raise Stale(expect or 0, head)
    raise NotFound("session", ref.id)
