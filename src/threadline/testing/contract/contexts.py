"""The contract: the view fitted to a model."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import (
    BudgetTooSmall,
    InvalidArgument,
    Message,
    NotFound,
    Session,
    Stale,
    Store,
    diff_contexts,
    formats,
    plan_compaction,
)
from threadline.testing.contract.workshop import (
    NOON,
    Contract,
    OpenStore,
    answers,
    asks,
    busy,
    seqs,
    talk,
    told,
)

PROVIDERS = ("anthropic", "openai", "responses", "gemini")
FORMATS = ("threadline", *PROVIDERS)


def by_length(message: Message) -> int:
    return len(message.text)


class ContextContract(Contract):
    """The view fitted to a model: legal, within its budget, the same prefix for many turns."""

    @pytest.mark.parametrize("format", FORMATS)
    def test_what_is_legal_is_sent_as_it_is(self, session: Session, format: str) -> None:
        talk(session, 2)
        session.extend(["q3", asks("c1", "c2"), answers("c2"), answers("c1"), Message.assistant("a3"), "q4"])

        context = session.context(format=format)

        assert context.messages == (session.messages() if format == "threadline" else written(session, format))
        assert (context.repairs, context.dropped, context.start, context.head) == ([], 0, 1, 10)
        assert context.tokens == session.info.tokens
        assert list(context.seqs) == seqs(session)

    @pytest.mark.parametrize("format", PROVIDERS)
    def test_every_moment_of_a_crooked_session_is_legal(self, session: Session, format: str) -> None:
        session.extend([answers("c0"), Message.assistant("Hello?"), "q1", asks("c1", "c2"), answers("c2")])
        session.start_call("c1")
        session.extend(["stop", answers("c1"), answers("c1"), Message("user", ()), asks("c1")])
        session.compact("so far", upto=3)
        session.replace(["instead"], since=5, upto=5)
        session.rewind(8)
        session.clear()
        session.append("again")

        for at in range(session.head + 1):
            context = session.context(format=format, at=at)
            assert formats.problems(context.messages, format) == []
            assert context.head == at

    def test_an_open_call_is_answered_by_what_is_known(self, session: Session) -> None:
        session.extend(["go", asks("c1", "c2")])
        session.start_call("c2")

        results = [result for message in session.context().messages for result in message.results]

        assert [(result.call_id, result.error) for result in results] == [("c1", True), ("c2", True)]
        assert ["started" in str(result.output) for result in results] == [False, True]
        assert len(session.pending) == 2

    def test_a_fork_has_the_context_of_what_it_shares(self, session: Session) -> None:
        talk(session, 50)
        fork = session.fork(at=60)
        fork.append("another way")

        context = fork.context(max_messages=9)

        assert [message.text for message in context.messages][-1] == "another way"
        assert context.seqs[-1] == 61
        assert session.context(at=60).messages == fork.context(at=60).messages

    def test_a_context_is_read_across_compactions_and_rewinds(self, session: Session) -> None:
        talk(session, 10)
        session.compact("so far", upto=10)
        session.rewind(15)
        session.compact("more", since=3, upto=6)
        talk(session, 1)

        assert [message.text for message in session.context().messages] == told(session)
        assert list(session.context().seqs) == seqs(session)
        assert list(session.context(max_messages=4).seqs) == seqs(session)[-3:]  # q8, and the turn of two behind it

    # -- budgets ---------------------------------------------------------------------------------------

    @pytest.mark.parametrize("budget", [4, 7, 20, 50, 399, 400])
    def test_a_budget_is_never_exceeded(self, open_store: OpenStore, budget: int) -> None:
        with open_store(count_tokens=by_length) as store:
            session = talk(store.new(), 9)  # 4 tokens a turn
            for at in (None, 6, 12):
                context = session.context(max_tokens=budget, at=at)

                assert context.tokens <= budget
                assert context.messages[0].role == "user"
                assert context.seqs[-1] == (at or 18)

    def test_a_newest_turn_that_does_not_fit_says_what_it_needs(self, open_store: OpenStore) -> None:
        with open_store(count_tokens=by_length) as store:
            session = store.new()
            session.extend(["look", asks("c1"), answers("c1", "x" * 9_000)])
            with pytest.raises(BudgetTooSmall) as caught:
                session.context(max_tokens=10)
            needed = caught.value.needed

            assert session.context(max_tokens=needed).tokens == needed
            with pytest.raises(BudgetTooSmall):
                session.context(max_tokens=needed - 1)

    def test_between_moves_each_context_begins_with_the_one_before(self, session: Session) -> None:
        moved, before = 0, session.context(max_messages=40, format="openai")
        for n in range(60):
            session.extend([f"q{n}", asks(f"c{n}"), answers(f"c{n}"), Message.assistant(f"a{n}")])
            context = session.context(max_messages=40, format="openai")
            if context.start == before.start or not before.seqs:
                assert diff_contexts(before, context) is None
                assert context.fingerprint(len(before.messages)) == before.fingerprint()
            moved += context.start != before.start and bool(before.seqs)
            before = context

        assert moved == (240 - 40) // 10

    def test_the_context_of_a_past_moment_is_what_it_was(self, session: Session) -> None:
        past = {}
        for n in range(80):
            session.extend([f"q{n}", Message.assistant(f"a{n}")])
            past[session.head] = session.context(max_messages=16, format="gemini")

        assert all(session.context(max_messages=16, format="gemini", at=at) == then for at, then in past.items())

    # -- beside the messages ---------------------------------------------------------------------------

    @pytest.mark.parametrize("format", FORMATS)
    def test_the_system_prompt_is_never_among_the_messages(self, store: Store, format: str) -> None:
        session = store.new(system="Be kind.")
        session.extend([Message.system("Be brief."), "hello"])

        context = session.context(format=format)

        assert (context.system, len(context.messages), context.seqs) == ("Be kind.\n\nBe brief.", 1, (2,))

    def test_only_user_turns_tell_their_time(self, open_store: OpenStore) -> None:
        with open_store(clock=lambda: NOON) as store:
            session = talk(store.new(), 1)

            stamped = [message.text for message in session.context(timestamps=True).messages]

            assert stamped == ["[2026-01-01 12:00 UTC]\nq1", "a1"]

    def test_older_large_outputs_are_previews(self, session: Session) -> None:
        for n in range(6):
            session.extend([f"q{n}", asks(f"c{n}"), answers(f"c{n}", "x" * 5_000), Message.assistant("ok")])

        outputs = [m.text for m in session.context(keep_outputs=2).messages if m.role == "tool"]

        assert [len(output) == 5_000 for output in outputs] == [False] * 4 + [True] * 2
        assert "entry 3 has them all" in outputs[0]

    def test_content_that_is_kept_out_of_line_is_sent_whole(self, session: Session) -> None:
        large = "line\n" * 20_000
        session.extend(["look", asks("c1"), answers("c1", large), Message.assistant("ok")])

        whole, short = session.context(), session.context(max_tokens=5_000)

        assert whole.messages[2].text == large
        assert whole.tokens == session.info.tokens > 25_000
        assert "entry 3 has them all" in short.messages[2].text
        assert short.tokens <= 5_000

    def test_the_head_of_a_context_guards_the_answer(self, session: Session) -> None:
        session.append("q1")
        context = session.context()
        session.append("wait")

        with pytest.raises(Stale):
            session.append(Message.assistant("a1"), expect=context.head)

    def test_a_session_without_entries_has_an_empty_context(self, store: Store) -> None:
        for session in (store.new(), store.session("not made yet")):
            context = session.context(format="anthropic", max_tokens=1)

            assert (context.messages, context.head, context.start, context.seqs) == ([], 0, 0, ())
        assert store.find("not made yet") is None

    def test_a_context_writes_nothing(self, session: Session) -> None:
        before = busy(session).info

        session.context(format="anthropic", max_tokens=1_000, keep_outputs=0, timestamps=True)

        assert session.info == before

    @pytest.mark.parametrize(
        "wish", [{"format": "smoke"}, {"max_tokens": 0}, {"max_messages": -1}, {"keep_outputs": -1}], ids=str
    )
    def test_what_cannot_be_asked_of_a_context_is_refused(self, session: Session, wish: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgument):
            session.context(**wish)

    @pytest.mark.parametrize("at", [-1, 3])
    def test_a_context_of_a_moment_that_never_was_is_not_found(self, session: Session, at: int) -> None:
        talk(session, 1)

        with pytest.raises(NotFound):
            session.context(at=at)

    # -- planning --------------------------------------------------------------------------------------

    def test_what_was_planned_is_folded_whatever_came_meanwhile(self, open_store: OpenStore) -> None:
        with open_store(count_tokens=by_length) as store:
            session = talk(store.new(), 9)  # 36 tokens
            plan = plan_compaction(session.view(), target_tokens=20, keep_turns=2)
            session.append("meanwhile")

            folded = session.compact("so far", plan)

            assert (plan.since, plan.upto, plan.tokens) == (1, 8, 16)
            assert [entry.message for entry in session.originals(folded.seq)] == list(plan.messages)
            assert told(session)[0] == "so far"
            assert told(session)[-1] == "meanwhile"


def written(session: Session, format: str) -> list[dict[str, Any]]:
    return formats.write(session.messages(), format)
