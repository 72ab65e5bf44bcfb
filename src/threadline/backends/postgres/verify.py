"""Verify a store on PostgreSQL: every row of every table against its digest, its seal or the fold."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import psycopg

from threadline.backends.backend import Counts, OnProgress, Piece, Problem, Ref
from threadline.backends.log import PiecedLog
from threadline.backends.postgres import schema, verify_life, verify_memory, verify_search, verify_trees
from threadline.backends.postgres.places import name_of
from threadline.backends.postgres.rows import AFTER_ALL, head_seal, said
from threadline.backends.postgres.statements import Connection, many, one
from threadline.backends.postgres.transactions import log_of
from threadline.core.about import About, opening_words
from threadline.core.audit import Audit
from threadline.core.digest import seal
from threadline.core.entries import stored, text, text_or_none
from threadline.core.fold import State, start, state_at
from threadline.core.view import Log
from threadline.errors import Damaged, ThreadlineError

ENDLESS = 2**62
NUMBERED = 14  # columns of a session row that its seal covers

# What reading damaged rows may raise: nothing else is expected, and nothing else is caught.
UNREADABLE = (psycopg.DataError, ThreadlineError, ValueError, TypeError, KeyError, AttributeError, OverflowError)


def verify(connection: Connection, progress: OnProgress | None = None) -> tuple[list[Problem], dict[str, int]]:
    counts = Counts(("sessions", "entries", "keys", "requests"), progress, partial(_entries, connection))
    checks: tuple[Callable[[], Iterator[Problem]], ...] = (
        partial(_schema, connection),
        partial(_sessions, connection, counts),
        *(partial(check, connection, counts) for check in verify_trees.ALL),
        partial(_strays, connection),
        partial(verify_life.strays, connection),
        partial(verify_memory.memories, connection),
        partial(verify_search.strays, connection),
    )
    problems: list[Problem] = []
    for check in checks:
        try:
            problems.extend(check())
        except UNREADABLE as error:
            problems.append(Problem(None, None, f"cannot be read: {error}"))
    return problems, dict(counts)


def _entries(connection: Connection) -> int:
    total: int = one(connection, "entries_of_trees", (b"", AFTER_ALL))[0]
    return total


def _schema(connection: Connection) -> Iterator[Problem]:
    if (problem := schema.difference(connection)) is not None:
        yield Problem(None, None, problem)


def _sessions(connection: Connection, counts: dict[str, int]) -> Iterator[Problem]:
    last: tuple[bytes, int] = (b"", 0)
    while page := many(connection, "verify_trees", (*last, *last)):
        for tree, number in page:
            problems = list(_one_session(connection, tree, number, counts))
            if problems and _gone(connection, tree, number):  # deleted while it was looked at
                continue
            counts["sessions"] += 1
            yield from problems
        last = page[-1]


def _gone(connection: Connection, tree: bytes, number: int) -> bool:
    return all(one(connection, name, (tree, number)) is None for name in ("verify_session", "verify_head"))


def _one_session(connection: Connection, tree: bytes, number: int, counts: dict[str, int]) -> Iterator[Problem]:
    """A session as it was at one moment: what is written while it is looked at contradicts nothing."""
    name = f"#{number}"
    try:
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            name, about = yield from _session(connection, tree, number)
            yield from _log(connection, tree, number, name, about, counts)
            yield from verify_life.of_session(connection, tree, number, name)
    except UNREADABLE as error:
        yield Problem(name, None, f"cannot be read: {error}")


def _session(connection: Connection, tree: bytes, number: int) -> Generator[Problem, None, tuple[str, About | None]]:
    """The rows that say what the session is; returns its name and what is said of it."""
    row = one(connection, "verify_session", (tree, number))
    if row is None:
        yield Problem(f"#{number}", None, "the session row is missing")
        return f"#{number}", None
    columns, mark, opening = row[:NUMBERED], row[NUMBERED], row[NUMBERED + 1 :]
    realm, namespace, name, key = columns[2], text(columns[3]), text(columns[4]), text_or_none(columns[5])
    about = said(columns[-1], *opening)
    if seal(*columns) != mark:
        yield Problem(name, None, "the session row does not match its seal")
    if {(realm, stored(tag)) for tag in about.tags} != set(many(connection, "verify_tags", (tree, number))):
        yield Problem(name, None, "the tags that listings use are not those of the session")
    for what, value in (("id", name), ("key", key)):
        reserved = None if value is None else one(connection, "verify_name", (name_of(what, namespace, value),))
        if value is not None and reserved != (realm, tree, number, columns[4]):
            yield Problem(name, None, f"the {what} that it is found by leads elsewhere")
    return name, about


def _log(
    connection: Connection, tree: bytes, number: int, name: str, about: About | None, counts: dict[str, int]
) -> Iterator[Problem]:
    """The head row, the lineage, and the session's own log, folded anew."""
    head = one(connection, "verify_head", (tree, number))
    if head is None:
        yield Problem(name, None, "the head row is missing")
        return
    realm, mark, own, *columns = head
    if head_seal(tree, number, realm, own, *columns[:3]) != mark:
        yield Problem(name, None, "the head row does not match its seal")
    lineage = yield from _lineage(connection, tree, number, name, own)
    log = log_of(connection, Ref(number, name, None, lineage, tree))
    yield from _fold(connection, log, name, lineage, tree, State(*columns[3:]), counts)
    yield from _opening(log, name, columns[1], columns[3], about)
    yield from verify_trees.keys(connection, tree, lineage[-1], name, counts)
    yield from verify_search.of_log(connection, log, tree, lineage[-1], name)


