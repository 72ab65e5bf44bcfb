"""Which run of the view may be folded.

A run is never cut between a call and its result, and a call that still waits for its result is never folded."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from threadline.core.entries import USER, calls_and_results, content
from threadline.core.view import Log, Spans
from threadline.errors import InvalidArgument, NothingToCompact, NotVisible
from threadline.messages import Message, ToolCall


class Plan(Struct, frozen=True):
    """A run of the view to fold: from entry `since` to entry `upto` in reading order, and what stands there."""

    since: int
    upto: int
    messages: tuple[Message, ...]
    tokens: int


class Seen(Struct, frozen=True):
    """One visible entry, as far as compaction cares."""

    seq: int
    voice: int
    tokens: int
    message: Message


def seen(log: Log, spans: Spans) -> list[Seen]:
    """The visible entries of a view in reading order. Raises Damaged: what cannot be read cannot be summarised."""
    out = []
    for first, last in spans:
        for row in log.rows(first, last, shown=True):
            row.check(None)
            message, _ = content(row)
            if message is not None:
                out.append(Seen(row.seq, row.voice, row.tokens, message))
    return out


def plan_run(entries: Sequence[Seen], *, since: int | None, upto: int | None, keep_turns: int | None) -> Plan:
    """The largest foldable run within what was asked for. Raises NotVisible or NothingToCompact."""
    start = 0 if since is None else _index(entries, since)
    end = _end(entries, upto, keep_turns)
    first, stop = _foldable(entries, start, end)
    if first == stop:
        raise NothingToCompact(_why(entries, start, end))
    run = entries[first:stop]
    return Plan(run[0].seq, run[-1].seq, tuple(e.message for e in run), sum(e.tokens for e in run))


def _index(entries: Sequence[Seen], seq: int) -> int:
    for i, entry in enumerate(entries):
        if entry.seq == seq:
            return i
    raise NotVisible(seq)


def _end(entries: Sequence[Seen], upto: int | None, keep_turns: int | None) -> int:
    """The index right after the run that was asked for."""
    if upto is not None:
        return _index(entries, upto) + 1
    if not keep_turns:
        return len(entries)
    turns = [i for i, entry in enumerate(entries) if entry.voice == USER]
    return turns[-keep_turns] if len(turns) >= keep_turns else 0


def _foldable(entries: Sequence[Seen], start: int, end: int) -> tuple[int, int]:
    """The longest stretch of `start..end` whose edges split no pair and which holds no open call."""
    pairs, open_calls = _pairs(entries)
    blocked = [0] * (len(entries) + 1)  # at each edge: pairs that begin minus pairs that end before it
    for call, result in pairs:
        blocked[call + 1] += 1
        blocked[result + 1] -= 1
    best, begin, crossing = (start, start), -1, 0
    for edge in range(end + 1):
        crossing += blocked[edge]
        if begin >= 0 and edge - 1 in open_calls:
            begin = -1
        if edge < start or crossing:
            continue
        if begin < 0:
            begin = edge
        if edge - begin > best[1] - best[0]:
            best = (begin, edge)
    return best


def _pairs(entries: Sequence[Seen]) -> tuple[list[tuple[int, int]], set[int]]:
    """(entry of the call, entry of its result) for each answered call, and the entries whose calls are open."""
    waiting: dict[str, list[int]] = {}
    pairs = []
    for i, entry in enumerate(entries):
        for part in calls_and_results(entry.message):
            if isinstance(part, ToolCall):
                waiting.setdefault(part.id, []).append(i)
            elif waiting.get(part.call_id):
                pairs.append((waiting[part.call_id].pop(), i))
    return pairs, {i for open_ in waiting.values() for i in open_}


def _why(entries: Sequence[Seen], start: int, end: int) -> str:
    if not entries:
        return "the view is empty"
    if start >= end:
        return "the run is empty: keep fewer turns, or choose since and upto in reading order"
    return "the run holds only tool calls whose results are missing or outside of it"


def check_bounds(upto: int | None, keep_turns: int | None, plan: Plan | None, since: int | None) -> None:
    """Refuse a run that is asked for in two ways, or in none that makes sense."""
    for name, value in (("since", since), ("upto", upto), ("keep_turns", keep_turns)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise InvalidArgument(f"{name} is a number, not {value!r}")
    if plan is not None and not isinstance(plan, Plan):
        raise InvalidArgument(f"a plan is a Plan, not {type(plan).__name__}")
    if plan is not None and (upto, keep_turns, since) != (None, None, None):
        raise InvalidArgument("a plan already says which run to fold: leave out since, upto and keep_turns")
    if upto is not None and keep_turns is not None:
        raise InvalidArgument("give upto or keep_turns, not both: each says where the run ends")
    if keep_turns is not None and keep_turns < 0:
        raise InvalidArgument(f"keep_turns must be 0 or more, not {keep_turns}")
