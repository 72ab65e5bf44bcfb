"""What changed in a SQLite store, by whomever, and when to look."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic
from typing import NamedTuple
from weakref import WeakKeyDictionary

from threadline.backends.backend import Record, Ref
from threadline.backends.sqlite.rows import Connection, many, one
from threadline.backends.sqlite.sessions import record_of
from threadline.core import codec
from threadline.core.entries import stored

POLL_S = 0.025  # between two looks for commits of other processes; those of this one ring at once
LATE_US = 60_000_000  # a change is stamped before it waits for its turn to write


class Bell:
    """Rings when something may have been committed: by this process at once, by others when the file says so.

    `PRAGMA data_version` is a number that changes on a connection when another one has committed. Connections come from
    a pool, so each has its own last number; one that was never asked before counts as a change."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Connection]], *, alone: bool) -> None:
        self._reading = reading
        self._alone = alone  # in memory: nobody else can commit
        self.renew()

    def renew(self) -> None:
        """Also in a forked child, where nobody listens yet."""
        self._rung = threading.Event()
        self._versions: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()
        self.heard = False

    def ring(self) -> None:
        self._rung.set()

    def wait(self, timeout_s: float) -> bool:
        self.heard = True
        ends_at = monotonic() + timeout_s
        while (left := ends_at - monotonic()) > 0:
            if self._rung.wait(left if self._alone else min(left, POLL_S)):
                self._rung.clear()
                return True
            if not self._alone and self._others_committed():
                return True
        return False

    def _others_committed(self) -> bool:
        with self._reading() as connection:
            version = int(connection.pragma("data_version"))
            changed = self._versions.get(connection) != version
            self._versions[connection] = version
            return changed


class Mark(NamedTuple):
    """Up to where changes are known: rows that only ever grow in number, a time, and who was seen since that time."""

    entry: int
    session: int
    at: int
    seen: dict[int, int]


def changed(connection: Connection, namespace: str, mark: Mark | None, now: int) -> tuple[list[Record], Mark]:
    """The sessions that changed since the mark, in the order of their change; from None, only a mark.

    New entries and new sessions are told by their row numbers, all other changes by `updated_at`."""
    entry, session = one(connection, "last_rows")
    since = mark or Mark(entry, session, now, {})
    values = {"namespace": stored(namespace), "entry": since.entry, "session": since.session, "at": since.at - LATE_US}
    found = dict(many(connection, "changed", values))
    new = [number for number, updated_at in found.items() if since.seen.get(number) != updated_at]
    records = [] if mark is None else [record_of(one(connection, "record", (number,))) for number in new]
    return sorted(records, key=lambda record: record.updated_at), Mark(entry, session, now, found)


def heads(connection: Connection, refs: list[Ref]) -> list[int | None]:
    numbers = codec.encode([ref.number for ref in refs]).decode()
    return [head for (head,) in many(connection, "heads", (numbers,))]
