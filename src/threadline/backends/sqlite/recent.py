"""The tails of logs that a connection read lately: a context is asked for again and again, two entries later each time.

Only rows that were found whole are kept, as they are stored, and only while no other connection has committed: just as
long as SQLite itself keeps pages in memory. What another process removes is gone here, too, with the next read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from threadline.backends.backend import Ref
from threadline.backends.log import PiecedLog
from threadline.backends.sqlite.rows import Connection, many, one, readable
from threadline.core.entries import Known, Row, known_of, row_of

ROWS_BYTES = 4 * 1024 * 1024  # of bodies, for each connection: some dozens of contexts
ROW_BYTES = 64 * 1024  # a body above that costs more to keep than to read again


class Recent:
    """Rows by log and seq; when there are too many, the logs that were read longest ago go first."""

    def __init__(self) -> None:
        self._logs: dict[int, dict[int, Known]] = {}
        self._size = 0
        self._version = -1

    def of(self, connection: Connection, log: int) -> dict[int, Known]:
        """What is known of a log, as far as it still holds."""
        (version,) = one(connection, "data_version")
        if version != self._version:
            self.clear()
            self._version = version
        self._logs[log] = known = self._logs.pop(log, {})
        return known

    def keep(self, log: int, rows: Iterable[Row]) -> None:
        """Remember those that were found whole."""
        kept = {row.seq: row for row in rows if isinstance(row, Known) and len(row.body) <= ROW_BYTES}
        self._logs[log].update(kept)
        self._size += _size(kept.values())
        while self._size > ROWS_BYTES:
            self._size -= _size(self._logs.pop(next(iter(self._logs))).values())

    def clear(self) -> None:
        self._logs.clear()
        self._size = 0


Borrow = Callable[[], AbstractContextManager[Connection]]  # a connection of the pool
Recents = WeakKeyDictionary[Connection, Recent]


def _size(rows: Iterable[Known]) -> int:
    return sum([len(row.body) for row in rows])


class RecentLog(PiecedLog):
    """A log for readers outside of any transaction, whose tail is remembered.

    Measured on the last 120 messages of 1 KiB: a context costs a third of what it does without."""

    def __init__(self, ref: Ref, borrow: Borrow, recents: Recents) -> None:
        super().__init__(ref, self._select_anywhere)
        self._borrow = borrow
        self._recents = recents

    def _select_anywhere(self, name: str, values: tuple[Any, ...]) -> list[Any]:
        with self._borrow() as connection:
            return many(connection, name, values)

    def _page(self, log: int, low: int, high: int, page: int, reverse: bool) -> list[Row]:
        if not reverse:
            return super()._page(log, low, high, page, reverse)
        with self._borrow() as connection:
            recent = self._recents.get(connection) or self._recents.setdefault(connection, Recent())
            known = recent.of(connection, log)
            rows: list[Any] = list(map(known.get, range(high, max(low, high - page + 1) - 1, -1)))
            if None not in rows:
                return rows
            first, last = rows.index(None), len(rows) - rows[::-1].index(None)
            found = self._looked_up(connection, log, high - last + 1, high - first)
            recent.keep(log, found)
        if len(found) < last - first:  # a row is missing: the page reaches further back
            return super()._page(log, low, high, page, reverse)
        rows[first:last] = found
        return rows

    def _looked_up(self, connection: Connection, log: int, low: int, high: int) -> list[Row]:
        here = PiecedLog(self._ref, partial(_select, connection))
        found = map(known_of, here._found(log, low, high, high - low + 1, True))
        return [row if Row.looks_whole(row) else row_of(row) for row in map(here._whole, found)]


def _select(connection: Connection, name: str, values: tuple[Any, ...]) -> list[Any]:
    with readable():
        return many(connection, name, values)
