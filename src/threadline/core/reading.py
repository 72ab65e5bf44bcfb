"""From rows to what callers see, with damage found, named and left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from operator import attrgetter, eq

from msgspec import Struct

from threadline.core.entries import USER, Entry, Row, voice_of
from threadline.core.view import Log, Spans
from threadline.errors import Damaged
from threadline.messages import Message

_shown = attrgetter("shown")

MISSING_MAX = 1_000  # a flipped bit in a head can seem to lose millions of entries


class View(Struct, frozen=True):
    """What the model sees: the visible messages and compactions, in reading order.

    `head` is the head that it was read at; `damaged` names the entries that belong here and cannot be read."""

    entries: tuple[Entry, ...]
    head: int
    damaged: tuple[int, ...] = ()

    @property
    def messages(self) -> list[Message]:
        return [entry.message for entry in self.entries if entry.message is not None]

    @property
    def turns(self) -> list[tuple[Entry, ...]]:
        """The entries by user turn. What stands before the first one is a group of its own."""
        turns: list[list[Entry]] = []
        for entry in self.entries:
            if not turns or starts_turn(entry):
                turns.append([])
            turns[-1].append(entry)
        return [tuple(turn) for turn in turns]


def starts_turn(entry: Entry) -> bool:
    return entry.kind == "message" and entry.message is not None and voice_of(entry.message) == USER


def read_view(log: Log, spans: Spans, head: int, session: str, last: int | None = None) -> View:
    """The visible entries of the spans, or the last so many of them."""
    rows, damaged = _all(log, spans) if last is None else _last(log, spans, last)
    entries: list[Entry] = []
    for row in rows:
        try:
            entries.append(row.entry(session))
        except Damaged:
            damaged.append(row.seq)
    return View(tuple(entries), head, tuple(sorted(damaged)))


def _all(log: Log, spans: Spans) -> tuple[list[Row], list[int]]:
    rows: list[Row] = []
    damaged: list[int] = []
    for first, last in spans:
        found = list(log.rows(first, last, shown=True))
        if not complete(log, found, first, last):
            damaged += missing(log, first, last)
        rows += found
    return rows, damaged


def _last(log: Log, spans: Spans, last: int) -> tuple[list[Row], list[int]]:
    rows: list[Row] = []
    damaged: list[int] = []
    for low, high in reversed(spans):
        if len(rows) >= last:
            break
        found = list(islice(log.rows(low, high, shown=True, reverse=True, page=_page(last)), last - len(rows)))
        floor = found[-1].seq if len(rows) + len(found) == last else low
        found.reverse()
        if not complete(log, found, floor, high):
            damaged += missing(log, floor, high)
        rows = found + rows
    return rows, damaged


def _page(last: int) -> int:
    """A page that holds them all where nothing silent stands between them."""
    return max(16, min(256, last))


def complete(log: Log, rows: Sequence[Row], first: int, last: int) -> bool:
    """Whether these are all visible entries of `first..last`: they are counted in `shown` without a gap.

    Where they reach an end of it, nothing beyond needs to be looked up."""
    try:
        before = rows[0].shown - 1 if rows and rows[0].seq == first else _shown_at(log, first - 1)
        after = rows[-1].shown if rows and rows[-1].seq == last else _shown_at(log, last)
        return after - before == len(rows) and all(map(eq, map(_shown, rows), count(before + 1)))
    except (Damaged, TypeError):  # a flipped bit may change a column's type
        return False


def _shown_at(log: Log, seq: int) -> int:
    return log.row(seq).shown if seq else 0


def missing(log: Log, first: int, last: int) -> list[int]:
    """The entries of `first..last` that cannot be read at all; of very many, the first."""
    there = {row.seq for row in log.rows(first, last)}
    lost = (seq for seq in range(first, last + 1) if seq not in there)
    return list(islice(lost, MISSING_MAX))


class Entries(Iterator[Entry]):
    """The raw log, a page at a time, holding nothing in between.

    A damaged entry raises Damaged in its turn; `next()` then goes on with the one after it."""

    def __init__(
        self,
        log: Log,
        session: str,
        first: int,
        last: int,
        *,
        kinds: frozenset[str] | None,
        limit: int | None,
        reverse: bool,
    ) -> None:
        self._log = log
        self._rows = log.rows(first, last, reverse=reverse)
        self._session = session
        self._next = last if reverse else first
        self._end = first if reverse else last
        self._step = -1 if reverse else 1
        self._kinds = kinds
        self._left = limit
        self._ahead: Row | None = None

    @classmethod
    def none(cls) -> Entries:
        """The log of a session that is not made yet."""
        return cls(NO_LOG, "", 1, 0, kinds=None, limit=None, reverse=False)

    def __next__(self) -> Entry:
        while self._left is None or self._left > 0:
            row = self._ahead or next(self._rows, None)
            self._ahead = None
            if row is None and (self._end - self._next) * self._step < 0:
                break
            if row is None or row.seq != self._next:
                self._ahead, lost = row, self._next
                self._next += self._step
                self._log.row(lost)  # raises what is the matter: the entry is damaged, or the session was deleted
                raise Damaged(self._session, lost, "the entry is missing")
            self._next += self._step
            if self._kinds is None or row.kind in self._kinds:
                if self._left is not None:
                    self._left -= 1
                return row.entry(self._session)
        raise StopIteration


class _Nothing:
    """An empty log."""

    def row(self, seq: int) -> Row:
        raise Damaged(None, seq, "the entry is missing")

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = 256
    ) -> Iterator[Row]:
        return iter(())

    def last(self, kind: str, upto: int) -> int:
        return 0


NO_LOG: Log = _Nothing()
