"""The window: budgets that hold, turns that stay whole, and a prefix that stays the same for many turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

import threadline
from threadline import (
    BudgetTooSmall,
    Context,
    InvalidArgument,
    Media,
    Message,
    NotFound,
    Session,
    Store,
    Text,
    ToolCall,
    ToolResult,
    diff_contexts,
    formats,
)
from threadline.backends.log import PiecedLog

FORMATS = ("threadline", "anthropic", "openai", "responses", "gemini")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def by_length(message: Message) -> int:
    """A count that a test can do in its head: a token for each character that somebody reads."""
    return len(message.text) + sum(len(call.id) for call in message.calls)


@pytest.fixture
def store() -> Iterator[Store]:
    with threadline.open(":memory:", count_tokens=by_length, clock=lambda: NOON) as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    return store.new()


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def turn(n: int, answer: int = 8) -> list[Message | str]:
    """A question and an answer, 10 tokens together by length."""
    return [f"{n % 100:02}", Message.assistant("a" * answer)]


def texts(context: Context) -> list[str]:
    return [message.text for message in context.messages]


# -- budgets -------------------------------------------------------------------------------------------


def test_without_a_budget_all_of_the_view_is_sent(session: Session) -> None:
    for n in range(200):
        session.extend(turn(n))

    context = session.context()

    assert context.messages == session.messages()
    assert (context.tokens, context.dropped, context.start) == (2_000, 0, 1)
    assert context.seqs == tuple(range(1, 401))


@pytest.mark.parametrize("budget", [10, 11, 19, 20, 39, 40, 41, 57, 99, 100])
def test_a_budget_is_met_by_whole_turns_from_the_front(session: Session, budget: int) -> None:
    for n in range(10):
        session.extend(turn(n))

    context = session.context(max_tokens=budget)

    assert context.tokens <= budget
    assert context.tokens == 10 * len(context.seqs) // 2
    assert context.seqs == tuple(range(21 - len(context.seqs), 21))
    assert context.messages[0].role == "user"
    assert context.dropped == 20 - len(context.seqs)


@pytest.mark.parametrize("budget", [20, 40, 80, 100, 200])
def test_what_is_dropped_is_the_excess_rounded_up_to_a_quarter_and_to_a_turn(session: Session, budget: int) -> None:
    for n in range(33):
        session.extend(turn(n))

    excess, step = 330 - budget, budget // 4
    dropped = -(-excess // step) * step

    assert session.context(max_tokens=budget).dropped == -(-dropped // 10) * 2


def test_a_budget_that_holds_all_drops_nothing(session: Session) -> None:
    for n in range(10):
        session.extend(turn(n))

    assert session.context(max_tokens=100).dropped == 0
    assert session.context(max_messages=20).dropped == 0
    assert session.context(max_tokens=99).dropped > 0
    assert session.context(max_messages=19).dropped > 0


@pytest.mark.parametrize("most", range(1, 25))
def test_a_number_of_messages_is_met_by_whole_turns(session: Session, most: int) -> None:
    for n in range(6):
        session.extend([*turn(n), f"+{n}", Message.assistant("more")])

    context = session.context(max_messages=most)

    assert len(context.seqs) <= max(most, 2)
    assert context.messages[0].role == "user"
    assert context.seqs[-1] == 24


def test_a_longer_newest_turn_stays_whole_under_a_number_of_messages(session: Session) -> None:
    session.extend(turn(1))
    session.append("go")
    for n in range(20):
        session.extend([Message.assistant(None, ToolCall(f"c{n}", "t", {})), Message.tool(f"c{n}", "ok")])

    context = session.context(max_messages=3)

    assert context.seqs == tuple(range(3, 44))
    assert context.repairs == []


def test_both_budgets_hold_together(session: Session) -> None:
    for n in range(30):
        session.extend(turn(n, answer=8 if n < 25 else 98))

    for tokens, messages in ((250, 100), (10_000, 6), (150, 4)):
        context = session.context(max_tokens=tokens, max_messages=messages)
        assert context.tokens <= tokens
        assert len(context.seqs) <= messages


# -- the newest turn alone is too big ------------------------------------------------------------------


def big_turn(session: Session, *sizes: int) -> None:
    session.append("look")  # entry 1
    for n, size in enumerate(sizes):
        session.extend([Message.assistant(None, ToolCall(f"c{n}", "t", {})), Message.tool(f"c{n}", "x" * size)])


def test_the_largest_results_are_shortened_and_say_where_all_of_it_is(session: Session, format: str) -> None:
    big_turn(session, 30, 5_000, 40)

    context = session.context(max_tokens=3_000, format=format)

    messages = context.messages if format == "threadline" else formats.read(context.messages, format)
    outputs = [part.output for message in messages for part in message.results]
    assert outputs[0] == "x" * 30
    assert outputs[2] == "x" * 40
    assert "characters left out here; entry 5 has them all]" in str(outputs[1])
    assert str(outputs[1]).startswith("x" * 500)
    assert str(outputs[1]).endswith("x" * 100)
    assert context.tokens <= 3_000
    assert session.entry(5).message == Message.tool("c1", "x" * 5_000)


def test_a_shortened_result_gives_exact_numbers(session: Session) -> None:
    big_turn(session, 5_000)

    shown = session.context(max_tokens=3_000).messages[-1].text

    assert "[2,952 of 5,000 characters left out here; entry 3 has them all]" in shown
    assert shown.count("x") == 2_048 + "characters left out here; entry 3 has them all".count("x")


def test_what_can_be_read_of_a_result_in_parts_is_shortened_likewise(session: Session) -> None:
    session.extend(["look", Message.assistant(None, ToolCall("c0", "t", {}))])
    session.append(Message.tool("c0", [Text("x" * 5_000), Media("image/png", b"1", name="a.png")]))

    shown = session.context(max_tokens=1_000).messages[-1].text

    assert shown.endswith("[image: a.png]")
    assert "entry 3 has them all" in shown


def test_older_turns_go_before_the_newest_one_suffers(session: Session) -> None:
    big_turn(session, 900)
    session.extend(["and now?", Message.assistant("Now this.")])

    context = session.context(max_tokens=500)

    assert texts(context) == ["and now?", "Now this."]


@pytest.mark.parametrize("sizes", [(5_000,), (300, 300, 300), (10,), (10, 2_000, 10)])
def test_the_budget_that_is_needed_is_exact(session: Session, format: str, sizes: tuple[int, ...]) -> None:
    session.extend(turn(1))
    big_turn(session, *sizes)
    with pytest.raises(BudgetTooSmall) as caught:
        session.context(max_tokens=1, format=format)

    needed = caught.value.needed
    assert session.context(max_tokens=needed, format=format).tokens == needed
    with pytest.raises(BudgetTooSmall, match=f"give max_tokens={needed} or more"):
        session.context(max_tokens=needed - 1, format=format)


def test_the_words_of_a_user_are_never_cut(session: Session) -> None:
    session.append("u" * 1_000)

    with pytest.raises(BudgetTooSmall) as caught:
        session.context(max_tokens=999)

    assert (caught.value.needed, caught.value.given) == (1_000, 999)


def test_a_shortened_turn_stays_the_same_prefix_as_it_grows(session: Session) -> None:
    big_turn(session, 5_000)
    before = session.context(max_tokens=3_000)
    session.extend(
        [Message.assistant("a" * 100), Message.assistant(None, ToolCall("d", "t", {})), Message.tool("d", "ok")]
    )

    assert diff_contexts(before, session.context(max_tokens=3_000)) is None


# -- steps ---------------------------------------------------------------------------------------------


def grow(session: Session, turns: int) -> Iterator[int]:
    """Turn by turn, with a tool round in every third; stops wherever the model would be asked."""
    for n in range(turns):
        session.append(f"question {n}")
        yield n
        if n % 3 == 0:
            session.append(Message.assistant("I look.", ToolCall(f"call_{n}", "search", {"n": n})))
            session.append(Message.tool(f"call_{n}", f"result {n} " * (n % 7)))
            yield n
        session.append(Message.assistant(f"answer {n} " * (n % 5 + 1)))


def moves(session: Session, turns: int, **wish: Any) -> int:
    """How often the window moved; at all other times each context goes on exactly where the one before ended."""
    moved, before = 0, session.context(**wish)
    for _ in grow(session, turns):
        context = session.context(**wish)
        if context.start != before.start and before.seqs:
            moved += 1
            assert context.start > before.start
            assert diff_contexts(before, context) is not None
        else:
            assert diff_contexts(before, context) is None
            assert context.fingerprint(len(before.messages)) == before.fingerprint()
        before = context
    return moved


@pytest.mark.parametrize("options", [{}, {"timestamps": True}], ids=["plain", "stamped"])
def test_the_window_moves_once_in_a_quarter_of_the_tokens(
    session: Session, format: str, options: dict[str, Any]
) -> None:
    moved = moves(session, 300, format=format, max_tokens=2_000, **options)

    steps = -(-(session.info.tokens - 2_000) // 500)
    assert steps - 1 <= moved <= steps + bool(options)  # stamps are tokens, too
    assert moved >= 10


def test_the_window_moves_once_in_a_quarter_of_the_messages(session: Session, format: str) -> None:
    moved = moves(session, 300, format=format, max_messages=120)

    assert moved == -(-(session.head - 1 - 120) // 30) == 23


def test_the_window_moves_as_seldom_when_the_view_is_read_from_the_middle(session: Session) -> None:
    """A long session is read from its end: where the window begins does not depend on how far was read."""
    for n in range(500):
        session.extend(turn(n))

    moved = moves(session, 100, max_messages=40)

    assert moved == -(-(session.head - 1 - 40) // 10) - (1_000 - 40) // 10


def test_old_outputs_become_previews_in_steps(session: Session, format: str) -> None:
    changes, before, rounds = 0, session.context(format=format, keep_outputs=8), 80
    for n in range(rounds):
        tool_round(session, n, 2_000)
        context = session.context(format=format, keep_outputs=8)
        changes += diff_contexts(before, context) is not None
        before = context

    assert changes == (rounds - 8) // 2


def test_the_kept_outputs_are_whole_and_the_old_are_previews(session: Session) -> None:
    for n in range(10):
        tool_round(session, n, 2_000)

    outputs = [m.text for m in session.context(keep_outputs=3).messages if m.role == "tool"]

    assert [len(output) == 2_000 for output in outputs] == [False] * 6 + [True] * 4
    assert outputs[0].count("x") == 400 + "characters left out here; entry 3 has them all".count("x")
    assert "[1,600 of 2,000 characters left out here; entry 3 has them all]" in outputs[0]


def test_small_outputs_are_never_made_previews(session: Session) -> None:
    for n in range(10):
        tool_round(session, n, 1_000)

    assert session.context(keep_outputs=0).messages == session.messages()


def tool_round(session: Session, n: int, size: int) -> None:
    """A turn with one call, whose result has so many characters."""
    called = Message.assistant(None, ToolCall(f"c{n}", "t", {}))
    session.extend([f"q{n}", called, Message.tool(f"c{n}", "x" * size), Message.assistant(f"a{n}")])


# -- fingerprint and difference ------------------------------------------------------------------------


def test_a_fingerprint_tells_a_prefix(session: Session, format: str) -> None:
    session.extend(turn(1))
    a = session.context(format=format)
    session.extend(turn(2))
    b = session.context(format=format)

    assert b.fingerprint(len(a.messages)) == a.fingerprint()
    assert b.fingerprint() != a.fingerprint()
    assert b.fingerprint(0) == a.fingerprint(0)


def test_the_first_difference_is_named(session: Session, format: str) -> None:
    session.extend([*turn(1), *turn(2)])
    a = session.context(format=format)
    session.replace(["instead"], since=3, upto=3)
    b = session.context(format=format)

    difference = diff_contexts(a, b)

    assert difference is not None
    assert (difference.index, difference.before, difference.after) == (2, a.messages[2], b.messages[2])
    assert str(difference) == "message 2 differs"


def test_a_message_that_is_gone_is_a_difference(session: Session) -> None:
    session.extend([*turn(1), *turn(2)])
    a = session.context()
    session.rewind(2)

    difference = diff_contexts(a, session.context())

    assert difference is not None
    assert (difference.index, difference.after, str(difference)) == (2, None, "message 2 is gone")


def test_another_system_prompt_is_a_difference(session: Session) -> None:
    session.append("hello")
    a = session.context()
    session.update(system="Be brief.")

    difference = diff_contexts(a, session.context())

    assert difference is not None
    assert (difference.index, difference.before, difference.after) == (None, None, "Be brief.")
    assert str(difference) == "the system prompt differs"


def test_what_only_goes_on_has_no_difference(session: Session) -> None:
    session.append("hello")
    a = session.context()
    session.append(Message.assistant("hi"))

    assert diff_contexts(a, session.context()) is None
    assert diff_contexts(a, a) is None


# -- what changes on the way out -----------------------------------------------------------------------


def test_a_window_may_begin_one_earlier_at_what_its_turn_answers(session: Session, format: str) -> None:
    session.extend([*turn(1), *turn(2)])
    delivery = session.append(Message.assistant("Your parcel is here.", meta={"proactive": True}))
    session.extend(["who sent it?", Message.assistant("Oslo.")])

    context = session.context(max_messages=3, format=format)

    assert context.start == delivery.seq
    assert len(context.seqs) == 3
    assert context.repairs[0] == f"entry {delivery.seq}: the assistant spoke first; a user message stands before it"


def test_what_was_only_an_answer_does_not_open_a_window(session: Session) -> None:
    session.extend([*turn(1), Message.assistant("More."), "next", Message.assistant("Yes.")])

    assert session.context(max_messages=3).start == 4


def test_a_delivery_goes_before_the_turn_suffers(session: Session) -> None:
    session.append(Message.assistant("d" * 100, meta={"proactive": True}))
    session.append("u" * 50)

    assert texts(session.context(max_tokens=100)) == ["u" * 50]


def test_only_users_are_stamped(session: Session, format: str) -> None:
    session.extend(["hello", Message.assistant(None, ToolCall("c1", "t", {})), Message.tool("c1", "ok")])
    session.append(Message.assistant("hi"))
    session.append(Message.user(None, Media("image/png", b"1")))

    messages = session.context(format=format, timestamps=True).messages
    if format != "threadline":
        messages = formats.read(messages, format)

    said = [(message.role, message.text) for message in messages]
    assert said[0] == ("user", "[2026-01-02 12:00 UTC]\nhello")
    assert said[-1] == ("user", "[2026-01-02 12:00 UTC]")
    assert not any("UTC" in text for role, text in said if role != "user")


def test_a_summary_is_not_stamped(session: Session) -> None:
    session.extend([*turn(1), *turn(2)])
    session.compact("so far", upto=2)

    assert texts(session.context(timestamps=True))[:2] == ["so far", "[2026-01-02 12:00 UTC]\n02"]


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("[2026-01-02 12:00 UTC] Hello", "Hello"),
        ("[2026-01-02 12:00 UTC]\nHello", "Hello"),
        ("[Message Time: 2026-01-02 12:00] Hello", "Hello"),
        ("Look:\n[image: /tmp/a.png]\nNice.", "Look:\nNice."),
        ("[file: report.pdf]\nDone.", "Done."),
        ("[see above] and [1]", "[see above] and [1]"),
        ("At [2026-01-02 12:00 UTC] it began.", "At [2026-01-02 12:00 UTC] it began."),
        ("An [image: x] within words", "An [image: x] within words"),
    ],
)
def test_artefacts_that_an_assistant_copied_are_not_sent(session: Session, said: str, sent: str) -> None:
    session.extend(["hello", Message.assistant(said), said])

    assert texts(session.context()) == ["hello", sent, said]
    assert session.entry(2).message == Message.assistant(said)


def test_an_assistant_who_only_copied_an_artefact_says_nothing(session: Session, format: str) -> None:
    session.extend(["hello", Message.assistant("[image: /tmp/a.png]"), "well?"])

    context = session.context(format=format)

    assert context.seqs == (1, 3)
    assert context.repairs == ["entry 2: an empty message left out"]


def test_files_are_breadcrumbs_for_providers_and_media_for_ourselves(session: Session, format: str) -> None:
    file = Media("image/png", uri="/tmp/cat.png", name="cat.png")
    session.append(Message.user("what is it?", file))

    (message,) = session.context(format=format).messages

    assert (message.parts[1] == file) if format == "threadline" else ("[image: cat.png]" in str(message))


# -- the system prompt ---------------------------------------------------------------------------------


def test_the_system_prompt_is_beside_the_messages(store: Store, format: str) -> None:
    session = store.new(system="You are kind.")
    session.extend([Message.system("Be brief."), Message.system("Be exact."), "hello", Message.assistant("Hi.")])

    context = session.context(format=format)

    assert context.system == "You are kind.\n\nBe brief.\n\nBe exact."
    assert "Be " not in str(context.messages)
    assert (context.seqs, context.dropped) == ((3, 4), 0)
    assert context.tokens == len("helloHi.")


def test_leading_system_messages_stay_when_the_window_moves(store: Store, format: str) -> None:
    session = store.new()
    session.append(Message.system("Be brief."))
    for n in range(300):
        session.extend(turn(n))

    context = session.context(format=format, max_messages=10)

    assert context.system == "Be brief."
    assert (len(context.seqs), context.dropped) == (10, 590)


def test_a_session_without_words_of_the_system_has_no_prompt(session: Session) -> None:
    session.append("hello")

    assert session.context().system is None


# -- which moment, which entries -----------------------------------------------------------------------


def test_the_context_of_a_past_moment_is_what_it_was_then(session: Session) -> None:
    past = {}
    for n in range(100):
        session.extend(turn(n))
        past[session.head] = session.context(max_messages=20, format="anthropic")
        if n == 60:
            session.compact("so far", keep_turns=3)

    assert all(session.context(max_messages=20, format="anthropic", at=at) == then for at, then in past.items())


@pytest.mark.parametrize("at", [-1, 3])
def test_a_moment_that_never_was_is_not_found(session: Session, at: int) -> None:
    session.extend(turn(1))

    with pytest.raises(NotFound):
        session.context(at=at)


def test_seqs_start_dropped_and_head_agree(session: Session) -> None:
    for n in range(50):
        session.extend(turn(n))
        session.note({"n": n})
    session.compact("so far", upto=session.view().entries[19].seq)

    context = session.context(max_messages=30)
    visible = [entry.seq for entry in session.view().entries]

    assert context.seqs == tuple(visible[-len(context.seqs) :])
    assert context.start == context.seqs[0]
    assert context.dropped == len(visible) - len(context.seqs)
    assert context.head == session.head == session.view().head


def test_a_context_of_the_head_can_be_answered_safely(session: Session) -> None:
    session.append("hello")
    context = session.context()
    session.append("and more")

    with pytest.raises(threadline.Stale):
        session.append(Message.assistant("hi"), expect=context.head)


def test_a_summary_stands_in_the_context_where_its_originals_stood(session: Session, format: str) -> None:
    session.extend([*turn(1), *turn(2), *turn(3)])
    folded = session.compact("what came before", upto=4)

    context = session.context(format=format)

    assert context.seqs == (folded.seq, 5, 6)
    assert "what came before" in str(context.messages[0])


def test_hidden_messages_are_never_sent(session: Session, format: str) -> None:
    session.extend([Message.user("/help", meta={"hidden": True}), "hello"])

    assert "/help" not in str(session.context(format=format).messages)


@pytest.mark.parametrize(
    "make", [lambda store: store.session("k", system="Be brief."), lambda s: s.new(system="Be brief.")]
)
def test_a_session_without_entries_has_an_empty_context(
    store: Store, format: str, make: Callable[[Store], Session]
) -> None:
    context = make(store).context(format=format, max_tokens=10)

    assert (context.messages, context.system, context.tokens) == ([], "Be brief.", 0)
    assert (context.seqs, context.start, context.dropped, context.head, context.repairs) == ((), 0, 0, 0, [])
    assert store.find("k") is None


def test_a_context_belongs_to_its_caller(session: Session, format: str) -> None:
    session.extend(["hello", Message.assistant(None, ToolCall("c1", "t", {"a": [1]})), Message.tool("c1", "ok"), "go"])
    mine, before = session.context(format=format), session.context(format=format)
    mine.messages.pop()
    if format != "threadline":
        mine.messages[1].clear()  # as callers do who mark what is to be cached

    assert session.context(format=format) == before


def test_reading_a_context_writes_nothing(session: Session) -> None:
    session.extend(["hello", Message.assistant(None, ToolCall("c1", "t", {}))])
    before = session.info

    session.context(format="anthropic", max_tokens=500)

    assert session.info == before


# -- calibration ---------------------------------------------------------------------------------------


def counted(store: Store, turns: int, factor: float) -> Session:
    """A session whose provider counts `factor` times what we estimate."""
    session, prompt = store.new(), 2_000.0  # a prompt and tools that we know nothing of
    for n in range(turns):
        asked = session.append(f"question {n} " * 20)
        prompt += asked.tokens * factor
        answer = session.append(
            Message.assistant(f"answer {n} " * 20), usage={"input_tokens": int(prompt), "output_tokens": 40}
        )
        prompt += answer.tokens * factor
    return session


@pytest.mark.parametrize(("factor", "eighths"), [(1.0, 8), (1.2, 10), (1.45, 12), (0.7, 6), (9.0, 24), (0.1, 4)])
def test_the_estimate_follows_what_the_provider_counted(factor: float, eighths: int) -> None:
    with threadline.open(":memory:") as store:
        session = counted(store, 20, factor)
        estimated = session.info.tokens

        assert session.context().tokens == pytest.approx(estimated * eighths / 8, rel=0.04)


def test_a_calibrated_budget_holds_for_what_the_provider_counts() -> None:
    with threadline.open(":memory:") as store:
        session = counted(store, 100, 1.5)

        context = session.context(max_tokens=2_000)

        assert sum(session.entry(seq).tokens for seq in context.seqs) * 1.5 <= 2_000
        assert 1_400 < context.tokens <= 2_000


@pytest.mark.parametrize("words", range(8))
def test_the_needed_budget_is_exact_when_calibrated(words: int) -> None:
    with threadline.open(":memory:") as store:
        session = counted(store, 20, 1.4)
        session.append("word" * (10 + words))
        with pytest.raises(BudgetTooSmall) as caught:
            session.context(max_tokens=1)
        needed = caught.value.needed

        assert session.context(max_tokens=needed).tokens == needed
        with pytest.raises(BudgetTooSmall):
            session.context(max_tokens=needed - 1)


def test_counts_of_the_callers_own_are_not_corrected(store: Store) -> None:
    session = counted(store, 20, 3.0)

    assert session.context().tokens == session.info.tokens


def test_a_usage_that_tells_no_prompt_is_no_help_and_no_harm() -> None:
    with threadline.open(":memory:") as store:
        session = store.new()
        for n in range(20):
            session.append(f"question {n} " * 20)
            session.append(Message.assistant("answer " * 20), usage={"output": n})

        assert session.context().tokens == session.info.tokens


def test_the_window_is_as_steady_when_calibrated() -> None:
    with threadline.open(":memory:") as store:
        session = counted(store, 40, 1.5)  # beyond the front, which tells how the provider counts

        moved = moves(session, 200, max_tokens=2_000)

        assert moved <= -(-session.info.tokens // (2_000 * 8 // 12 // 4))


# -- damage --------------------------------------------------------------------------------------------


def test_damaged_entries_are_left_out_and_named(path: Path, format: str) -> None:
    with threadline.open(path) as store:
        session = store.new()
        session.extend(["one", Message.assistant("two"), "three", Message.assistant("four"), "five"])
        with closing(apsw.Connection(str(path))) as vandal:
            vandal.execute("UPDATE entry SET body = CAST(replace(body, 'three', 'threw') AS BLOB)")

        context = session.context(format=format)

    assert context.seqs == (1, 2, 4, 5)
    assert context.repairs[0] == "entry 3: damaged, left out"
    assert context.dropped == 1
    assert format == "threadline" or formats.problems(context.messages, format) == []


@pytest.mark.parametrize("most", [None, 5, 100])
def test_entries_that_are_gone_are_named_as_well(path: Path, most: int | None) -> None:
    with threadline.open(path) as store:
        session = store.new()
        for n in range(100):
            session.extend(turn(n))
        with closing(apsw.Connection(str(path))) as vandal:
            vandal.execute("DELETE FROM entry WHERE seq = 198")

        context = session.context(max_messages=most)

    assert context.repairs[0] == "entry 198: damaged, left out"
    assert context.seqs[-3:] == (197, 199, 200)


def test_a_call_whose_result_is_damaged_is_answered(path: Path, format: str) -> None:
    with threadline.open(path) as store:
        session = store.new()
        session.extend(["one", Message.assistant(None, ToolCall("c1", "t", {})), Message.tool("c1", "precious"), "two"])
        with closing(apsw.Connection(str(path))) as vandal:
            vandal.execute("UPDATE entry SET body = CAST(replace(body, 'precious', 'previous') AS BLOB)")

        context = session.context(format=format)

    assert "Error: interrupted" in str(context.messages)
    assert format == "threadline" or formats.problems(context.messages, format) == []
    assert context.repairs == [
        "entry 3: damaged, left out",
        "entry 2: the call 'c1' has no result; an error stands in for it",
    ]


# -- what it costs -------------------------------------------------------------------------------------


class Counted:
    """Counts the rows that are read from the database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        page, row = PiecedLog._found, PiecedLog.row

        def counted_page(log: PiecedLog, *args: Any) -> Any:
            found = page(log, *args)
            self.rows += len(found)
            return found

        def counted_row(log: PiecedLog, seq: int) -> Any:
            self.rows += 1
            return row(log, seq)

        monkeypatch.setattr(PiecedLog, "_found", counted_page)
        monkeypatch.setattr(PiecedLog, "row", counted_row)

    def of(self, call: Callable[[], object]) -> int:
        before = self.rows
        call()
        return self.rows - before


