"""Promise 13: while sessions are deleted, everybody else reads, writes and verifies as if they had never been."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event

import pytest

import threadline
from threadline import Conflict, Message, NotFound, Store
from threadline.testing import scaled, seed

ROUNDS = 150


@pytest.fixture(params=["file", "server"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[Store]:
    where = path if request.param == "file" else request.getfixturevalue("postgres_url")
    with threadline.open(where, durability="relaxed") as store:
        yield store


@pytest.fixture
def rounds(store: Store) -> int:
    """A server does much the same with many more round trips."""
    return scaled(ROUNDS if "SQLite" in store.stats()["engine"] else ROUNDS // 3)


def grown(store: Store, number: int) -> threadline.Session:
    """A session with a family, requests and keys, and with a past."""
    session = store.new(key=f"session-{number}")
    session.extend([f"{number} {i}" for i in range(40)], key="first", usage={"input": 40, "request_id": "r"})
    session.compact("so far", keep_turns=2)
    child = session.spawn("sub", call_id="c1", lifecycle="detached" if number % 3 == 0 else "linked")
    child.append(Message.assistant("hello"), usage={"output": 2})
    return session


def test_a_session_is_read_whole_or_is_gone(store: Store, rounds: int) -> None:
    """Readers hold no transaction between pages: a deletion may come in between."""
    stop = Event()

    def read(dice: Random) -> int:
        seen = 0
        while not stop.is_set():
            for info in store.sessions(limit=5):
                try:
                    session = store.get(info.id)
                    seqs = [entry.seq for entry in session.entries()]
                    view, family = session.view(), session.tree()
                except NotFound:
                    continue
                assert seqs == list(range(1, len(seqs) + 1))
                assert view.damaged == ()
                assert family.info.id == info.id
                seen += 1
        return seen

    def churn() -> None:
        for number in range(rounds):
            store.delete(grown(store, number))

    assert all(seen > 0 for seen in together(stop, churn, read))


def test_verify_blames_nobody_for_what_is_deleted_meanwhile(store: Store, rounds: int) -> None:
    stop = Event()

    def verify(dice: Random) -> int:
        rounds = 0
        while not stop.is_set():
            assert store.verify().problems == []
            rounds += 1
        return rounds

    def churn() -> None:
        for number in range(rounds):
            session = grown(store, number)
            fork = session.fork(20)
            store.delete(session)
            fork.append("still here")
            if number % 2:
                store.delete(fork)

    assert all(rounds > 0 for rounds in together(stop, churn, verify))
    assert store.verify().ok


def test_writers_and_deleters_at_once_leave_everything_in_order(store: Store, rounds: int) -> None:
    keys = [f"k{i}" for i in range(6)]

    def work(number: int) -> int:
        dice, refused = Random(f"{seed()} {number}"), 0
        for _ in range(rounds):
            session = store.session(dice.choice(keys))
            try:
                dice.choice(ACTS)(store, session, dice)
            except (NotFound, Conflict):  # somebody was quicker
                refused += 1
        return refused

    with ThreadPoolExecutor(6) as threads:
        refused = list(threads.map(work, range(6)))

    assert max(refused) < rounds
    assert store.verify().problems == []


Act = Callable[[Store, threadline.Session, Random], object]
ACTS: list[Act] = [
    lambda store, session, dice: session.append("hi", usage={"input": 1, "request_id": f"r{dice.randint(0, 9)}"}),
    lambda store, session, dice: session.extend(["a", "b"], key=f"key-{dice.randint(0, 9)}"),
    lambda store, session, dice: session.fork(key=f"k{dice.randint(0, 5)}"),
    lambda store, session, dice: session.spawn("sub", call_id=f"c{dice.randint(0, 2)}").append(
        "hi", usage={"output": 1}
    ),
    lambda store, session, dice: session.record_usage(input=dice.randint(0, 9), request_id=f"r{dice.randint(0, 9)}"),
    lambda store, session, dice: store.delete(session, cascade=dice.random() < 0.7),
    lambda store, session, dice: [store.delete(child) for child in session.children()[:1]],
    lambda store, session, dice: store.erase(session, cascade=dice.random() < 0.7),
    lambda store, session, dice: session.redact(dice.randint(1, 3), "why"),
]


def together(stop: Event, churn: Callable[[], None], watch: Callable[[Random], int]) -> list[int]:
    """One thread that makes and deletes, and two that watch until it is done."""
    with ThreadPoolExecutor(3) as threads:
        watching = [threads.submit(watch, Random(number)) for number in range(2)]
        try:
            threads.submit(churn).result()
        finally:
            stop.set()
        return [each.result() for each in watching]
