"""The contract: sessions that sessions spawn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from threadline import (
    Conflict,
    DepthExceeded,
    InvalidArgument,
    KeyReused,
    NotActive,
    NotFound,
    Session,
    Store,
    Text,
    ThreadlineError,
)
from threadline.testing.contract.workshop import (
    NOON,
    Contract,
    OpenStore,
    answers,
    asks,
    made,
    talk,
    told,
)


class SubagentsContract(Contract):
    """Sessions that sessions spawn."""

    def test_a_child_knows_its_parent(self, session: Session) -> None:
        child = session.spawn("search", call_id="c1")

        info, parent = child.info, child.parent
        assert (info.agent, info.parent, info.depth, info.lifecycle) == ("search", session.id, 1, "linked")
        assert info.call_id == "c1"
        assert parent is not None
        assert parent.id == session.id

    def test_a_child_of_the_past_is_told_as_it_was(self, session: Session) -> None:
        child = session.spawn("dig", title="digging", system="dig deep", id="past", at=NOON)

        info = child.info
        assert (child.id, info.title, info.system, info.created_at) == ("past", "digging", "dig deep", NOON)
        with pytest.raises(Conflict):
            session.spawn("dig", id="past")

    def test_a_root_has_no_parent(self, session: Session) -> None:
        info = session.info

        assert session.parent is None
        assert (info.parent, info.depth, info.lifecycle, info.call_id) == (None, 0, None, None)

    def test_a_parent_knows_its_children_oldest_first(self, session: Session) -> None:
        first, second = session.spawn("a"), session.spawn("b")
        first.spawn("below")

        assert [child.id for child in session.children()] == [first.id, second.id]

    def test_a_session_that_is_not_made_yet_has_no_family(self, store: Store) -> None:
        later = store.session("k")

        assert (later.parent, later.children()) == (None, [])
        with pytest.raises(NotFound):
            later.spawn()
        with pytest.raises(NotFound):
            later.tree()

    def test_a_child_has_a_log_of_its_own(self, session: Session) -> None:
        talk(session, 1)
        child = session.spawn()
        child.append("look for it")

        assert (child.head, told(child), session.head) == (1, ["look for it"], 2)

    def test_a_child_works_where_its_parent_does(self, store: Store) -> None:
        parent = store.new(agent="main", model="m", provider="p", cwd="/src", system="Be brief.", tags=["red"])

        info = parent.spawn("search", meta={"n": 1}).info

        assert (info.model, info.provider, info.cwd, info.tags) == ("m", "p", "/src", ("red",))
        assert (info.agent, info.system, info.meta, info.key) == ("search", None, {"n": 1}, None)

    def test_a_child_with_another_model_may_have_another_provider(self, store: Store) -> None:
        info = store.new(model="m", provider="p").spawn(model="small").info

        assert (info.model, info.provider) == ("small", None)

    def test_the_tree_holds_all_below(self, session: Session) -> None:
        first, second = session.spawn("a"), session.spawn("b")
        below = first.spawn("c")

        tree = session.tree()
        assert [info.id for info in tree] == [session.id, first.id, below.id, second.id]
        assert (len(tree), tree.info.id) == (4, session.id)
        assert [[info.id for info in child] for child in tree.children] == [[first.id, below.id], [second.id]]
        assert [info.id for info in first.tree()] == [first.id, below.id]

    def test_depth_counts_from_the_root(self, session: Session) -> None:
        child = session.spawn()

        assert [child.info.depth, child.spawn().info.depth] == [1, 2]

    def test_sub_agents_may_be_three_deep(self, session: Session) -> None:
        deepest = session.spawn().spawn().spawn()

        with pytest.raises(DepthExceeded) as caught:
            deepest.spawn()
        assert (caught.value.depth, caught.value.max_depth) == (4, 3)
        assert deepest.children() == []

    @pytest.mark.parametrize("depth", [0, 1, 5])
    def test_the_depth_is_a_setting_of_the_store(self, open_store: OpenStore, depth: int) -> None:
        with open_store(max_depth=depth) as store:
            deepest = store.within("acme").new()
            for _ in range(depth):
                deepest = deepest.spawn()

            with pytest.raises(DepthExceeded):
                deepest.spawn()

    @pytest.mark.parametrize("depth", [-1, "3", None, True])
    def test_a_depth_that_cannot_be_right_is_refused(self, open_store: OpenStore, depth: Any) -> None:
        with pytest.raises(InvalidArgument, match="max_depth"):
            open_store(max_depth=depth)

    # -- the same child --------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", ["key", "call_id"])
    def test_the_same_name_gives_the_same_child(self, session: Session, name: str) -> None:
        options: dict[str, Any] = {name: "x"}
        child = session.spawn("search", **options)
        child.append("hi")

        again = session.spawn("other", **options)

        assert (again.id, told(again), again.info.agent) == (child.id, ["hi"], "search")
        assert len(session.children()) == 1

    def test_without_a_name_every_spawn_is_another_child(self, session: Session) -> None:
        assert session.spawn("a").id != session.spawn("a").id

    def test_the_same_call_of_another_parent_is_another_child(self, store: Store) -> None:
        assert store.new().spawn(call_id="c1").id != store.new().spawn(call_id="c1").id

    def test_a_childs_key_is_a_sessions_key(self, store: Store, session: Session) -> None:
        child = session.spawn(key="k")

        found = store.find("k")
        assert found is not None
        assert (found.id, child.key) == (child.id, "k")

    def test_a_key_of_somebody_else_is_refused(self, store: Store, session: Session) -> None:
        store.new(key="k")
        store.new().spawn(key="child")
        for key in ("k", "child"):
            with pytest.raises(Conflict):
                session.spawn(key=key)

        assert session.children() == []

    def test_a_key_and_a_call_must_name_the_same_child(self, session: Session) -> None:
        child = session.spawn(key="k", call_id="c1")
        for key, call_id in (("k", "c2"), ("other", "c1")):
            with pytest.raises(Conflict):
                session.spawn(key=key, call_id=call_id)

        assert session.spawn(key="k", call_id="c1").id == child.id
        assert len(session.children()) == 1

    @pytest.mark.parametrize("name", ["key", "call_id"])
    def test_spawned_at_once_by_many_it_is_one_child(self, session: Session, name: str) -> None:
        options: dict[str, Any] = {name: "x"}
        with ThreadPoolExecutor(8) as threads:
            ids = list(threads.map(lambda _: session.spawn("a", **options).id, range(24)))

        assert len(set(ids)) == 1
        assert len(session.children()) == 1

    # -- listings --------------------------------------------------------------------------------------

    def test_sub_agents_are_hidden_from_listings(self, store: Store, session: Session) -> None:
        session.spawn("search").append("newest of all")

        latest = store.latest()
        assert made(store.sessions()) == [session.id]
        assert made(store.sessions(order="created")) == [session.id]
        assert latest is not None
        assert latest.id == session.id
        assert store.latest(agent="search") is None

    @pytest.mark.parametrize("order", ["updated", "created"])
    @pytest.mark.parametrize("limit", [1, 2, 50])
    def test_all_sessions_are_listed_in_one_order(self, store: Store, order: str, limit: int) -> None:
        expected = []
        for _ in range(3):
            root = store.new()
            expected += [root.id, root.spawn().id]

        page = store.sessions(root=False, order=order, limit=limit)
        assert made(page) == expected[::-1]

    @pytest.mark.parametrize("order", ["updated", "created"])
    @pytest.mark.parametrize("limit", [1, 50])
    def test_the_children_of_one_session_are_listed(
        self, store: Store, session: Session, order: str, limit: int
    ) -> None:
        first, second = session.spawn("a"), session.spawn("b")
        first.spawn("below")
        store.new().spawn("of another")

        for parent in (session, str(session.id)):
            assert made(store.sessions(parent=parent, order=order, limit=limit)) == [second.id, first.id]
        assert made(store.sessions(parent=session, agent="a")) == [first.id]

    def test_a_child_is_found_by_agent_where_all_are_asked_for(self, store: Store, session: Session) -> None:
        child = session.spawn("search")

        assert made(store.sessions(agent="search")) == []
        assert made(store.sessions(agent="search", root=False)) == [child.id]

    def test_a_fork_of_a_child_stands_for_itself(self, store: Store, session: Session) -> None:
        child = session.spawn("search", call_id="c1")
        child.append("hi")
        fork = child.fork()

        info = fork.info
        assert (info.parent, info.depth, info.lifecycle, info.call_id) == (None, 0, None, None)
        assert made(store.sessions()) == [fork.id, session.id]
        assert told(fork) == ["hi"]

    def test_a_child_stays_one_when_something_else_is_said_of_it(self, store: Store, session: Session) -> None:
        child = session.spawn("search", call_id="c1")
        child.rename("a name")
        child.update(agent="seek", meta={"n": 1})
        child.tag("red")

        assert made(store.sessions()) == [session.id]
        assert session.spawn(call_id="c1").id == child.id
        assert (child.info.parent, child.info.depth, child.info.title) == (session.id, 1, "a name")

    # -- the answer ------------------------------------------------------------------------------------

    def test_finishing_answers_the_call_in_the_parent(self, session: Session) -> None:
        session.append(asks("c1", "c2"))
        child = session.spawn("search", call_id="c1")

        entry = child.finish("found it")

        assert (entry.session, entry.seq, entry.message) == (session.id, 2, answers("c1", "found it"))
        assert [pending.call.id for pending in session.pending] == ["c2"]

    def test_an_error_is_an_answer_too(self, session: Session) -> None:
        session.append(asks("c1"))
        entry = session.spawn(call_id="c1").finish([Text("it broke")], error=True)

        assert entry.message is not None
        assert (entry.message.text, entry.message.results[0].error) == ("it broke", True)

    def test_finishing_again_answers_nothing_twice(self, session: Session) -> None:
        session.append(asks("c1"))
        child = session.spawn(call_id="c1")
        first = child.finish("found it")
        session.append("go on")

        assert child.finish("found it") == first
        with pytest.raises(KeyReused):
            child.finish("something else")
        assert session.head == 3

    def test_finished_at_once_by_many_it_is_one_answer(self, session: Session) -> None:
        session.append(asks("c1"))
        child = session.spawn(call_id="c1")
        with ThreadPoolExecutor(8) as threads:
            entries = list(threads.map(lambda _: child.finish("found it"), range(16)))

        assert {entry.seq for entry in entries} == {2}
        assert session.head == 2

    def test_a_call_that_waits_no_more_is_not_answered_again(self, session: Session) -> None:
        session.append(asks("c1"))
        child = session.spawn(call_id="c1")
        session.repair()

        with pytest.raises(NotFound):
            child.finish("too late")
        assert (session.head, session.pending) == (2, [])

    def test_a_child_of_no_call_has_nobody_to_answer(self, store: Store, session: Session) -> None:
        for one in (session, session.spawn("search")):
            with pytest.raises(InvalidArgument, match="call_id"):
                one.finish("done")

    def test_a_parent_put_away_is_not_answered(self, store: Store, session: Session) -> None:
        session.append(asks("c1"))
        child = session.spawn(call_id="c1")
        store.archive(session)

        with pytest.raises(NotActive):
            child.finish("done")

    # -- refusals --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("status", ["archive", "trash"])
    def test_a_session_put_away_spawns_nothing(self, store: Store, session: Session, status: str) -> None:
        getattr(store, status)(session)
        with pytest.raises(NotActive):
            session.spawn("search")

        assert session.children() == []

    @pytest.mark.parametrize(
        "refused",
        [
            lambda s: s.spawn(lifecycle="immortal"),
            lambda s: s.spawn(lifecycle=None),
            lambda s: s.spawn(7),
            lambda s: s.spawn(model=7),
            lambda s: s.spawn(meta=[1]),
            lambda s: s.spawn(key=""),
            lambda s: s.spawn(call_id=""),
            lambda s: s.spawn(call_id="c" * 513),
        ],
    )
    def test_a_child_that_cannot_be_right_is_not_made(self, session: Session, refused: Callable[[Any], object]) -> None:
        with pytest.raises(ThreadlineError):
            refused(session)

        assert session.children() == []

    # -- lifecycles ------------------------------------------------------------------------------------

    def test_an_ephemeral_child_is_gone_when_its_block_ends(self, store: Store, session: Session) -> None:
        with session.spawn("search", lifecycle="ephemeral") as child:
            child.append("hi")
            child.record_usage(input=5)
            assert child.info.lifecycle == "ephemeral"

        assert session.children() == []
        with pytest.raises(NotFound):
            store.get(str(child.id))
        assert session.usage().input == 5

    def test_an_ephemeral_child_is_gone_when_its_block_fails(self, session: Session) -> None:
        with pytest.raises(ZeroDivisionError), session.spawn(lifecycle="ephemeral"):
            raise ZeroDivisionError

        assert session.children() == []

    def test_an_ephemeral_child_may_be_deleted_in_its_block(self, store: Store, session: Session) -> None:
        with session.spawn(lifecycle="ephemeral") as child:
            store.delete(child)

        assert session.children() == []

    @pytest.mark.parametrize("lifecycle", ["linked", "detached"])
    def test_any_other_child_stays_when_its_block_ends(self, session: Session, lifecycle: str) -> None:
        with session.spawn(lifecycle=lifecycle) as child:
            child.append("hi")

        assert [left.id for left in session.children()] == [child.id]

    def test_any_session_stays_when_its_block_ends(self, store: Store) -> None:
        with store.session("k") as session:
            session.append("hi")

        assert session.head == 1
