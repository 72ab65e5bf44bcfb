"""Verify what the sessions of a tree have in common: families, logs that outlived their session, requests, blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from threadline.backends.backend import Piece, Problem, Ref
from threadline.backends.blobs import decompress, name_of
from threadline.backends.postgres import places
from threadline.backends.postgres.places import Place
from threadline.backends.postgres.rows import key_seal, request_seal, said, stored_or_none
from threadline.backends.postgres.statements import Connection, many, one
from threadline.backends.postgres.transactions import log_of
from threadline.core.audit import Audit
from threadline.core.entries import text, text_or_none
from threadline.core.fold import state_at
from threadline.errors import Damaged

Check = Callable[[Connection, dict[str, int]], Iterator[Problem]]


def families(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """Every child beside its parent: what is said of it, and what listings and lookups find it by."""
    for id, body, call_id, parent_id, parent_body, akin, child in many(connection, "verify_children"):
        about = said(body, None, 0, None)
        if parent_body is None or not akin:
            yield Problem(text(id), None, "its parent is not there")
        elif (about.parent, about.depth) != (text(parent_id), said(parent_body, None, 0, None).depth + 1) or child != 1:
            yield Problem(text(id), None, "it is not what its parent's child must be")
        elif stored_or_none(about.call_id) != call_id:
            yield Problem(text(id), None, "the call that it answers is not the one it is found by")
    for (id,) in many(connection, "verify_roots"):
        yield Problem(text(id), None, "listings take it for a child, and it has no parent")


# -- logs ----------------------------------------------------------------------------------------------


def ownerless(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """Logs that outlived their session, through the eyes of one that reads as far as anybody does."""
    for tree, log, session, first, last in many(connection, "verify_ownerless"):
        reader = places.ref_at(connection, Place(tree, session, b""))
        problems = [] if reader is None else list(_shared(connection, counts, reader, Piece(log, first, last)))
        if problems and places.ref_at(connection, Place(tree, session, b"")) is not None:  # else it was deleted
            yield from problems


def _shared(connection: Connection, counts: dict[str, int], reader: Ref, piece: Piece) -> Iterator[Problem]:
    log = log_of(connection, reader)
    (salt,) = one(connection, "salt", (reader.tree, reader.lineage[0].log)) or (b"",)
    audit = Audit(log, state_at(log, piece.first - 1, salt), piece.last, counts)
    for seq, what in audit:
        yield Problem(reader.id, seq, what)
    (outside,) = one(connection, "verify_outside", (reader.tree, piece.log, piece.last, piece.first - 1))
    if outside:
        yield Problem(reader.id, None, f"{outside} entries lie in a log where nobody reads them")
    yield from keys(connection, reader.tree, piece, reader.id, counts)


def keys(connection: Connection, tree: bytes, piece: Piece, name: str, counts: dict[str, int]) -> Iterator[Problem]:
    """Every idempotency key of a log against its seal and the entries it names, and the other way round."""
    for *columns, mark, found in many(connection, "verify_keys", (tree, piece.log)):
        counts["keys"] += 1
        if key_seal(*columns) != mark:
            yield Problem(name, columns[3], "the row of an idempotency key does not match its seal")
        elif found != min(columns[4], piece.last - columns[3] + 1):  # a log that was cut may end within a call
            yield Problem(name, columns[3], "an idempotency key names entries that do not carry it")
    for (seq,) in many(connection, "verify_keyless", (tree, piece.log)):
        yield Problem(name, seq, "the row of its idempotency key is missing")


# -- requests ------------------------------------------------------------------------------------------


def requests(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """Every request against its seal, and all sums against the requests."""
    last: tuple[bytes, int] = (b"", 0)
    while page := many(connection, "verify_requests", last):
        for number, tree, *columns, mark, id, akin in page:
            counts["requests"] += 1
            if request_seal(tree, number, *columns) != mark:
                yield Problem(text_or_none(id), None, "the row of a request does not match its seal")
            elif not akin:
                yield Problem(text_or_none(id), None, "a request is charged to a session outside of its tree")
            last = (tree, number)
    for (id,) in many(connection, "verify_spent"):
        yield Problem(text_or_none(id), None, "the sums of its requests are not what they must be")


# -- large content -------------------------------------------------------------------------------------


def blobs(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """Every large part against its name, and its uses against the entries."""
    last = (b"", b"")
    while page := many(connection, "verify_blobs", last):
        for tree, name, size, content in page:
            last = (tree, name)
            try:
                found = decompress(content)
            except Damaged as error:
                yield Problem(None, None, error.what)
                continue
            if name_of(found) != name or len(found) != size:
                yield Problem(None, None, "a large part does not match its name")
    for what, tree, log, seq in many(connection, "verify_blob_uses"):
        yield Problem(_reader(connection, tree, log), seq, what)


def tombstones(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """How many entries of each log are redacted; the audit looks at each of them."""
    for tree, log, told, found in many(connection, "verify_redacted"):
        what = f"{found} of its entries are redacted, and its log says {told}"
        yield Problem(_reader(connection, tree, log), None, what)


def _reader(connection: Connection, tree: bytes, log: int) -> str | None:
    """A session that reads a log; None where there is none."""
    found = one(connection, "reader", (tree, log))
    return None if found is None else text(found[0])


ALL: tuple[Check, ...] = (families, ownerless, requests, blobs, tombstones)
