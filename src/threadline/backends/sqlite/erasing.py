"""Erasing sessions and redacting entries, inside a write transaction."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from threadline.backends.backend import Ref
from threadline.backends.log import PiecedLog
from threadline.backends.sqlite import memory, search, trees, usage
from threadline.backends.sqlite.rows import Connection, many, one, run
from threadline.backends.sqlite.sessions import ref_of
from threadline.backends.sqlite.transactions import FOLD, about_now, head_of, head_seal, set_about
from threadline.core.digest import seal
from threadline.core.entries import Row
from threadline.core.receipts import held
from threadline.core.redaction import echoes, is_redacted, redacted, retold
from threadline.errors import NotFound


class Removed(NamedTuple):
    """Whose content went, how many entries, and what of it is others'."""

    sessions: list[str]
    entries: int
    kept: list[str]


# -- sessions ------------------------------------------------------------------------------------------


def erase(connection: Connection, ref: Ref, cascade: bool, at: int) -> Removed:
    head_of(connection, ref)  # raises NotFound
    doomed = _holders(connection, ref)
    others = [goner.id for goner in doomed[1:]]
    if others and not cascade:
        raise held(ref.id, others)
    heir = trees.parent(connection, ref)
    kept = [*_kept(connection, ref, heir)]
    entries = sum(one(connection, "count_own", (goner.lineage[-1].log,))[0] for goner in doomed)
    below = {record.number for record in trees.below(connection, ref)}
    for goner in doomed:
        usage.bequeath(connection, goner, heir if goner.number in below else None)
        memory.unname(connection, one(connection, "namespace_of", (goner.number,))[0], goner.id)
        trees.remove(connection, goner)
    run(connection, "owe", (at,))
    return Removed([goner.id for goner in doomed], entries, kept)


def _holders(connection: Connection, ref: Ref) -> list[Ref]:
    """The session, and all that hold parts of it, or parts of those."""
    found = {ref.number: ref}
    left = [ref]
    for each in left:  # grows while it is walked
        for row in many(connection, "holders", (each.number, each.lineage[-1].log)):
            holder = ref_of(connection, *row)
            if holder.number not in found:
                found[holder.number] = holder
                left.append(holder)
    return left


def _kept(connection: Connection, ref: Ref, heir: Ref | None) -> Iterator[str]:
    about = about_now(connection, ref)
    if about.origin is not None and len(ref.lineage) > 1:
        origin, at = about.origin
        yield f"entries 1 to {at} are those of session {origin!r}, which it was forked from"
    if heir is not None and one(connection, "requests", (ref.number, -(2**62), 0, 1)) is not None:
        yield f"what its requests took is charged to its parent {heir.id!r}, without their ids and its agent"


# -- entries -------------------------------------------------------------------------------------------


def redact(connection: Connection, ref: Ref, seq: int, reason: str, at: int) -> Removed:
    head = head_of(connection, ref)[FOLD]
    if not 1 <= seq <= head:
        raise NotFound("entry", seq, f"the log ends at {head}")
    log = PiecedLog(ref, partial(many, connection))
    original = log.row(seq)
    original.check(ref.id)
    place = _log_of(ref, seq)
    readers = [ref_of(connection, *row) for row in many(connection, "readers", (place, seq))]
    names = [reader.id for reader in readers]
    if is_redacted(original):
        return Removed(names, 0, [])
    rows = redacted(log, original, _call(connection, log, place, original), reason, at)
    for row in rows:
        bury(connection, place, row)
    for reader in readers:
        _retell(connection, reader, original, rows[0], at)
    run(connection, "delete_unused_blobs", (ref.tree,))
    run(connection, "owe", (at,))
    return Removed(names, 1, [])


def _retell(connection: Connection, reader: Ref, original: Row, buried: Row, at: int) -> None:
    """What else a session tells of a redacted entry: later entries, its title, its system prompt."""
    namespace, own, status, opened, updated_at, _, head, *_ = head_of(connection, reader)
    for row in echoes(PiecedLog(reader, partial(many, connection)), head, original, buried):
        bury(connection, _log_of(reader, row.seq), row)
    about = about_now(connection, reader)
    if (new := retold(about, original)) != about:
        set_about(connection, reader, new)
    updated_at = max(at, updated_at + 1)
    mark = head_seal(reader.number, namespace, own, status, opened, updated_at)
    run(connection, "touch", (updated_at, mark, reader.number))


def bury(connection: Connection, log: int, row: Row) -> None:
    """Put a tombstone in the place of an entry's content, wherever that lies."""
    search.forget(connection, log, row.seq, row.seq)
    ((before, was),) = many(connection, "content_of", (log, row.seq))
    if row.key != before and before is not None and (found := one(connection, "key_row", (log, before))) is not None:
        run(connection, "delete_key", (log, before))
        key_row = (log, row.key, *found[1:])
        run(connection, "insert_key", (*key_row, seal(*key_row)))
    run(connection, "bury", (row.key, row.usage, row.body, log, row.seq))
    for statement in trees.REDACTIONS:
        run(connection, statement, (log, row.seq))
    if not was:
        run(connection, "count_tombstone", (1, log))


def _call(connection: Connection, log: PiecedLog, place: int, row: Row) -> list[Row]:
    """The rows of the call that wrote an entry, where it had a key."""
    if row.key is None or (found := one(connection, "key_row", (place, row.key))) is None:
        return []
    _, first, count, _ = found
    return [*log.rows(first, first + count - 1)]


def _log_of(ref: Ref, seq: int) -> int:
    return next(piece.log for piece in ref.lineage if piece.first <= seq <= piece.last)


def tombstones(connection: Connection, ref: Ref) -> list[Row]:
    """The redacted entries of a session's own log."""
    log = PiecedLog(ref, partial(many, connection))
    return [log.row(seq) for (seq,) in many(connection, "tombstones", (ref.lineage[-1].log,))]


def bury_all(connection: Connection, ref: Ref, rows: list[Row], at: int) -> None:
    """Put tombstones into a session's own log that another store has there."""
    for row in rows:
        bury(connection, ref.lineage[-1].log, row)
    run(connection, "delete_unused_blobs", (ref.tree,))
    run(connection, "owe", (at,))
