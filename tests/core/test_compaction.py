"""The foldable run: never between a call and its result, over an open call, or shorter than it could be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from threadline import InvalidArgument, Message, NothingToCompact, NotVisible, Plan, ToolCall, ToolResult
from threadline.core.compaction import Seen, check_bounds, plan_run
from threadline.core.entries import USER, voice_of
from threadline.testing import scaled, strategies

many = settings(max_examples=scaled(300))

told = strategies.conversations(6) | st.lists(strategies.spoken(), max_size=10)


def seen(messages: list[Message]) -> list[Seen]:
    """A view whose seqs run backwards, because places in a view are not in the order of seqs."""
    shown = [message for message in messages if voice_of(message)]
    return [Seen(100 - i, voice_of(message), 1, message) for i, message in enumerate(shown)]


def planned(entries: list[Seen], since: int | None = None, upto: int | None = None, keep: int | None = None) -> range:
    """The indexes of the run; empty where nothing may be folded."""
    try:
        plan = plan_run(entries, since=since, upto=upto, keep_turns=keep)
    except NothingToCompact:
        return range(0)
    return range(100 - plan.since, 100 - plan.upto + 1)


def pairs(entries: list[Seen]) -> tuple[list[tuple[int, int]], list[int]]:
    """Where each answered call and its result stand, and where open calls stand."""
    waiting: list[tuple[int, str]] = []
    found = []
    for i, entry in enumerate(entries):
        for part in entry.message.parts:
            if isinstance(part, ToolCall):
                waiting.append((i, part.id))
            elif isinstance(part, ToolResult):
                own = [w for w in range(len(waiting)) if waiting[w][1] == part.call_id]
                found += [(waiting.pop(own[-1])[0], i)] if own else []
    return found, [i for i, _ in waiting]


@many
@given(told, st.data())
def test_the_run_splits_no_pair_and_holds_no_open_call(messages: list[Message], data: st.DataObject) -> None:
    entries = seen(messages)
    since = data.draw(st.none() | st.sampled_from([e.seq for e in entries])) if entries else None
    answered, waiting = pairs(entries)

    run = planned(entries, since)

    assert all((call in run) == (result in run) for call, result in answered)
    assert not any(i in run for i in waiting)
    assert since is None or not run or run.start >= 100 - since


@many
@given(told, st.data())
def test_no_run_that_may_be_folded_is_longer(messages: list[Message], data: st.DataObject) -> None:
    entries = seen(messages)
    start = data.draw(st.integers(0, max(0, len(entries) - 1)))
    end = data.draw(st.integers(0, max(0, len(entries) - 1)))
    answered, waiting = pairs(entries)

    run = planned(entries, 100 - start, 100 - end) if entries else range(0)

    def may_be_folded(i: int, j: int) -> bool:
        cut = any(call < edge <= result for call, result in answered for edge in (i, j))
        return not cut and not any(i <= w < j for w in waiting)

    lengths = [j - i for i in range(start, end + 1) for j in range(i + 1, end + 2) if may_be_folded(i, j)]
    assert len(run) == (max(lengths, default=0) if entries else 0)


@many
@given(told, st.integers(0, 5))
def test_the_last_turns_are_kept_whole(messages: list[Message], keep: int) -> None:
    entries = seen(messages)
    turns = [i for i, entry in enumerate(entries) if entry.voice == USER]

    run = planned(entries, keep=keep)

    if keep == 0:
        assert run == planned(entries)
    elif len(turns) < keep:
        assert not run
    else:
        assert run.stop <= turns[-keep] or not run


@given(told)
def test_a_plan_tells_exactly_what_stands_in_its_run(messages: list[Message]) -> None:
    entries = seen(messages)
    run = planned(entries)
    if not run:
        return

    plan = plan_run(entries, since=None, upto=None, keep_turns=None)

    chosen = entries[run.start : run.stop]
    expected = Plan(chosen[0].seq, chosen[-1].seq, tuple(e.message for e in chosen), len(chosen))
    assert plan == expected


@given(told, st.integers(0, 200))
def test_a_bound_outside_of_the_view_is_named(messages: list[Message], seq: int) -> None:
    entries = seen(messages)
    if seq in [entry.seq for entry in entries]:
        return
    for bounds in ({"since": seq, "upto": None}, {"since": None, "upto": seq}):
        try:
            plan_run(entries, **bounds, keep_turns=None)
        except NotVisible as error:
            named = error.seq
        assert named == seq


bound = st.none() | st.integers(-3, 9)


@given(bound, bound, bound, st.booleans())
def test_a_run_is_asked_for_in_one_way_only(
    upto: int | None, keep_turns: int | None, since: int | None, planned: bool
) -> None:
    plan = Plan(1, 1, (), 0) if planned else None
    twice = planned and (upto, keep_turns, since) != (None, None, None)
    wrong = twice or (upto is not None and keep_turns is not None) or (keep_turns or 0) < 0

    try:
        check_bounds(upto, keep_turns, plan, since)
        refused = False
    except InvalidArgument:
        refused = True

    assert refused == wrong
