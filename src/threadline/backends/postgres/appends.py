"""Appends: ops as the arguments of `threadline.write` on the server, which does all of it in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadline.backends.backend import STATUSES, Ref
from threadline.backends.postgres.statements import SQL, Connection, numbers
from threadline.core.about import opening_words
from threadline.core.entries import ASSISTANT, CALLER, STRUCTURAL, USER, Draft, calls_and_results, stored, text
from threadline.core.ops import Append, Op
from threadline.errors import KeyReused, NotActive, NotFound, Stale
from threadline.messages import ToolResult

WRITTEN, NO_SESSION, KEY_REUSED, NOT_ACTIVE, STALE = range(5)

OPENED_BY = {ASSISTANT: 1, CALLER: 1, USER: 2}  # whose words open the session; the user's stay
OPENED_BY_USER = 2
RESHAPING = STRUCTURAL | {"call_started"}  # what only the fold in Python knows how to write


def is_plain(op: Op) -> bool:
    """Whether the server can fold it: entries that are known beforehand and leave the view as it is, or add to it."""
    if type(op) is not Append or not op.entries:
        return False
    return all(draft.kind == "message" or draft.kind not in RESHAPING for draft in op.entries)


def append(
    connection: Connection, ref: Ref, ops: Sequence[Append], expect: int | None, *, durable: bool, opened: int
) -> list[int]:
    """Run plain ops, and give the server's answer if it wrote them; raise what speaks against it.

    `opened` is what is known of the session: words that open it no more are not sent."""
    if len(ops) == 1 and len(ops[0].entries) == 1:
        name, values = "write", _of_one(ops[0], opened)
    else:
        name, values = "write_many", _of_many(ops, opened)
    found = connection.execute(SQL[name], (ref.tree, ref.number, expect, durable, *values), prepare=True).fetchone()
    answer: list[int] = found[0] if found else [NO_SESSION]
    if answer[0] != WRITTEN:
        _refuse(answer, ref, ops, expect)
    return answer


def _of_one(op: Append, opened: int) -> tuple[Any, ...]:
    (draft,) = op.entries
    return (
        op.key,
        op.identity,
        op.at,
        draft.kind,
        draft.at,
        draft.tokens,
        draft.voice,
        draft.digest,
        draft.usage,
        draft.body,
        *_parts(op.entries),
        *_openings(op.entries, opened),
    )


def _of_many(ops: Sequence[Append], opened: int) -> tuple[Any, ...]:
    drafts = [draft for op in ops for draft in op.entries]
    return (
        [op.key for op in ops],
        [op.identity for op in ops],
        numbers(len(op.entries) for op in ops),
        numbers(op.at for op in ops),
        [draft.kind for draft in drafts],
        numbers(draft.at for draft in drafts),
        numbers(draft.tokens for draft in drafts),
        numbers(draft.voice for draft in drafts),
        [draft.digest for draft in drafts],
        [draft.usage for draft in drafts],
        [draft.body for draft in drafts],
        *_parts(drafts),
        *_openings(drafts, opened),
    )


NOTHING = ("{}", "{}", "{}")


def _parts(drafts: Sequence[Draft]) -> tuple[Any, ...]:
    """The tool calls and results of the visible entries: in which of them, whether it is a result, its id."""
    found = [
        (place, part)
        for place, draft in enumerate(drafts, 1)
        if draft.voice and draft.message is not None
        for part in calls_and_results(draft.message)
    ]
    if not found:
        return NOTHING
    ids = [stored(part.call_id if isinstance(part, ToolResult) else part.id) for _, part in found]
    return numbers(place for place, _ in found), [type(part) is ToolResult for _, part in found], ids


def _openings(drafts: Sequence[Draft], opened: int) -> tuple[Any, ...]:
    """Words that may open the session: by whom, in which entry, and the words."""
    if opened >= OPENED_BY_USER:
        return NOTHING
    found = []
    for place, draft in enumerate(drafts, 1):
        by = OPENED_BY.get(draft.voice, 0)
        if by > opened and draft.message is not None and (words := opening_words(draft.message)):
            found.append((by, place, stored(words)))
            opened = by
    if not found:
        return NOTHING
    by_whom, places, openings = zip(*found, strict=True)
    return numbers(by_whom), numbers(places), list(openings)


def _refuse(answer: list[int], ref: Ref, ops: Sequence[Op], expect: int | None) -> None:
    match answer:
        case [2, op, seq]:
            raise KeyReused(text(ops[op - 1].key or b""), seq)
        case [3, status]:
            raise NotActive(ref.id, STATUSES[status])
        case [4, head]:
            raise Stale(expect or 0, head)
    raise NotFound("session", ref.id)
