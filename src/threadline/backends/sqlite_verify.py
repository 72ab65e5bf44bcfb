"""Verify a SQLite store: every row of every table against its digest, its seal or the fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apsw

from threadline.backends import sql
from threadline.backends.backend import Piece, Problem, Ref
from threadline.backends.sqlite import ENDLESS, SqliteLog
from threadline.core.about import About
from threadline.core.audit import Audit
from threadline.core.digest import seal
from threadline.core.entries import stored, text, text_or_none
from threadline.core.fold import State, start, state_at
from threadline.errors import Damaged, ThreadlineError


def verify(connection: apsw.Connection) -> tuple[list[Problem], dict[str, int]]:
    counts = {"sessions": 0, "entries": 0, "keys": 0}
    checks: tuple[Callable[[], Iterator[Problem]], ...] = (
        partial(_file, connection),
        partial(_schema, connection),
        partial(_sessions, connection, counts),
        partial(_keys, connection, counts),
        partial(_strays, connection),
    )
    problems: list[Problem] = []
    for check in checks:
        try:
            problems += check()
        except (apsw.Error, ThreadlineError, ValueError, TypeError, KeyError) as error:
            problems.append(Problem(None, None, f"cannot be read: {error}"))
    return problems, counts


def _file(connection: apsw.Connection) -> Iterator[Problem]:
    """What SQLite itself can tell of its pages and indexes."""
    for (line,) in connection.execute("PRAGMA integrity_check(1000)").fetchall():
        if line != "ok":
            yield Problem(None, None, f"the file: {line}")


def _schema(connection: apsw.Connection) -> Iterator[Problem]:
    """A flipped bit in a table's definition would change what all of its rows mean."""
    fresh = apsw.Connection(":memory:")
    fresh.execute(sql.schema("sqlite"))
    query = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    if connection.execute(query).fetchall() != fresh.execute(query).fetchall():
        yield Problem(None, None, "the schema is not ours")


def _sessions(connection: apsw.Connection, counts: dict[str, int]) -> Iterator[Problem]:
    numbers = connection.execute("SELECT session FROM session UNION SELECT session FROM head ORDER BY 1").fetchall()
    for (number,) in numbers:
        counts["sessions"] += 1
        name = f"#{number}"
        try:
            name, problems = _session(connection, number)
            yield from problems
            yield from _log(connection, number, name, counts)
        except (apsw.Error, ThreadlineError, ValueError, TypeError, KeyError) as error:
            yield Problem(name, None, f"cannot be read: {error}")


def _session(connection: apsw.Connection, number: int) -> tuple[str, list[Problem]]:
    """The rows that say what the session is."""
    row = connection.execute(
        "SELECT namespace, id, key, created_at, cwd, agent, origin, about, seal FROM session WHERE session = ?", (number,)
    ).fetchone()
    if row is None:
        return f"#{number}", [Problem(f"#{number}", None, "the session row is missing")]
    *columns, mark = row
    name = text(columns[1])
    problems = [] if seal(*columns) == mark else [Problem(name, None, "the session row does not match its seal")]
    tags = connection.execute("SELECT namespace, tag FROM tag WHERE session = ?", (number,)).fetchall()
    about = _about(columns[7])
    if {(columns[0], stored(tag)) for tag in about.tags} != set(tags):
        problems.append(Problem(name, None, "the tags that listings use are not those of the session"))
    return name, problems


def _about(body: bytes) -> About:
    from threadline.backends.sqlite import _decoded_about

    return _decoded_about(body)


