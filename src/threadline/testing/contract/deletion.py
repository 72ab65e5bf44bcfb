"""The contract: what goes when a session is deleted, and what stays; and putting away what is idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from threadline import (
    InvalidArgument,
    Message,
    NotFound,
    Session,
    Stale,
    Store,
)
from threadline.testing.contract.workshop import (
    CHANGES,
    NOON,
    READS,
    WRITES,
    Contract,
    OpenStore,
    answers,
    asks,
    busy,
    made,
    talk,
    told,
)

A_DAY = timedelta(days=1)


class DeletionContract(Contract):
    """What goes when a session is deleted, and what stays."""

    def test_a_deleted_session_is_gone(self, store: Store) -> None:
        session = talk(store.new(key="k", tags=["red"], cwd="/src"), 2)

        assert store.delete(session) == 1
        assert store.find("k") is None
        assert made(store.sessions(root=False, status=None)) == []
        assert made(store.sessions(tag="red")) == made(store.sessions(cwd="/src")) == []
        with pytest.raises(NotFound):
            store.get(str(session.id))

    def test_nothing_of_it_is_left(self, store: Store) -> None:
        session = busy(store.new(key="k", tags=["red"]))
        session.append("keyed", key="once", usage={"input": 3})
        session.record_usage(output=2, request_id="r")
        store.delete(session)

        left = store.stats()
        assert (left["sessions"], left["logs"], left["entries"]) == (0, 0, 0)
        assert store.usage() == {}

    def test_deleting_takes_an_id_or_a_session(self, store: Store) -> None:
        assert store.delete(str(store.new().id)) == 1

    def test_deleting_what_is_not_there_is_not_found(self, store: Store, session: Session) -> None:
        store.delete(session)
        for gone in (session, str(session.id), "nobody"):
            with pytest.raises(NotFound):
                store.delete(gone)

    def test_a_session_of_another_namespace_is_not_deleted(self, store: Store, session: Session) -> None:
        with pytest.raises(NotFound):
            store.within("evil").delete(str(session.id))

        assert session.head == 0

    @pytest.mark.parametrize("status", ["archive", "trash"])
    def test_what_was_put_away_can_be_deleted(self, store: Store, session: Session, status: str) -> None:
        getattr(store, status)(session)

        assert store.delete(session) == 1

    def test_with_expect_only_the_session_that_was_seen_is_deleted(self, store: Store, session: Session) -> None:
        talk(session, 1)
        with pytest.raises(Stale) as caught:
            store.delete(session, expect=1)

        assert (caught.value.expected, caught.value.found) == (1, 2)
        assert store.delete(session, expect=2) == 1

    # -- handles of what is gone -----------------------------------------------------------------------

    @pytest.mark.parametrize("name", READS)
    def test_a_deleted_session_cannot_be_read(self, store: Store, session: Session, name: str) -> None:
        busy(session)
        store.delete(session)
        busy(store.new())

        with pytest.raises(NotFound):
            READS[name](session)

    @pytest.mark.parametrize("name", [*WRITES, *CHANGES, "record_usage", "spawn", "fork"])
    def test_a_deleted_session_cannot_be_written(self, store: Store, session: Session, name: str) -> None:
        busy(session)
        store.delete(session)
        other = busy(store.new())
        before = other.info
        more: dict[str, Callable[[Any], object]] = {
            "record_usage": lambda s: s.record_usage(input=1, request_id="r"),
            "spawn": lambda s: s.spawn(),
            "fork": lambda s: s.fork(),
        }
        with pytest.raises(NotFound):
            (WRITES | CHANGES | more)[name](session)

        assert other.info == before
        assert made(store.sessions(root=False)) == [other.id]

    def test_a_deleted_session_is_not_restored(self, store: Store, session: Session) -> None:
        store.delete(session)
        store.new()
        for call in (store.restore, store.trash, store.archive):
            with pytest.raises(NotFound):
                call(session)

    def test_a_deleted_id_can_be_made_anew_and_inherits_nothing(self, store: Store) -> None:
        old = busy(store.new(id="x", key="k", tags=["red"], meta={"n": 1}))
        old.append("keyed", key="once")
        old.record_usage(input=5, request_id="r")
        old.fork()
        old.spawn("search", call_id="c1", lifecycle="detached")
        store.delete(old)
        new = store.new(id="x", key="k")

        info = new.info
        assert (info.head, info.tags, info.meta, info.title) == (0, (), {}, None)
        assert (new.forks(), new.children(), new.usage().requests) == ([], [], 0)
        assert new.append("keyed", key="once").seq == 1
        assert new.spawn("other", call_id="c1").info.agent == "other"
        with pytest.raises(NotFound):
            old.append("for the old one")

    def test_a_session_by_key_begins_anew(self, store: Store) -> None:
        store.session("k").append("old")
        store.delete(store.session("k"))
        store.session("k").append("new")

        assert told(store.session("k")) == ["new"]

    # -- forks -----------------------------------------------------------------------------------------

    def test_a_fork_keeps_what_it_shares(self, store: Store, session: Session) -> None:
        talk(session, 2)
        session.compact("so far", upto=2)
        fork, early = session.fork(), session.fork(3)
        session.append("never shared")
        before, origin = [list(fork.entries()), fork.view().entries], fork.info.origin
        store.delete(session)

        assert [list(fork.entries()), fork.view().entries] == before
        assert fork.info.origin == origin
        assert told(early) == ["q1", "a1", "q2"]
        assert fork.append("goes on").seq == 6
        assert store.verify().problems == []

    def test_what_nobody_shares_goes(self, store: Store, session: Session) -> None:
        talk(session, 3)
        fork = session.fork(2)
        store.delete(session)

        left = store.stats()
        assert (left["logs"], left["entries"]) == (2, 2)
        store.delete(fork)
        left = store.stats()
        assert (left["logs"], left["entries"]) == (0, 0)

    def test_a_log_goes_with_the_last_fork_that_shares_it(self, store: Store, session: Session) -> None:
        talk(session, 2)
        first = session.fork(4)
        second = first.fork(2)
        store.delete(session)
        store.delete(first)

        assert told(second) == ["q1", "a1"]
        assert store.stats()["entries"] == 2

    def test_a_fork_keeps_the_keys_that_it_shares(self, store: Store, session: Session) -> None:
        shared = session.append("one", key="k1")
        session.extend(["two", "three"], key="k2")
        fork = session.fork(2)
        store.delete(session)

        assert fork.append("one", key="k1").seq == shared.seq
        assert fork.extend(["two", "three"], key="k2")[0].seq == 3

    def test_a_fork_keeps_its_open_calls(self, store: Store, session: Session) -> None:
        session.extend(["go", asks("c1")])
        session.start_call("c1")
        fork = session.fork()
        store.delete(session)

        assert [(p.call.id, p.started) for p in fork.pending] == [("c1", True)]
        fork.append(answers("c1"))
        assert fork.pending == []

    def test_a_deleted_fork_leaves_its_origin_alone(self, store: Store, session: Session) -> None:
        talk(session, 2)
        fork = session.fork(2)
        fork.append("other")
        before = session.info, told(session)
        store.delete(fork)

        assert (session.info, told(session), session.forks()) == (*before, [])

    # -- families --------------------------------------------------------------------------------------

    def test_descendants_go_along_and_detached_ones_become_roots(self, store: Store, session: Session) -> None:
        linked = session.spawn("linked")
        linked.spawn("ephemeral", lifecycle="ephemeral").append("hi")
        kept = linked.spawn("kept", lifecycle="detached", call_id="c1")
        below = kept.spawn("below")
        below.append("deep")

        assert store.delete(session) == 3
        assert {info.id for info in store.sessions(root=False)} == {kept.id, below.id}
        assert made(store.sessions()) == [kept.id]
        info = kept.info
        assert (info.parent, info.depth, info.lifecycle, info.call_id) == (None, 0, "detached", None)
        assert (below.info.parent, below.info.depth) == (kept.id, 1)
        assert kept.parent is None
        assert [node.id for node in kept.tree()] == [kept.id, below.id]

    def test_without_cascade_all_children_become_roots(self, store: Store, session: Session) -> None:
        first, second = session.spawn("a"), session.spawn("b", lifecycle="ephemeral")
        below = first.spawn("below")

        assert store.delete(session, cascade=False) == 1
        assert made(store.sessions()) == [second.id, first.id]
        assert [one.info.depth for one in (first, second, below)] == [0, 0, 1]

    def test_a_root_again_may_go_deeper(self, store: Store, session: Session) -> None:
        deepest = session.spawn(lifecycle="detached").spawn().spawn()
        store.delete(session)

        assert deepest.spawn().info.depth == 3

    def test_deleting_a_child_leaves_its_parent_and_siblings(self, store: Store, session: Session) -> None:
        first, second = session.spawn(), session.spawn()
        first.spawn()

        assert store.delete(first) == 2
        assert [child.id for child in session.children()] == [second.id]

    def test_the_forks_of_a_deleted_child_stay(self, store: Store, session: Session) -> None:
        child = talk(session.spawn(), 1)
        fork = child.fork()

        assert store.delete(session) == 2
        assert told(fork) == ["q1", "a1"]

    def test_a_detached_child_has_no_parent_to_answer_any_more(self, store: Store, session: Session) -> None:
        session.append(asks("c1"))
        child = session.spawn(call_id="c1", lifecycle="detached")
        store.delete(session)

        with pytest.raises(InvalidArgument, match="nobody waits"):
            child.finish("done")

    # -- what was spent --------------------------------------------------------------------------------

    def test_what_a_deleted_child_spent_stays_with_its_parent(self, store: Store, session: Session) -> None:
        child = session.spawn("search", model="m")
        child.record_usage(input=5, cost=0.5, request_id="r1")
        child.spawn("below").record_usage(output=7, request_id="r2")
        session.record_usage(input=1)
        before = session.usage(children=True), store.usage(by=("agent", "model"))
        store.delete(child)

        assert (session.usage(children=True), store.usage(by=("agent", "model"))) == before
        assert session.usage() == before[0]
        assert [request.input for request in session.requests()] == [5, 0, 1]

    def test_what_a_deleted_child_spent_is_still_known_by_its_id(self, store: Store, session: Session) -> None:
        child = session.spawn()
        child.record_usage(input=5, request_id="r")
        store.delete(child)
        session.record_usage(input=5, request_id="r")
        session.spawn().record_usage(input=8, request_id="r")

        assert (session.usage().input, session.usage().requests) == (8, 1)

    def test_what_detached_ones_spent_stays_with_them(self, store: Store, session: Session) -> None:
        child = session.spawn(lifecycle="detached")
        child.record_usage(input=5)
        session.record_usage(input=1)
        store.delete(session)

        assert store.usage(by="session") == {child.id: child.usage()}
        assert child.usage().input == 5

    def test_a_deleted_root_takes_its_spending_along(self, store: Store, session: Session) -> None:
        session.record_usage(input=5, request_id="r")
        fork = session.fork()
        fork.record_usage(input=2)
        store.delete(session)

        assert list(store.usage(by="session")) == [fork.id]
        fork.record_usage(input=5, request_id="r")
        assert fork.usage().input == 7


class PruneContract(Contract):
    """Putting away what is idle."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def aging(self, open_store: OpenStore, clock: Clock) -> Iterator[Store]:
        """A store whose clock the test moves."""
        with open_store(clock=clock) as store:
            yield store
            assert store.verify().problems == []

    def test_pruning_only_plans_unless_told(self, aging: Store, clock: Clock) -> None:
        session = aging.new()
        clock.now += 40 * A_DAY

        plan = aging.prune(older_than=30 * A_DAY)

        assert (plan.sessions, plan.dry_run) == ([session.id], True)
        assert session.info.status == "active"

    def test_pruning_moves_to_the_trash_what_is_idle(self, aging: Store, clock: Clock) -> None:
        oldest = aging.new()
        clock.now += A_DAY / 24
        old = aging.new()
        clock.now += 40 * A_DAY
        fresh = aging.new()

        plan = aging.prune(older_than=30 * A_DAY, dry_run=False)

        assert (plan.sessions, plan.dry_run, plan.before) == ([oldest.id, old.id], False, clock.now - 30 * A_DAY)
        assert [one.info.status for one in (oldest, old, fresh)] == ["trashed", "trashed", "active"]
        aging.restore(old)
        assert aging.prune(older_than=30 * A_DAY, dry_run=False).sessions == []

    def test_what_changed_since_is_not_idle(self, aging: Store, clock: Clock) -> None:
        written, renamed = aging.new(), aging.new()
        clock.now += 40 * A_DAY
        written.append("hi")
        renamed.rename("a name")

        assert aging.prune(older_than=30 * A_DAY).sessions == []

    def test_a_session_is_as_old_as_the_youngest_below_it(self, aging: Store, clock: Clock) -> None:
        session = aging.new()
        below = session.spawn().spawn()
        clock.now += 40 * A_DAY
        below.append("still at work")

        assert aging.prune(older_than=30 * A_DAY).sessions == []
        clock.now += 40 * A_DAY
        assert aging.prune(older_than=30 * A_DAY, dry_run=False).sessions == [session.id]
        assert below.info.status == "active"

    def test_what_was_put_away_is_not_pruned(self, aging: Store, clock: Clock) -> None:
        aging.archive(aging.new())
        aging.trash(aging.new())
        clock.now += 40 * A_DAY

        assert aging.prune(older_than=30 * A_DAY).sessions == []

    def test_pruning_stays_in_its_namespace(self, aging: Store, clock: Clock) -> None:
        session = aging.within("acme").new()
        clock.now += 40 * A_DAY

        assert aging.prune(older_than=30 * A_DAY).sessions == []
        assert aging.within("acme").prune(older_than=30 * A_DAY).sessions == [session.id]

    def test_nothing_is_lost_by_pruning(self, aging: Store, clock: Clock) -> None:
        session = aging.new()
        session.extend(["hi", Message.assistant("hello")])
        clock.now += 40 * A_DAY
        aging.prune(older_than=30 * A_DAY, dry_run=False)
        aging.restore(session)

        assert told(session) == ["hi", "hello"]

    @pytest.mark.parametrize("age", [timedelta(0), -A_DAY, 30, None])
    def test_an_age_that_cannot_be_right_is_refused(self, aging: Store, age: Any) -> None:
        with pytest.raises(InvalidArgument, match="older_than"):
            aging.prune(older_than=age)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now
