"""Drafts inside a write transaction: a row for each, and its text in chunks that are only ever added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadline.backends.backend import STATUSES, Ref, Target, Written
from threadline.backends.sqlite import transactions
from threadline.backends.sqlite.claims import Claim
from threadline.backends.sqlite.leases import held, now_us
from threadline.backends.sqlite.rows import Connection, many, run
from threadline.core import holds
from threadline.core.digest import seal
from threadline.core.entries import stored, text, text_or_none
from threadline.core.streams import Chunk, NewStream, Settling, Stream
from threadline.errors import Damaged, NotActive


def begin(connection: Connection, claim: Claim, target: Target, new: NewStream, lease: int | None) -> Ref:
    ref = transactions.write(connection, target, (), None).ref
    status, hold = held(connection, ref)
    if status:
        raise NotActive(ref.id, STATUSES[status])
    holds.check(hold, lease, now_us(), ref.id)
    key = None if new.key is None else stored(new.key)
    row = (new.number, ref.number, new.at, stored(new.role), key, claim.name())
    run(connection, "insert_draft", (*row, seal(*row)))
    return ref


def grow(connection: Connection, claim: Claim, chunks: Sequence[Chunk]) -> set[int]:
    """Add chunks to streams of ours; the numbers of those that are not there any more."""
    gone: set[int] = set()
    for chunk in chunks:
        row = (chunk.stream, chunk.number, stored(chunk.text))
        run(connection, "insert_chunk", (*row, seal(*row), claim.name()))
        if not connection.changes():
            gone.add(chunk.stream)
    return gone


def let_go(connection: Connection, claim: Claim, chunk: Chunk) -> None:
    """The writer ends without finishing: what it wrote last, and then nobody is its writer."""
    if chunk.text:
        grow(connection, claim, (chunk,))
    for row in many(connection, "draft", (chunk.stream,)):
        columns = (*row[:5], None)
        run(connection, "set_draft_writer", (None, seal(*columns), chunk.stream))


def streams(connection: Connection, claim: Claim, ref: Ref) -> list[Stream]:
    """The streams of a session, the oldest first."""
    transactions.head_of(connection, ref)  # raises NotFound if it is gone
    return [_stream(connection, claim, ref, row) for row in many(connection, "drafts", (ref.number,))]


def settle(
    connection: Connection, claim: Claim, ref: Ref, settling: Settling, expect: int | None, lease: int | None
) -> Written:
    chosen = settling.chosen(streams(connection, claim, ref))
    written = transactions.write(connection, Target(ref), settling.ops(chosen), expect, None, lease)
    for stream in chosen:
        run(connection, "delete_chunks", (stream.number,))
        run(connection, "delete_draft", (stream.number,))
    return written


def _stream(connection: Connection, claim: Claim, ref: Ref, row: Any) -> Stream:
    number, _, at, role, key, writer, mark = row
    chunks = many(connection, "chunks", (number,))
    whole = seal(*row[:-1]) == mark and all(seal(*chunk[:-1]) == chunk[-1] for chunk in chunks)
    if not whole or [chunk[1] for chunk in chunks] != list(range(1, len(chunks) + 1)):
        raise Damaged(ref.id, None, "a draft does not match its seals")
    said = b"".join(chunk[2] for chunk in chunks)
    return Stream(number, at, text(role), text_or_none(key), text(said), claim.lives(writer))
