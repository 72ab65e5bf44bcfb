"""Verify a SQLite store: every row of every table against its digest, its seal or the fold."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import lru_cache, partial
from typing import Any

import apsw

from threadline.backends import sql
from threadline.backends.backend import Counts, OnProgress, Piece, Problem, Ref
from threadline.backends.blobs import decompress, name_of
from threadline.backends.log import PiecedLog
from threadline.backends.sqlite import search, verify_life, verify_memory, verify_search
from threadline.backends.sqlite.rows import SQL, Connection, many, one
from threadline.backends.sqlite.transactions import ENDLESS, head_seal
from threadline.core.about import decode
from threadline.core.audit import Audit
from threadline.core.digest import seal
from threadline.core.entries import stored, text, text_or_none
from threadline.core.fold import State, start, state_at
from threadline.errors import Damaged, ThreadlineError

# What reading damaged rows may raise: nothing else is expected, and nothing else is caught.
UNREADABLE = (apsw.Error, ThreadlineError, ValueError, TypeError, KeyError, AttributeError, OverflowError)


def verify(connection: Connection, progress: OnProgress | None = None) -> tuple[list[Problem], dict[str, int]]:
    counts = Counts(("sessions", "entries", "keys", "requests"), progress, partial(_entries, connection))
    checks: tuple[Callable[[], Iterator[Problem]], ...] = (
        partial(_file, connection),
        partial(_schema, connection),
        partial(_sessions, connection, counts),
        partial(_ownerless, connection, counts),
        partial(_keys, connection, counts),
        partial(_blobs, connection),
        partial(_tombstones, connection),
        partial(_families, connection),
        partial(_requests, connection, counts),
        partial(_strays, connection),
        *(partial(check, connection) for check in verify_life.ALL),
        partial(verify_memory.memories, connection),
        partial(verify_search.index, connection),
    )
    problems: list[Problem] = []
    for check in checks:
        try:
            problems.extend(check())
        except UNREADABLE as error:
            problems.append(Problem(None, None, f"cannot be read: {error}"))
    return problems, dict(counts)


def _entries(connection: Connection) -> int:
    total: int = one(connection, "entries_of_logs", (0, ENDLESS))[0]
    return total


def _file(connection: Connection) -> Iterator[Problem]:
    search.refresh(connection)
    for (line,) in many(connection, "verify_file"):
        if line != "ok":
            yield Problem(None, None, f"the file: {line}")


def _schema(connection: Connection) -> Iterator[Problem]:
    """A flipped bit in a table's definition would change what all of its rows mean."""
    if many(connection, "schema") != _tables_of(sql.schema("sqlite"), search.is_made(connection)):
        yield Problem(None, None, "the schema is not ours")


@lru_cache(maxsize=2)
def _tables_of(schema: str, indexed: bool) -> list[Any]:
    """What SQLite remembers of a schema, word for word; with a search index or without."""
    fresh = Connection(":memory:")
    fresh.execute(schema)
    if indexed:
        search.make(fresh)
    return many(fresh, "schema")


