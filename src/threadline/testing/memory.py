"""A session's log as a plain list: the thinking of core/ without any store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from threadline.core.digest import SIZE
from threadline.core.entries import Draft, Row
from threadline.core.fold import State, after, start
from threadline.core.ops import Op
from threadline.errors import Damaged
from threadline.pen import Pen

SALT = bytes(range(SIZE))


class MemoryLog:
    """See `core.view.Log` for what `row` and `rows` promise. `states[n]` is the fold right after entry n.

    `kept` holds the rows and may be changed: a row that is None is one that cannot be read."""

    def __init__(self) -> None:
        self.kept: list[Row | None] = []
        self.states: list[State] = [start(SALT)]
        self._pen = Pen(clock=None, count_tokens=lambda message: 1 + len(message.text))

    @property
    def state(self) -> State:
        return self.states[-1]

    @property
    def head(self) -> int:
        return self.state.head

    def row(self, seq: int) -> Row:
        row = self.kept[seq - 1] if 0 < seq <= len(self.kept) else None
        if row is None:
            raise Damaged("memory", seq, "the entry is missing")
        return row

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = 256
    ) -> Iterator[Row]:
        rows = self.kept[max(first, 1) - 1 : max(last, 0)]
        for row in reversed(rows) if reverse else rows:
            if row is not None and (row.voice or not shown):
                yield row

    def last(self, kind: str, upto: int) -> int:
        found = [row.seq for row in self.kept[:upto] if row is not None and row.kind == kind]
        return found[-1] if found else 0

    def do(self, verb: str, **options: Any) -> list[Row]:
        """What the method of Session of that name would write. Keys are not looked up: every call is a new one."""
        if verb in ("append", "extend"):
            given = options.pop("messages") if verb == "extend" else (options.pop("message"),)
            return self.write(self._pen.append(given, **options))
        op: Op = getattr(self._pen, verb)(**options)
        return self.write(op)

    def write(self, op: Op) -> list[Row]:
        """Run one op: all of its entries, or none."""
        return [] if op.standing(self.state, self) else self.add(op.drafts(self.state, self))

    def add(self, drafts: Sequence[Draft]) -> list[Row]:
        before = len(self.kept)
        try:
            for draft in drafts:
                state, row = after(self.state, draft, self)
                self.kept.append(row)
                self.states.append(state)
        except BaseException:
            del self.kept[before:], self.states[before + 1 :]
            raise
        return [row for row in self.kept[before:] if row is not None]
