"""The contract: append, never edit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from threadline import (
    InvalidArgument,
    InvalidMessage,
    Message,
    NotFound,
    Session,
    Stale,
    Store,
    Text,
    ToolCall,
)
from threadline.testing.contract.workshop import (
    NOON,
    WRITES,
    Contract,
    answers,
    asks,
    busy,
    talk,
    told,
)


class LogContract(Contract):
    """Append, never edit."""

    def test_an_entry_says_what_was_stored(self, session: Session) -> None:
        message = Message.assistant("yes", ToolCall("c1", "search", {"for": "it"}))

        entry = session.append(message, key="k", usage={"input": 3}, at=NOON)

        assert (entry.session, entry.seq, entry.kind, entry.at) == (session.id, 1, "message", NOON)
        assert (entry.message, entry.data, entry.key, entry.usage) == (message, None, "k", {"input": 3})
        assert entry.tokens > 0

    def test_what_is_read_is_what_was_returned(self, session: Session) -> None:
        entry = session.append(asks("c1"), key="k", usage={"input": 3}, at=NOON)

        assert session.entry(1) == entry
        assert list(session.entries()) == [entry]
        assert session.view().entries == (entry,)

    @pytest.mark.parametrize("name", WRITES)
    def test_every_write_is_read_as_it_was_returned(self, session: Session, name: str) -> None:
        wrote = WRITES[name](busy(session))

        for entry in wrote if isinstance(wrote, list) else [wrote]:
            assert session.entry(entry.seq) == entry

    def test_text_is_what_the_user_said(self, session: Session) -> None:
        assert session.append("hi").message == Message("user", (Text("hi"),))

    def test_a_dict_is_a_message(self, session: Session) -> None:
        assert session.append({"role": "assistant", "content": "hi"}).message == Message.assistant("hi")

    @pytest.mark.parametrize("thing", [None, 7, b"hi", ["hi"], {}, {"content": "hi"}, {"role": ""}])
    def test_what_is_no_message_is_refused(self, session: Session, thing: Any) -> None:
        with pytest.raises(InvalidMessage):
            session.append(thing)

        assert session.head == 0

    def test_seqs_are_1_2_3_without_holes(self, session: Session) -> None:
        session.append("one")
        session.extend(["two", "three"])
        session.note({"four": 4})
        with pytest.raises(Stale):
            session.append("never", expect=0)
        session.rewind(1)
        session.append("six")

        assert [entry.seq for entry in session.entries()] == [1, 2, 3, 4, 5, 6]
        assert session.head == 6

    @pytest.mark.parametrize("name", WRITES)
    def test_every_write_moves_the_head_by_what_it_returned(self, session: Session, name: str) -> None:
        wrote = WRITES[name](busy(session))

        last = wrote[-1] if isinstance(wrote, list) else wrote
        assert session.head == last.seq > 5

    def test_extend_gives_consecutive_entries(self, session: Session) -> None:
        entries = session.extend(["one", Message.assistant("two"), {"role": "user", "content": "three"}])

        assert [entry.seq for entry in entries] == [1, 2, 3]
        assert told(session) == ["one", "two", "three"]

    def test_extend_writes_all_or_none(self, session: Session) -> None:
        with pytest.raises(InvalidMessage):
            session.extend(["good", Message.user("bad", meta={"nan": float("nan")})])

        assert session.head == 0

    def test_extend_says_which_message_it_refuses(self, session: Session) -> None:
        with pytest.raises(InvalidMessage, match=r"\[1\].*nan"):
            session.extend(["good", Message.user("bad", meta={"nan": float("nan")})])

    def test_extending_by_nothing_writes_nothing(self, session: Session) -> None:
        assert session.extend([]) == []
        assert session.head == 0

    def test_extend_takes_any_iterable(self, session: Session) -> None:
        session.extend(f"m{i}" for i in range(3))

        assert told(session) == ["m0", "m1", "m2"]

    def test_the_usage_of_a_call_stands_once_in_the_log(self, session: Session) -> None:
        entries = session.extend(["one", "two"], usage={"input": 3})

        assert [entry.usage for entry in entries] == [{"input": 3}, None]

    def test_times_are_utc(self, session: Session) -> None:
        local = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))

        entry = session.append("hi", at=local)

        assert (entry.at, entry.at.utcoffset()) == (NOON, timedelta(0))

    def test_a_time_without_a_zone_is_refused(self, session: Session) -> None:
        with pytest.raises(InvalidArgument):
            session.append("hi", at=datetime(2026, 1, 1))

    # -- notes -----------------------------------------------------------------------------------------

    def test_a_note_is_never_in_the_view(self, session: Session) -> None:
        entry = session.note({"seen": [1, {"two": None}]}, at=NOON)

        assert (entry.kind, entry.message, entry.data, entry.at) == ("note", None, {"seen": [1, {"two": None}]}, NOON)
        assert session.view().entries == ()

    def test_a_caller_names_kinds_of_notes(self, session: Session) -> None:
        session.note({"ok": True}, "deploy")

        assert session.entry(1).kind == "deploy"

    @pytest.mark.parametrize("kind", ["message", "compaction", "rewind", "clear", "system", "", "a\0b", "\ud800"])
    def test_a_note_cannot_pass_for_something_else(self, session: Session, kind: str) -> None:
        with pytest.raises(InvalidArgument):
            session.note({}, kind)

        assert session.head == 0

    @pytest.mark.parametrize("data", ["text", None, [1], {"x": {1, 2}}, {1: "x"}, {"x": float("inf")}])
    def test_what_a_note_cannot_hold_is_refused(self, session: Session, data: Any) -> None:
        with pytest.raises(InvalidMessage):
            session.note(data)

        assert session.head == 0

    # -- batches ---------------------------------------------------------------------------------------

    def test_a_batch_is_written_when_its_block_ends(self, session: Session) -> None:
        with session.batch() as b:
            b.append("one")
            before = session.head

        assert (before, session.head) == (0, 1)

    def test_a_batch_takes_nothing_after_its_block(self, session: Session) -> None:
        with session.batch() as b:
            b.append("in time")

        with pytest.raises(InvalidArgument, match="ended"):
            b.append("too late, and it would be lost")
        assert session.head == 1

    def test_a_batch_whose_block_failed_takes_nothing_more(self, session: Session) -> None:
        with pytest.raises(ZeroDivisionError), session.batch() as b:
            b.append(str(1 / 0))

        with pytest.raises(InvalidArgument, match="ended"):
            b.append("too late")

    def test_a_batch_writes_in_order(self, session: Session) -> None:
        talk(session, 2)

        with session.batch() as b:
            b.rewind(2)
            b.append("edited")
            b.note({"why": "a typo"})

        assert [entry.kind for entry in session.entries(after=4)] == ["rewind", "message", "note"]
        assert told(session) == ["q1", "a1", "edited"]

    def test_a_batch_knows_what_it_wrote(self, session: Session) -> None:
        with session.batch() as b:
            b.extend(["one", "two"])
            b.clear()

        assert [(entry.seq, entry.kind) for entry in b.entries] == [(1, "message"), (2, "message"), (3, "clear")]

    def test_each_append_of_a_batch_has_its_own_time(self, store: Store) -> None:
        times = [datetime(2026, 1, day, tzinfo=UTC) for day in (4, 2, 9, 3)]
        session = store.new()
        with session.batch() as b:
            for number, at in enumerate(times[:2]):
                b.append(f"{number}", at=at)
            b.note({}, at=times[2])
            b.append("last", at=times[3])

        assert [entry.at for entry in session.entries()] == times
        assert b.entries == list(session.entries())

    def test_an_exception_in_the_block_writes_nothing(self, session: Session) -> None:
        def interrupted() -> None:
            with session.batch() as b:
                b.append("one")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()

        assert session.head == 0

    def test_a_batch_with_one_refused_write_writes_nothing(self, session: Session) -> None:
        def refused() -> None:
            with session.batch() as b:
                b.append("one")
                b.rewind(7)

        with pytest.raises(NotFound):
            refused()

        assert session.head == 0

    def test_a_write_of_a_batch_builds_on_the_one_before(self, session: Session) -> None:
        with session.batch() as b:
            b.extend(["go", asks("c1")])
            b.start_call("c1")
            b.append(answers("c1"))
            b.compact("done", upto=4)

        assert told(session) == ["done"]

    def test_an_empty_batch_writes_nothing(self, store: Store) -> None:
        session = store.session("k")
        with session.batch():
            pass

        assert store.find("k") is None

    def test_a_batch_holds_every_write_of_a_session(self, session: Session) -> None:
        busy(session)

        with session.batch() as b:
            b.start_call("c1")
            b.repair("stopped")
            b.expand(3)
            b.replace(["instead"], since=1, upto=2)
            b.compact("short", upto=4)
            b.clear()

        kinds = [entry.kind for entry in session.entries(after=5)]
        assert kinds == ["call_started", "message", "expansion", "message", "replacement", "compaction", "clear"]

    def test_a_stale_batch_writes_nothing(self, session: Session) -> None:
        talk(session, 1)
        with pytest.raises(Stale), session.batch(expect=1) as b:
            b.extend(["one", "two"])

        assert session.head == 2

    def test_the_expectation_of_a_batch_is_about_its_beginning(self, session: Session) -> None:
        with session.batch(expect=0) as b:
            b.append("one")
            b.append("two")

        assert session.head == 2

    def test_each_write_of_a_batch_has_its_own_key(self, session: Session) -> None:
        session.append("one", key="1")

        with session.batch() as b:
            b.append("one", key="1")
            b.append("two", key="2")

        assert told(session) == ["one", "two"]

    # -- the raw log -----------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [1, 2, 3, 4, 5, 6]),
            ({"after": 2}, [3, 4, 5, 6]),
            ({"before": 4}, [1, 2, 3]),
            ({"after": 2, "before": 4}, [3]),
            ({"after": 3, "before": 4}, []),
            ({"after": 9}, []),
            ({"before": 99}, [1, 2, 3, 4, 5, 6]),
            ({"after": -3, "before": 0}, []),
            ({"limit": 2}, [1, 2]),
            ({"limit": 0}, []),
            ({"reverse": True}, [6, 5, 4, 3, 2, 1]),
            ({"reverse": True, "limit": 2}, [6, 5]),
            ({"reverse": True, "after": 1, "before": 5, "limit": 2}, [4, 3]),
            ({"kinds": ["note"]}, [3, 5]),
            ({"kinds": ["note", "clear"]}, [3, 5, 6]),
            ({"kinds": ["note"], "limit": 1, "reverse": True}, [5]),
            ({"kinds": []}, []),
            ({"kinds": ["unheard-of"]}, []),
        ],
    )
    def test_entries_stand_between_two_seqs(
        self, session: Session, options: dict[str, Any], expected: list[int]
    ) -> None:
        session.extend(["one", "two"])
        session.note({"n": 3})
        session.append("four")
        session.note({"n": 5})
        session.clear()

        assert [entry.seq for entry in session.entries(**options)] == expected

    @pytest.mark.parametrize("reverse", [False, True])
    def test_entries_go_on_through_all_pages(self, session: Session, reverse: bool) -> None:
        session.extend(f"m{i}" for i in range(1, 801))

        found = [entry.seq for entry in session.entries(reverse=reverse)]

        assert found == sorted(range(1, 801), reverse=reverse)

    def test_the_log_can_be_written_while_it_is_read(self, session: Session) -> None:
        session.extend(f"m{i}" for i in range(600))

        found = []
        for entry in session.entries():
            found.append(entry.seq)
            if entry.seq % 100 == 0:
                session.append("meanwhile")

        assert found[:600] == list(range(1, 601))

    @pytest.mark.parametrize("seq", [0, -1, 3, 10**12])
    def test_an_entry_that_is_not_there_is_not_found(self, session: Session, seq: int) -> None:
        talk(session, 1)

        with pytest.raises(NotFound):
            session.entry(seq)

    def test_an_entry_is_found_by_its_key(self, session: Session) -> None:
        session.append("one", key="a")
        entries = session.extend(["two", "three"], key="b")

        assert session.entry(key="b") == entries[0]

    def test_an_unknown_key_is_not_found(self, session: Session) -> None:
        with pytest.raises(NotFound):
            session.entry(key="unknown")

    def test_an_entry_is_asked_for_by_seq_or_key(self, session: Session) -> None:
        with pytest.raises(InvalidArgument):
            session.entry()
        with pytest.raises(InvalidArgument):
            session.entry(1, key="k")

    def test_originals_of_everything_stay_in_the_log(self, session: Session) -> None:
        talk(session, 2)
        before = list(session.entries())
        session.compact("short")
        session.rewind(0)
        session.clear()

        assert list(session.entries(before=5)) == before
