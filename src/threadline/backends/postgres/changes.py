"""What changed in a PostgreSQL store, by whomever, and when to look.

Whoever follows listens on a connection of its own, and holds an advisory lock that says so. Whoever commits tells, a
moment later and from another connection, and only if the lock says that somebody listens: NOTIFY makes the commits of a
whole database wait for each other. What is never told, because a process died or a pooler does not pass it on, is found
by looking all the same, twice a second."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from time import sleep
from typing import NamedTuple

import psycopg

from threadline.backends.backend import Record, Ref
from threadline.backends.postgres.connections import Pool
from threadline.backends.postgres.places import realm_of
from threadline.backends.postgres.rows import record_of
from threadline.backends.postgres.statements import SQL, Connection, many, numbers, one
from threadline.errors import Closed, ThreadlineError

FOLLOWED = 0x74686C6E_666F6C6C  # the advisory lock that all who follow share
LOOK_S = 0.5  # between two looks of a follower whom nobody told anything
LOOK_DEAF_S = 0.05  # likewise, where nobody can tell it anything
TELL_S = 0.025  # between two words to followers: a busy writer tells of many commits at once
ASK_S = 0.5  # likewise, while nobody follows: a new follower looks as often by itself
IDLE_S = 1.0  # the teller ends when nothing was committed for so long
LATE_US = 60_000_000  # half of it is how late `late` calls a change, half is for the commit to come through


class Bell:
    """Rings when something may have been committed: by this store at once, by others when they tell. One waits."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._rope: tuple[int, int] | None = None  # a pipe: what is written into its second end wakes who waits
        self._connection: Connection | None = None
        self._deaf = self._pooled = False

    def ring(self) -> None:
        if self._rope is not None and self._pid == os.getpid():
            with self._mutex, suppress(BlockingIOError):  # it is full: it rings already
                if self._rope is not None:
                    os.write(self._rope[1], b"!")

    def wait(self, timeout_s: float) -> bool:
        """Until it rings, or until it is time to look all the same."""
        if self._pid != os.getpid():  # in a forked child, where nobody listens yet
            for end in self._rope or ():
                os.close(end)
            self._renew()
        with self._mutex:
            if self._rope is None:
                self._rope = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            ear = self._rope[0]
        self._listen()
        look_s = LOOK_DEAF_S if self._deaf else LOOK_S
        return self._rings(ear, min(timeout_s, look_s)) or look_s <= timeout_s

    def _rings(self, ear: int, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(ear, select.POLLIN)
        if self._connection is not None:
            poll.register(self._connection.fileno(), select.POLLIN)
        found = poll.poll(timeout_s * 1000)
        with suppress(BlockingIOError):  # it was the other one
            os.read(ear, 4096)
        if any(fd != ear for fd, _ in found):
            self._hear()
        return bool(found)

    def _listen(self) -> None:
        """Where that is impossible, on a standby, behind a pooler or while the server is away, looking must do."""
        if self._connection is not None or self._pooled:
            return
        try:
            connection = self._pool.beside()
        except ThreadlineError:
            self._deaf = True
            return
        if connection.pooled:  # what we set there would stay behind on a connection of others, who would hear for us
            self._pool.end(connection)
            self._pooled = True
            return
        try:
            connection.execute(SQL["listen"])
            connection.execute(SQL["say_that_one_follows"], (FOLLOWED,))
        except psycopg.Error:
            self._pool.end(connection)
            self._deaf = True
        else:
            self._connection, self._deaf = connection, False

    def _hear(self) -> None:
        """What was told says nothing but that it is time to look. A connection that broke is opened anew."""
        assert self._connection is not None
        try:
            self._connection.pgconn.consume_input()
            while self._connection.pgconn.notifies() is not None:
                continue
        except psycopg.Error:
            self._hang_up()

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.end(connection)

    def rest(self) -> None:
        """Nobody waits any more: nobody needs to be told."""
        if self._pid != os.getpid():
            return
        with self._mutex:
            self._hang_up()
            rope, self._rope = self._rope, None
            for end in rope or ():
                os.close(end)


class Teller:
    """Tells those who follow, wherever they are, that something was committed. Its thread runs only meanwhile."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask  # tells them; False if nobody follows
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._news = threading.Event()
        self._mutex = threading.Lock()
        self._telling = threading.Lock()  # held while somebody tells
        self._running = False

    def tell(self) -> None:
        """Soon."""
        if self._pid != os.getpid():  # threads do not survive a fork
            self._renew()
        if self._news.is_set():
            return
        self._news.set()
        with self._mutex:
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="threadline-tell", daemon=True).start()

    def close(self) -> None:
        """Tell what is left, now; and let whoever tells come to an end, who could not without a connection."""
        if self._pid != os.getpid():
            return
        with self._telling:
            left = self._news.is_set()
        if left:
            self._told()

    def _run(self) -> None:
        while self._goes_on() and (followed := self._told()) is not None:
            sleep(TELL_S if followed else ASK_S)

    def _goes_on(self) -> bool:
        if self._news.wait(IDLE_S):
            return True
        with self._mutex:
            self._running = self._news.is_set()
            return self._running

    def _told(self) -> bool | None:
        """None where the store is closed. What cannot be told is found by looking."""
        with self._telling:
            self._news.clear()
            try:
                return self._ask()
            except Closed:
                return None
            except ThreadlineError:
                return False


def tell(connection: Connection) -> bool:
    """Tell those who follow; False if nobody does."""
    return bool(many(connection, "notify_followers", (FOLLOWED,)))


# -- what there is to see ------------------------------------------------------------------------------


class Mark(NamedTuple):
    """Up to where changes are known: a time of the server, and who was seen since a while before it."""

    at: int
    seen: dict[tuple[bytes, int], int]


def changed(connection: Connection, namespace: str, mark: Mark | None) -> tuple[list[Record], Mark]:
    """The sessions that changed since the mark, in the order of their change; from None, only a mark."""
    (now,) = one(connection, "now")
    since = mark or Mark(now, {})
    rows = many(connection, "changed", {"realm": realm_of(namespace), "at": since.at - LATE_US})
    found = {(tree, number): updated_at for tree, number, updated_at in rows}
    new = [place for place, updated_at in found.items() if since.seen.get(place) != updated_at]
    places = [] if mark is None else [{"tree": tree, "session": number} for tree, number in new]
    rows = [one(connection, "record", place) for place in places]
    records = [record_of(row) for row in rows if row is not None]
    return sorted(records, key=lambda record: record.updated_at), Mark(now, found)


def heads(connection: Connection, refs: list[Ref]) -> list[int | None]:
    values = ([ref.tree for ref in refs], numbers(ref.number for ref in refs))
    found = dict(many(connection, "heads", values))
    return [found.get(ref.number) for ref in refs]
