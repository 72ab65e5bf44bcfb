"""The contract: the inbox."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from threadline import (
    Entry,
    InvalidArgument,
    KeyReused,
    LeaseHeld,
    Message,
    NotActive,
    Session,
    Stale,
    Store,
    ThreadlineError,
    ToolResult,
)
from threadline.testing.contract.workshop import A_SECOND, NAMES, NOON, Contract, OpenStore, talk, told


class InboxContract(Contract):
    """Messages that wait to enter the log."""

    def test_messages_are_taken_in_order_once(self, session: Session) -> None:
        for text in ("one", "two", "three"):
            session.enqueue(text)

        assert [waiting.text for waiting in session.queued()] == ["one", "two", "three"]
        assert [taken(session), taken(session), taken(session), taken(session)] == ["one", "two", "three", None]
        assert told(session) == ["one", "two", "three"]
        assert session.queued() == []

    def test_a_message_that_waits_is_in_no_view_and_no_log(self, session: Session) -> None:
        session.enqueue("later")

        assert (session.head, session.messages(), session.unanswered) == (0, [], None)

    def test_a_message_comes_out_as_it_went_in(self, session: Session) -> None:
        message = Message("user", (ToolResult("c1", "found \ud800", error=True),), {"from": "telegram"})
        queued = session.enqueue(message, at=NOON)
        entry = session.take(at=NOON + A_SECOND)

        assert (queued.message, queued.key, queued.at) == (message, None, NOON)
        assert entry is not None
        assert (entry.message, entry.at, entry.kind, entry.seq) == (message, NOON, "message", 1)

    def test_taking_is_a_write_like_any_other(self, store: Store, session: Session) -> None:
        session.enqueue("hi")
        with pytest.raises(Stale):
            session.take(expect=3)
        store.archive(session)
        with pytest.raises(NotActive):
            session.take()
        store.restore(session)
        with session.lease("worker", ttl=3600) as lease:
            with pytest.raises(LeaseHeld):
                session.take()
            assert [waiting.text for waiting in session.queued()] == ["hi"]
            session.take(lease=lease, expect=0)

        assert told(session) == ["hi"]

    def test_the_inbox_is_open_while_somebody_holds_the_lease(self, session: Session) -> None:
        with session.lease("worker", ttl=3600):
            session.enqueue("please stop")

        assert session.info.queued == 1

    @pytest.mark.parametrize("name", NAMES)
    def test_a_key_enters_once_ever(self, session: Session, name: str) -> None:
        session.enqueue("hi", key=name, at=NOON)
        again = session.enqueue("hi", key=name)
        entry = session.take()
        after = session.enqueue("hi", key=name)
        session.rewind(0)
        session.enqueue("hi", key=name)

        assert (again.at, after.at) == (NOON, NOON)
        assert entry is not None
        assert (entry.key, session.entry(key=name)) == (name, entry)
        assert session.queued() == []

    def test_a_key_with_another_message_is_refused(self, session: Session) -> None:
        session.enqueue("hi", key="k")
        with pytest.raises(KeyReused):
            session.enqueue("ho", key="k")
        session.take()
        with pytest.raises(KeyReused):
            session.enqueue("ho", key="k")

        assert told(session) == ["hi"]

    def test_appending_and_queueing_the_same_is_the_same_call(self, session: Session) -> None:
        session.append("appended first", key="a")
        session.enqueue("appended first", key="a")
        session.enqueue("queued first", key="q")
        session.append("queued first", key="q")
        session.enqueue("taken first", key="t")
        assert taken(session) == "taken first"
        session.append("taken first", key="t")

        assert told(session) == ["appended first", "queued first", "taken first"]
        assert session.queued() == []

    def test_nothing_is_lost_when_a_key_was_used_for_something_else_meanwhile(self, session: Session) -> None:
        session.enqueue("waiting", key="k")
        session.append("appended", key="k")

        assert taken(session) == "waiting"
        assert session.entry(key="k").seq == 1

    def test_many_who_take_get_each_message_once(self, session: Session) -> None:
        for n in range(40):
            session.enqueue(f"m{n}")
        got: list[Entry] = []

        def work() -> None:
            while (entry := session.take()) is not None:
                got.append(entry)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(entry.seq for entry in got) == list(range(1, 41))
        assert told(session) == [f"m{n}" for n in range(40)]

    def test_a_filled_inbox_waits_and_is_counted(self, store: Store, session: Session) -> None:
        session.enqueue("hi")
        assert (session.info.queued, [info.id for info in store.sessions(waiting=True)]) == (1, [session.id])
        session.take()
        session.append(Message.assistant("hello"))

        assert (session.info.queued, store.sessions(waiting=True).items) == (0, [])

    def test_queueing_is_a_change_of_the_session_but_not_of_its_log(self, session: Session) -> None:
        before = talk(session, 1).info
        session.enqueue("hi")
        after = session.info

        assert (after.head, after.messages, after.tokens) == (before.head, before.messages, before.tokens)
        assert after.updated_at > before.updated_at

    def test_queueing_makes_a_session_that_is_not_made_yet(self, store: Store) -> None:
        store.session("k", title="Named").enqueue("first")
        session = store.session("k")

        assert (taken(session), session.info.title) == ("first", "Named")

    def test_an_empty_inbox_gives_nothing(self, store: Store, session: Session) -> None:
        assert (session.take(), session.queued(), store.session("unmade").take()) == (None, [], None)
        assert store.session("unmade").queued() == []

    def test_a_fork_has_an_inbox_of_its_own(self, session: Session) -> None:
        session.enqueue("hi")
        fork = session.fork()

        assert (fork.queued(), fork.info.queued) == ([], 0)

    def test_an_archived_session_takes_no_mail(self, store: Store, session: Session) -> None:
        store.archive(session)
        with pytest.raises(NotActive):
            session.enqueue("hi")

        assert session.queued() == []

    @pytest.mark.parametrize("message", [None, 7, {"role": 7}, ["hi"]])
    def test_what_is_no_message_is_refused_at_once(self, session: Session, message: Any) -> None:
        with pytest.raises(ThreadlineError):
            session.enqueue(message)

        assert session.queued() == []

    def test_a_dict_in_a_known_format_may_wait_too(self, session: Session) -> None:
        session.enqueue({"role": "user", "content": "hi"}, format="openai")

        assert taken(session) == "hi"

    def test_an_empty_key_is_refused(self, session: Session) -> None:
        with pytest.raises(InvalidArgument):
            session.enqueue("hi", key="")


class DurableInboxContract(Contract):
    """What still waits when the store is opened again."""

    def test_what_was_queued_waits_again(self, open_store: OpenStore) -> None:
        with open_store() as store:
            store.session("k").enqueue("one", key="a")
            store.session("k").enqueue("two")

        with open_store() as store:
            session = store.session("k")
            session.enqueue("one", key="a")

            assert [taken(session), taken(session), taken(session)] == ["one", "two", None]


def taken(session: Session) -> str | None:
    entry = session.take()
    return None if entry is None or entry.message is None else entry.message.text
