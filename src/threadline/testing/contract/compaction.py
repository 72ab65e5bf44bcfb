"""The contract: compact, replace, originals, expand."""

from __future__ import annotations

import pytest

from threadline import (
    InvalidArgument,
    InvalidMessage,
    Message,
    NotFound,
    NothingToCompact,
    NotVisible,
    Plan,
    Session,
    Stale,
    Text,
)
from threadline.testing.contract.workshop import (
    Contract,
    answers,
    asks,
    seqs,
    talk,
    told,
)


class CompactionContract(Contract):
    """Compact, replace, originals, expand."""

    def test_a_summary_stands_where_its_originals_stood(self, session: Session) -> None:
        talk(session, 4)
        session.compact("short", since=3, upto=6)

        assert told(session) == ["q1", "a1", "short", "q4", "a4"]

    def test_a_summary_is_one_user_message_that_names_its_entry(self, session: Session) -> None:
        talk(session, 1)
        entry = session.compact("short", usage={"output": 9})

        assert (entry.kind, entry.seq, entry.usage) == ("compaction", 3, {"output": 9})
        assert session.messages() == [Message("user", (Text("short"),), {"compaction": 3})]

    @pytest.mark.parametrize(
        ("run", "expected"),
        [
            ({}, ["short"]),
            ({"upto": 4}, ["short", "q3", "a3"]),
            ({"since": 3}, ["q1", "a1", "short"]),
            ({"since": 4, "upto": 4}, ["q1", "a1", "q2", "short", "q3", "a3"]),
            ({"keep_turns": 0}, ["short"]),
            ({"keep_turns": 1}, ["short", "q3", "a3"]),
            ({"keep_turns": 2}, ["short", "q2", "a2", "q3", "a3"]),
            ({"since": 2, "keep_turns": 1}, ["q1", "short", "q3", "a3"]),
        ],
    )
    def test_a_run_is_asked_for_by_its_ends_or_by_the_turns_to_keep(
        self, session: Session, run: dict[str, int], expected: list[str]
    ) -> None:
        talk(session, 3)
        session.compact("short", **run)  # type: ignore[arg-type]

        assert told(session) == expected

    def test_the_bounds_are_in_reading_order(self, session: Session) -> None:
        talk(session, 3)
        session.compact("first", upto=2)  # entry 7, which stands before entry 3
        session.compact("second", since=7, upto=4)

        assert told(session) == ["second", "q3", "a3"]

    def test_a_function_summarises_exactly_the_run(self, session: Session) -> None:
        talk(session, 3)
        given: list[list[str]] = []

        def summary(run: list[Message]) -> str:
            given.append([message.text for message in run])
            return "short"

        session.compact(summary, keep_turns=1)

        assert given == [["q1", "a1", "q2", "a2"]]
        assert told(session) == ["short", "q3", "a3"]

    def test_what_is_appended_while_a_function_works_is_not_folded(self, session: Session) -> None:
        talk(session, 2)

        def summary(run: list[Message]) -> str:
            session.append("meanwhile")
            return f"{len(run)} messages"

        session.compact(summary)

        assert told(session) == ["4 messages", "meanwhile"]

    def test_a_run_that_is_gone_when_the_function_ends_is_not_folded(self, session: Session) -> None:
        talk(session, 2)

        def summary(run: list[Message]) -> str:
            session.rewind(2)
            return "short"

        with pytest.raises((Stale, NotVisible)):
            session.compact(summary)

        assert told(session) == ["q1", "a1"]

    def test_a_function_that_fails_writes_nothing(self, session: Session) -> None:
        talk(session, 1)

        def summary(run: list[Message]) -> str:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            session.compact(summary)

        assert session.head == 2

    def test_a_plan_says_which_run(self, session: Session) -> None:
        talk(session, 3)
        plan = Plan(since=3, upto=4, messages=tuple(session.messages()[2:4]), tokens=0)
        session.compact("short", plan)

        assert told(session) == ["q1", "a1", "short", "q3", "a3"]

    def test_a_function_summarises_the_run_of_a_plan(self, session: Session) -> None:
        talk(session, 3)
        plan = Plan(since=3, upto=4, messages=tuple(session.messages()[2:4]), tokens=0)
        session.compact(lambda run: "+".join(message.text for message in run), plan)

        assert told(session) == ["q1", "a1", "q2+a2", "q3", "a3"]

    def test_a_plan_that_no_longer_fits_writes_nothing(self, session: Session) -> None:
        talk(session, 3)
        plan = Plan(since=1, upto=4, messages=tuple(session.messages()[:4]), tokens=0)
        session.compact("first", upto=2)
        with pytest.raises((Stale, NotVisible)):
            session.compact("second", plan)

        assert session.head == 7

    def test_a_run_is_asked_for_in_one_way(self, session: Session) -> None:
        talk(session, 2)

        with pytest.raises(InvalidArgument):
            session.compact("short", upto=2, keep_turns=1)

    def test_originals_are_what_a_compaction_stands_for(self, session: Session) -> None:
        talk(session, 2)
        run = list(session.view().entries[:2])
        compaction = session.compact("short", upto=2)

        assert session.originals(compaction.seq) == run

    def test_notes_in_a_run_stay_in_the_log_only(self, session: Session) -> None:
        session.append("q1")
        session.note({"n": 1})
        session.append(Message.assistant("a1"))
        session.compact("short")

        assert [entry.seq for entry in session.originals(4)] == [1, 3]
        assert session.entry(2).data == {"n": 1}

    def test_a_compaction_folds_earlier_summaries(self, session: Session) -> None:
        talk(session, 3)
        first = session.compact("first", upto=2)
        second = session.compact("second", upto=4)

        assert told(session) == ["second", "q3", "a3"]
        assert session.originals(second.seq) == [first, session.entry(3), session.entry(4)]

    @pytest.mark.parametrize("what", [0, 1, 3, 99])
    def test_only_folds_have_originals(self, session: Session, what: int) -> None:
        talk(session, 1)
        session.note({"n": 1})

        with pytest.raises(NotFound):
            session.originals(what)

    # -- what is never folded --------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("run", "kept"),
        [
            ({"upto": 2}, [2, 3, 4, 5, 6]),
            ({"upto": 3}, [2, 3, 4, 5, 6]),
            ({"upto": 4}, [5, 6]),
            ({"since": 3, "upto": 5}, [1, 2, 3, 4, 6]),
            ({"since": 2, "upto": 4}, [1, 5, 6]),
        ],
    )
    def test_a_run_shrinks_until_it_splits_no_call_from_its_results(
        self, session: Session, run: dict[str, int], kept: list[int]
    ) -> None:
        session.extend(["q1", asks("c1", "c2"), answers("c1"), answers("c2"), Message.assistant("a1"), "q2"])
        session.compact("short", **run)  # type: ignore[arg-type]

        assert [seq for seq in seqs(session) if seq < 7] == kept

    def test_a_run_within_one_pair_is_nothing_to_compact(self, session: Session) -> None:
        session.extend(["q1", asks("c1"), answers("c1")])

        with pytest.raises(NothingToCompact):
            session.compact("short", since=2, upto=2)

    def test_a_pending_call_is_never_folded(self, session: Session) -> None:
        session.extend(["q1", Message.assistant("a1"), asks("c1"), "q2"])
        session.compact("short")

        assert told(session)[0] == "short"
        assert [call.call.id for call in session.pending] == ["c1"]
        assert 3 in seqs(session)

    def test_a_half_answered_message_is_never_folded(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2"), answers("c1")])
        session.compact("short")

        assert seqs(session) == [4, 2, 3]

    def test_a_view_of_open_calls_is_nothing_to_compact(self, session: Session) -> None:
        session.append(asks("c1"))
        with pytest.raises(NothingToCompact):
            session.compact("short")

        assert session.head == 1

    def test_an_empty_view_is_nothing_to_compact(self, session: Session) -> None:
        with pytest.raises(NothingToCompact):
            session.compact("short")

    @pytest.mark.parametrize("run", [{"keep_turns": 2}, {"keep_turns": 9}, {"since": 3, "upto": 2}])
    def test_an_empty_run_is_nothing_to_compact(self, session: Session, run: dict[str, int]) -> None:
        talk(session, 2)
        with pytest.raises(NothingToCompact):
            session.compact("short", **run)  # type: ignore[arg-type]

        assert session.head == 4

    def test_a_function_is_not_called_for_nothing(self, session: Session) -> None:
        with pytest.raises(NothingToCompact):
            session.compact(lambda run: pytest.fail("called"))

    @pytest.mark.parametrize("run", [{"upto": 1}, {"since": 2}, {"upto": 5}, {"upto": 99}, {"since": 0}])
    def test_a_bound_that_is_not_in_the_view_is_refused(self, session: Session, run: dict[str, int]) -> None:
        talk(session, 2)
        session.note({"n": 5})
        session.compact("short", upto=2)
        with pytest.raises(NotVisible):
            session.compact("shorter", **run)  # type: ignore[arg-type]

        assert session.head == 6

    def test_not_visible_says_which(self, session: Session) -> None:
        talk(session, 2)
        session.rewind(2)

        with pytest.raises(NotVisible) as caught:
            session.compact("short", upto=3)

        assert caught.value.seq == 3

    # -- replace ---------------------------------------------------------------------------------------

    def test_messages_stand_where_a_run_stood(self, session: Session) -> None:
        talk(session, 3)
        entry = session.replace(["new q2", Message.assistant("new a2")], since=3, upto=4)

        assert entry.kind == "replacement"
        assert told(session) == ["q1", "a1", "new q2", "new a2", "q3", "a3"]

    def test_nothing_stands_where_a_run_stood(self, session: Session) -> None:
        talk(session, 3)
        session.replace([], since=3, upto=4)

        assert told(session) == ["q1", "a1", "q3", "a3"]

    def test_all_of_a_view_can_be_replaced_by_nothing(self, session: Session) -> None:
        talk(session, 1)
        session.replace([], since=1, upto=2)

        assert session.messages() == []

    def test_what_follows_a_replacement_follows_the_view(self, session: Session) -> None:
        talk(session, 2)
        session.replace(["new q1"], since=1, upto=1)
        session.append("q3")

        assert told(session) == ["new q1", "a1", "q2", "a2", "q3"]

    def test_a_replacement_may_split_a_call_from_its_result(self, session: Session) -> None:
        session.extend(["q1", asks("c1"), answers("c1")])
        session.replace([], since=3, upto=3)

        assert [call.call.id for call in session.pending] == ["c1"]

    def test_a_replaced_call_is_pending_no_more(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.replace([Message.assistant("never mind")], since=2, upto=2)

        assert list(session.pending) == []
        assert session.unanswered is None

    def test_originals_are_what_a_replacement_stands_for(self, session: Session) -> None:
        talk(session, 2)
        run = list(session.view().entries[1:3])
        replacement = session.replace(["instead"], since=2, upto=3)

        assert session.originals(replacement.seq) == run

    @pytest.mark.parametrize("run", [{"since": 1, "upto": 3}, {"since": 3, "upto": 1}, {"since": 4, "upto": 99}])
    def test_a_replaced_run_must_be_visible(self, session: Session, run: dict[str, int]) -> None:
        talk(session, 2)
        session.compact("short", upto=2)
        with pytest.raises(NotVisible):
            session.replace(["instead"], since=run["since"], upto=run["upto"])

        assert session.head == 5

    def test_a_replaced_run_has_its_ends_in_reading_order(self, session: Session) -> None:
        talk(session, 2)
        with pytest.raises(InvalidArgument):
            session.replace(["instead"], since=3, upto=2)

        assert session.head == 4

    def test_a_replacement_is_written_whole_or_not_at_all(self, session: Session) -> None:
        talk(session, 1)
        with pytest.raises(InvalidMessage):
            session.replace(["good", Message.user("bad", meta={"nan": float("nan")})], since=1, upto=1)

        assert session.head == 2

    # -- expand ----------------------------------------------------------------------------------------

    def test_expanding_a_compaction_puts_its_originals_back(self, session: Session) -> None:
        talk(session, 3)
        compaction = session.compact("short", since=3, upto=4)
        entry = session.expand(compaction.seq)

        assert entry.kind == "expansion"
        assert told(session) == ["q1", "a1", "q2", "a2", "q3", "a3"]

    def test_expanding_keeps_what_came_later(self, session: Session) -> None:
        talk(session, 1)
        session.compact("short")
        session.append("later")
        session.expand(3)

        assert told(session) == ["q1", "a1", "later"]

    def test_nested_compactions_unfold_one_level_at_a_time(self, session: Session) -> None:
        talk(session, 3)
        first = session.compact("first", upto=2)
        second = session.compact("second", upto=4)
        session.expand(second.seq)
        one_level = told(session)
        session.expand(first.seq)

        assert one_level == ["first", "q2", "a2", "q3", "a3"]
        assert told(session) == ["q1", "a1", "q2", "a2", "q3", "a3"]

    @pytest.mark.parametrize("messages", [[], ["instead"], ["instead", "and more"]])
    def test_expanding_a_replacement_puts_its_originals_back(self, session: Session, messages: list[str]) -> None:
        talk(session, 3)
        replacement = session.replace(messages, since=3, upto=4)
        session.expand(replacement.seq)

        assert told(session) == ["q1", "a1", "q2", "a2", "q3", "a3"]

    def test_what_is_not_in_the_view_cannot_be_expanded(self, session: Session) -> None:
        talk(session, 1)
        session.compact("short")
        session.expand(3)
        with pytest.raises(NotVisible):
            session.expand(3)

        assert session.head == 4

    @pytest.mark.parametrize("seq", [0, 1, 99])
    def test_only_folds_can_be_expanded(self, session: Session, seq: int) -> None:
        talk(session, 1)

        with pytest.raises(NotFound):
            session.expand(seq)

    def test_an_expanded_run_can_be_folded_again(self, session: Session) -> None:
        talk(session, 2)
        session.compact("first", upto=2)
        session.expand(5)
        session.compact("second", upto=2)

        assert told(session) == ["second", "q2", "a2"]
