"""The floors: the same work with bare apsw, as little as can be done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path
from typing import Any

import apsw
import msgspec


class BareLog:
    """A rowid table with UNIQUE (session, seq) and a counter row: one transaction inserts, counts and commits."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", synchronous)
        self.connection.execute(
            "CREATE TABLE entry (id INTEGER PRIMARY KEY, session INT, seq INT, body BLOB, UNIQUE (session, seq));"
            "CREATE TABLE counter (session INTEGER PRIMARY KEY, head INT); INSERT INTO counter VALUES (1, 0)"
        )
        self.seq = 0

    def append(self, body: bytes) -> None:
        self.seq += 1
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO entry (session, seq, body) VALUES (?, ?, ?)", (1, self.seq, body))
        self.connection.execute("UPDATE counter SET head = ? WHERE session = ?", (self.seq, 1))
        self.connection.execute("COMMIT")


decode = msgspec.json.Decoder().decode
START_US = 1_700_000_000_000_000  # a time of our days


TAIL = "SELECT seq, kind, at, tokens, key, usage, body FROM entry WHERE session = 1 ORDER BY seq DESC LIMIT 120"


def bare_tail(path: Path, bodies: Iterable[bytes], entries: int) -> Callable[[], list[Any]]:
    """The last 120 of so many entries, whose bodies repeat: the columns that an Entry shows, bodies as plain dicts."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE entry (id INTEGER PRIMARY KEY, session INT, seq INT, kind TEXT, at INT, tokens INT,"
        " key BLOB, usage BLOB, body BLOB, UNIQUE (session, seq))"
    )
    with connection:
        connection.executemany(
            "INSERT INTO entry (session, seq, kind, at, tokens, body) VALUES (1, ?, 'message', ?, 260, ?)",
            ((seq, START_US + seq, body) for seq, body in zip(range(1, entries + 1), cycle(bodies), strict=False)),
        )
    return lambda: [(row, decode(row[6])) for row in connection.execute(TAIL).fetchall()]


def bare_listing(path: Path, sessions: int) -> Callable[[], list[Any]]:
    """The latest 50 of so many sessions, from one index: the columns that a SessionInfo shows, `about` as a dict."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE session (id INTEGER PRIMARY KEY, name BLOB, key BLOB, about BLOB, status INT, created_at INT,"
        " updated_at INT, head INT, messages INT, tokens INT, pending INT);"
        "CREATE INDEX by_updated ON session (updated_at)"
    )
    about = b'{"title":"how do I list my sessions? 7","titled_by":"person","cwd":"/work/7"}'
    with connection:
        connection.executemany(
            "INSERT INTO session VALUES (?, ?, NULL, ?, 0, ?, ?, 2, 2, 100, 0)",
            ((n, b"session-%d" % n, about, START_US + n, START_US + n) for n in range(sessions)),
        )
    query = (
        "SELECT name, key, about, status, created_at, updated_at, head, messages, tokens, pending"
        " FROM session ORDER BY updated_at DESC LIMIT 50"
    )
    return lambda: [(row, decode(row[2])) for row in connection.execute(query).fetchall()]
