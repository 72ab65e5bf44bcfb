"""Planning a compaction: which run to fold, when to do it, and that exactly what was planned is folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import threadline
from threadline import (
    SUMMARY_PROMPT,
    Conflict,
    InvalidArgument,
    Message,
    NothingToCompact,
    NotVisible,
    Plan,
    Session,
    Store,
    ToolCall,
    Usage,
    plan_compaction,
    should_compact,
)


@pytest.fixture
def store() -> Iterator[Store]:
    with threadline.open(":memory:", count_tokens=lambda message: 10) as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    return store.new()


def talk(session: Session, turns: int) -> Session:
    for n in range(1, turns + 1):
        session.extend([f"q{n}", Message.assistant(f"a{n}")])
    return session


def calls(*ids: str) -> Message:
    return Message.assistant(None, *(ToolCall(id, "search", {}) for id in ids))


def run(plan: Plan) -> tuple[int, int]:
    return plan.since, plan.upto


# -- which run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "upto"), [(199, 2), (180, 2), (179, 4), (100, 10), (90, 12), (80, 12), (0, 12)])
def test_as_many_turns_are_folded_as_the_target_needs(session: Session, target: int, upto: int) -> None:
    talk(session, 10)  # 200 tokens

    plan = plan_compaction(session.view(), target_tokens=target)

    assert run(plan) == (1, upto)
    assert plan.tokens == 10 * upto
    assert list(plan.messages) == session.messages()[:upto]


def test_the_target_is_reached(session: Session) -> None:
    talk(session, 50)

    plan = plan_compaction(session.view(), target_tokens=300)
    session.compact("so far", plan)

    assert session.info.tokens <= 300 + 10  # and the summary


@pytest.mark.parametrize("keep_turns", range(6))
def test_the_last_turns_are_kept(session: Session, keep_turns: int) -> None:
    talk(session, 6)

    plan = plan_compaction(session.view(), target_tokens=0, keep_turns=keep_turns)

    assert run(plan) == (1, 12 - 2 * keep_turns)


def test_entries_to_keep_are_left_alone(session: Session) -> None:
    talk(session, 10)

    plan = plan_compaction(session.view(), target_tokens=120, keep=[3])

    assert run(plan) == (5, 12)


def test_the_words_of_the_system_at_the_front_are_never_folded(session: Session) -> None:
    session.extend([Message.system("Be brief."), Message.system("Be exact.")])
    talk(session, 10)

    plan = plan_compaction(session.view(), target_tokens=0, keep_turns=0)
    session.compact("so far", plan)

    assert run(plan) == (3, 22)
    assert session.context().system == "Be brief.\n\nBe exact."


def test_where_no_run_is_enough_the_largest_is_chosen(session: Session) -> None:
    talk(session, 10)

    plan = plan_compaction(session.view(), target_tokens=0, keep_turns=1, keep=[5, 6])

    assert run(plan) == (7, 18)


def test_a_run_with_keeps_begins_where_a_turn_begins(session: Session) -> None:
    talk(session, 10)

    plan = plan_compaction(session.view(), target_tokens=120, keep=[1])

    assert session.entry(plan.since).message == Message.user("q2")


def test_a_turn_may_be_folded_in_part_where_no_whole_one_may(session: Session) -> None:
    """One task and many tool rounds: the task is kept, what came of it is folded."""
    session.append("the task")
    for n in range(5):
        session.extend([calls(f"c{n}"), Message.tool(f"c{n}", "r")])

    plan = plan_compaction(session.view(), target_tokens=0, keep_turns=0, keep=[1])

    assert run(plan) == (2, 11)


def test_a_tool_round_is_folded_whole(session: Session) -> None:
    for n in range(1, 4):
        session.extend([f"q{n}", calls(f"c{n}"), Message.tool(f"c{n}", "r"), Message.assistant(f"a{n}")])

    plan = plan_compaction(session.view(), target_tokens=115, keep_turns=1)

    assert run(plan) == (1, 4)


def test_an_open_call_is_not_folded(session: Session) -> None:
    talk(session, 2).extend(["go", calls("c1")])
    talk(session, 5)

    plan = plan_compaction(session.view(), target_tokens=0, keep_turns=1)

    assert 6 not in range(plan.since, plan.upto + 1)
    assert plan.tokens == 80


def test_a_large_run_before_an_open_call_is_found() -> None:
    """The run that helps most counts in tokens, however few entries it has."""
    with threadline.open(":memory:", count_tokens=lambda message: len(message.text)) as counted:
        session = counted.new()
        session.extend(["q" * 5_000, Message.assistant("a" * 5_000), "go", calls("c1")])
        talk(session, 8)

        plan = plan_compaction(session.view(), target_tokens=500, keep_turns=1)

        assert plan.tokens >= 10_000


def test_an_earlier_summary_is_folded_with_the_rest(session: Session) -> None:
    talk(session, 6)
    folded = session.compact("first", upto=4)

    plan = plan_compaction(session.view(), target_tokens=50, keep_turns=2)

    assert plan.since == folded.seq
    assert plan.messages[0].text == "first"


def test_a_summary_is_no_turn_to_keep(session: Session) -> None:
    talk(session, 3)
    session.compact("first", upto=2)

    plan = plan_compaction(session.view(), target_tokens=0, keep_turns=2)

    assert [message.text for message in plan.messages] == ["first"]


@pytest.mark.parametrize(
    ("turns", "wish", "said"),
    [
        (0, {"target_tokens": 0}, "within the target"),
        (3, {"target_tokens": 60}, "within the target"),
        (3, {"target_tokens": 0}, "keep fewer turns"),
        (3, {"target_tokens": 0, "keep_turns": 0, "keep": range(1, 7)}, "keep fewer turns"),
    ],
    ids=str,
)
def test_nothing_to_fold_is_said(session: Session, turns: int, wish: dict[str, Any], said: str) -> None:
    talk(session, turns)

    with pytest.raises(NothingToCompact, match=said):
        plan_compaction(session.view(), **wish)


def test_a_view_that_waits_for_its_first_result_has_nothing_to_fold(session: Session) -> None:
    session.append(calls("c1"))

    with pytest.raises(NothingToCompact):
        plan_compaction(session.view(), target_tokens=0, keep_turns=0)


def test_what_cannot_be_planned_is_refused(session: Session) -> None:
    view = talk(session, 3).view()

    with pytest.raises(NotVisible):
        plan_compaction(view, target_tokens=0, keep=[99])
    for wrong in ({"target_tokens": -1}, {"target_tokens": "few"}, {"target_tokens": 0, "keep_turns": -1}):
        with pytest.raises(InvalidArgument):
            plan_compaction(view, **wrong)  # type: ignore[arg-type]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Turns with and without tools; some calls are never answered, some results come late."""
    said: list[Message] = []
    late: list[Message] = []
    for n in range(draw(st.integers(1, 8))):
        said.append(Message.user("q" * draw(st.integers(1, 30))))
        match draw(st.sampled_from(["answer", "answer", "round", "open", "late"])):
            case "round":
                said += [calls(f"c{n}"), Message.tool(f"c{n}", "r" * draw(st.integers(1, 30)))]
            case "open":
                said.append(calls(f"c{n}"))
            case "late":
                said.append(calls(f"c{n}"))
                late.append(Message.tool(f"c{n}", "late"))
        said.append(Message.assistant("a" * draw(st.integers(1, 30))))
        if late and draw(st.booleans()):
            said.append(late.pop())
    return said


