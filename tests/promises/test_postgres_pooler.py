"""Behind a pooler in transaction mode a store keeps its promises, though every call may meet another connection."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import threadline
from threadline import KeyReused, LeaseHeld, Message, Stale, Store, ToolCall
from threadline.testing.pooler import Pooler

CONNECTIONS = 3


@pytest.fixture
def pooler(postgres_url: str) -> Iterator[Pooler]:
    given = psycopg.conninfo.conninfo_to_dict(postgres_url)
    with (
        tempfile.TemporaryDirectory() as folder,
        Pooler(Path(folder), Path(str(given["host"])), str(given["dbname"]), connections=CONNECTIONS) as pooler,
    ):
        yield pooler


@pytest.fixture
def store(pooler: Pooler) -> Iterator[Store]:
    with threadline.open(pooler.url) as store:
        yield store


def test_a_session_lives_its_whole_life_behind_a_pooler(store: Store, pooler: Pooler) -> None:
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
    assert pooler.switches > 10


def test_many_writers_share_a_few_connections(store: Store, pooler: Pooler) -> None:
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
