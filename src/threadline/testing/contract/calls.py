"""The contract: open ends: pending calls, the unanswered turn, repair."""

from __future__ import annotations

import pytest

from threadline import (
    Message,
    NotFound,
    Session,
    ToolCall,
)
from threadline.testing.contract.workshop import (
    Contract,
    answers,
    asks,
    seqs,
    talk,
)


class CallsContract(Contract):
    """Open ends: pending calls, the unanswered turn, repair."""

    def test_a_call_without_a_result_is_pending(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2")])

        pending = [(call.call, call.seq, call.started) for call in session.pending]

        assert pending == [
            (ToolCall("c1", "search", {"for": "c1"}), 2, False),
            (ToolCall("c2", "search", {"for": "c2"}), 2, False),
        ]

    def test_a_result_answers_its_call_only(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2", "c3"), answers("c2")])

        assert [call.call.id for call in session.pending] == ["c1", "c3"]
        assert session.info.pending == 2

    def test_results_may_come_in_any_order(self, session: Session) -> None:
        session.extend([asks("c1"), asks("c2", "c3"), answers("c3"), answers("c1"), answers("c2")])

        assert (list(session.pending), session.info.pending) == ([], 0)

    def test_a_result_without_a_call_is_kept(self, session: Session) -> None:
        session.append(answers("nobody"))

        assert (list(session.pending), len(session.messages())) == ([], 1)

    def test_two_calls_of_one_id_are_two_pending_calls(self, session: Session) -> None:
        session.append(Message.assistant(None, ToolCall("c", "read"), ToolCall("c", "write")))

        assert [call.call.name for call in session.pending] == ["read", "write"]
        assert session.info.pending == 2

    def test_an_id_may_come_back(self, session: Session) -> None:
        session.extend([asks("c1"), answers("c1"), asks("c1")])

        assert [(call.call.id, call.seq) for call in session.pending] == [("c1", 3)]

    def test_pending_calls_are_those_of_the_view(self, session: Session) -> None:
        session.extend(["q1", asks("c1"), answers("c1")])
        session.rewind(2)
        rewound = [call.call.id for call in session.pending]
        session.rewind(3)
        forward = list(session.pending)
        session.rewind(2)
        session.clear()

        assert (rewound, forward, list(session.pending)) == (["c1"], [], [])

    def test_a_hidden_call_is_not_pending(self, session: Session) -> None:
        session.append(Message("assistant", asks("c1").parts, {"hidden": True}))

        assert list(session.pending) == []

    # -- started ---------------------------------------------------------------------------------------

    def test_a_started_call_is_known_as_such(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2")])
        entry = session.start_call("c2")

        assert entry.kind == "call_started"
        assert [(call.call.id, call.started) for call in session.pending] == [("c1", False), ("c2", True)]

    def test_a_start_is_not_in_the_view(self, session: Session) -> None:
        session.append(asks("c1"))
        session.start_call("c1")

        assert seqs(session) == [1]

    def test_a_call_starts_once(self, session: Session) -> None:
        session.append(asks("c1"))

        assert session.start_call("c1") == session.start_call("c1")
        assert session.head == 2

    @pytest.mark.parametrize("call_id", ["c1", "unknown", ""])
    def test_a_call_that_is_not_pending_cannot_start(self, session: Session, call_id: str) -> None:
        session.extend([asks("c1"), answers("c1")])
        with pytest.raises(NotFound):
            session.start_call(call_id)

        assert session.head == 2

    def test_a_start_is_forgotten_when_it_is_rewound(self, session: Session) -> None:
        session.append(asks("c1"))
        session.start_call("c1")
        session.rewind(1)

        assert [call.started for call in session.pending] == [False]

    def test_a_start_is_remembered_across_a_compaction(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.start_call("c1")
        session.compact("short", upto=1)

        assert [call.started for call in session.pending] == [True]

    def test_a_start_is_remembered_across_a_replacement(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.start_call("c1")
        session.replace(["edited"], since=1, upto=1)

        assert [call.started for call in session.pending] == [True]

    # -- unanswered ------------------------------------------------------------------------------------

    def test_the_last_user_entry_is_unanswered_until_the_assistant_speaks(self, session: Session) -> None:
        entry = session.append("q1")
        before = session.unanswered
        session.append(Message.assistant("a1"))

        assert (before, session.unanswered) == (entry, None)

    def test_the_last_of_several_user_entries_is_unanswered(self, session: Session) -> None:
        *_, last = session.extend(["q1", "q2"])

        assert session.unanswered == last

    def test_a_note_answers_nothing(self, session: Session) -> None:
        entry = session.append("q1")
        session.note({"n": 1})

        assert session.unanswered == entry

    def test_a_tool_result_is_no_user_turn(self, session: Session) -> None:
        session.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]})

        assert session.unanswered is None

    def test_the_unanswered_turn_is_one_of_the_view(self, session: Session) -> None:
        talk(session, 1)
        session.append("q2")
        session.rewind(2)
        rewound = session.unanswered
        session.rewind(1)

        assert rewound is None
        assert session.unanswered == session.entry(1)

    # -- repair ----------------------------------------------------------------------------------------

    def test_a_repair_answers_every_pending_call_with_an_error(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2"), answers("c1"), asks("c3")])

        entries = session.repair("the power went out")

        results = [result for entry in entries if entry.message for result in entry.message.results]
        assert [(result.call_id, result.error) for result in results] == [("c2", True), ("c3", True)]
        assert all("the power went out" in str(result.output) for result in results)
        assert list(session.pending) == []

    def test_a_repair_says_which_effects_are_uncertain(self, session: Session) -> None:
        session.append(asks("c1", "c2"))
        session.start_call("c2")

        texts = [entry.message.text for entry in session.repair() if entry.message]

        assert ["uncertain" in text for text in texts] == [False, True]

    def test_nothing_to_mend_nothing_written(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.repair()

        assert session.repair() == []
        assert session.head == 3

    def test_only_repair_mends(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.view()
        _ = session.pending

        assert session.head == 2
