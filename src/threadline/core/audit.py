"""The audit: the fold run once more over a bare log, compared with all that is stored of it."""

from __future__ import annotations

from collections.abc import Iterator

from threadline.core import session_state
from threadline.core.digest import SIZE
from threadline.core.entries import OTHER, SILENT, STRUCTURAL, Row, content, voice_of
from threadline.core.fold import State, after, draft_of, state_at
from threadline.core.ops import Clear, Expand, Rewind
from threadline.core.view import Log, Span, Spans, replaced, spans_at, stored_spans
from threadline.errors import Damaged, ThreadlineError

Finding = tuple[int, str]  # the entry, and what is wrong with it

NAMED_MAX = 1_000  # so many missing entries are named one by one: a flipped bit in a head can seem to lose millions

# What folding damaged rows may raise: nothing else is expected, and nothing else is caught.
UNREADABLE = (ThreadlineError, ValueError, KeyError, TypeError, AttributeError, AssertionError)


class Audit:
    """Walks a log from `state` to entry `last`. Iterating gives findings; then `state` is what the head must be."""

    def __init__(self, log: Log, state: State, last: int, counts: dict[str, int] | None = None) -> None:
        self.state = state
        self._counts = {"entries": 0} if counts is None else counts
        self._log = _Audited(log)
        self._last = last

    def __iter__(self) -> Iterator[Finding]:
        for row in self._log.rows(self.state.head + 1, self._last):
            yield from self._gap(row.seq)
            yield from self._entry(row)
            self._counts["entries"] += 1
        yield from self._gap(self._last + 1)

    def _gap(self, seq: int) -> Iterator[Finding]:
        """What is missing before entry `seq`; the walk goes on from what is stored after the gap."""
        first = self.state.head + 1
        if first >= seq:
            return
        self._log.lost.append((first, seq - 1))
        for lost in range(first, min(seq, first + NAMED_MAX)):
            yield lost, "the entry is missing"
        if seq > first + NAMED_MAX:
            yield first + NAMED_MAX, f"the entry is missing, and so are the next {seq - first - NAMED_MAX - 1}"
        self.state = self.state._replace(head=seq - 1, chain=b"")

    def _entry(self, row: Row) -> Iterator[Finding]:
        """What is wrong with one entry. Where only its fold is, the walk goes on from what the fold must be."""
        try:
            row.check(None)
            if self.state.chain == b"":
                raise _Unknown
            yield from self._compare(row)
        except _Unknown:  # it rests on entries that are lost: their finding is enough
            self.state = self._stored_state(row)
        except UNREADABLE as error:
            self._log.lost.append((row.seq, row.seq))
            self.state = self._stored_state(row)
            yield row.seq, error.what if isinstance(error, Damaged) else f"unreadable: {error}"

    def _compare(self, row: Row) -> Iterator[Finding]:
        """Fold this entry anew and name every column that says otherwise."""
        for what in untrue(self._log, row):
            yield row.seq, what
        state, expected = after(self.state, draft_of(row._replace(voice=_voice(row))), self._log)
        for name, stored, folded in zip(Row._fields, row, expected, strict=True):
            if stored != folded:
                yield row.seq, f"the stored {name} is not the fold of the log"
        if row != expected:
            self._log.mended[row.seq] = expected
        self.state = state

    def _stored_state(self, row: Row) -> State:
        try:
            return state_at(self._log, row.seq, bytes(SIZE))
        except (_Unknown, *UNREADABLE):
            return self.state._replace(head=row.seq, chain=b"")


def untrue(log: Log, row: Row) -> Iterator[str]:
    """What an entry says of the log before it, and is not so."""
    if row.kind in STRUCTURAL and _view_after(log, row) != stored_spans(row, "view"):
        yield "the stored view is not the fold of the log"
    if row.kind in session_state.KINDS:
        yield from session_state.wrong(log, row)


class _Unknown(Exception):
    """What is asked for rests on an entry that cannot be read."""


class _Audited:
    """The log as far as it is known to be right: wrong columns as the fold says, lost entries not at all.

    So one damaged entry is one finding, and no later entry is blamed for it."""

    def __init__(self, log: Log) -> None:
        self.mended: dict[int, Row] = {}
        self.lost: list[Span] = []
        self._log = log

    def row(self, seq: int) -> Row:
        self._must_be_known(seq, seq)
        return self.mended.get(seq) or self._log.row(seq)

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = 256
    ) -> Iterator[Row]:
        self._must_be_known(first, last)
        for row in self._log.rows(first, last, shown=shown and not self.mended, reverse=reverse, page=page):
            known = self.mended.get(row.seq, row)
            if known.voice or not shown:
                yield known

    def last(self, kind: str, upto: int) -> int:
        seq = self._log.last(kind, upto)
        self._must_be_known(seq + 1, upto)  # a lost entry may have been a later one
        return seq

    def _must_be_known(self, first: int, last: int) -> None:
        if any(low <= last and first <= high for low, high in self.lost):
            raise _Unknown


def _voice(row: Row) -> int:
    if row.kind == "compaction":
        return OTHER
    message, _ = content(row)
    return SILENT if message is None else voice_of(message)


def _view_after(log: Log, row: Row) -> Spans | None:
    """What the view must be after a structural entry, from what the entry asks for and the log before it."""
    _, data = content(row)
    assert data is not None
    seq = row.seq
    before = State(seq - 1, b"", 0, 0, 0, 0, 0, 0, 0, 0)
    match row.kind:
        case "compaction":
            return replaced(spans_at(log, seq - 1), stored_spans(row, "covers"), ((seq, seq),))
        case "replacement":
            first = seq - data["count"]
            return replaced(spans_at(log, first - 1), stored_spans(row, "covers"), ((first, seq),))
        case "rewind":
            draft = Rewind(at=0, to=data["to"]).drafts(before, log)[0]
        case "expansion":
            draft = Expand(at=0, of=data["of"]).drafts(before, log)[0]
        case _:
            draft = Clear(at=0).drafts(before, log)[0]
    return tuple((first, last) for first, last in (draft.data or {})["view"])
