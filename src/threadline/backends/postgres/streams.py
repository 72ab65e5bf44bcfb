"""Drafts: a row for each, and its text in chunks that are only ever added.

Who adds shares a lock on the draft's row, and who ends it has all of that lock: so what ends is complete, and nothing
is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

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
    return [_stream(connection, ref, draft, chunks) for draft, chunks in by_draft(found)]


def settle(
    connection: Connection, durable: bool, ref: Ref, settling: Settling, expect: int | None, lease: int | None
) -> Written:
    with Transaction(connection, durable=durable) as transaction:
        writing = begun(connection, transaction, ref, expect, lease)
        head = writing.state.head
        many(connection, "lock_drafts", (ref.tree, [ref.number]))
        chosen = settling.chosen(streams(connection, ref))
        entries = [writing.run(op) for op in settling.ops(chosen)]
        statements = ended(connection, writing)
        for stream in chosen:
            statements += [(name, (ref.tree, stream.number)) for name in ("delete_draft", "delete_chunks")]
        if statements:
            transaction.commit(statements, ref.id, head)
    return Written(ref, entries)


Columns: TypeAlias = tuple[Any, ...]


def by_draft(rows: Sequence[Columns]) -> Iterator[tuple[Columns, list[Columns]]]:
    """Each draft and its chunks, from the rows of the query `drafts`."""
    for draft, found in groupby(rows, key=lambda row: row[:DRAFT]):
        chunks = [row[DRAFT:] for row in found]
        yield draft, [chunk for chunk in chunks if chunk[0] is not None]


def flaws(draft: Columns, chunks: Sequence[Columns]) -> Iterator[str]:
    """What is not as it was written."""
    tree, _, number, *_, mark = draft
    if seal(*draft[:-1]) != mark:
        yield "a draft does not match its seal"
    if any(seal(tree, number, *chunk[:-1]) != chunk[-1] for chunk in chunks):
        yield "a piece of a draft does not match its seal"
    if [chunk[0] for chunk in chunks] != list(range(1, len(chunks) + 1)):
        yield "a piece of a draft is missing"


def _stream(connection: Connection, ref: Ref, draft: Columns, chunks: Sequence[Columns]) -> Stream:
    for flaw in flaws(draft, chunks):
        raise Damaged(ref.id, None, flaw)
    _, _, number, at, role, key, writer, _ = draft
    said = b"".join(chunk[1] for chunk in chunks)
    return Stream(number, at, text(role), text_or_none(key), text(said), lives(connection, writer))