def _log(connection: apsw.Connection, number: int, name: str, counts: dict[str, int]) -> Iterator[Problem]:
    """The head row, the lineage, and the session's own log, folded anew."""
    head = connection.execute(
        "SELECT namespace, seal, log, status, opened, updated_at, head, chain, view, shown, total, open, asked, "
        "pending, messages, tokens FROM head WHERE session = ?",
        (number,),
    ).fetchone()
    if head is None:
        yield Problem(name, None, "the head row is missing")
        return
    namespace, mark, *columns = head
    if seal(number, namespace, *columns) != mark:
        yield Problem(name, None, "the head row does not match its seal")
    lineage = yield from _lineage(connection, number, name, columns[0])
    log = SqliteLog(Ref(number, name, None, lineage), partial(_select, connection))
    salt = connection.execute("SELECT salt FROM log WHERE log = ?", (lineage[0].log,)).fetchone()[0]
    base = lineage[-1].first - 1
    state = State(*columns[4:])
    audit = Audit(log, state_at(log, base, salt) if base else start(salt), state.head)
    for seq, what in audit:
        yield Problem(name, seq, what)
    counts["entries"] += audit.entries
    if audit.state.chain and audit.state != state:
        wrong = [field for field, a, b in zip(State._fields, audit.state, state, strict=True) if a != b]
        yield Problem(name, None, f"the head row is not the fold of the log: {', '.join(wrong)}")
    beyond = connection.execute(
        "SELECT count(*) FROM entry WHERE log = ? AND (seq > ? OR seq <= ?)", (columns[0], state.head, base)
    ).fetchone()[0]
    now = connection.execute("SELECT head FROM head WHERE session = ?", (number,)).fetchone()
    if beyond and now is not None and now[0] == state.head:
        yield Problem(name, None, f"{beyond} entries lie outside of the log's bounds")


def _lineage(connection: apsw.Connection, number: int, name: str, own: int) -> Any:
    shares = connection.execute(
        "SELECT session, first, last, log, seal FROM share WHERE session = ? ORDER BY first", (number,)
    ).fetchall()
    expected = 1
    for *columns, mark in shares:
        if seal(*columns) != mark:
            yield Problem(name, None, "a share row does not match its seal")
        if columns[1] != expected:
            yield Problem(name, None, f"no log holds entry {expected}")
        expected = columns[2] + 1
    if not shares or shares[-1][2] != ENDLESS or shares[-1][3] != own:
        yield Problem(name, None, "the session's own log is not the last of its lineage")
        raise Damaged(name, None, "its lineage is broken")
    return tuple(Piece(log, first, last) for _, first, last, log, _ in shares)


def _keys(connection: apsw.Connection, counts: dict[str, int]) -> Iterator[Problem]:
    """Every idempotency key against its seal and the entries it names, and the other way round."""
    query = """
        SELECT k.log, k.key, k.seq, k.count, k.identity, k.seal, s.id,
               (SELECT count(*) FROM entry e WHERE e.log = k.log AND e.seq BETWEEN k.seq AND k.seq + k.count - 1
                                             AND e.key = k.key)
        FROM key k LEFT JOIN head h ON h.log = k.log LEFT JOIN session s ON s.session = h.session"""
    for *columns, mark, id, found in connection.execute(query):
        counts["keys"] += 1
        if seal(*columns) != mark:
            yield Problem(text_or_none(id), columns[2], "the row of an idempotency key does not match its seal")
        elif found != columns[3]:
            yield Problem(text_or_none(id), columns[2], "an idempotency key names entries that do not carry it")
    query = """
        SELECT e.seq, s.id FROM entry e
        LEFT JOIN key k ON k.log = e.log AND k.key = e.key AND e.seq BETWEEN k.seq AND k.seq + k.count - 1
        LEFT JOIN head h ON h.log = e.log LEFT JOIN session s ON s.session = h.session
        WHERE e.key IS NOT NULL AND k.key IS NULL"""
    for seq, id in connection.execute(query):
        yield Problem(text_or_none(id), seq, "the row of its idempotency key is missing")


def _strays(connection: apsw.Connection) -> Iterator[Problem]:
    """Rows that belong to nothing."""
    for what, query in _STRAYS:
        count = connection.execute(query).fetchone()[0]
        if count:
            yield Problem(None, None, f"{count} {what}")


_STRAYS = (
    ("entries of no log", "SELECT count(*) FROM entry WHERE log NOT IN (SELECT log FROM share)"),
    ("logs of no session", "SELECT count(*) FROM log WHERE log NOT IN (SELECT log FROM share)"),
    ("shares of no session", "SELECT count(*) FROM share WHERE session NOT IN (SELECT session FROM session)"),
    ("tags of no session", "SELECT count(*) FROM tag WHERE session NOT IN (SELECT session FROM session)"),
)


def _select(connection: apsw.Connection, query: str, values: tuple[Any, ...]) -> list[Any]:
    """Unreadable pages become Damaged, so that the log can read around them."""
    try:
        return connection.execute(query, values).fetchall()
    except apsw.CorruptError as error:
        raise Damaged(None, None, str(error)) from error