@settings(max_examples=150, deadline=None, derandomize=True)
@given(conversations(), st.integers(0, 200), st.integers(0, 3), st.data())
def test_a_plan_is_always_foldable_and_enough_where_any_is(
    said: list[Message], target: int, keep_turns: int, data: st.DataObject
) -> None:
    with threadline.open(":memory:", count_tokens=count) as store:
        session = store.new()
        session.extend(said)
        view = session.view()
        keep = data.draw(st.lists(st.sampled_from([entry.seq for entry in view.entries]), max_size=2))
        try:
            plan = plan_compaction(view, target_tokens=target, keep_turns=keep_turns, keep=keep)
        except NothingToCompact:
            return

        folded = session.compact("s", plan)

        originals = session.originals(folded.seq)
        assert [entry.message for entry in originals] == list(plan.messages)
        assert not {entry.seq for entry in originals} & set(keep)
        users = [entry.seq for entry in view.entries if entry.message and entry.message.role == "user"]
        assert not keep_turns or users[-keep_turns] not in {entry.seq for entry in originals}
        assert len(session.pending) == len(open_calls(said))
        excess = sum(map(count, said)) - target
        best = max((sum(map(count, run)) for run in every_run(said, keep_turns, keep)), default=0)
        assert plan.tokens >= min(excess, best)


def count(message: Message) -> int:
    return len(message.text) + 1


def open_calls(said: list[Message]) -> set[str]:
    answered = {result.call_id for message in said for result in message.results}
    return ids(said) - answered


