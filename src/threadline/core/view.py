"""The view as spans: which entries the model sees, and in what order.

A span is `(first, last)`, both included. A compaction stands in the view as the span of its own seq, where its
originals stood; appended entries need no span at all, because a view is that of the last structural entry plus
everything after it. All functions here take spans and give spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias

from threadline.core import codec
from threadline.core.entries import Row
from threadline.core.tombstones import MARK
from threadline.errors import Damaged

Span: TypeAlias = tuple[int, int]
Spans: TypeAlias = tuple[Span, ...]


class Log(Protocol):
    """How the thinking reads a session's log, wherever it lies. Rows never change, so no lock is needed."""

    def row(self, seq: int) -> Row:
        """The row of entry `seq`. Raises Damaged where it is missing or unreadable."""

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = 256
    ) -> Iterator[Row]:
        """The rows of `first..last` in order, or only those that the model sees, read a page at a time.

        Rows that cannot be read are left out: a gap in `seq`, or in `shown`, tells of them."""

    def last(self, kind: str, upto: int) -> int:
        """The last entry of kind `state` or `goal` up to entry `upto`; 0 where there is none. Found by an index."""


def spans_at(log: Log, seq: int) -> Spans:
    """The view right after entry `seq`."""
    return spans_after(log, log.row(seq).view, seq) if seq else ()


def spans_after(log: Log, view: int, seq: int) -> Spans:
    """The same where the last structural entry is known: its view, and everything after it."""
    return tidy([*stored_spans(log.row(view), "view"), (view + 1, seq)] if view else [(1, seq)])


def stored_spans(row: Row, name: str) -> Spans:
    """The spans that a structural entry holds: its resulting `view`, or what it `covers`."""
    row.check(None)
    try:
        data = row.tombstone().data or {} if row.body[:1] == MARK else codec.decode(row.body)
        return tuple((first, last) for first, last in data[name])
    except (KeyError, TypeError, ValueError) as error:  # the stored `view` of another entry led here
        raise Damaged(None, row.seq, f"it holds no {name}") from error


def tidy(spans: Iterable[Span]) -> Spans:
    """The same entries in the same order, in as few spans as possible."""
    out: list[Span] = []
    for first, last in spans:
        if first > last:
            continue
        if out and out[-1][1] + 1 == first:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)


def holds(spans: Spans, seq: int) -> bool:
    return any(first <= seq <= last for first, last in spans)


def between(spans: Spans, since: int, upto: int) -> Spans:
    """The part of the view from entry `since` to entry `upto` in reading order; () where they do not stand so."""
    _, rest = _cut(spans, since, before=True)
    return _cut(rest, upto, before=False)[0] if holds(rest, upto) else ()


def replaced(spans: Spans, run: Spans, by: Spans) -> Spans | None:
    """The view with `run`, which must stand in it unbroken, replaced; None where it does not stand there."""
    if not run:
        return None
    front, rest = _cut(spans, run[0][0], before=True)
    inside, back = _cut(rest, run[-1][1], before=False)
    return tidy([*front, *by, *back]) if tidy(inside) == tidy(run) else None


def _cut(spans: Spans, seq: int, *, before: bool) -> tuple[Spans, Spans]:
    """The view cut in two, right before or right after entry `seq`."""
    for i, (first, last) in enumerate(spans):
        if first <= seq <= last:
            edge = seq if before else seq + 1
            return tidy([*spans[:i], (first, edge - 1)]), tidy([(edge, last), *spans[i + 1 :]])
    return spans, ()
