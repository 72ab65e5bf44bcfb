"""Rows as PostgreSQL holds them, and as the core knows them.

Two things lie in columns here that are JSON on SQLite, because `write` works on them on the server: the node of the
stack of open calls, and the opening words of a session."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from struct import Struct
from typing import Any

from msgspec.structs import replace

from threadline.backends.backend import STATUSES, Record
from threadline.backends.postgres.statements import numbers
from threadline.core import calls, codec, holds
from threadline.core.about import About, unopened
from threadline.core.about import decode as about_of
from threadline.core.calls import Node, OpenCall
from threadline.core.entries import Row, stored, text, text_or_none
from threadline.core.fold import State
from threadline.core.spending import BILLION, Sum, Tokens
from threadline.errors import Damaged

IDS = 14  # where a node's ids stand in a row: in the place of `calls`
CORE = len(Row._fields)
AFTER_ALL = b"\xff" * 64  # no id of a tree is as great
SUMS = 10  # where the sums stand in a record
NINE_NUMBERS = Struct(">9q")


def row_of(found: tuple[Any, ...]) -> Row:
    """A row from the columns of the query `rows`."""
    if found[IDS] is None:
        return Row._make(found[:CORE])
    pending, below, seqs, starts = found[CORE:]
    said = tuple(OpenCall(seq, text(id), start) for seq, id, start in zip(seqs, found[IDS], starts, strict=True))
    return Row._make((*found[:IDS], calls.encode(Node(pending, said, below)), found[IDS + 1]))


def columns_of(row: Row) -> tuple[Any, ...]:
    """The columns of the statement `insert_entry`, from `seq` on."""
    if row.calls is None:
        return (*row, None, None, None, None)
    node = calls.decode(row.calls)
    ids = [stored(call.id) for call in node.calls]
    seqs, starts = numbers(call.seq for call in node.calls), numbers(call.started for call in node.calls)
    return (*row[:IDS], ids, row.body, node.pending, node.below, seqs, starts)


# -- what is said of a session -------------------------------------------------------------------------


def said(body: bytes, preview: bytes | None, preview_seq: int, preview_role: str | None) -> About:
    about = about_of(body)
    if preview is None:
        return about
    return opened(about, (preview, preview_seq, preview_role or ""))


def opened(about: About, opening: tuple[bytes, int, str]) -> About:
    """The same with opening words."""
    words, seq, role = opening
    return replace(about, preview=text(words), preview_seq=seq, preview_role=role)


def body_of(about: About) -> bytes:
    """What is said of a session, as JSON, without the opening words."""
    return codec.encode(unopened(about))


def opening_of(about: About) -> tuple[bytes | None, int, str | None]:
    return None if about.preview is None else stored(about.preview), about.preview_seq, about.preview_role


def stored_or_none(value: str | None) -> bytes | None:
    return None if value is None else stored(value)


def record_of(found: tuple[Any, ...]) -> Record:
    """From the columns of the query `record`."""
    return record_and_sums((*found[:SUMS], *found[SUMS + 1 :]), tuple(map(_unpacked, found[SUMS])))


def record_and_sums(found: tuple[Any, ...], sums: tuple[Sum, ...]) -> Record:
    """From the columns of a listing, which has the sums beside it."""
    number, id, key, body, preview, preview_seq, preview_role, status, created_at, updated_at, *fold = found[:-3]
    queued, lease, now = found[-3:]
    return Record(
        number,
        text(id),
        text_or_none(key),
        said(body, preview, preview_seq, preview_role),
        STATUSES[status],
        State._make(fold),
        created_at,
        updated_at,
        queued,
        None if lease is None else _holder(lease, now),
        sums,
    )


def _unpacked(packed: bytes) -> Sum:
    priced, *numbers = NINE_NUMBERS.unpack_from(packed)
    return sum_of((), (packed[NINE_NUMBERS.size :], priced, *numbers))


def _holder(lease: bytes, now: int) -> str | None:
    """Who holds the lease now. One that cannot be read hides nothing else: whoever writes meets it."""
    try:
        hold = holds.decode(lease)
    except (Damaged, ValueError):
        return None
    return hold.holder if hold is not None and hold.lives(now) else None


def sum_of(group: tuple[Any, ...], row: Iterable[Any]) -> Sum:
    model, priced, requests, *counts, whole, rest = row
    return Sum(group, name_or_none(model), bool(priced), requests, Tokens(*counts), whole * BILLION + rest)


def name_or_none(name: bytes | None) -> str | None:
    """Nobody has an empty name, so that is how none is stored: keys of a table have no NULLs."""
    return text(name) if name else None


# -- seals ---------------------------------------------------------------------------------------------


def head_seal(tree: bytes, number: int, realm: bytes, own: int, status: int, opened: int, updated_at: int) -> bytes:
    """Over what does not follow from the log, as `threadline.head_seal` on the server."""
    return _seal(tree, _number(number), realm, *map(_number, (own, status, opened, updated_at)))


def key_seal(tree: bytes, own: int, key: bytes, seq: int, count: int, identity: bytes) -> bytes:
    """As `threadline.key_seal` on the server."""
    return _seal(tree, _number(own), _number(len(key)), key, _number(seq), _number(count), identity)


def request_seal(
    tree: bytes, request: int, realm: bytes, id: bytes | None, at: int, model: bytes, agent: bytes, *rest: Any
) -> bytes:
    """As `threadline.request_seal` on the server; the rest are the counts, the cost and whether it was given."""
    *counts, cost, given = rest
    named = (_number(-1 if id is None else len(id)), id or b"", _number(at))
    by = (_number(len(model)), model, _number(len(agent)), agent)
    money = (cost is not None, cost or 0, given)
    return _seal(tree, _number(request), realm, *named, *by, *map(_number, counts), *map(_number, money))


def _seal(*columns: bytes) -> bytes:
    return sha256(b"".join(columns)).digest()[:8]


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)
