"""What a caller can do to a log, as values.

An op is decided before the transaction and resolved inside it: `drafts` turns it into the entries to write, given the
state at that moment. A backend runs ops; it never needs to know which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from threadline.core import calls, goals, session_state
from threadline.core.calls import OpenCall
from threadline.core.compaction import Plan, plan_run, seen
from threadline.core.entries import OTHER, Draft, content, data_draft
from threadline.core.fold import State, nodes
from threadline.core.spending import Spending
from threadline.core.view import Log, Spans, between, holds, replaced, spans_at, stored_spans, tidy
from threadline.errors import Conflict, InvalidArgument, NotFound, NotVisible, Stale


class Op(Protocol):
    """One call: the entries it writes, all or none."""

    @property
    def at(self) -> int:
        """When it was called."""

    @property
    def key(self) -> bytes | None:
        """Makes the call idempotent, for ever."""

    @property
    def identity(self) -> bytes:
        """The digest of what was asked for: the same key must come with the same identity."""

    @property
    def spent(self) -> Spending | None:
        """What its request took, counted when the op runs and never when its key was known."""

    @property
    def free(self) -> bool:
        """Whether it may run beside somebody else's lease, because it writes no entry."""

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        """The entries to write after `state`. Raises what speaks against it; then nothing is written."""

    def standing(self, state: State, log: Log) -> int:
        """The entry that already says this, which is then returned and nothing written; 0 where there is none."""


class _Call(Struct, frozen=True, kw_only=True):
    at: int
    key: bytes | None = None
    identity: bytes = b""
    spent: Spending | None = None
    free: ClassVar[bool] = False

    def standing(self, state: State, log: Log) -> int:
        return 0


class Append(_Call, frozen=True, kw_only=True):
    entries: tuple[Draft, ...]

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        return self.entries


class Rewind(_Call, frozen=True, kw_only=True):
    """Take the view back, and with `state` the state and the goal: those entries come first, so that all of it is
    true right after the rewind's own entry."""

    to: int
    state: bool = False

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        if not 0 <= self.to <= state.head:
            raise NotFound("entry", self.to, f"the log ends at {state.head}")
        return [*self._back(state, log), _draft(self, "rewind", {"to": self.to, "view": spans_at(log, self.to)})]

    def _back(self, state: State, log: Log) -> list[Draft]:
        kinds = session_state.KINDS if self.state else ()
        found = [(kind, session_state.back(log, kind, self.to, state.head)) for kind in kinds]
        return [_draft(self, kind, data) for kind, data in found if data is not None]


class Clear(_Call, frozen=True, kw_only=True):
    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        return [_draft(self, "clear", {"view": ()})]


class Compact(_Call, frozen=True, kw_only=True):
    """Fold a run: that of `plan` exactly, or the one that the bounds give in the view as it is then."""

    summary: str
    tokens: int
    since: int | None = None
    upto: int | None = None
    keep_turns: int | None = None
    plan: Plan | None = None
    planned_at: int | None = None
    usage: dict[str, Any] | None = None

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        spans = spans_at(log, state.head)
        since, upto = self._run(state, log, spans)
        covers = between(spans, since, upto)
        seq = state.head + 1
        data = {
            "summary": self.summary,
            "covers": covers,
            "view": _put(spans, covers, ((seq, seq),)),
        }
        return [_draft(self, "compaction", data, tokens=self.tokens, voice=OTHER, usage=self.usage)]

    def _run(self, state: State, log: Log, spans: Spans) -> tuple[int, int]:
        plan = self.plan
        if plan is None:
            found = plan_run(seen(log, spans), since=self.since, upto=self.upto, keep_turns=self.keep_turns)
            return found.since, found.upto
        for seq in (plan.since, plan.upto):
            _must_show(log, spans, seq)
        run = seen(log, between(spans, plan.since, plan.upto))
        if tuple(entry.message for entry in run) != plan.messages:  # exactly what was summarised is folded
            raise self._changed(state)
        found = plan_run(seen(log, spans), since=plan.since, upto=plan.upto, keep_turns=None)
        if (found.since, found.upto) != (plan.since, plan.upto):
            raise InvalidArgument("the plan's run splits a tool call from its result, or holds an open call")
        return plan.since, plan.upto

    def _changed(self, state: State) -> Conflict:
        if self.planned_at is None:
            return Conflict("the view changed since the plan was made: plan again, and summarise what stands there now")
        return Stale(self.planned_at, state.head)


