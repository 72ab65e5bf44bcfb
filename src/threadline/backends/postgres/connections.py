"""Connections to one PostgreSQL database: a pool of them, and what happens to them in a forked child."""

from __future__ import annotations

import os
import select
import threading
import weakref
from typing import Any

import psycopg
from psycopg.types.numeric import Int8BinaryDumper

from threadline.backends.postgres.statements import Connection, translated
from threadline.errors import Closed, StoreBusy, StoreFailed

LIMIT = 16  # connections of one process: PostgreSQL serves a few hundred in all, and a call holds one for a moment
WAIT_S = 30.0  # for one of them to come back
CONNECT_TIMEOUT_S = 10
DEAD_LINES = {  # a host that vanished says nothing: it is asked after half a minute, and given up within two
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "tcp_user_timeout": "90000",
}
IDLE = psycopg.pq.TransactionStatus.IDLE


def connect(url: str) -> Connection:
    """A connection on which every statement is a transaction of its own. Raises StoreFailed or StoreBusy."""
    try:
        connection = Connection.connect(url, autocommit=True, **_defaults(url))
        connection.pooled = _is_pooled(connection)
    except psycopg.Error as error:
        ours = translated(error)
        if isinstance(ours, StoreFailed):
            ours = StoreFailed(f"no connection to the server ({str(error).strip()}): nothing was written")
        raise ours from error
    connection.prepare_threshold = None if connection.pooled else 0
    connection.adapters.register_dumper(int, Int8BinaryDumper)  # one type for all numbers, so one plan a statement
    return connection


def _is_pooled(connection: Connection) -> bool:
    """Whether the process that answers is another than the one that greeted us: a pooler chose it, and may choose
    another one for the next transaction. A statement that is prepared there under a name may be somebody else's."""
    answered = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    return answered != (connection.info.backend_pid,)


def _defaults(url: str) -> dict[str, Any]:
    """What we choose where the URL says nothing."""
    given = psycopg.conninfo.conninfo_to_dict(url)
    ours = {"connect_timeout": str(CONNECT_TIMEOUT_S), "application_name": "threadline", "client_encoding": "utf-8"}
    return {name: value for name, value in (ours | DEAD_LINES).items() if name not in given}


def without_password(url: str) -> str:
    """Where it is, for people to read."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    host = parts.get("host") or "localhost"
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{host}{port}/{parts.get('dbname') or ''}"


class Pool:
    """Up to so many connections at once. Whoever needs another waits for one to come back.

    A forked child opens its own: it closes its copies of the sockets and says nothing on them, because what it says
    its parent's server would hear."""

    def __init__(self, url: str, limit: int = LIMIT) -> None:
        self.limit = limit
        self._url = url
        self._closed = False
        self._renew()
        _pools.add(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._taken = self._waiters = 0

    def take(self) -> Connection:
        """A connection that is alive as far as one can tell without asking. Raises StoreBusy when none comes back."""
        with self._lock:
            if not self._closed and self._taken >= self.limit:
                self._wait()
            if self._closed:
                raise Closed
            self._taken += 1
            idle = self._idle.pop() if self._idle else None
        while idle is not None:
            if is_quiet(idle):
                return idle
            self.end(idle)
            with self._lock:
                idle = self._idle.pop() if self._idle else None
        return self._connected()

    def _wait(self) -> None:
        """The lock is held before and after."""
        self._waiters += 1
        try:
            free = self._free.wait_for(lambda: self._taken < self.limit or self._closed, WAIT_S)
        finally:
            self._waiters -= 1
        if not free:
            raise StoreBusy(
                f"all {self.limit} connections of this process are in use since {WAIT_S:g} s: "
                "nothing was written, try again"
            )

    def _connected(self) -> Connection:
        try:
            connection = connect(self._url)
        except BaseException:
            with self._lock:
                self._back()
            raise
        with self._lock:
            self._all.add(connection)
        return connection

    def give(self, connection: Connection) -> None:
        """Back into the pool, unless it is broken or in the middle of something."""
        whole = connection.pgconn.transaction_status == IDLE
        with self._lock:
            if whole and not self._closed:
                self._idle.append(connection)
                self._back()
                return
        self.end(connection)
        with self._lock:
            self._back()

    def _back(self) -> None:
        """One less is out; the lock is held."""
        self._taken -= 1
        if self._waiters:
            self._free.notify()

    def beside(self) -> Connection:
        """A connection that is not for everybody, and does not count; whoever asked for it ends it."""
        connection = connect(self._url)
        with self._lock:
            self._all.add(connection)
        return connection

    def end(self, connection: Connection) -> None:
        connection.close()
        with self._lock:
            self._all.discard(connection)

    def close(self) -> None:
        """Take no more, and end all that are idle; those that are out end when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._free.notify_all()
        for connection in idle:
            self.end(connection)

    def after_fork_in_child(self) -> None:
        _inherited.extend(self._all)  # never collected: closing them properly would close the parent's
        for connection in self._all:
            if not connection.closed:
                os.close(connection.fileno())
        self._renew()


class OneMoment:
    """In the place of a pool: one connection, which sees the whole store as it was when its transaction began. Leaving
    the block ends it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __enter__(self) -> OneMoment:
        self._connection = self._pool.beside()
        try:
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        except psycopg.Error as error:
            self._pool.end(self._connection)
            raise translated(error) from error
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.end(self._connection)

    def take(self) -> Connection:
        return self._connection

    def give(self, connection: Connection) -> None:
        """It stays where it is."""


def is_quiet(connection: Connection) -> bool:
    """Whether nothing waits to be read: on an idle connection that could only be the server's goodbye."""
    if connection.ear is None:
        connection.ear = select.poll()
        connection.ear.register(connection.pgconn.socket, select.POLLIN)
    return not connection.ear.poll(0)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_inherited: list[Connection] = []


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