def every_run(said: list[Message], keep_turns: int, keep: list[int]) -> Iterator[list[Message]]:
    """All runs from turn to turn that may be folded, found by trying."""
    turns = [at for at, message in enumerate(said) if message.role == "user"]
    end = len(said) if not keep_turns else turns[-keep_turns] if len(turns) >= keep_turns else 0
    for first in turns:
        for stop in [*turns, len(said)]:
            run = said[first:stop]
            whole = not crossing(said, first) and not crossing(said, stop) and not ids(run) & open_calls(said)
            if first < stop <= end and whole and not {seq - 1 for seq in keep} & set(range(first, stop)):
                yield run


def ids(said: list[Message]) -> set[str]:
    return {call.id for message in said for call in message.calls}


def crossing(said: list[Message], edge: int) -> set[str]:
    """The calls before an edge whose results stand behind it."""
    return ids(said[:edge]) & {result.call_id for message in said[edge:] for result in message.results}


# -- exactly what was planned --------------------------------------------------------------------------


def test_a_plan_folds_what_was_summarised_whatever_came_meanwhile(session: Session) -> None:
    talk(session, 10)
    plan = plan_compaction(session.view(), target_tokens=120, keep_turns=2)
    session.extend(["meanwhile", calls("c1")])

    folded = session.compact("so far", plan)

    assert [entry.message for entry in session.originals(folded.seq)] == list(plan.messages)
    assert session.messages()[-2:] == [Message.user("meanwhile"), calls("c1")]


def test_a_plan_may_be_summarised_by_a_function(session: Session) -> None:
    talk(session, 10)
    plan = plan_compaction(session.view(), target_tokens=120, keep_turns=2)

    session.compact(lambda messages: f"{len(messages)} messages", plan)

    assert session.messages()[0].text == f"{len(plan.messages)} messages"


@pytest.mark.parametrize("meddle", ["rewind", "replace", "compact", "clear"])
def test_a_plan_whose_run_is_gone_is_refused(session: Session, meddle: str) -> None:
    talk(session, 10)
    plan = plan_compaction(session.view(), target_tokens=120, keep_turns=2)
    {
        "rewind": lambda: session.rewind(2),
        "replace": lambda: session.replace(["other"], since=3, upto=3),
        "compact": lambda: session.compact("mine", upto=4),
        "clear": session.clear,
    }[meddle]()
    head = session.head

    with pytest.raises((Conflict, NotVisible)):
        session.compact("so far", plan)

    assert session.head == head


def test_compacting_in_a_loop_comes_to_an_end(session: Session) -> None:
    """The loop of an agent: whenever the prompt is too full, plan and fold."""
    for n in range(100):
        session.extend([f"q{n}", Message.assistant(f"a{n}")])
        if session.info.tokens > 300:
            session.compact("so far", plan_compaction(session.view(), target_tokens=150, keep_turns=2))
        assert session.info.tokens <= 300

    assert session.messages()[-1].text == "a99"


# -- when to compact -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input=20_000, cache_read=50_000, cache_write=10_000),
        {"input": 20_000, "cache_read": 60_000, "output": 5},
        {
            "input_tokens": 20_000,
            "cache_read_input_tokens": 55_000,
            "cache_creation_input_tokens": 5_000,
            "output_tokens": 1,
        },
        {"prompt_tokens": 80_000, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 70_000}},
        {"input_tokens": 80_000, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 70_000}},
        {"promptTokenCount": 80_000, "cachedContentTokenCount": 70_000, "candidatesTokenCount": 3},
    ],
    ids=["ours", "our names", "anthropic", "openai", "responses", "gemini"],
)
def test_cached_tokens_fill_the_window_as_well(usage: Usage | dict[str, Any]) -> None:
    assert should_compact(usage, 100_000)
    assert not should_compact(usage, 100_001)
    assert should_compact(usage, 160_000, threshold=0.5)
    assert not should_compact(usage, 100_000, threshold=0.9)


@pytest.mark.parametrize(("window", "threshold"), [(0, 0.8), (-1, 0.8), (100, 0), (100, -1)])
def test_without_a_window_or_a_threshold_never(window: int, threshold: float) -> None:
    assert not should_compact(Usage(input=10**9), window, threshold)
    assert not should_compact(None, 100)


def test_a_usage_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        should_compact({"mine": 1}, 100)


def test_the_prompt_for_a_summary_asks_for_what_must_not_be_lost() -> None:
    for word in ("Goal", "State", "Facts", "Decisions", "Open"):
        assert word in SUMMARY_PROMPT