class Replace(_Call, frozen=True, kw_only=True):
    """Put `entries` where the run `since..upto` stands. They are written first, then the entry that places them."""

    entries: tuple[Draft, ...]
    since: int
    upto: int

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        spans = spans_at(log, state.head)
        for seq in (self.since, self.upto):
            _must_show(log, spans, seq)
        covers = between(spans, self.since, self.upto)
        if not covers:
            raise InvalidArgument(f"entry {self.since} stands after entry {self.upto}: swap since and upto")
        first, own = state.head + 1, state.head + len(self.entries) + 1
        data = {"count": len(self.entries), "covers": covers, "view": _put(spans, covers, ((first, own),))}
        return [*self.entries, _draft(self, "replacement", data)]


class Expand(_Call, frozen=True, kw_only=True):
    """Put back what a compaction or replacement stands for, one level."""

    of: int

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        row = fold_row(log, self.of, state.head)
        spans = spans_at(log, state.head)
        if not holds(spans, self.of):
            raise NotVisible(self.of)
        covers = stored_spans(row, "covers")
        _, data = content(row)
        first = self.of - (data or {}).get("count", 0)  # a replacement stands behind the messages it placed
        view = _put(_without(spans, first, self.of - 1), ((self.of, self.of),), covers)
        return [_draft(self, "expansion", {"of": self.of, "view": view})]


class StartCall(_Call, frozen=True, kw_only=True):
    call_id: str

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        call = self._find(state, log)
        return [_draft(self, "call_started", {"call": call.id, "seq": call.seq})]

    def standing(self, state: State, log: Log) -> int:
        return self._find(state, log).started

    def _find(self, state: State, log: Log) -> OpenCall:
        for call in calls.walk(state.open, nodes(log)):
            if call.id == self.call_id:
                return call
        raise NotFound("pending call", self.call_id, "session.pending lists those that are")


class Answer(_Call, frozen=True, kw_only=True):
    """Give a pending call its result."""

    call_id: str
    result: Draft

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        if all(call.id != self.call_id for call in calls.walk(state.open, nodes(log))):
            raise NotFound("pending call", self.call_id, "it was answered already, or rewound, or never made")
        return [self.result]


class Spend(_Call, frozen=True, kw_only=True):
    """Count what a request took. Writes no entry."""

    free: ClassVar[bool] = True

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        return ()


class Repair(_Call, frozen=True, kw_only=True):
    """Answer every open call; `answer` makes the result."""

    answer: Callable[[OpenCall], Draft]

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        open_calls = list(calls.walk(state.open, nodes(log)))
        return [self.answer(call) for call in reversed(open_calls)]


class SetState(_Call, frozen=True, kw_only=True):
    values: dict[str, Any]
    remove: tuple[str, ...] = ()

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        return [_draft(self, "state", session_state.changed(log, state.head, self.values, self.remove))]


class CompleteGoal(_Call, frozen=True, kw_only=True):
    recap: str | None = None

    def drafts(self, state: State, log: Log) -> Sequence[Draft]:
        return [_draft(self, "goal", goals.completed(log, state.head, self.recap, self.at))]


def fold_row(log: Log, seq: int, head: int) -> Any:
    """The row of a compaction or replacement. Raises NotFound for any other entry."""
    if 0 < seq <= head and (row := log.row(seq)).kind in ("compaction", "replacement"):
        return row
    raise NotFound("compaction or replacement", seq)


def _draft(op: _Call, kind: str, data: dict[str, Any], **more: Any) -> Draft:
    plain = {name: [list(s) for s in value] if isinstance(value, tuple) else value for name, value in data.items()}
    return data_draft(kind, plain, at=op.at, key=op.key, **more)


def _put(spans: Spans, run: Spans, by: Spans) -> Spans:
    view = replaced(spans, run, by)
    assert view is not None  # the run was cut out of these very spans
    return view


def _must_show(log: Log, spans: Spans, seq: int) -> None:
    if not holds(spans, seq) or not log.row(seq).voice:
        raise NotVisible(seq)


def _without(spans: Spans, first: int, last: int) -> Spans:
    """The view without the entries first..last, wherever they stand."""
    cut = []
    for a, b in spans:
        cut += [(a, min(b, first - 1)), (max(a, last + 1), b)]
    return tidy(cut)
