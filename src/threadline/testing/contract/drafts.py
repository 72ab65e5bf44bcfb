"""The contract: drafts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from threadline import (
    Conflict,
    InvalidArgument,
    KeyReused,
    LeaseHeld,
    LeaseLost,
    Message,
    NotActive,
    NotFound,
    Reasoning,
    Session,
    Store,
    Text,
    ToolCall,
)
from threadline.testing.contract.workshop import Contract, OpenStore, asks, talk, told

PATIENCE_S = 30.0


def becomes(found: Callable[[], object], expected: object) -> bool:
    """Whether it is so after a while."""
    ends_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_at:
        if found() == expected:
            return True
        time.sleep(0.01)
    return False


def interrupted(session: Session, text: str = "half a sen") -> Any:
    """A draft whose writer left it."""
    with pytest.raises(ZeroDivisionError):
        stream(session, text, then=lambda: 1 // 0)
    return session.drafts[-1]


def stream(session: Session, text: str, then: Callable[[], object] | None = None, **options: Any) -> None:
    """Write a draft and finish it, with something in between."""
    with session.draft(**options) as d:
        d.write(text)
        if then is not None:
            then()
        d.finish()


class DraftContract(Contract):
    """Messages that are durable while they stream."""

    def test_what_was_written_becomes_one_entry(self, session: Session) -> None:
        talk(session, 1)
        with session.draft("assistant") as d:
            for token in ("It ", "is ", "\ud800 noon."):
                d.write(token)
            entry = d.finish(usage={"output": 3})

        assert entry == session.entry(3)
        assert (entry.message, entry.usage) == (Message.assistant("It is \ud800 noon."), {"output": 3})
        assert (session.head, session.drafts) == (3, [])

    def test_finish_may_give_the_complete_message(self, session: Session) -> None:
        whole = Message.assistant("Let me look.", Reasoning("hm", signature="s"), ToolCall("c1", "look", {"n": 1}))
        with session.draft() as d:
            d.write("Let me")
            d.finish(whole)

        assert session.messages() == [whole]
        assert [pending.call.id for pending in session.pending] == ["c1"]

    def test_the_end_of_the_block_finishes_it(self, session: Session) -> None:
        with session.draft("user") as d:
            d.write("spoken")

        assert session.messages() == [Message.user("spoken")]

    def test_a_block_in_which_nothing_is_written_leaves_nothing(self, session: Session) -> None:
        with session.draft():
            pass

        assert (session.head, session.drafts) == (0, [])

    def test_it_is_in_no_view_and_no_log_until_it_is_finished(self, session: Session) -> None:
        with session.draft() as d:
            d.write("not yet")
            d.flush()
            assert (session.head, session.messages()) == (0, [])
            (draft,) = session.drafts
            d.drop()

        assert (draft.text, draft.role, draft.interrupted) == ("not yet", "assistant", False)
        assert (session.head, session.drafts) == (0, [])

    def test_it_is_stored_after_a_moment_also_when_the_stream_stalls(self, session: Session) -> None:
        with session.draft() as d:
            d.write("one ")
            assert becomes(lambda: [draft.text for draft in session.drafts], ["one "])
            d.write("two ")
            d.write("three")

            assert becomes(lambda: [draft.text for draft in session.drafts], ["one two three"])

    def test_four_kib_are_stored_at_once(self, session: Session) -> None:
        with session.draft() as d:
            d.write("é" * 2048)

            assert len(session.drafts[0].text) == 2048

    def test_many_tokens_come_in_their_order(self, session: Session) -> None:
        tokens = [f"{n} " for n in range(5_000)]
        with session.draft() as d:
            for token in tokens:
                d.write(token)
            d.flush()
            stored = session.drafts[0].text

        assert told(session) == [stored] == ["".join(tokens)]

    def test_several_at_once_do_not_meet(self, session: Session) -> None:
        with session.draft() as a, session.draft() as b:
            for n in range(100):
                a.write(f"a{n}")
                b.write(f"b{n}")
            b.finish()

        assert told(session) == ["".join(f"{name}{n}" for n in range(100)) for name in "ba"]

    def test_an_exception_leaves_the_text_as_an_interrupted_draft(self, session: Session) -> None:
        draft = interrupted(session)

        assert (draft.text, draft.interrupted, session.head) == ("half a sen", True, 0)

    def test_an_interrupted_draft_may_be_kept(self, session: Session) -> None:
        entry = interrupted(session).keep()

        assert session.messages() == [Message("assistant", (Text("half a sen"),), {"interrupted": True})]
        assert (entry.seq, session.drafts) == (1, [])

    def test_an_interrupted_draft_may_be_dropped(self, session: Session) -> None:
        interrupted(session).drop()

        assert (session.head, session.drafts) == (0, [])

    def test_it_is_kept_or_dropped_once(self, session: Session) -> None:
        draft = interrupted(session)
        draft.keep()
        for again in (draft.keep, draft.drop):
            with pytest.raises(NotFound):
                again()

        assert session.head == 1

    def test_nobody_else_ends_it_while_its_writer_lives(self, session: Session) -> None:
        with session.draft() as d:
            d.write("still going")
            (draft,) = session.drafts
            for end in (draft.keep, draft.drop):
                with pytest.raises(Conflict):
                    end()

        assert told(session) == ["still going"]

    def test_a_finished_draft_is_over(self, session: Session) -> None:
        with session.draft() as d:
            d.write("done")
            d.finish()
            with pytest.raises(Conflict):
                d.write("more")
            with pytest.raises(Conflict):
                d.finish()

        assert told(session) == ["done"]

    def test_a_key_makes_it_one_entry_however_often_it_is_streamed(self, session: Session) -> None:
        for _ in range(2):
            with session.draft(key="reply-7") as d:
                d.write("the same")

        assert (session.head, session.entry(key="reply-7").seq, session.drafts) == (1, 1, [])

    def test_other_content_under_its_key_is_refused_and_not_lost(self, session: Session) -> None:
        session.append(Message.assistant("first"), key="k")
        with pytest.raises(KeyReused):
            stream(session, "second", key="k")

        assert [(draft.text, draft.interrupted) for draft in session.drafts] == [("second", True)]

    def test_the_key_of_a_kept_draft_stays_free(self, session: Session) -> None:
        with pytest.raises(ZeroDivisionError):
            stream(session, "ha", lambda: 1 // 0, key="k")
        assert session.drafts[0].key == "k"
        session.drafts[0].keep()
        with session.draft(key="k") as d:
            d.write("hallo")

        assert told(session) == ["ha", "hallo"]

    def test_it_needs_the_lease_like_any_write(self, session: Session) -> None:
        with session.lease("worker", ttl=3600) as lease:
            with pytest.raises(LeaseHeld):
                session.draft()
            with session.draft(lease=lease) as d:
                d.write("with it")

        assert told(session) == ["with it"]

    def test_a_lease_that_is_lost_meanwhile_loses_no_text(self, session: Session) -> None:
        lease = session.lease("worker", ttl=3600)
        with pytest.raises(LeaseLost):
            stream(session, "too late", lease.release, lease=lease)

        assert (session.head, session.drafts[0].text) == (0, "too late")

    def test_repair_keeps_what_was_interrupted_and_nothing_else(self, session: Session) -> None:
        session.append(asks("c1"))
        interrupted(session, "I was sa")
        interrupted(session, "")
        with session.draft() as d:
            d.write("alive")
            mended = session.repair()
            assert [draft.interrupted for draft in session.drafts] == [False]

        said = [entry.message for entry in mended if entry.message]
        assert (said[0].text, [message.role for message in said]) == ("I was sa", ["assistant", "tool"])
        assert (session.repair(), session.pending) == ([], [])

    def test_an_archived_session_streams_nothing(self, store: Store, session: Session) -> None:
        store.archive(session)

        with pytest.raises(NotActive):
            session.draft()

    def test_a_draft_makes_a_session_that_is_not_made_yet(self, store: Store) -> None:
        with store.session("k").draft() as d:
            d.write("first")

        assert told(store.session("k")) == ["first"]

    def test_a_fork_has_no_drafts(self, session: Session) -> None:
        interrupted(session)

        assert session.fork().drafts == []

    def test_a_draft_moves_neither_the_head_nor_the_time(self, session: Session) -> None:
        before = talk(session, 1).info
        interrupted(session)

        assert session.info == before

    @pytest.mark.parametrize("text", [None, 7, b"bytes", ["list"]])
    def test_a_draft_is_written_in_text(self, session: Session, text: Any) -> None:
        with session.draft() as d, pytest.raises(InvalidArgument):
            d.write(text)

        assert session.head == 0

    @pytest.mark.parametrize("options", [{"role": ""}, {"role": None}, {"key": ""}, {"lease": "worker"}])
    def test_what_cannot_be_a_draft_is_refused(self, session: Session, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgument):
            session.draft(**options)

        assert session.drafts == []


class DurableDraftContract(Contract):
    """What others find of a draft."""

    def test_another_store_reads_it_while_it_streams_and_cannot_end_it(self, open_store: OpenStore) -> None:
        with open_store() as writing, open_store() as reading:
            with writing.session("k").draft() as d:
                d.write("live")
                d.flush()
                (draft,) = reading.session("k").drafts
                with pytest.raises(Conflict):
                    draft.keep()
            assert (draft.text, draft.interrupted) == ("live", False)

            assert (reading.session("k").drafts, told(reading.session("k"))) == ([], ["live"])

    def test_closing_the_store_stores_what_was_written_and_leaves_it_interrupted(self, open_store: OpenStore) -> None:
        with open_store() as store:
            d = store.session("k").draft()
            d.write("unfinis")

        with open_store() as store:
            (draft,) = store.session("k").drafts
            assert (draft.text, draft.interrupted) == ("unfinis", True)
            draft.keep()

            assert told(store.session("k")) == ["unfinis"]
