"""Behind a pooler in transaction mode a store keeps its promises, though every call may meet another connection.

The pooler is our own; and PgBouncer, in both of its modes, where it is installed."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

import threadline
from threadline import KeyReused, LeaseHeld, Message, Stale, Store, ToolCall
from threadline.testing import pgbouncer
from threadline.testing.pgbouncer import PgBouncer
from threadline.testing.pooler import Pooler

CONNECTIONS = {"ours": 3, "transaction": 3, "session": 20}  # in session mode a client keeps its own
KINDS = [*CONNECTIONS] if pgbouncer.installed() else ["ours"]


@pytest.fixture(params=KINDS)
def pooler(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Pooler | PgBouncer]:
    given, kind = psycopg.conninfo.conninfo_to_dict(postgres_url), str(request.param)
    server, database = Path(str(given["host"])), str(given["dbname"])
    with tempfile.TemporaryDirectory() as folder:
        if kind == "ours":
            with Pooler(Path(folder), server, database, connections=CONNECTIONS[kind]) as ours:
                yield ours
        else:
            with PgBouncer(Path(folder), server, mode=kind, connections=CONNECTIONS[kind]) as theirs:
                yield theirs


@pytest.fixture
def url(pooler: Pooler | PgBouncer, postgres_url: str) -> str:
    if isinstance(pooler, Pooler):
        return pooler.url
    return pooler.url(str(psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with threadline.open(url) as store:
        yield store


def test_a_session_lives_its_whole_life_behind_a_pooler(store: Store, pooler: Pooler | PgBouncer) -> None:
    session = store.session("k", tags=["red"])
    for n in range(10):
        session.extend([f"q{n}", Message.assistant(f"a{n}")], key=f"turn {n}", usage={"input": 1})
    assert session.extend(["q3", Message.assistant("a3")], key="turn 3")[0].seq == 7
    with pytest.raises(KeyReused):
        session.append("other", key="turn 3")
    with pytest.raises(Stale):
        session.append("late", expect=1)
    session.compact("so far", keep_turns=2)
    session.append(Message.assistant(None, ToolCall("c1", "search", {})))
    child = session.spawn("sub", call_id="c1")
    child.append("large " * 2_000)
    child.finish("found")
    fork = session.fork()
    fork.rewind(4)
    with session.lease("worker") as lease:
        session.append("mine", lease=lease)
        with pytest.raises(LeaseHeld):
            session.append("not mine")
    session.enqueue("waiting")
    session.take()
    session.set_state({"n": 1})
    session.redact(1, "why")

    assert store.verify().problems == []
    assert session.usage().requests == 10
    assert store.search("found")
    assert store.erase(session, cascade=True).sessions
    assert store.stats()["sessions"] == 0
    assert isinstance(pooler, PgBouncer) or pooler.switches > 10


def test_many_writers_share_a_few_connections(store: Store) -> None:
    def write(name: str) -> None:
        session = store.session("shared")
        for n in range(25):
            session.append(f"{name}{n}", key=f"{name}{n}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, "abcdefgh"))

    session = store.session("shared")
    assert session.head == 200
    assert sorted(session.messages(), key=lambda m: m.text) == sorted(
        (Message.user(f"{name}{n}") for name in "abcdefgh" for n in range(25)), key=lambda m: m.text
    )
    assert store.verify().problems == []


def test_drafts_and_followers_work_without_being_told(store: Store, postgres_url: str) -> None:
    """What a pooler does not pass on is found by looking."""
    session = store.session("k")
    session.append("one")
    follow = session.follow(after=1, timeout=20)
    with session.draft() as draft:
        draft.write("streamed")
        draft.flush()
        assert [(d.text, d.interrupted) for d in session.drafts] == [("streamed", False)]
        draft.finish()
    with threadline.open(postgres_url) as other:
        other.session("k").append("from elsewhere")

    assert [next(follow).seq, next(follow).seq] == [2, 3]
    assert [message.text for message in session.messages()] == ["one", "streamed", "from elsewhere"]


def test_a_pooler_is_noticed_and_nothing_is_left_behind_on_its_connections(
    url: str, postgres_url: str, postgres_schema: psycopg.Connection
) -> None:
    """A prepared statement would be met by others, under a name that they gave to another one; and a lock of a session
    that nobody ends would tell everybody for ever that somebody follows."""
    left = """SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
              WHERE  l.locktype = 'advisory' AND d.datname = current_database()"""
    with threadline.open(url) as store:
        session = store.session("k")
        session.append("one")
        follow = session.follow(after=1, timeout=20)
        threading.Timer(0.2, lambda: session.append("two")).start()
        assert next(follow).seq == 2
        assert named(store) == []
        assert postgres_schema.execute(left).fetchone() == (0,)
        with threadline.open(postgres_url) as near:
            assert (pooled(store), pooled(near)) == ({True}, {False})


def named(store: Any) -> list[object]:
    """The statements that are prepared on its connections."""
    connection = store._backend._pool.take()
    try:
        return list(connection.execute("SELECT name FROM pg_prepared_statements", prepare=False).fetchall())
    finally:
        store._backend._pool.give(connection)


def pooled(store: Any) -> set[bool]:
    return {connection.pooled for connection in store._backend._pool._all}