@pytest.mark.parametrize("wish", [{"max_messages": 120}, {"max_tokens": 600}], ids=str)
def test_a_long_session_is_read_only_at_its_ends(
    session: Session, wish: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for base in range(0, 10_000, 500):
        session.extend([message for n in range(base, base + 500) for message in ("q" * 5, Message.assistant("a" * 5))])
    counted = Counted(monkeypatch)

    first = counted.of(lambda: session.context(**wish))
    again = counted.of(lambda: session.context(**wish, format="openai"))
    past = counted.of(lambda: session.context(**wish, at=15_000))

    assert first <= 2 * 128 + 64 + 8
    assert again <= 2 * 128 + 8
    assert past <= 2 * 128 + 8
    assert counted.of(session.context) >= 19_000  # all of it, but for what was read just now


def test_a_long_session_whose_view_is_short_is_read_where_the_view_is(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(10):
        session.extend([message for n in range(500) for message in ("q" * 5, Message.assistant("a" * 5))])
    session.compact("so far", keep_turns=2)
    counted = Counted(monkeypatch)

    assert counted.of(session.context) <= 16


# -- what cannot be ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"format": "smoke"}, "unknown format 'smoke': use one of threadline, anthropic, openai, responses, gemini"),
        ({"max_tokens": 0}, "max_tokens is a number from 1 on"),
        ({"max_tokens": -5}, "max_tokens is a number from 1 on"),
        ({"max_tokens": "many"}, "max_tokens is a number from 1 on"),
        ({"max_tokens": 10.5}, "max_tokens is a number from 1 on"),
        ({"max_tokens": True}, "max_tokens is a number from 1 on"),
        ({"max_messages": 0}, "max_messages is a number from 1 on"),
        ({"max_messages": -1}, "max_messages is a number from 1 on"),
        ({"keep_outputs": -1}, "keep_outputs is a number from 0 on"),
        ({"format": None}, "unknown format None"),
        ({"format": ["openai"]}, "unknown format"),
        ({"at": "now"}, "at"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for_is_named(session: Session, wish: dict[str, Any], said: str) -> None:
    session.append("hello")

    with pytest.raises(InvalidArgument, match=said):
        session.context(**wish)


def test_a_result_of_results_is_read_into_its_preview(session: Session) -> None:
    inner = ToolResult("c0", (Text("y" * 3_000),))
    session.extend(["look", Message.assistant(None, ToolCall("c0", "t", {})), Message.tool("c0", [inner])])

    assert "yyy" in session.context(keep_outputs=0).messages[-1].text
