"""The contract: sessions that share a beginning."""

from __future__ import annotations

import pytest

from threadline import (
    Conflict,
    KeyReused,
    Message,
    NotFound,
    Session,
    Store,
)
from threadline.testing.contract.workshop import (
    Contract,
    answers,
    asks,
    made,
    talk,
    told,
)


class ForkContract(Contract):
    """Sessions that share a beginning."""

    def test_a_fork_shares_everything_up_to_the_head(self, session: Session) -> None:
        talk(session, 2)
        fork = session.fork()

        assert fork.messages() == session.messages()
        assert [entry.message for entry in fork.entries()] == [entry.message for entry in session.entries()]

    def test_a_fork_shares_everything_up_to_an_entry(self, session: Session) -> None:
        talk(session, 2)
        fork = session.fork(2)

        assert (fork.head, told(fork)) == (2, ["q1", "a1"])

    def test_the_numbering_of_a_fork_goes_on(self, session: Session) -> None:
        talk(session, 2)

        assert session.fork(3).append("other").seq == 4

    def test_neither_side_sees_what_the_other_writes_later(self, session: Session) -> None:
        talk(session, 1)
        fork = session.fork()
        session.append("origin")
        fork.append("fork")

        assert told(session) == ["q1", "a1", "origin"]
        assert told(fork) == ["q1", "a1", "fork"]

    def test_a_fork_of_nothing_is_empty(self, session: Session) -> None:
        talk(session, 1)
        fork = session.fork(0)

        assert (fork.head, fork.messages(), fork.append("first").seq) == (0, [], 1)

    @pytest.mark.parametrize("at", [-1, 3])
    def test_a_fork_beyond_the_log_is_refused(self, store: Store, session: Session, at: int) -> None:
        talk(session, 1)
        with pytest.raises(NotFound):
            session.fork(at)

        assert made(store.sessions()) == [session.id]

    def test_a_fork_leaves_its_origin_alone(self, session: Session) -> None:
        before = talk(session, 1).info
        session.fork().append("other")

        assert session.info == before

    def test_a_fork_knows_where_it_came_from(self, session: Session) -> None:
        talk(session, 2)

        assert session.fork(3).info.origin == (session.id, 3)

    def test_a_session_knows_its_forks(self, session: Session) -> None:
        talk(session, 1)
        first, second = session.fork(), session.fork(1)
        first.fork()

        assert [fork.id for fork in session.forks()] == [first.id, second.id]

    def test_attributes_are_taken_along(self, store: Store) -> None:
        origin = store.new(agent="a", model="m", provider="p", cwd="/src", system="Be brief.", tags=["red"])
        origin.append("hi")

        info = origin.fork().info

        assert (info.agent, info.model, info.provider) == ("a", "m", "p")
        assert (info.cwd, info.system, info.tags) == ("/src", "Be brief.", ("red",))

    def test_a_fork_is_found_by_what_it_took_along(self, store: Store) -> None:
        origin = store.new(agent="a", cwd="/src", tags=["red"])
        fork = origin.fork()

        assert fork.id in made(store.sessions(agent="a", cwd="/src", tag="red"))

    def test_a_fork_has_a_key_title_and_meta_of_its_own(self, store: Store) -> None:
        origin = store.new(key="k", title="t", meta={"n": 1})
        fork = origin.fork(key="fork", title="other", meta={"m": 2})

        assert (fork.info.key, fork.info.title, fork.info.meta) == ("fork", "other", {"m": 2})
        found = store.find("fork")
        assert found is not None
        assert found.id == fork.id

    def test_the_key_of_a_fork_must_be_free(self, store: Store) -> None:
        origin = store.new(key="k")

        with pytest.raises(Conflict):
            origin.fork(key="k")

    def test_a_fork_is_titled_by_the_words_that_it_shares(self, session: Session) -> None:
        session.append(Message.assistant("Welcome!"))
        session.append("hello")

        assert session.fork().info.title == "hello"
        assert session.fork(1).info.title is None

    def test_forks_of_forks_share_it_all(self, session: Session) -> None:
        talk(session, 1)
        child = session.fork()
        child.append("child")
        grandchild = child.fork()
        grandchild.append("grandchild")
        child.append("late child")

        assert told(grandchild) == ["q1", "a1", "child", "grandchild"]
        assert [entry.seq for entry in grandchild.entries()] == [1, 2, 3, 4]

    def test_a_fork_of_a_fork_may_begin_before_it(self, session: Session) -> None:
        talk(session, 2)
        child = session.fork(3)
        child.append("child")
        grandchild = child.fork(1)
        grandchild.append("grandchild")

        assert told(grandchild) == ["q1", "grandchild"]

    def test_a_fork_can_be_rewound_to_before_its_fork_point(self, session: Session) -> None:
        talk(session, 2)
        fork = session.fork()
        fork.append("other")
        fork.rewind(1)
        fork.append("edited")

        assert told(fork) == ["q1", "edited"]
        assert told(session) == ["q1", "a1", "q2", "a2"]

    def test_every_past_view_of_the_origin_is_one_of_the_fork(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short", upto=2)
        session.rewind(3)
        fork = session.fork()

        for at in range(7):
            assert fork.messages(at) == session.messages(at)

    def test_a_fork_sees_the_compactions_that_it_shares(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short", upto=2)
        fork = session.fork()

        assert told(fork) == ["short", "q2", "a2"]
        assert [entry.message for entry in fork.originals(5)] == [Message.user("q1"), Message.assistant("a1")]

    def test_expanding_in_a_fork_leaves_the_origin_folded(self, session: Session) -> None:
        talk(session, 1)
        session.compact("short")
        fork = session.fork()
        fork.expand(3)

        assert told(fork) == ["q1", "a1"]
        assert told(session) == ["short"]

    def test_a_fork_before_a_compaction_sees_the_originals(self, session: Session) -> None:
        talk(session, 1)
        session.compact("short")

        assert told(session.fork(2)) == ["q1", "a1"]

    def test_the_counts_of_a_fork_are_those_of_its_view(self, session: Session) -> None:
        talk(session, 2)
        tokens = session.info.tokens
        session.compact("short")
        fork = session.fork(4)

        assert (fork.info.messages, fork.info.tokens) == (4, tokens)

    def test_pending_calls_are_taken_along(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2")])
        session.start_call("c1")
        fork = session.fork()
        session.repair()

        assert [(call.call.id, call.started) for call in fork.pending] == [("c1", True), ("c2", False)]
        assert list(session.pending) == []

    def test_a_fork_in_the_middle_of_a_call_waits_for_it(self, session: Session) -> None:
        session.extend(["q1", asks("c1"), answers("c1")])
        fork = session.fork(2)

        assert [call.call.id for call in fork.pending] == ["c1"]
        assert fork.info.pending == 1

    # -- keys ------------------------------------------------------------------------------------------

    def test_a_fork_knows_the_keys_of_what_it_shares(self, session: Session) -> None:
        first = session.append("hi", key="k")
        grandchild = session.fork().fork()
        again = grandchild.append("hi", key="k")

        assert (again.seq, again.message, grandchild.head) == (first.seq, first.message, 1)

    def test_a_shared_key_with_other_content_is_refused(self, session: Session) -> None:
        session.append("hi", key="k")
        fork = session.fork()

        with pytest.raises(KeyReused):
            fork.append("something else", key="k")

    def test_a_fork_does_not_know_the_keys_of_what_it_does_not_share(self, session: Session) -> None:
        talk(session, 1)
        session.append("origin", key="k")
        fork = session.fork(2)
        fork.append("fork", key="k")

        assert (told(session)[-1], told(fork)[-1]) == ("origin", "fork")

    def test_the_origin_does_not_know_the_keys_of_its_fork(self, session: Session) -> None:
        fork = session.fork()
        fork.append("fork", key="k")
        session.append("origin", key="k")

        assert told(session) == ["origin"]

    def test_two_forks_do_not_know_each_others_keys(self, session: Session) -> None:
        one, other = session.fork(), session.fork()
        one.append("one", key="k")
        other.append("other", key="k")

        assert (one.entry(key="k").message, other.entry(key="k").message) == (
            Message.user("one"),
            Message.user("other"),
        )

    def test_a_key_is_known_in_a_fork_after_a_rewind_past_it(self, session: Session) -> None:
        session.append("hi", key="k")
        fork = session.fork()
        fork.rewind(0)
        fork.append("hi", key="k")

        assert (fork.head, fork.messages()) == (2, [])