def _sessions(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    for (number,) in many(connection, "verify_numbers"):
        problems = list(_all_of(connection, number, counts))
        if problems and _gone(connection, number):  # deleted while it was looked at
            continue
        counts["sessions"] += 1
        yield from problems


def _all_of(connection: Connection, number: int, counts: dict[str, int]) -> Iterator[Problem]:
    name = f"#{number}"
    try:
        name, tree = yield from _session(connection, number)
        yield from _log(connection, number, name, tree, counts)
    except UNREADABLE as error:
        yield Problem(name, None, f"cannot be read: {error}")


def _gone(connection: Connection, number: int) -> bool:
    try:
        return all(one(connection, name, (number,)) is None for name in ("verify_session", "verify_head"))
    except UNREADABLE:
        return False


def _session(connection: Connection, number: int) -> Generator[Problem, None, tuple[str, bytes]]:
    """The rows that say what the session is; returns its name and that of its tree."""
    row = one(connection, "verify_session", (number,))
    if row is None:
        yield Problem(f"#{number}", None, "the session row is missing")
        return f"#{number}", b""
    *columns, mark = row
    namespace, name, about = columns[1], text(columns[2]), decode(columns[-1])
    if seal(*columns) != mark:
        yield Problem(name, None, "the session row does not match its seal")
    if {(namespace, stored(tag)) for tag in about.tags} != set(many(connection, "verify_tags", (number,))):
        yield Problem(name, None, "the tags that listings use are not those of the session")
    return name, columns[0]


def _log(connection: Connection, number: int, name: str, tree: bytes, counts: dict[str, int]) -> Iterator[Problem]:
    """The head row, the lineage, and the session's own log, folded anew."""
    head = one(connection, "verify_head", (number,))
    if head is None:
        yield Problem(name, None, "the head row is missing")
        return
    namespace, mark, own, *columns = head
    if head_seal(number, namespace, own, *columns[:3]) != mark:
        yield Problem(name, None, "the head row does not match its seal")
    lineage = yield from _lineage(connection, number, name, own)
    log = PiecedLog(Ref(number, name, None, lineage, tree), partial(_select, connection))
    (salt,) = one(connection, "salt", (lineage[0].log,))
    base, state = lineage[-1].first - 1, State(*columns[3:])
    audit = Audit(log, state_at(log, base, salt) if base else start(salt), state.head, counts)
    for seq, what in audit:
        yield Problem(name, seq, what)
    if audit.state.chain and audit.state != state:
        wrong = [field for field, a, b in zip(State._fields, audit.state, state, strict=True) if a != b]
        yield Problem(name, None, f"the head row is not the fold of the log: {', '.join(wrong)}")
    (outside,) = one(connection, "verify_outside", (own, state.head, base))
    still = one(connection, "verify_head", (number,))
    if outside and still is not None and still[6] == state.head:  # else somebody appended meanwhile
        yield Problem(name, None, f"{outside} entries lie outside of the log's bounds")


def _lineage(connection: Connection, number: int, name: str, own: int) -> Generator[Problem, None, tuple[Piece, ...]]:
    shares = many(connection, "verify_shares", (number,))
    expected = 1
    for *columns, mark in shares:
        if seal(*columns) != mark:
            yield Problem(name, None, "a share row does not match its seal")
        if columns[1] != expected:
            yield Problem(name, None, f"no log holds entry {expected}")
        expected = columns[2] + 1
    if not shares or shares[-1][2] != ENDLESS or shares[-1][3] != own:
        raise Damaged(name, None, "its own log is not the last of its lineage")
    return tuple(Piece(log, first, last) for _, first, last, log, _ in shares)


def _ownerless(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """Logs that outlived their session, through the eyes of one that reads as far as anybody does."""
    for log, number, first, last in many(connection, "verify_ownerless"):
        problems = list(_shared(connection, counts, number, Piece(log, first, last)))
        if problems and not _gone(connection, number):
            yield from problems


def _shared(connection: Connection, counts: dict[str, int], number: int, piece: Piece) -> Iterator[Problem]:
    """A piece of a session that lies in a log which has no owner any more."""
    log, first, last = piece
    name = f"#{number}"
    try:
        tree, _, id, *_ = one(connection, "verify_session", (number,))
        name = text(id)
        lineage = tuple(Piece(*row[:3]) for row in many(connection, "lineage", (number,)))
        shared = PiecedLog(Ref(number, name, None, lineage, tree), partial(_select, connection))
        (salt,) = one(connection, "salt", (lineage[0].log,))
        audit = Audit(shared, state_at(shared, first - 1, salt), last, counts)
        for seq, what in audit:
            yield Problem(name, seq, what)
        (outside,) = one(connection, "verify_outside", (log, last, first - 1))
        if outside:
            yield Problem(name, None, f"{outside} entries lie in a log where nobody reads them")
    except UNREADABLE as error:
        yield Problem(name, None, f"cannot be read: {error}")


def _keys(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """Every idempotency key against its seal and the entries it names, and the other way round."""
    for *columns, mark, id, reach, found in connection.execute(SQL["verify_keys"]):
        counts["keys"] += 1
        if seal(*columns) != mark:
            yield Problem(text_or_none(id), columns[2], "the row of an idempotency key does not match its seal")
        elif found != min(columns[3], (reach or 0) - columns[2] + 1):  # a log that was cut may end within a call
            yield Problem(text_or_none(id), columns[2], "an idempotency key names entries that do not carry it")
    for seq, id in many(connection, "verify_keyless"):
        yield Problem(text_or_none(id), seq, "the row of its idempotency key is missing")


def _blobs(connection: Connection) -> Iterator[Problem]:
    """Every large part against its name, and its uses against the entries."""
    for _, name, size, content in connection.execute(SQL["verify_blobs"]):
        try:
            found = decompress(content)
        except Damaged as error:
            yield Problem(None, None, error.what)
            continue
        if name_of(found) != name or len(found) != size:
            yield Problem(None, None, "a large part does not match its name")
    for what, log, seq in many(connection, "verify_blob_uses"):
        yield Problem(_session_of(connection, log), seq, what)
    for log, seq in many(connection, "verify_unused"):
        yield Problem(_session_of(connection, log), seq, "nothing records its large parts")


def _session_of(connection: Connection, log: int | None) -> str | None:
    found = None if log is None else one(connection, "verify_owner", (log,))
    return None if found is None else text(found[0])


def _tombstones(connection: Connection) -> Iterator[Problem]:
    """How many entries of each log are redacted; the audit looks at each of them."""
    for id, said, found in many(connection, "verify_redacted"):
        yield Problem(text_or_none(id), None, f"{found} of its entries are redacted, and its log says {said}")


def _families(connection: Connection) -> Iterator[Problem]:
    """Every child beside its parent: what is said of it, and what listings and lookups find it by."""
    for id, said, call_id, parent_id, parent_said, akin, child in many(connection, "verify_children"):
        about, parent = decode(said), None if parent_said is None else decode(parent_said)
        if parent is None or not akin:
            yield Problem(text(id), None, "its parent is not there")
        elif (about.parent, about.depth) != (text(parent_id), parent.depth + 1) or child != 1:
            yield Problem(text(id), None, "it is not what its parent's child must be")
        elif (None if about.call_id is None else stored(about.call_id)) != call_id:
            yield Problem(text(id), None, "the call that it answers is not the one it is found by")
    for (id,) in many(connection, "verify_roots"):
        yield Problem(text(id), None, "listings take it for a child, and it has no parent")


def _requests(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """Every request against its seal, and all sums against the requests."""
    for *columns, mark, id, akin in connection.execute(SQL["verify_requests"]):
        counts["requests"] += 1
        if seal(*columns) != mark:
            yield Problem(text_or_none(id), None, "the row of a request does not match its seal")
        elif not akin:
            yield Problem(text_or_none(id), None, "a request is charged to a session outside of its tree")
    for number, _ in many(connection, "verify_spent"):
        row = one(connection, "verify_session", (number,))
        yield Problem(None if row is None else text(row[2]), None, "the sums of its requests are not what they must be")


def _strays(connection: Connection) -> Iterator[Problem]:
    kinds = (
        "entries of no log",
        "logs of no session",
        "shares of no session",
        "tags of no session",
        "sums of no session",
        "keys of no log",
    )
    for count, kind in zip(one(connection, "verify_strays"), kinds, strict=True):
        if count:
            yield Problem(None, None, f"{count} {kind}")


def _select(connection: Connection, name: str, values: tuple[Any, ...]) -> list[Any]:
    """Unreadable pages become Damaged, so that the log can read around them."""
    try:
        return many(connection, name, values)
    except apsw.CorruptError as error:
        raise Damaged(None, None, str(error)) from error
