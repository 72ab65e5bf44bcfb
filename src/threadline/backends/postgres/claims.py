"""A claim: how others can tell that a writer is gone, and not merely slow.

A store that writes drafts keeps a connection of its own in a transaction of its own, and in it an advisory lock whose
number stands in its drafts. The server lets go of the lock when the connection ends, however the process dies. The
lock is the transaction's, not the session's, so that it holds through a pooler, too; the transaction has no snapshot,
and keeps nothing from being vacuumed."""

from __future__ import annotations

import os
import threading
from secrets import randbits

import psycopg

from threadline.backends.postgres.connections import Pool, is_quiet
from threadline.backends.postgres.statements import SQL, Connection, one

# A machine that goes dark says no goodbye: within a minute the server shall know. Without TCP it means nothing.
SETTINGS = "SET LOCAL idle_in_transaction_session_timeout = 0", "SET LOCAL tcp_keepalives_idle = 30"


class Claim:
    """The claim of one open store, made when it is first needed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._name = randbits(62)
        self._connection: Connection | None = None

    def name(self) -> int:
        """The number of the lock, which is held from now on. Where the connection broke, it is taken again."""
        if self._pid != os.getpid():  # in a forked child: the claim is the parent's
            self._forget()
        with self._mutex:
            if self._connection is None or self._connection.closed or not is_quiet(self._connection):
                self._let_go()
                self._connection = self._claimed()
            return self._name

    def _claimed(self) -> Connection:
        connection = self._pool.beside()
        try:
            connection.execute("BEGIN")
            connection.execute(SQL["claim"], (self._name,))
            for setting in SETTINGS:  # last: the server keeps the snapshot of a SELECT until the next statement comes
                connection.execute(setting)
        except psycopg.Error:
            self._pool.end(connection)
            raise
        return connection

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.end(connection)

    def close(self) -> None:
        if self._pid == os.getpid():
            with self._mutex:
                self._let_go()


def lives(connection: Connection, name: int | None) -> bool:
    """Whether the store of that claim is still open, in whatever process."""
    return name is not None and bool(one(connection, "lives", (name,))[0])
