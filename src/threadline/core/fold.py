"""The fold: what is true of a session right after an entry, from what was true before it.

    state(n) = after(state(n - 1), entry n)

Everything that a store keeps about views (counts, tokens, open calls, the unanswered turn, the chain) is a column
of this fold, stored with the entry, so that any past moment is one lookup and an append looks at nothing older
than the head. `Store.verify` runs the same function over the bare log and compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from threadline.core import calls
from threadline.core.calls import Node, Top
from threadline.core.digest import link
from threadline.core.entries import ASSISTANT, STRUCTURAL, USER, Draft, Row, calls_and_results, content, row_of
from threadline.core.view import Log, Spans, holds, spans_at, tidy
from threadline.messages import ToolCall, ToolResult


class State(NamedTuple):
    """The fold after entry `head`. The last two are of the view; `shown` and `total` are of the whole log."""

    head: int
    chain: bytes
    view: int
    shown: int
    total: int
    open: int
    asked: int
    pending: int
    messages: int
    tokens: int


TYPES = (int, bytes, *(int,) * 8)  # of a state's values; a flipped bit may change them

state_of: Callable[[Sequence[Any]], State] = partial(tuple.__new__, State)  # as State._make, in C


def start(salt: bytes) -> State:
    return State(0, salt, 0, 0, 0, 0, 0, 0, 0, 0)


def after(state: State, draft: Draft, log: Log) -> tuple[State, Row]:
    """The state after one more entry, and the row to store for it."""
    if draft.kind in STRUCTURAL:
        return _reshaped(state, draft, log)
    seq, voice, tokens = state.head + 1, draft.voice, draft.tokens
    _, chain, view, shown, total, open_, asked, pending, messages, view_tokens = state
    node: Node | None = None
    if voice:
        shown, total, messages, view_tokens = shown + 1, total + tokens, messages + 1, view_tokens + tokens
        if voice == USER:
            asked = seq
        elif voice == ASSISTANT:
            asked = 0
        message = draft.message
        if message is not None and (parts := calls_and_results(message)):
            open_, node, pending = calls.after(open_, seq, parts, nodes(log))
    elif draft.kind == "call_started" and draft.data is not None:
        open_, node, pending = calls.started(open_, seq, draft.data["call"], nodes(log))
    chain = link(chain, seq, draft.digest)
    new = state_of((seq, chain, view, shown, total, open_, asked, pending, messages, view_tokens))
    return new, _row(new, draft, node)


def state_at(log: Log, seq: int, salt: bytes) -> State:
    """The state right after entry `seq`, from its row."""
    if seq == 0:
        return start(salt)
    row = log.row(seq)
    pending = nodes(log)(row.open).pending if row.open else 0
    messages, tokens = measure(log, spans_at(log, seq))
    return State(seq, row.chain, row.view, row.shown, row.total, row.open, row.asked, pending, messages, tokens)


def measure(log: Log, spans: Spans) -> tuple[int, int]:
    """How many visible entries the spans hold, and their tokens: two lookups a span, whatever its length."""
    messages = tokens = 0
    for first, last in spans:
        end = log.row(last)
        messages, tokens = messages + end.shown, tokens + end.total
        if first > 1:
            before = log.row(first - 1)
            messages, tokens = messages - before.shown, tokens - before.total
    return messages, tokens


def nodes(log: Log) -> calls.Nodes:
    return lambda seq: calls.decode(log.row(seq).calls or b"")


def draft_of(row: Row) -> Draft:
    """The draft that a row was made from."""
    message, data = content(row)
    return Draft(row.kind, row.at, row.body, row.digest, row.tokens, row.voice, row.key, row.usage, message, data)


# -- entries that give the view another shape ----------------------------------------------------------


def _reshaped(state: State, draft: Draft, log: Log) -> tuple[State, Row]:
    """A structural entry says in its data what the view is after it; the rest follows from that view."""
    data = draft.data or {}
    seq = state.head + 1
    spans: Spans = tuple((first, last) for first, last in data["view"])
    past = tidy((first, min(last, state.head)) for first, last in spans)
    own = 1 if draft.voice and holds(spans, seq) else 0
    messages, tokens = measure(log, past)
    top = _open_calls(state, draft.kind, data, past, log)
    new = State(
        head=seq,
        chain=link(state.chain, seq, draft.digest),
        view=seq,
        shown=state.shown + (1 if draft.voice else 0),
        total=state.total + draft.tokens,
        open=top.open,
        asked=_asked(draft.kind, data, past, log),
        pending=top.pending,
        messages=messages + own,
        tokens=tokens + own * draft.tokens,
    )
    return new, _row(new, draft, top.node)


def _open_calls(state: State, kind: str, data: dict[str, Any], past: Spans, log: Log) -> Top:
    """Which calls are open in the new view. A compaction folds whole pairs, so it changes nothing."""
    if kind == "clear":
        return Top(0, None, 0)
    if kind == "rewind":
        there = log.row(data["to"]).open if data["to"] else 0
        return Top(there, None, nodes(log)(there).pending if there else 0)
    if kind in ("replacement", "expansion"):  # what is put back may answer, or start, what now stands before it
        return _open_calls_anew(state, past, log)
    return Top(state.open, None, state.pending)


def _open_calls_anew(state: State, past: Spans, log: Log) -> Top:
    marks = {(call.seq, call.id): call.started for call in calls.walk(state.open, nodes(log)) if call.started}
    said: list[tuple[int, ToolCall | ToolResult]] = []
    for first, last in past:
        for row in log.rows(first, last):
            message, data = content(row)
            if row.kind == "call_started" and data is not None:
                marks.setdefault((data["seq"], data["call"]), row.seq)
            elif row.voice and message is not None:
                said += ((row.seq, part) for part in calls_and_results(message))
    return calls.anew(state.head + 1, said, marks)


def _asked(kind: str, data: dict[str, Any], past: Spans, log: Log) -> int:
    """The user's entry that nothing answered: since then no assistant spoke without calling a tool."""
    if kind == "rewind":
        return log.row(data["to"]).asked if data["to"] else 0
    for first, last in reversed(past):
        for row in log.rows(first, last, shown=True, reverse=True):
            if row.voice in (USER, ASSISTANT):
                return row.seq if row.voice == USER else 0
    return 0


def _row(state: State, draft: Draft, node: Node | None) -> Row:
    seq, chain, view, shown, total, open_, asked, _, _, _ = state
    return row_of(
        (
            seq,
            draft.kind,
            draft.at,
            draft.tokens,
            draft.voice,
            view,
            shown,
            total,
            open_,
            asked,
            draft.digest,
            chain,
            draft.key,
            draft.usage,
            None if node is None else calls.encode(node),
            draft.body,
        )
    )