def _fold(
    connection: Connection,
    log: PiecedLog,
    name: str,
    lineage: tuple[Piece, ...],
    tree: bytes,
    state: State,
    counts: dict[str, int],
) -> Iterator[Problem]:
    base, own = lineage[-1].first - 1, lineage[-1].log
    salts = [one(connection, "salt", (tree, log_number)) for log_number in (lineage[0].log, own)]
    if None in salts or salts[0] != salts[1]:
        yield Problem(name, None, "a row of its logs is missing or not what it was")
    (salt,) = salts[0] or (b"",)
    audit = Audit(log, state_at(log, base, salt) if base else start(salt), state.head, counts)
    for seq, what in audit:
        yield Problem(name, seq, what)
    if audit.state.chain and audit.state != state:
        wrong = [field for field, a, b in zip(State._fields, audit.state, state, strict=True) if a != b]
        yield Problem(name, None, f"the head row is not the fold of the log: {', '.join(wrong)}")
    (outside,) = one(connection, "verify_outside", (tree, own, state.head, base))
    if outside:
        yield Problem(name, None, f"{outside} entries lie outside of the log's bounds")


def _opening(log: Log, name: str, opened: int, head: int, about: About | None) -> Iterator[Problem]:
    """The opening words are those of the entry that they name."""
    if about is None or about.preview is None:
        if opened:
            yield Problem(name, None, "the opening words are missing")
        return
    try:
        message = log.row(about.preview_seq).entry(name).message if 0 < about.preview_seq <= head else None
    except Damaged:  # the entry is a finding itself
        return
    if message is None or (opening_words(message), message.role) != (about.preview, about.preview_role):
        yield Problem(name, about.preview_seq, "the opening words are not those of the entry")


def _lineage(
    connection: Connection, tree: bytes, number: int, name: str, own: int
) -> Generator[Problem, None, tuple[Piece, ...]]:
    shares = many(connection, "verify_shares", (tree, number))
    expected = 1
    for *columns, mark in shares:
        if seal(*columns) != mark:
            yield Problem(name, None, "a share row does not match its seal")
        if columns[2] != expected:
            yield Problem(name, None, f"no log holds entry {expected}")
        expected = columns[3] + 1
    if not shares or tuple(shares[-1][3:5]) != (ENDLESS, own):
        raise Damaged(name, None, "its own log is not the last of its lineage")
    return tuple(Piece(log, first, last) for _, _, first, last, log, _ in shares)


def _strays(connection: Connection) -> Iterator[Problem]:
    kinds = (
        "entries of no log",
        "logs of no session",
        "shares of no session",
        "tags of no session",
        "sums of no session",
        "keys of no log",
    )
    found: tuple[Any, ...] = one(connection, "verify_strays")
    for count, kind in zip(found, kinds, strict=True):
        if count:
            yield Problem(None, None, f"{count} {kind}")
