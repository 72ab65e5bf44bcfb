"""A compaction by a plan folds exactly what was summarised, or nothing."""

from __future__ import annotations

import pytest

from threadline import (
    Conflict,
    InvalidArgument,
    Message,
    NothingToCompact,
    NotVisible,
    Stale,
    ToolCall,
    plan_compaction,
)
from threadline.core.compaction import Plan, check_bounds, plan_run, seen
from threadline.core.entries import OTHER
from threadline.core.ops import Compact
from threadline.core.reading import read_view
from threadline.testing.memory import MemoryLog


def talk() -> MemoryLog:
    log = MemoryLog()
    log.do("append", message=Message.user("question"))
    log.do("append", message=Message.assistant("calling", ToolCall("c", "look")))
    log.do("append", message=Message.tool("c", "found"))
    log.do("append", message=Message.assistant("answer"))
    return log


def plan(log: MemoryLog, since: int, upto: int) -> Plan:
    run = seen(log, ((since, upto),))
    return Plan(since, upto, tuple(entry.message for entry in run), sum(entry.tokens for entry in run))


def fold(made: Plan, planned_at: int | None = None) -> Compact:
    return Compact(at=1, summary="in short", tokens=1, plan=made, planned_at=planned_at)


def test_exactly_the_run_of_a_plan_is_folded() -> None:
    log = talk()
    log.write(fold(plan(log, 1, 3)))

    assert [entry.message.text for entry in seen(log, ((5, 5), (4, 4)))][1:] == ["answer"]
    assert log.row(5).kind == "compaction"


@pytest.mark.parametrize(("since", "upto"), [(1, 2), (3, 4)])
def test_a_plan_that_splits_a_call_from_its_result_is_refused(since: int, upto: int) -> None:
    log = talk()
    with pytest.raises(InvalidArgument, match="splits a tool call"):
        log.write(fold(plan(log, since, upto)))

    assert log.head == 4


def test_a_plan_of_what_has_changed_since_is_refused() -> None:
    log = talk()
    old = plan(log, 1, 3)
    log.do("replace", messages=[Message.user("another question")], since=2, upto=3)
    with pytest.raises(NotVisible):
        log.write(fold(old))
    moved = Plan(1, 1, (Message.user("something else"),), 1)
    with pytest.raises(Conflict, match="plan again"):
        log.write(fold(moved))
    with pytest.raises(Stale) as caught:
        log.write(fold(moved, planned_at=4))

    assert (caught.value.expected, caught.value.found) == (4, log.head)


@pytest.mark.parametrize(
    "bounds", [{"upto": "3"}, {"keep_turns": 1.0}, {"since": True}, {"plan": (1, 2)}], ids=lambda bounds: repr(bounds)
)
def test_a_bound_that_is_no_number_or_plan_is_refused(bounds: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(bounds)).split("_")[0]):
        check_bounds(**{"upto": None, "keep_turns": None, "plan": None, "since": None} | bounds)  # type: ignore[arg-type]


def test_what_says_nothing_is_not_summarised_though_its_row_says_it_speaks() -> None:
    log = talk()
    (note,) = log.do("note", data={"n": 1})
    log.kept[note.seq - 1] = note._replace(voice=OTHER)

    assert [entry.seq for entry in seen(log, ((1, note.seq),))] == [1, 2, 3, 4]


def test_a_plan_folds_no_more_turns_than_it_must() -> None:
    log = MemoryLog()
    log.do("extend", messages=[Message.user("x" * 100), *(Message.user(text) for text in "abcd")])
    view = read_view(log, ((1, 5),), 5, "s")
    made = plan_compaction(view, target_tokens=20, keep_turns=1)

    assert (made.since, made.upto) == (1, 1)


def test_why_nothing_can_be_folded_is_told_as_it_is() -> None:
    log = talk()
    for messages, why in (([], "the view is empty"), (seen(log, ((1, 4),)), "the run is empty")):
        with pytest.raises(NothingToCompact, match=why):
            plan_run(messages, since=None, upto=None, keep_turns=1)


def test_a_call_that_waits_for_its_result_is_why_nothing_is_folded() -> None:
    log = MemoryLog()
    log.do("append", message=Message.assistant("calling", ToolCall("c", "look")))
    with pytest.raises(NothingToCompact, match="whose results are missing"):
        plan_run(seen(log, ((1, 1),)), since=None, upto=1, keep_turns=None)
