"""Drafts: a row for each, and its text in chunks that are only ever added.

Who adds shares a lock on the draft's row, and who ends it has all of that lock: so what ends is complete, and nothing
is left behind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from threadline.backends.backend import STATUSES, Ref, Written
from threadline.backends.postgres.claims import lives
from threadline.backends.postgres.statements import Connection, Statement, many, one
from threadline.backends.postgres.transactions import Transaction, begun, check_lease, ended
from threadline.core.digest import seal
from threadline.core.entries import stored, text, text_or_none
from threadline.core.streams import Chunk, NewStream, Settling, Stream
from threadline.errors import Damaged, NotActive, NotFound

DRAFT = 8  # columns of a draft with its seal; those of a chunk follow


def begin(connection: Connection, durable: bool, writer: int, ref: Ref, new: NewStream, lease: int | None) -> None:
    with Transaction(connection, durable=durable) as transaction:
        writing = begun(connection, transaction, ref, None, lease)
        if writing.status:
            raise NotActive(ref.id, STATUSES[writing.status])
        check_lease(connection, ref, transaction.lease, lease)
        key = None if new.key is None else stored(new.key)
        row = (ref.tree, ref.number, new.number, new.at, stored(new.role), key, writer)
        transaction.commit([("insert_draft", (*row, seal(*row)))], ref.id, writing.state.head)


def grow(connection: Connection, durable: bool, writer: int, chunks: Sequence[tuple[bytes, Chunk]]) -> set[int]:
    """Add chunks to streams of ours, each in its tree; the numbers of those that are not there any more."""
    statements = [statement for tree, chunk in chunks for statement in _added(tree, writer, chunk)]
    with Transaction(connection, durable=durable) as transaction:
        written = transaction.commit(statements, None, 0)
    return {chunk.stream for (_, chunk), count in zip(chunks, written[1::2], strict=True) if not count}


def _added(tree: bytes, writer: int, chunk: Chunk) -> tuple[Statement, Statement]:
    said = stored(chunk.text)
    row = (chunk.number, said, seal(tree, chunk.stream, chunk.number, said))
    return ("share_draft", (tree, chunk.stream)), ("insert_chunk", (*row, tree, chunk.stream, writer))


def let_go(connection: Connection, durable: bool, writer: int, tree: bytes, chunk: Chunk) -> None:
    """The writer ends without finishing: what it wrote last, and then nobody is its writer."""
    with Transaction(connection, durable=durable) as transaction:
        found = transaction.read("lock_draft", (tree, chunk.stream))
        for row in found:
            statements = [*(_added(tree, writer, chunk) if chunk.text else ())]
            statements.append(("set_draft_writer", (seal(*row[:-1], None), tree, chunk.stream)))
            transaction.commit(statements, None, 0)


def streams(connection: Connection, ref: Ref) -> list[Stream]:
    """The streams of a session, the oldest first."""
    found = many(connection, "drafts", (ref.tree, ref.number))
    if not found and one(connection, "head", (ref.tree, ref.number)) is None:
        raise NotFound("session", ref.id)
    drafts = ((draft, [row[DRAFT:] for row in rows]) for draft, rows in groupby(found, key=lambda row: row[:DRAFT]))
    return [_stream(connection, ref, draft, chunks) for draft, chunks in drafts]


def settle(
    connection: Connection, durable: bool, ref: Ref, settling: Settling, expect: int | None, lease: int | None
) -> Written:
    with Transaction(connection, durable=durable) as transaction:
        writing = begun(connection, transaction, ref, expect, lease)
        head = writing.state.head
        many(connection, "lock_drafts", (ref.tree, ref.number))
        chosen = settling.chosen(streams(connection, ref))
        entries = [writing.run(op) for op in settling.ops(chosen)]
        statements = ended(connection, writing)
        for stream in chosen:
            statements += [(name, (ref.tree, stream.number)) for name in ("delete_draft", "delete_chunks")]
        if statements:
            transaction.commit(statements, ref.id, head)
    return Written(ref, entries)


def _stream(connection: Connection, ref: Ref, draft: tuple[Any, ...], rows: Sequence[tuple[Any, ...]]) -> Stream:
    tree, _, number, at, role, key, writer, mark = draft
    chunks = [row for row in rows if row[0] is not None]
    whole = seal(*draft[:-1]) == mark and all(seal(tree, number, *row[:-1]) == row[-1] for row in chunks)
    if not whole or [row[0] for row in chunks] != list(range(1, len(chunks) + 1)):
        raise Damaged(ref.id, None, "a draft does not match its seals")
    said = b"".join(row[1] for row in chunks)
    return Stream(number, at, text(role), text_or_none(key), text(said), lives(connection, writer))
