"""One session of a name, whoever makes it and whoever dies or loses a race on the way.

Names are reserved before a session is made, in a transaction of their own. So a reservation may stay behind without a
session, and each way that can happen is tried here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from processes import at_once

import threadline
from threadline import Conflict, NotFound, Session, Stale, Store
from threadline.backends.backend import NewSession
from threadline.backends.postgres import founding, places
from threadline.backends.postgres.places import Place
from threadline.core.about import About


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with threadline.open(postgres_url, durability="relaxed") as store:
        yield store
        assert store.verify().problems == []


def new(id: str, key: str | None = None, salt: bytes = b"") -> NewSession:
    return NewSession("", id, key, salt or id.encode().ljust(16, b"."), 1, About())


def reserve(connection: Any, wanted: NewSession, tree: bytes | None = None, *, fixed: bool = False) -> Place:
    """Reserve a place, and die."""
    place = places.place_of(wanted, tree or wanted.salt)
    return places.reserve(connection, wanted, place, fixed=fixed, spoiled=set())


def told(session: Session) -> list[str]:
    return [message.text for message in session.messages()]


def names(connection: psycopg.Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM threadline.name").fetchone() or (0,)
    return int(count)


# -- reservations that stayed behind -------------------------------------------------------------------


def test_a_reserved_key_without_a_session_is_no_session(store: Store, postgres_schema: psycopg.Connection) -> None:
    reserve(postgres_schema, new("dead", "k"))

    assert store.find("k") is None
    assert (store.session("k").id, store.session("k").messages()) == (None, [])
    assert list(store.sessions()) == []
    with pytest.raises(NotFound):
        store.get("dead")


def test_the_next_append_uses_the_reserved_place(store: Store, postgres_schema: psycopg.Connection) -> None:
    place = reserve(postgres_schema, new("dead", "k"))
    session = store.session("k", agent="a")
    session.append("hi")

    ref = session._made()
    assert (ref.id, ref.tree, ref.number) == ("dead", place.tree, place.session)
    assert (store.get("dead").info.agent, told(store.session("k"))) == ("a", ["hi"])


@pytest.mark.parametrize("key", [None, "k", "another"])
def test_a_reserved_id_can_still_be_had(store: Store, postgres_schema: psycopg.Connection, key: str | None) -> None:
    reserve(postgres_schema, new("x", "k"))
    store.new(id="x", key=key).append("hi")

    assert told(store.get("x")) == ["hi"]
    with pytest.raises(Conflict):
        store.new(id="x")


def test_a_reserved_key_can_still_be_had_with_another_id(store: Store, postgres_schema: psycopg.Connection) -> None:
    reserve(postgres_schema, new("dead", "k"))
    store.new(key="k").append("hi")

    assert told(store.session("k")) == ["hi"]
    with pytest.raises(Conflict):
        store.new(key="k")


def test_a_fork_may_have_a_name_that_was_reserved_in_another_tree(
    store: Store, postgres_schema: psycopg.Connection
) -> None:
    reserve(postgres_schema, new("x", "k"))
    origin = store.new()
    origin.append("shared")
    fork = origin.fork(id="x", key="k")
    fork.append("own")

    assert fork._made().tree == origin._made().tree
    assert (told(store.get("x")), told(store.session("k"))) == (["shared", "own"], ["shared", "own"])


def test_a_reserved_fork_can_be_had_as_a_session(store: Store, postgres_schema: psycopg.Connection) -> None:
    origin = store.new()
    origin.append("shared")
    reserve(postgres_schema, new("x", "k"), origin._made().tree, fixed=True)
    store.session("k").append("hi")

    assert told(store.get("x")) == ["hi"]
    assert origin.forks() == []


def test_what_is_refused_reserves_nothing(store: Store, postgres_schema: psycopg.Connection) -> None:
    with pytest.raises(Stale):
        store.session("k").append("hi", expect=3)
    with pytest.raises(NotFound):
        store.session("k").rewind(3)
    with pytest.raises(NotFound):
        store.new(id="x").fork(at=7, id="y")

    assert names(postgres_schema) == 1  # that of x


# -- races ---------------------------------------------------------------------------------------------


def test_many_processes_make_one_session_of_one_key(store: Store, postgres_url: str) -> None:
    def work() -> str:
        with threadline.open(postgres_url, durability="relaxed") as own:
            session = own.session("k")
            session.append("hi")
            return str(session.id)

    for attempt in range(3):
        ids = at_once(*([work] * 6))

        assert len(set(ids)) == 1
        assert len(told(store.session("k"))) == 6 * (attempt + 1)


def test_of_many_processes_one_makes_a_new_session(store: Store, postgres_url: str) -> None:
    """The same id, and keys of their own: those who lost left their keys reserved, and anybody may have them."""

    def make(n: int) -> bool:
        with threadline.open(postgres_url, durability="relaxed") as own:
            try:
                own.new(id="x", key=f"key {n}")
            except Conflict:
                return False
            return True

    made = at_once(*(lambda n=n: make(n) for n in range(6)))  # type: ignore[misc]
    for n in range(6):
        store.session(f"key {n}").append("hi")

    assert made.count(True) == 1
    assert [told(store.session(f"key {n}")) for n in range(6)] == [["hi"]] * 6
    assert len({store.session(f"key {n}").id for n in range(6)}) == 6


def test_a_slow_maker_whose_place_was_closed_makes_no_second_session(
    store: Store, postgres_schema: psycopg.Connection
) -> None:
    """It reserved, slept while a fork took the name, and wakes up."""
    slow = new("x")
    place = reserve(postgres_schema, slow)
    origin = store.new()
    origin.fork(id="x")

    def make(there: Place) -> None:
        assert there == place
        postgres_schema.execute(
            "INSERT INTO threadline.log VALUES (%s, %s, %s)", (there.tree, there.log, slow.salt)
        )  # what making it begins with

    with pytest.raises(psycopg.errors.UniqueViolation):
        make(place)
    with pytest.raises(places.Taken):
        founding.create(postgres_schema, False, slow)
    assert len(list(store.sessions())) == 2


def test_a_place_that_was_closed_by_somebody_who_died_holds_nobody_up(
    store: Store, postgres_schema: psycopg.Connection
) -> None:
    place = reserve(postgres_schema, new("x", "k"))
    places._close(postgres_schema, place)
    store.session("k").append("hi")
    store.new(id="x").append("ho")

    assert (told(store.session("k")), told(store.get("x"))) == (["hi"], ["ho"])
