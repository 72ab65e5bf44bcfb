"""The contract: what the model sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from threadline import (
    InvalidArgument,
    Message,
    NotFound,
    Session,
)
from threadline.testing.contract.workshop import (
    Contract,
    OpenStore,
    answers,
    asks,
    seqs,
    talk,
    told,
)


class ViewContract(Contract):
    """What the model sees."""

    def test_the_view_holds_what_was_said_in_order(self, session: Session) -> None:
        talk(session, 2)

        view = session.view()

        assert [entry.seq for entry in view.entries] == [1, 2, 3, 4]
        assert view.messages == session.messages()
        assert (view.head, view.damaged) == (4, ())

    def test_a_hidden_message_is_kept_and_not_in_the_view(self, session: Session) -> None:
        hidden = Message.user("/help", meta={"hidden": True})
        session.extend([hidden, "hi"])

        assert told(session) == ["hi"]
        assert session.entry(1).message == hidden

    @pytest.mark.parametrize("last", [0, 1, 2, 3, 4, 99, 10**30])
    def test_the_last_entries_are_the_end_of_the_view(self, session: Session, last: int) -> None:
        talk(session, 1)
        session.note({"in": "between"})
        session.compact("short")
        talk(session, 1)
        whole = session.view().entries

        assert session.view(last=last).entries == (whole[-last:] if last else ())

    def test_the_last_entries_are_found_behind_many_notes(self, session: Session) -> None:
        talk(session, 2)
        with session.batch() as b:
            for i in range(700):
                b.note({"n": i})

        assert [entry.seq for entry in session.view(last=3).entries] == [2, 3, 4]

    def test_a_negative_number_of_entries_is_refused(self, session: Session) -> None:
        with pytest.raises(InvalidArgument):
            session.view(last=-1)

    def test_turns_begin_with_the_user(self, session: Session) -> None:
        session.extend([Message.system("Be brief."), "q1", asks("c1"), answers("c1"), Message.assistant("a1"), "q2"])

        turns = [[entry.seq for entry in turn] for turn in session.view().turns]

        assert turns == [[1], [2, 3, 4, 5], [6]]

    @pytest.mark.parametrize("at", [-1, 3])
    def test_a_moment_that_never_was_is_not_found(self, session: Session, at: int) -> None:
        talk(session, 1)

        with pytest.raises(NotFound):
            session.view(at=at)

    def test_the_view_before_the_first_entry_is_empty(self, session: Session) -> None:
        talk(session, 1)

        assert session.view(at=0).entries == ()

    def test_every_past_view_stays_exactly_as_it_was(self, session: Session) -> None:
        past: dict[int, list[Message]] = {}
        steps: list[Callable[[], object]] = [
            lambda: talk(session, 3),
            lambda: session.note({"n": 1}),
            lambda: session.compact("one", upto=2),
            lambda: session.extend(["go", asks("c1", "c2"), answers("c2")]),
            lambda: session.compact("two", keep_turns=1),
            lambda: session.replace(["instead"], since=3, upto=3) if 3 in seqs(session) else session.clear(),
            lambda: session.rewind(6),
            lambda: session.compact("three", since=3, upto=4),
            lambda: session.expand(session.head),
            lambda: session.rewind(12),
            lambda: session.repair(),
            lambda: session.clear(),
            lambda: session.append("again"),
        ]
        for step in steps:
            step()
            past[session.head] = session.messages()

        for at, messages in past.items():
            assert session.messages(at) == messages
            assert session.view(at).head == at

    def test_the_counts_of_a_session_are_those_of_its_view(self, open_store: OpenStore) -> None:
        with open_store(count_tokens=lambda message: len(message.text)) as store:
            session = talk(store.new(), 3)
            session.compact("summary", upto=4)
            session.append(Message.user("unseen", meta={"hidden": True}))
            info = session.info

            assert (info.messages, info.tokens, info.head) == (3, len("summaryq3a3"), 8)

    # -- rewind ----------------------------------------------------------------------------------------

    def test_a_rewind_makes_the_view_what_it_was(self, session: Session) -> None:
        talk(session, 3)
        entry = session.rewind(2)

        assert (entry.kind, entry.seq) == ("rewind", 7)
        assert told(session) == ["q1", "a1"]

    def test_what_follows_a_rewind_follows_what_it_kept(self, session: Session) -> None:
        talk(session, 3)
        session.rewind(2)
        session.append("edited")

        assert seqs(session) == [1, 2, 8]

    def test_a_rewind_to_nothing_empties_the_view(self, session: Session) -> None:
        talk(session, 1)
        session.rewind(0)

        assert session.messages() == []

    @pytest.mark.parametrize("to", [-1, 3, 10**9])
    def test_a_rewind_beyond_the_log_is_refused(self, session: Session, to: int) -> None:
        talk(session, 1)
        with pytest.raises(NotFound):
            session.rewind(to)

        assert session.head == 2

    def test_going_forward_again_is_a_rewind(self, session: Session) -> None:
        talk(session, 2)
        session.rewind(1)
        session.rewind(4)

        assert told(session) == ["q1", "a1", "q2", "a2"]

    def test_a_rewind_of_a_rewind_is_what_stood_after_it(self, session: Session) -> None:
        talk(session, 2)
        session.rewind(1)  # entry 5
        session.append("edited")
        session.rewind(5)

        assert told(session) == ["q1"]

    def test_a_rewind_always_writes_its_entry(self, session: Session) -> None:
        talk(session, 1)
        session.rewind(2)

        assert (session.head, told(session)) == (3, ["q1", "a1"])

    def test_a_rewind_to_before_a_compaction_shows_the_originals(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short")
        session.rewind(3)

        assert told(session) == ["q1", "a1", "q2"]

    def test_a_rewind_to_after_a_compaction_shows_its_summary(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short", upto=2)  # entry 5
        session.append("more")
        session.rewind(0)
        session.rewind(5)

        assert told(session) == ["short", "q2", "a2"]

    def test_a_rewind_to_nothing_loses_nothing(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short")
        session.rewind(0)

        assert told(session, at=4) == ["q1", "a1", "q2", "a2"]

    # -- clear -----------------------------------------------------------------------------------------

    def test_clear_empties_the_view_and_nothing_else(self, session: Session) -> None:
        talk(session, 2)
        title = session.info.title

        entry = session.clear()

        assert (entry.kind, session.messages(), session.info.title) == ("clear", [], title)
        assert len(list(session.entries())) == 5

    def test_clear_always_writes_its_entry(self, session: Session) -> None:
        session.clear()
        session.clear()

        assert session.head == 2

    def test_a_clear_can_be_taken_back(self, session: Session) -> None:
        talk(session, 1)
        session.clear()
        session.rewind(2)

        assert told(session) == ["q1", "a1"]
