"""Which run of the view may be folded.

A run is never cut between a call and its result, and a call that still waits for its result is never folded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

from msgspec import Struct

from threadline.core.entries import OTHER, USER, Entry, calls_and_results, content, voice_of
from threadline.core.reading import View
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


SUMMARY_PROMPT = """\
Write a summary that will stand in the place of the conversation above. Whoever goes on from here sees your summary \
and the latest turns, nothing else: what you leave out is forgotten.

Keep, in this order, and only where there is something to say:
1. Goal: what the user wants in the end, and every wish and limit they named, in their own words where words matter.
2. State: what is done, what is true now, and what was being worked on at the very end.
3. Facts: names, paths, commands, identifiers, numbers, versions and error messages, exactly as they were.
4. Decisions: what was chosen and why, and what was tried and failed, so that nobody tries it again.
5. Open: questions without an answer, promises, and the next steps.

Do not answer or continue the conversation, do not call tools, do not invent, do not praise. Be brief, but rather keep \
a detail too many than lose one that is needed."""


def plan_compaction(view: View, *, target_tokens: int, keep_turns: int = 4, keep: Collection[int] = ()) -> Plan:
    """Which run of the view to fold so that what stays has at most `target_tokens`, the summary itself not counted.

    The run leaves the last `keep_turns` user turns, the system's opening words and the entries `keep` alone, and is the
    first one that does; the largest there is where none does. It begins and ends at turns, unless only parts of turns
    may be folded. Pass it to `Session.compact`, which folds exactly this. Raises NothingToCompact where the view is
    small enough or no run may be folded, NotVisible for a seq to keep that is not in the view."""
    check_bounds(None, keep_turns, None, None)
    if not isinstance(view, View):
        raise InvalidArgument(f"a plan is made for a View, which session.view() gives, not for {type(view).__name__}")
    if not isinstance(keep, Iterable):
        raise InvalidArgument(f"keep is a list of the numbers of entries, not {keep!r}")
    if type(target_tokens) is not int or target_tokens < 0:
        raise InvalidArgument(f"target_tokens is a number of tokens from 0 on, not {target_tokens!r}")
    entries = [Seen(e.seq, _voice(e), e.tokens, e.message) for e in view.entries if e.message is not None]
    kept = {*_opening(entries), *(_index(entries, seq) for seq in keep)}
    excess = sum(entry.tokens for entry in entries) - target_tokens
    if excess <= 0:
        raise NothingToCompact(f"the view has {excess + target_tokens} tokens, which is within the target")
    stretches = list(_stretches(_end(entries, None, keep_turns), kept))
    turns = [_at_turns(entries, *stretch) for stretch in stretches]
    runs = _runs(entries, turns, excess) or _runs(entries, stretches, excess)
    if not runs:
        raise NothingToCompact("all of it is to be kept, or waits for results: keep fewer turns")
    first, stop = next(
        (run for run in runs if _size(entries, *run) >= excess), max(runs, key=lambda run: _size(entries, *run))
    )
    run = entries[first:stop]
    return Plan(run[0].seq, run[-1].seq, tuple(e.message for e in run), _size(entries, first, stop))


def _opening(entries: Sequence[Seen]) -> Iterator[int]:
    """The system's words that a view opens with: a context tells them apart from all others."""
    return (at for at, _ in takewhile(lambda each: each[1].message.role == "system", enumerate(entries)))


def _voice(entry: Entry) -> int:
    return voice_of(entry.message) if entry.kind == "message" and entry.message is not None else OTHER


def _stretches(end: int, kept: Collection[int]) -> Iterator[tuple[int, int]]:
    """What lies between the entries to keep."""
    edges = [-1, *sorted(at for at in kept if at < end), end]
    for before, behind in pairwise(edges):
        if before + 1 < behind:
            yield before + 1, behind


def _at_turns(entries: Sequence[Seen], start: int, end: int) -> tuple[int, int]:
    """What of a stretch begins and ends at turns; a summary stands for turns."""
    edges = [at for at in range(start, end + 1) if at in (0, len(entries)) or _is_edge(entries[at])]
    return (edges[0], edges[-1]) if edges else (start, start)


def _is_edge(entry: Seen) -> bool:
    return entry.voice == USER or "compaction" in entry.message.meta


def _runs(entries: Sequence[Seen], stretches: Sequence[tuple[int, int]], excess: int) -> list[tuple[int, int]]:
    """What may be folded of each stretch, no more of it than needed."""
    return [_run(entries, *free, excess) for stretch in stretches for free in _foldables(entries, *stretch)]


def _run(entries: Sequence[Seen], first: int, stop: int, excess: int) -> tuple[int, int]:
    """The shortest run to a turn that folds so many tokens; all of what may be folded if none does."""
    turns = [at for at in range(first + 1, stop) if entries[at].voice == USER]
    enough = bisect_left(turns, excess, key=lambda at: _size(entries, *_foldable(entries, first, at)))
    return _foldable(entries, first, turns[enough]) if enough < len(turns) else (first, stop)


def _size(entries: Sequence[Seen], first: int, stop: int) -> int:
    return sum(entry.tokens for entry in entries[first:stop])


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
    """The longest stretch of `start..end` that may be folded."""
    return max(_foldables(entries, start, end), key=lambda free: free[1] - free[0], default=(start, start))


def _foldables(entries: Sequence[Seen], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of `start..end` whose edges split no pair and which hold no open call, each as long as can be."""
    pairs, open_calls = _pairs(entries)
    blocked = [0] * (len(entries) + 1)  # at each edge: pairs that begin minus pairs that end before it
    for call, result in pairs:
        blocked[call + 1] += 1
        blocked[result + 1] -= 1
    begin = last = -1
    crossing = 0
    for edge in range(end + 1):
        crossing += blocked[edge]
        if edge - 1 in open_calls:
            if begin < last:
                yield begin, last
            begin = last = -1
        if edge >= start and not crossing:
            begin, last = (edge if begin < 0 else begin), edge
    if begin < last:
        yield begin, last


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
