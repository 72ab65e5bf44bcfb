"""Erasing sessions and redacting entries on PostgreSQL: unreachable at once, and gone when the server has tidied up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from threadline.backends.backend import STATUSES, Piece, Ref
from threadline.backends.postgres import memory, places, trees, usage
from threadline.backends.postgres.places import Place
from threadline.backends.postgres.rows import key_seal
from threadline.backends.postgres.statements import Connection, Statement, many, numbers, one
from threadline.backends.postgres.transactions import (
    Transaction,
    about_now,
    changed_about,
    log_of,
    session_row,
    set_status,
)
from threadline.backends.postgres.writing import Writing
from threadline.core.about import Change
from threadline.core.entries import Row, text
from threadline.core.reading import NO_LOG
from threadline.core.receipts import Pending, held
from threadline.core.redaction import echoes, is_redacted, redacted, retold
from threadline.core.view import Log
from threadline.errors import NotFound

NAMESPACE = 1  # where a session's namespace stands in its row


class Removed(NamedTuple):
    """Whose content went, how many entries, and what of it is others'; and the names that are still to be freed."""

    sessions: list[str]
    entries: int
    kept: list[str]
    names: list[tuple[Ref, str]]


# -- sessions ------------------------------------------------------------------------------------------


def erase(connection: Connection, durable: bool, ref: Ref, cascade: bool) -> Removed:
    tree = ref.tree
    with Transaction(connection, durable=durable) as transaction:
        head = transaction.lock_tree(tree).get(ref.number)
        if head is None:
            raise NotFound("session", ref.id)
        doomed = _holders(connection, ref)
        others = [goner.id for goner in doomed[1:]]
        if others and not cascade:
            raise held(ref.id, others)
        heir = trees.parent(connection, ref)
        kept = [*_kept(connection, ref, heir)]
        names = [(goner, text(session_row(connection, goner)[NAMESPACE])) for goner in doomed]
        goners = numbers(goner.number for goner in doomed)
        (entries,) = one(connection, "count_own", (tree, numbers(goner.lineage[-1].log for goner in doomed)))
        memory.unname(connection, names[0][1], [goner.id for goner in doomed])
        statements = [
            *_bequeathed(connection, ref, heir),
            *usage.fates(tree, goners, None),
            *trees.removals(connection, tree, names),
        ]
        transaction.commit(statements, ref.id, head)
    return Removed([goner.id for goner in doomed], entries, kept, names)


def _holders(connection: Connection, ref: Ref) -> list[Ref]:
    """The session, and all that hold parts of it, or parts of those."""
    known, left = {ref.number}, [ref]
    for each in left:  # grows while it is walked
        place = {"tree": ref.tree, "session": each.number, "log": each.lineage[-1].log}
        for (number,) in many(connection, "holders", place):
            holder = None if number in known else places.ref_at(connection, Place(ref.tree, number, b""))
            known.add(number)
            if holder is not None:
                left.append(holder)
    return left


def _kept(connection: Connection, ref: Ref, heir: Ref | None) -> Iterator[str]:
    about = about_now(connection, ref)
    if about.origin is not None and len(ref.lineage) > 1:
        origin, at = about.origin
        yield f"entries 1 to {at} are those of session {origin!r}, which it was forked from"
    if heir is not None and usage.charges(connection, ref, usage.BEFORE_ALL, 1):
        yield f"what its requests took is charged to its parent {heir.id!r}, without their ids and its agent"


def _bequeathed(connection: Connection, ref: Ref, heir: Ref | None) -> Iterator[Statement]:
    """What all below it spent goes to its parent, without anything that tells whose it was."""
    if heir is None:
        return
    (realm, *_) = one(connection, "head", (heir.tree, heir.number))
    for record in trees.below(connection, ref):
        goner = ref._replace(number=record.number)
        taken = usage.charges(connection, goner, usage.BEFORE_ALL, usage.ALL)
        nameless = [charge._replace(id=None, agent=None) for _, charge in taken]
        yield from usage.account(connection, heir, realm, nameless)


def pending(connection: Connection) -> list[Pending]:
    """Where the bytes of what was removed still lie on a server, and how they go."""
    autovacuum, archiving, checkpoint = one(connection, "keeping")
    comes = f"autovacuum is {autovacuum}"
    archived = "; archived segments stay as long as the archive keeps them" if archiving != "off" else ""
    return [
        Pending(
            "dead rows in the tables and indexes of the schema threadline",
            "PostgreSQL keeps what is deleted until it vacuums",
            f"until a vacuum frees their space ({comes}) and it is used again, or at once with VACUUM FULL",
        ),
        Pending(
            "the server's write-ahead log",
            "it holds all that was written since its last checkpoints",
            f"until the segments are recycled, after the next checkpoints (every {checkpoint} at most){archived}",
        ),
    ]


def names_pending(names: Sequence[tuple[Ref, str]]) -> Pending:
    sessions = ", ".join(str(ref.number) for ref, _ in names)
    return Pending(
        "reserved names in threadline.name",
        "the server failed after the session was gone",
        f"until DELETE FROM threadline.name WHERE session IN ({sessions})",
    )


