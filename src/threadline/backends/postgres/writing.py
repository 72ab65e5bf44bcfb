"""One session while ops move it on in Python: what they write is kept, and stored all at once when they are done.

For what `threadline.write` on the server does not know how to fold. The head row is locked meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from threadline.backends.backend import STATUSES, Ref
from threadline.backends.log import PAGE
from threadline.backends.postgres.appends import OPENED_BY
from threadline.backends.postgres.blobs import entry_rows
from threadline.backends.postgres.rows import head_seal, key_seal
from threadline.backends.postgres.statements import Statement
from threadline.backends.postgres.usage import Charging, FindRequest, nothing_known
from threadline.core.about import opening_words
from threadline.core.entries import Draft, Entry, Row, stored, text
from threadline.core.fold import State, after
from threadline.core.ops import Op
from threadline.core.view import Log
from threadline.errors import KeyReused, NotActive, Stale

Known = tuple[int, int, bytes]  # what a key stands for: first entry, how many, identity


class Writing:
    """The session's log as it will be, and its fold as it moves on."""

    def __init__(
        self,
        ref: Ref,
        head: Sequence[Any],
        log: Log,
        find_key: Callable[[bytes], Known | None],
        expect: int | None,
        guard: Callable[[], None] = lambda: None,
        find_request: FindRequest = nothing_known,
    ) -> None:
        """`guard` raises if somebody else holds the lease."""
        self.ref = ref
        self.realm, self.own, self.status, self.opened, self.updated_at, *fold = head
        self.state = self._before = State._make(fold)
        self.opening: tuple[bytes, int, str] | None = None
        self._log = log
        self._find_key = find_key
        self._expect = expect
        self._guard = guard
        self._rows: list[Row] = []
        self._charging = Charging(ref, find_request)
        self._keys: dict[bytes, Known] = {}
        self._at = 0

    # -- the log, with what is not stored yet ----------------------------------------------------------

    def row(self, seq: int) -> Row:
        return self._rows[seq - self._before.head - 1] if seq > self._before.head else self._log.row(seq)

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = PAGE
    ) -> Iterator[Row]:
        edge = self._before.head
        fresh = [row for row in self._rows if first <= row.seq <= last and (row.voice or not shown)]
        if reverse:
            yield from reversed(fresh)
        if first <= edge:
            yield from self._log.rows(first, min(last, edge), shown=shown, reverse=reverse, page=page)
        if not reverse:
            yield from fresh

    def last(self, kind: str, upto: int) -> int:
        fresh = (row.seq for row in reversed(self._rows) if row.kind == kind and row.seq <= upto)
        return next(fresh, 0) or self._log.last(kind, min(upto, self._before.head))

    # -- ops -------------------------------------------------------------------------------------------

    def run(self, op: Op) -> list[Entry]:
        """The entries that the op wrote, now or when its key was first used."""
        if op.key is not None and (known := self._known(op.key, op.identity)):
            return [row.entry(self.ref.id) for row in self.rows(known[0], known[-1])]
        if self.status:
            raise NotActive(self.ref.id, STATUSES[self.status])
        if not op.free:
            self._guard()
        if self._expect is not None and self._before.head != self._expect:
            raise Stale(self._expect, self._before.head)
        if standing := op.standing(self.state, self):
            return [self.row(standing).entry(self.ref.id)]
        first = self.state.head + 1
        drafts = op.drafts(self.state, self)
        for draft in drafts:
            self._add(draft)
        if op.key is not None and drafts:
            self._keys[op.key] = (first, len(drafts), op.identity)
        if op.spent is not None:
            self._charging.add(op.spent)
        self._at = max(self._at, op.at)
        return [draft.entry(self.ref.id, seq) for seq, draft in enumerate(drafts, first)]

    def _known(self, key: bytes, identity: bytes) -> range | None:
        found = self._keys.get(key) or self._find_key(key)
        if found is None:
            return None
        seq, count, named = found
        if named != identity:
            raise KeyReused(text(key), seq)
        return range(seq, seq + count)

    def _add(self, draft: Draft) -> None:
        self.state, row = after(self.state, draft, self)
        self._rows.append(row)
        by = OPENED_BY.get(draft.voice, 0)
        if by > self.opened and draft.message is not None and (words := opening_words(draft.message)):
            self.opening = (stored(words), self.state.head, draft.message.role)
            self.opened = by

    # -- what is to be stored --------------------------------------------------------------------------

    def statements(self) -> Iterator[Statement]:
        """All that the ops wrote, but for the head row."""
        tree = self.ref.tree
        yield from entry_rows(tree, self.own, self._rows)
        for key, known in self._keys.items():
            columns = (tree, self.own, key, *known)
            yield "insert_key", (*columns, key_seal(*columns))
        yield from self._charging.statements(self.realm)

    def moved(self, *, new: bool = False, child: bool = False) -> Iterator[Statement]:
        """The head row after them; of a new session in any case."""
        if self.state is not self._before:
            self.updated_at = max(self._at, self.updated_at + 1)
        elif not new:
            return
        if new:
            fixed = (self.ref.tree, self.ref.number, self.realm, int(child), self.own, self.status)
            yield "insert_head", (*fixed, self.opened, self.updated_at, *self.state, self.seal, self.updated_at)
        else:
            moved = (self.opened, self.updated_at, *self.state, self.seal, self.updated_at)
            yield "move_head", (*moved, self.ref.tree, self.ref.number)

    @property
    def seal(self) -> bytes:
        row = (self.realm, self.own, self.status, self.opened, self.updated_at)
        return head_seal(self.ref.tree, self.ref.number, *row)
