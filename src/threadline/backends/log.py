"""A session's log, put together from the pieces of its lineage, whatever engine holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from threadline.backends.backend import Ref
from threadline.backends.blobs import MARKS, decompress, whole
from threadline.core.entries import Row, row_of
from threadline.errors import Damaged, NotFound

PAGE = 256  # rows read at once: enough to be quick, few enough that no reader holds up a checkpoint

Select = Callable[[str, tuple[Any, ...]], list[Any]]  # runs a named statement, in or out of a transaction


RowT = TypeVar("RowT", bound=Row)


class PiecedLog:
    """See `core.view.Log` for what the methods promise."""

    def __init__(self, ref: Ref, select: Select) -> None:
        self._ref = ref
        self._select = select

    def row(self, seq: int) -> Row:
        for log, first, last in reversed(self._ref.lineage):
            if first <= seq <= last and (found := self._select("row", (log, seq))):
                return self._whole(row_of(found[0]))
        if not self._select("head", (self._ref.number,)):  # deleted while it was read
            raise NotFound("session", self._ref.id)
        raise Damaged(self._ref.id, seq, "the entry is missing")

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = PAGE
    ) -> Iterator[Row]:
        lineage = self._ref.lineage
        for log, low, high in reversed(lineage) if reverse else lineage:
            low, high = max(low, first), min(high, last)
            while low <= high:
                rows = self._page(log, low, high, page, reverse)
                seen = [row for row in rows if row.voice] if shown else rows
                yield from seen
                if len(rows) < page:
                    break
                edge = rows[-1].seq
                if not seen:  # a long silence: jump over it
                    edge = self._end_of_silence(log, low if reverse else high, rows[-1], reverse)
                low, high = (low, edge - 1) if reverse else (edge + 1, high)

    def last(self, kind: str, upto: int) -> int:
        for log, first, last in reversed(self._ref.lineage):
            if first <= upto and (found := self._select("last_of_kind", (log, kind, min(last, upto)))):
                return int(found[0][0])
        return 0

    def _page(self, log: int, low: int, high: int, page: int, reverse: bool) -> list[Row]:
        return list(map(self._whole, map(row_of, self._found(log, low, high, page, reverse))))

    def _found(self, log: int, low: int, high: int, page: int, reverse: bool) -> list[Any]:
        """The rows of a page as they are stored."""
        try:
            return self._select("rows_reverse" if reverse else "rows", (log, low, high, page))
        except Damaged:  # one bad page of the file must not hide the rest
            return self._one_by_one(log, low, high, page, reverse)

    def _whole(self, row: RowT) -> RowT:
        """The row with its body as it was written. One that cannot be is left as it is: its digest tells."""
        body = row.body
        if type(body) is not bytes or body[:1] not in MARKS:
            return row
        with suppress(Damaged):
            return tuple.__new__(type(row), (*row[:-1], whole(body, self._blob)))  # as _replace, five times as quick
        return row

    def _blob(self, name: bytes) -> bytes:
        found = self._select("blob", (self._ref.tree, name))
        if not found:
            raise Damaged(self._ref.id, None, "a large part of it is missing")
        return decompress(found[0][0])

    def _one_by_one(self, log: int, low: int, high: int, page: int, reverse: bool) -> list[Any]:
        seqs = range(high, max(low, high - page + 1) - 1, -1) if reverse else range(low, min(high, low + page - 1) + 1)
        found = []
        for seq in seqs:
            with suppress(Damaged):  # a gap in seq tells the reader
                found += self._select("row", (log, seq))
        return found

    def _end_of_silence(self, log: int, limit: int, row: Row, reverse: bool) -> int:
        """The last entry of the silence that `row` stands in, in the direction of reading, found by halving."""
        near, far = row.seq, limit
        while near != far:
            middle = (near + far) // 2 if reverse else (near + far + 1) // 2
            found = self._select("shown", (log, middle))
            if found and found[0][0] == row.shown:
                near = middle
            else:
                far = middle + 1 if reverse else middle - 1
        return near + 1 if reverse else near  # downwards, the halving ends at the visible entry itself