# -- entries -------------------------------------------------------------------------------------------


def redact(connection: Connection, durable: bool, ref: Ref, seq: int, reason: str, at: int) -> Removed:
    tree = ref.tree
    with Transaction(connection, durable=durable) as transaction:
        heads = transaction.lock_tree(tree)
        if ref.number not in heads:
            raise NotFound("session", ref.id)
        if not 1 <= seq <= heads[ref.number]:
            raise NotFound("entry", seq, f"the log ends at {heads[ref.number]}")
        log = log_of(connection, ref)
        original = log.row(seq)
        original.check(ref.id)
        place = _log_of(ref, seq)
        found = (
            places.ref_at(connection, Place(tree, n, b"")) for (n,) in many(connection, "readers", (tree, place, seq))
        )
        readers = [reader for reader in found if reader is not None]
        names = [reader.id for reader in readers]
        if is_redacted(original):
            return Removed(names, 0, [], [])
        rows = redacted(log, original, _call(connection, ref, log, place, original), reason, at)
        burying = _Burying(connection, tree)
        for row in rows:
            burying.add(place, row, log.row(row.seq))
        for reader in readers:
            burying.retell(reader, heads[reader.number], original, rows[0])
        told = [statement for reader in readers for statement in _retold(connection, reader, original, at)]
        transaction.commit([*burying.statements(), *told], ref.id, heads[ref.number])
    return Removed(names, 1, [], [])


class _Burying:
    """The tombstones of one transaction, each once, however many sessions read the entry."""

    def __init__(self, connection: Connection, tree: bytes) -> None:
        self._connection = connection
        self._tree = tree
        self._rows: dict[tuple[int, int], tuple[Row, Row]] = {}

    def add(self, log: int, row: Row, before: Row) -> None:
        self._rows[log, row.seq] = (row, before)

    def retell(self, reader: Ref, head: int, original: Row, buried: Row) -> None:
        """What later entries of a session tell of a redacted one."""
        log = log_of(self._connection, reader)
        for row in echoes(log, head, original, buried):
            self.add(_log_of(reader, row.seq), row, log.row(row.seq))

    def statements(self) -> Iterator[Statement]:
        tree = self._tree
        yield "lock_logs", {"tree": tree, "logs": numbers(sorted({log for log, _ in self._rows}))}
        keys = {(log, row.key, before.key) for (log, _), (row, before) in self._rows.items() if row.key != before.key}
        for log, new, old in sorted(keys, key=str):
            yield from self._renamed(log, new or b"", old or b"")
        for (log, seq), (row, before) in self._rows.items():
            yield "bury", (row.key, row.usage, row.body, tree, log, seq)
            yield from ((name, (tree, log, seq)) for name in trees.REDACTIONS)
            if not is_redacted(before):
                yield "count_tombstones", (1, tree, log)
        yield "delete_unused_blobs", {"tree": tree, "logs": "{}"}

    def _renamed(self, log: int, key: bytes, before: bytes) -> Iterator[Statement]:
        found = one(self._connection, "key_row", (self._tree, log, before))
        if found is not None:
            columns = (self._tree, log, key, *found)
            yield "delete_key", (self._tree, log, before)
            yield "insert_key", (*columns, key_seal(*columns))


def _retold(connection: Connection, reader: Ref, original: Row, at: int) -> Iterator[Statement]:
    """What is said of a session, without what was taken from that entry; and its time moves on."""
    yield from changed_about(connection, reader, retold(about_now(connection, reader), original))
    head = one(connection, "head", (reader.tree, reader.number))
    writing = Writing(reader, head, NO_LOG, lambda key: None, None)
    yield from set_status(writing, Change(at=at, status=STATUSES[writing.status]))


def _call(connection: Connection, ref: Ref, log: Log, place: int, row: Row) -> list[Row]:
    """The rows of the call that wrote an entry, where it had a key."""
    found = None if row.key is None else one(connection, "key_row", (ref.tree, place, row.key))
    return [] if found is None else [*log.rows(found[0], found[0] + found[1] - 1)]


def _log_of(ref: Ref, seq: int) -> int:
    return next(piece.log for piece in ref.lineage if piece.first <= seq <= piece.last)


# -- copies --------------------------------------------------------------------------------------------


def tombstones(connection: Connection, ref: Ref) -> list[Row]:
    """The redacted entries of a session's own log."""
    own: Piece = ref.lineage[-1]
    log = log_of(connection, ref)
    return [log.row(seq) for (seq,) in many(connection, "tombstones", {"tree": ref.tree, "log": own.log})]


def bury(connection: Connection, durable: bool, ref: Ref, rows: Sequence[Row]) -> None:
    """Put tombstones into a session's own log that another store has there."""
    with Transaction(connection, durable=durable) as transaction:
        if ref.number not in transaction.lock_tree(ref.tree):
            raise NotFound("session", ref.id)
        log, burying = log_of(connection, ref), _Burying(connection, ref.tree)
        for row in rows:
            burying.add(ref.lineage[-1].log, row, log.row(row.seq))
        transaction.commit([*burying.statements()], ref.id, 0)
