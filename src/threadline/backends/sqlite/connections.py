"""Connections to one SQLite file: their settings, a pool of them, and what happens to them in a forked child."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import apsw

from threadline.backends.sqlite.rows import Connection
from threadline.errors import Closed

BUSY_TIMEOUT_MS = 30_000  # only foreign programs can make us wait: our own writers queue elsewhere
CHECKPOINT_PAGES = 1_000  # 4 MB of WAL: small enough to read quickly, large enough to sync rarely

SETTINGS: tuple[tuple[str, Any], ...] = (
    ("wal_autocheckpoint", 0),  # checkpoints are ours, under the writers' lock
    ("journal_size_limit", 64 * 1024 * 1024),  # a WAL that a slow reader let grow is cut back afterwards
    ("fullfsync", 1),  # macOS: fsync alone does not reach the platter there
    ("checkpoint_fullfsync", 1),
    ("trusted_schema", 0),  # a schema that somebody tampered with calls no functions
    ("cell_size_check", 1),  # damage is found when it is read, not when it spreads
    ("cache_size", -8_000),  # kB, as far as they are used: a search looks up pages all over a large file
    ("mmap_size", 0),  # an I/O error is an error, not a SIGBUS
    ("secure_delete", 1),  # what is deleted is overwritten, not only forgotten
    ("temp_store", "MEMORY"),  # nothing of a conversation in temporary files
)

DURABILITY = {
    "full": "FULL",  # a turn costs cents and minutes; losing it costs trust
    "relaxed": "NORMAL",  # a crash of the process loses nothing, a power cut the last moments
}


def connect(path: str, flags: int, vfs: str | None, synchronous: str) -> Connection:
    connection = Connection(path, flags=flags, vfs=vfs)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    for name, value in SETTINGS:
        connection.pragma(name, value)
    connection.pragma("synchronous", synchronous)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # A plan depends on no value: else SQLite plans joins and ranges anew with every value that is bound, at 5 to 15 µs.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # close() checkpoints, under the lock
    return connection


class Pool:
    """As many connections as are needed at once, or exactly one for a store in memory.

    While the process forks, there is none at all. To SQLite a child that inherits a connection holds its parent's
    locks: it would take none of its own, and whoever closes last would remove the WAL under its hands."""

    def __init__(self, make: Callable[[], Connection], *, single: bool, in_child: Callable[[], None]) -> None:
        self._make = make
        self._single = single
        self._in_child = in_child
        self._renew()
        with _fork_turn:  # no pool comes up while the process forks
            _pools.add(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)  # somebody waits for connections to come back
        self._idle: list[Connection] = []
        self._out: list[int] = []  # the threads that hold the connections that are out
        self._waiters = 0
        self._closed = False
        self._forking = False

    def take(self) -> Connection:
        with self._lock:
            while self._forking or (self._single and self._out):
                self._wait(lambda: not self._forking and not (self._single and self._out))
            if self._closed:
                raise Closed
            self._out.append(get_ident())
            if self._idle:
                return self._idle.pop()
        try:
            return self._make()
        except BaseException:
            self.drop(None)
            raise

    def join(self) -> None:
        """Count a connection that its user makes and drops: it need not be an idle one, nor become one."""
        with self._lock:
            self._out.append(get_ident())

    def give(self, connection: Connection) -> None:
        with self._lock:
            self._idle.append(connection)
            self._came_back()

    def drop(self, connection: Connection | None) -> None:
        """Instead of give: this connection is not to be trusted any more."""
        try:
            if connection is not None:
                connection.close(True)
        finally:  # a file system that fails raises all the same
            with self._lock:
                self._came_back()

    def _came_back(self) -> None:
        if self._out:  # else it was out while its own thread closed the store
            me = get_ident()
            self._out.remove(me if me in self._out else self._out[0])
        if self._waiters:
            self._free.notify_all()

    def close(self) -> list[Connection]:
        """Take no more, wait for those that others have, and hand over all connections to be dropped.

        One that this very thread has will not come back: Ctrl-C came between taking it and giving it back."""
        me = get_ident()
        with self._lock:
            self._closed = True
            self._wait(lambda: not self._forking and all(thread == me for thread in self._out))
            idle, self._idle = self._idle, []
            self._out = [me] * len(idle)  # out until they are dropped: no fork in the middle of closing
            return idle

    def _wait(self, until: Callable[[], bool]) -> None:
        """The lock is held before and after."""
        self._waiters += 1
        try:
            self._free.wait_for(until)
        finally:
            self._waiters -= 1

    # -- fork ------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        self._lock.acquire()
        self._forking = True  # waiting lets other threads in: none may take a connection, or it might never end
        self._wait(lambda: not self._out)
        while self._idle and not self._single:
            self._idle.pop().close(True)  # never raises: a hook that fails half-way would leave locks behind

    def after_fork_in_parent(self) -> None:
        self._forking = False
        self._free.notify_all()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """The child opens connections of its own. A store in memory was copied with the process, and goes on."""
        idle, closed = self._idle, self._closed
        self._renew()
        self._idle, self._closed = idle, closed
        if not closed:
            self._in_child()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_forking: list[Pool] = []
_fork_turn = threading.Lock()


@contextmanager
def no_fork() -> Iterator[None]:
    """For whoever uses SQLite without a pool: its locks are the whole process's, and a child must not inherit them."""
    with _fork_turn:
        yield


def _before_fork() -> None:
    _fork_turn.acquire()
    _forking[:] = list(_pools)
    for pool in _forking:
        pool.before_fork()


def _after_fork_in_parent() -> None:
    for pool in _forking:
        pool.after_fork_in_parent()
    _forking.clear()
    _fork_turn.release()


def _after_fork_in_child() -> None:
    for pool in _forking:
        pool.after_fork_in_child()
    _forking.clear()
    _fork_turn.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
