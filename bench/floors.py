"""The floors: the same work with bare apsw, as little as can be done."""

from __future__ import annotations

from collections.abc import Callable
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

    def fill(self, body: bytes, count: int) -> None:
        with self.connection:
            self.connection.executemany(
                "INSERT INTO entry (session, seq, body) VALUES (1, ?, ?)",
                ((seq, body) for seq in range(self.seq + 1, self.seq + count + 1)),
            )
        self.seq += count

    def tail(self, count: int) -> list[Any]:
        rows = self.connection.execute(
            "SELECT seq, body FROM entry WHERE session = 1 ORDER BY seq DESC LIMIT ?", (count,)
        ).fetchall()
        return [decode(body) for _, body in rows]


decode = msgspec.json.Decoder().decode


def bare_listing(path: Path, sessions: int) -> Callable[[], list[Any]]:
    """The latest 50 of so many sessions, from one index."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE session (id INTEGER PRIMARY KEY, name TEXT, title TEXT, about TEXT, head INT, updated_at INT);"
        "CREATE INDEX by_updated ON session (updated_at)"
    )
    about = '{"title":"how do I list my sessions?","tags":[]}'
    with connection:
        connection.executemany(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)",
            ((n, f"session-{n}", "how do I list my sessions?", about, 2, n) for n in range(sessions)),
        )
    query = "SELECT id, name, title, about, head, updated_at FROM session ORDER BY updated_at DESC LIMIT 50"
    return lambda: [(*row, decode(row[3].encode())) for row in connection.execute(query).fetchall()]
