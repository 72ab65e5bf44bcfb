"""The contract: what is erased or redacted can be reached by no call any more, and everything else stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import Conflict, InvalidArgument, KeyReused, Message, NotFound, ReadOnly, Session, Store, Text, ToolCall
from threadline.testing.contract.workshop import Contract, OpenStore, answers, asks, busy, made, talk, told

SECRET = "s3cr3t"
LARGE = SECRET * 3_000
GONE = "[redacted]"


def tells(session: Session) -> bool:
    """Whether anything that a session shows still holds the secret."""
    state, goal = dict(session.state), session.goal
    shown = [*session.entries(), session.view(), session.info, session.context(), state, goal, session.queued()]
    return SECRET in repr(shown) or SECRET in str(session.context().system)


class EraseContract(Contract):
    """Sessions that go without a trace."""

    def test_an_erased_session_is_gone(self, store: Store) -> None:
        session = busy(store.new(key="k", tags=["red"], cwd="/src"))
        receipt = store.erase(session)

        assert (receipt.sessions, receipt.entries, receipt.kept) == ([session.id], 5, [])
        assert store.find("k") is None
        assert made(store.sessions(root=False, status=None)) == made(store.sessions(tag="red")) == []
        with pytest.raises(NotFound):
            store.erase(str(session.id))

    def test_erase_leaves_nothing_of_it(self, store: Store) -> None:
        session = busy(store.new(key="k", tags=["red"]))
        session.append(Message.tool("c", LARGE), key="once", usage={"input": 3, "request_id": "r"})
        session.enqueue("waits")
        store.erase(session)

        left = store.stats()
        assert (left["sessions"], left["logs"], left["entries"], left["blobs"]) == (0, 0, 0, 0)
        assert store.usage() == {}

    def test_it_cannot_be_found_any_more(self, store: Store) -> None:
        session, other = store.new(title=SECRET), store.new()
        session.append(f"the word is {SECRET}")
        other.append("no word")
        before = store.search(SECRET), store.search("word")
        store.erase(session)

        assert ([len(hits) for hits in before], store.search(SECRET)) == ([2, 2], [])
        assert [hit.session.id for hit in store.search("word")] == [other.id]

    def test_its_working_memory_goes_and_what_lasts_forgets_its_name(self, store: Store) -> None:
        session = store.new(id=SECRET)
        mem = store.memory("project")
        mem.claim("only thought", session=SECRET, preliminary=True, chain="ideas")
        lasting = mem.claim("water boils at 100 degrees", session=SECRET)
        promoted = mem.claim("salt dissolves", session=SECRET, preliminary=True)
        mem.promote(promoted.addr)
        fork = session.fork()
        mem.claim("water boils at 100 degrees", session=fork.id)
        store.erase(session, cascade=True)

        assert str(fork.id) not in repr([mem.active(), mem.events()])
        assert {node.addr for node in mem.active()} == {lasting.addr, promoted.addr}
        assert SECRET not in repr([mem.active(), mem.chains(), mem.events(), mem.archives()])
        assert store.verify().problems == []

    def test_the_receipt_says_what_is_pending_and_until_when(self, store: Store, session: Session) -> None:
        talk(session, 1)
        receipt = store.erase(session)

        assert receipt.done == (receipt.pending == [])
        assert all(each.what and each.why and each.until for each in receipt.pending)

    def test_forks_and_children_are_named_and_nothing_goes(self, store: Store, session: Session) -> None:
        talk(session, 2)
        fork, child = session.fork(2), session.spawn("sub", lifecycle="detached")
        below = child.spawn("below")
        with pytest.raises(Conflict) as caught:
            store.erase(session)

        assert {*caught.value.sessions} == {fork.id, child.id, below.id}
        assert all(str(each.id) in str(caught.value) for each in (fork, child, below))
        assert told(session) == [*told(fork), "q2", "a2"]

    def test_with_cascade_they_go_along(self, store: Store, session: Session) -> None:
        talk(session, 2)
        fork = session.fork(0)
        fork.fork().append("more")
        session.spawn("sub", lifecycle="detached").spawn().append("deep")
        other = talk(store.new(), 1)
        receipt = store.erase(session, cascade=True)

        assert (len(receipt.sessions), receipt.sessions[0], receipt.entries) == (5, session.id, 6)
        assert made(store.sessions(root=False)) == [other.id]
        assert store.stats()["entries"] == 2

    def test_a_fork_of_a_deleted_fork_still_holds_parts(self, store: Store, session: Session) -> None:
        talk(session, 2)
        fork = session.fork(3)
        last = fork.fork()
        store.delete(fork)
        with pytest.raises(Conflict) as caught:
            store.erase(session)

        assert caught.value.sessions == (last.id,)

    def test_a_fork_goes_alone_and_leaves_its_origin(self, store: Store, session: Session) -> None:
        talk(session, 2)
        fork = session.fork(2)
        fork.append("only here")
        before = session.info, told(session)
        receipt = store.erase(fork)

        assert (receipt.sessions, receipt.entries) == ([fork.id], 1)
        assert str(session.id) in receipt.kept[0]
        assert (session.info, told(session), session.forks()) == (*before, [])

    def test_what_an_erased_child_spent_stays_with_its_parent_and_tells_no_names(
        self, store: Store, session: Session
    ) -> None:
        child = session.spawn(SECRET, model="m")
        child.record_usage(input=5, cost=0.5, request_id=SECRET)
        child.spawn("below").record_usage(output=7)
        session.record_usage(input=1, model="m")
        before = session.usage(children=True)
        receipt = store.erase(child, cascade=True)

        assert session.usage() == before
        assert [(request.request_id, request.agent) for request in session.requests()] == [(None, None)] * 3
        assert str(session.id) in receipt.kept[0]
        assert {*store.usage(by="agent")} == {None}

    def test_an_erased_root_takes_its_spending_along(self, store: Store, session: Session) -> None:
        session.record_usage(input=5, request_id="r")
        session.fork().record_usage(input=2)
        store.erase(session, cascade=True)

        assert store.usage() == {}

    def test_an_erased_name_can_be_given_anew(self, store: Store) -> None:
        old = store.new(id="x", key="k")
        old.append("keyed", key="once")
        store.erase(old)
        new = store.new(id="x", key="k")

        assert (new.head, new.append("keyed", key="once").seq) == (0, 1)
        with pytest.raises(NotFound):
            old.append("for the old one")

    @pytest.mark.parametrize("status", ["archive", "trash"])
    def test_what_was_put_away_can_be_erased(self, store: Store, session: Session, status: str) -> None:
        getattr(store, status)(session)

        assert store.erase(str(session.id)).sessions == [session.id]

    def test_a_session_of_another_namespace_is_not_erased(self, store: Store, session: Session) -> None:
        with pytest.raises(NotFound):
            store.within("evil").erase(str(session.id))

        assert session.head == 0

    def test_a_draft_of_an_erased_session_ends(self, store: Store, session: Session) -> None:
        draft = session.draft()
        draft.write("so far")
        store.erase(session)
        with pytest.raises(NotFound):
            draft.finish()

        assert store.stats()["sessions"] == 0


class RedactContract(Contract):
    """Entries that lose their content and keep their place."""

    def test_a_redacted_entry_tells_why_and_nothing_else(self, session: Session) -> None:
        before = session.append(SECRET, usage={"input": 3})
        receipt = session.redact(1, "a password")
        entry = session.entry(1)

        assert (receipt.sessions, receipt.entries) == ([session.id], 1)
        assert (entry.redacted, entry.message, entry.usage) == ("a password", Message.user(GONE), None)
        assert (entry.seq, entry.kind, entry.at, entry.tokens) == (1, "message", before.at, before.tokens)
        assert session.read(1) == GONE

    def test_the_rest_of_the_log_stays_as_it_was(self, store: Store, session: Session) -> None:
        busy(session)
        before = [*session.entries()]
        session.redact(4, "why")
        after = [*session.entries()]

        assert after[:3] + after[4:] == before[:3] + before[4:]
        assert store.verify().problems == []

    def test_no_call_tells_it_any_more(self, session: Session) -> None:
        session.append(f"{SECRET} is the title")
        session.append(Message.assistant(SECRET, ToolCall("c1", SECRET, {SECRET: SECRET})))
        session.append(Message.tool("c1", [Text(SECRET)]))
        session.note({"n": SECRET})
        session.append(Message.system(SECRET))
        assert tells(session)
        for seq in range(1, 6):
            session.redact(seq, "why")

        assert not tells(session)

    @pytest.mark.parametrize("indexed", [True, False])
    def test_what_was_redacted_cannot_be_found_any_more(self, store: Store, session: Session, indexed: bool) -> None:
        session.extend([f"the word is {SECRET}", "another word"])
        session.set_state({"word": SECRET})
        before = len(store.search(SECRET)) if indexed else 0
        for seq in (1, 3):
            session.redact(seq, "why")

        assert (before > 0) == indexed
        assert store.search(SECRET) == []
        assert [hit.seq for hit in store.search("word")] == [2]
        assert store.verify().problems == []

    def test_title_and_preview_go_here_and_in_forks(self, session: Session) -> None:
        session.append(SECRET)
        fork, renamed = session.fork(), session.fork(title="a name")
        session.redact(1, "why")

        assert [each.info.title for each in (session, fork, renamed)] == [GONE, GONE, "a name"]
        assert {each.info.preview for each in (session, fork, renamed)} == {GONE}

    def test_calls_stay_with_their_results(self, session: Session) -> None:
        session.extend(["go", asks("c1", "c2"), answers("c1", SECRET)])
        session.redact(2, "why")
        session.redact(3, "why")

        assert [(pending.call.id, pending.seq) for pending in session.pending] == [("c2", 2)]
        assert session.entry(3).message == Message.tool("c1", GONE)
        session.append(answers("c2"))
        assert session.pending == []
        assert session.context(format="openai").repairs == []

    def test_a_summary_loses_its_words_and_folds_as_before(self, session: Session) -> None:
        talk(session, 2)
        session.compact(SECRET, upto=2)
        session.redact(5, "why")

        assert told(session) == [GONE, "q2", "a2"]
        assert [entry.message for entry in session.originals(5)] == [Message.user("q1"), Message.assistant("a1")]
        session.expand(5)
        assert told(session) == ["q1", "a1", "q2", "a2"]

    def test_what_was_folded_or_rewound_can_be_redacted(self, session: Session) -> None:
        session.append(SECRET)
        session.compact("so far")
        session.rewind(0)
        session.redact(1, "why")

        assert session.originals(2)[0].message == Message.user(GONE)

    def test_it_goes_for_all_who_share_it(self, session: Session) -> None:
        session.extend(["one", SECRET, "three"])
        fork = session.fork(2)
        receipt = fork.redact(2, "why")

        assert {*receipt.sessions} == {session.id, fork.id}
        assert (told(session), told(fork)) == (["one", GONE, "three"], ["one", GONE])

    def test_a_key_still_knows_its_call_and_is_told_no_more(self, session: Session) -> None:
        session.append("hello", key=SECRET)
        fork = session.fork()
        session.redact(1, "why")

        assert session.entry(1).key is None
        assert session.append("hello", key=SECRET).redacted == "why"
        assert fork.append("hello", key=SECRET).seq == 1
        assert (session.entry(key=SECRET).seq, session.head) == (1, 1)
        with pytest.raises(KeyReused):
            session.append("other", key=SECRET)
        assert session.enqueue("hello", key=SECRET) is not None
        assert session.queued() == []

    def test_the_key_of_several_entries_goes_with_the_last(self, session: Session) -> None:
        session.extend(["one", "two"], key="k")
        session.redact(1, "why")
        keys = [entry.key for entry in session.entries()]
        session.redact(2, "why")

        assert keys == ["k", "k"]
        assert [entry.key for entry in session.entries()] == [None, None]
        assert [entry.seq for entry in session.extend(["one", "two"], key="k")] == [1, 2]

    def test_what_was_spent_is_still_counted(self, session: Session) -> None:
        session.append(SECRET, usage={"input": 3, "output": 4, "request_id": "r"})
        before = session.usage(), session.info.cost
        session.redact(1, "why")

        assert (session.usage(), session.info.cost) == before

    def test_a_redacted_state_is_not_told_by_later_ones(self, session: Session) -> None:
        session.set_state({"a": 1})
        session.set_state({"token": SECRET, "b": 2})
        session.set_state({"c": 3})
        fork = session.fork()
        fork.set_state({"d": 4})
        session.redact(2, "why")

        assert (dict(session.state), dict(fork.state)) == ({"a": 1, "c": 3}, {"a": 1, "c": 3, "d": 4})
        assert not tells(session)
        assert not tells(fork)
        session.rewind(2, state=True)
        assert dict(session.state) == {"a": 1}

    def test_a_later_value_of_the_same_name_stays(self, session: Session) -> None:
        session.set_state({"token": SECRET})
        session.set_state({"token": "new"})
        session.redact(1, "why")

        assert dict(session.state) == {"token": "new"}
        assert not tells(session)

    def test_a_redacted_goal_is_not_told_by_its_completion(self, session: Session) -> None:
        session.set_goal(SECRET, SECRET)
        session.complete_goal("went well")
        session.redact(1, "why")

        goal = session.goal
        assert goal is not None
        assert (goal.objective, goal.recap, goal.status) == (GONE, "went well", "completed")
        assert not tells(session)

    def test_a_redacted_system_prompt_is_sent_no_more(self, session: Session) -> None:
        session.update(system=SECRET)
        session.append("hi")
        session.redact(1, "why")

        assert (session.info.system, session.context().system) == (None, None)

    def test_large_content_goes_with_the_last_entry_that_has_it(self, store: Store, session: Session) -> None:
        session.extend([Message.tool("a", LARGE), Message.tool("b", LARGE)])
        session.redact(1, "why")
        kept = session.read(2), store.stats()["blobs"]
        session.redact(2, "why")

        assert kept == (LARGE, 1)
        assert store.stats()["blobs"] == 0

    def test_a_context_that_was_asked_for_before_does_not_tell_it(self, session: Session) -> None:
        session.append(Message.system(SECRET))
        talk(session, 60)
        before = session.context(max_tokens=200)
        session.redact(1, "why")
        after = session.context(max_tokens=200)

        assert SECRET in str(before.system)
        assert SECRET not in str(after.system)

    def test_a_context_stays_within_its_budget(self, session: Session) -> None:
        for n in range(40):
            session.append("a" if n % 2 == 0 else Message.assistant("b"))
        for seq in range(1, 41):
            session.redact(seq, "why")

        context = session.context(max_tokens=100, format="anthropic")
        assert 0 < context.tokens <= 100

    def test_neither_status_nor_lease_is_in_the_way(self, store: Store, session: Session) -> None:
        session.extend([SECRET, SECRET])
        with session.lease("somebody"):
            session.redact(1, "why")
        store.archive(session)
        session.redact(2, "why")

        assert session.info.status == "archived"
        assert not tells(session)

    def test_it_writes_no_entry_and_the_time_moves_on(self, session: Session) -> None:
        session.append(SECRET)
        before = session.info
        session.redact(1, "why")
        after = session.info

        assert after.head == before.head
        assert after.updated_at > before.updated_at

    def test_a_redacted_session_can_be_deleted_and_its_fork_keeps_the_tombstones(
        self, store: Store, session: Session
    ) -> None:
        session.extend([SECRET, SECRET, SECRET])
        for seq in (1, 3):
            session.redact(seq, "why")
        fork = session.fork(2)
        store.delete(session)

        assert store.verify().problems == []
        assert told(fork) == [GONE, SECRET]
        store.delete(fork)
        assert store.verify().problems == []

    def test_redacting_again_changes_nothing(self, session: Session) -> None:
        session.append(SECRET)
        session.redact(1, "first")

        assert session.redact(1, "second").entries == 0
        assert session.entry(1).redacted == "first"

    @pytest.mark.parametrize("seq", [0, -1, 3, 2**40])
    def test_an_entry_that_is_not_there(self, session: Session, seq: int) -> None:
        talk(session, 1)
        with pytest.raises(NotFound):
            session.redact(seq, "why")

    @pytest.mark.parametrize("wrong", [("1", "why"), (True, "why"), (1, ""), (1, None), (1, "x" * 513)])
    def test_wrong_arguments(self, session: Session, wrong: Any) -> None:
        session.append("hi")
        with pytest.raises(InvalidArgument):
            session.redact(*wrong)

        assert session.entry(1).redacted is None

    def test_every_kind_of_entry_can_be_redacted(self, store: Store, session: Session) -> None:
        busy(session)
        session.start_call("c1")
        session.replace(["instead"], since=4, upto=4)
        session.expand(3)
        session.rewind(2, state=True)
        session.set_state({"n": 1})
        session.rewind(2, state=True)
        session.clear()
        before = [entry.seq for entry in session.view(at=8).entries]
        for entry in [*session.entries()]:
            session.redact(entry.seq, "why")

        assert [entry.seq for entry in session.view(at=8).entries] == before
        assert store.verify().problems == []
        session.append("goes on")
        assert store.verify().problems == []


class DurableErasingContract(Contract):
    """The same, opened again."""

    def test_what_was_redacted_stays_redacted(self, open_store: OpenStore) -> None:
        with open_store() as store:
            session = store.new(id="x")
            session.append(SECRET)
            session.redact(1, "why")
        with open_store() as store:
            assert store.get("x").entry(1).redacted == "why"
            assert store.verify().problems == []

    def test_a_read_only_store_neither_erases_nor_redacts(self, open_store: OpenStore) -> None:
        with open_store() as store:
            session = talk(store.new(id="x"), 1)
            with open_store(read_only=True) as reader:
                with pytest.raises(ReadOnly):
                    reader.erase("x")
                with pytest.raises(ReadOnly):
                    reader.get("x").redact(1, "why")

            assert told(session) == ["q1", "a1"]
