"""The contract: idempotency keys and expected heads."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import (
    Conflict,
    InvalidArgument,
    KeyReused,
    Message,
    Session,
    Stale,
    Store,
    Text,
)
from threadline.testing.contract.workshop import (
    A_SECOND,
    NAMES,
    NOON,
    WRITES,
    Contract,
    asks,
    busy,
    talk,
    told,
)


class KeysContract(Contract):
    """Idempotency keys and expected heads."""

    @pytest.mark.parametrize("name", WRITES)
    def test_the_same_call_again_returns_the_first_and_writes_nothing(self, session: Session, name: str) -> None:
        first = WRITES[name](busy(session), key="k")
        head = session.head

        again = WRITES[name](session, key="k")

        assert again == first
        assert session.head == head

    @pytest.mark.parametrize("name", WRITES)
    def test_a_known_key_does_not_mind_a_stale_expectation(self, session: Session, name: str) -> None:
        first = WRITES[name](busy(session), key="k", expect=5)

        assert WRITES[name](session, key="k", expect=5) == first

    @pytest.mark.parametrize("name", WRITES)
    def test_a_key_is_for_ever(self, session: Session, name: str) -> None:
        first = WRITES[name](busy(session), key="k")
        session.rewind(0)
        session.append("later")
        session.clear()
        head = session.head

        assert WRITES[name](session, key="k") == first
        assert session.head == head

    @pytest.mark.parametrize("name", WRITES)
    def test_a_key_with_another_call_is_refused(self, session: Session, name: str) -> None:
        WRITES[name](busy(session), key="k")
        head = session.head
        with pytest.raises(KeyReused):
            session.note({"something": "else"}, key="k")

        assert session.head == head

    @pytest.mark.parametrize("name", WRITES)
    def test_a_key_of_another_call_is_refused(self, session: Session, name: str) -> None:
        busy(session).note({"something": "else"}, key="k")
        with pytest.raises(KeyReused):
            WRITES[name](session, key="k")

        assert session.head == 6

    @pytest.mark.parametrize("name", WRITES)
    def test_a_stale_expect_writes_nothing(self, session: Session, name: str) -> None:
        busy(session)
        with pytest.raises(Stale):
            WRITES[name](session, expect=4)

        assert session.head == 5

    @pytest.mark.parametrize("name", WRITES)
    def test_the_right_expect_writes(self, session: Session, name: str) -> None:
        busy(session)
        WRITES[name](session, expect=session.view().head)

        assert session.head > 5

    def test_stale_says_what_was_expected_and_what_was_found(self, session: Session) -> None:
        talk(session, 1)

        with pytest.raises(Stale) as caught:
            session.append("hi", expect=7)

        assert (caught.value.expected, caught.value.found) == (7, 2)
        assert isinstance(caught.value, Conflict)

    def test_key_reused_says_which_key_and_where(self, session: Session) -> None:
        session.extend(["one", "two"], key="k")

        with pytest.raises(KeyReused) as caught:
            session.append("other", key="k")

        assert (caught.value.key, caught.value.seq) == ("k", 1)
        assert isinstance(caught.value, Conflict)

    def test_expecting_an_empty_log_makes_the_session(self, store: Store) -> None:
        session = store.session("k")

        assert session.append("hi", expect=0).seq == 1

    def test_a_key_makes_the_first_append_of_a_session_idempotent(self, store: Store) -> None:
        first = store.session("s").append("hi", key="k", expect=0)

        assert store.session("s").append("hi", key="k", expect=0) == first

    def test_a_key_names_the_whole_call(self, session: Session) -> None:
        entries = session.extend(["one", "two"], key="k")

        assert session.extend(["one", "two"], key="k") == entries
        assert session.head == 2

    @pytest.mark.parametrize("other", [["one"], ["two", "one"], ["one", "two", "three"], ["one", "TWO"]])
    def test_a_key_with_a_part_of_the_call_is_refused(self, session: Session, other: list[str]) -> None:
        session.extend(["one", "two"], key="k")

        with pytest.raises(KeyReused):
            session.extend(other, key="k")

    def test_a_single_message_of_a_keyed_call_is_another_call(self, session: Session) -> None:
        session.extend(["one", "two"], key="k")

        with pytest.raises(KeyReused):
            session.append("one", key="k")

    def test_content_is_the_same_whatever_the_order_of_its_keys(self, session: Session) -> None:
        one = Message("user", (Text("hi", {"x": 1, "y": {"a": 1, "b": 2}}),), {"m": 1, "n": 2})
        same = Message("user", (Text("hi", {"y": {"b": 2, "a": 1}, "x": 1}),), {"n": 2, "m": 1})
        first = session.append(one, key="k")

        assert session.append(same, key="k") == first

    def test_a_note_is_the_same_whatever_the_order_of_its_keys(self, session: Session) -> None:
        first = session.note({"a": 1, "b": {"c": 2, "d": 3}}, key="k")

        assert session.note({"b": {"d": 3, "c": 2}, "a": 1}, key="k") == first

    def test_content_is_the_same_in_whatever_shape_it_comes(self, session: Session) -> None:
        first = session.append("hi", key="k")

        assert session.append({"role": "user", "content": "hi"}, key="k") == first
        assert session.append(Message.user("hi"), key="k") == first

    def test_the_same_call_at_another_time_is_the_same(self, session: Session) -> None:
        first = session.append("hi", key="k", at=NOON)

        assert session.append("hi", key="k", at=NOON + A_SECOND) == first

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (Message.user("hi"), Message.assistant("hi")),
            (Message.user("hi"), Message.user("hi", meta={"hidden": True})),
            (Message.user("hi", Text("ho")), Message.user("hi\nho")),
            (Message.user("\ud800"), Message.user("\udc00")),
            (asks("c1"), asks("c2")),
        ],
    )
    def test_content_that_differs_in_anything_is_other_content(
        self, session: Session, one: Message, other: Message
    ) -> None:
        session.append(one, key="k")

        with pytest.raises(KeyReused):
            session.append(other, key="k")

    def test_two_different_keys_are_two_calls(self, session: Session) -> None:
        for name in NAMES:
            session.append("the same", key=name)

        assert session.head == len(NAMES)
        for seq, name in enumerate(NAMES, 1):
            assert (session.entry(key=name).seq, session.entry(seq).key) == (seq, name)

    @pytest.mark.parametrize("key", ["", "k" * 513, 7])
    def test_what_is_no_key_writes_nothing(self, session: Session, key: Any) -> None:
        with pytest.raises(InvalidArgument):
            session.append("hi", key=key)

        assert session.head == 0

    def test_a_key_belongs_to_its_session(self, store: Store) -> None:
        one, other = store.new(), store.new()
        one.append("hi", key="k")
        other.append("something else", key="k")

        assert told(other) == ["something else"]

    def test_a_refused_call_does_not_take_its_key(self, session: Session) -> None:
        with pytest.raises(Stale):
            session.append("first try", key="k", expect=3)
        session.append("second try", key="k")

        assert told(session) == ["second try"]

    def test_a_keyed_function_is_not_called_again(self, session: Session) -> None:
        talk(session, 2)
        calls: list[int] = []

        def summary(run: list[Message]) -> str:
            calls.append(len(run))
            return "short"

        session.compact(summary, keep_turns=1, key="k")
        session.compact(summary, keep_turns=1, key="k")

        assert calls == [2]
