"""Any number of processes may write to one session on a server: nothing lost, nothing twice, no holes.

And who writes to different sessions never waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from processes import at_once

import threadline
from threadline import Message, Session, Stale, Store, ToolCall
from threadline.testing import scaled

PROCESSES = 6


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with threadline.open(postgres_url, durability="relaxed") as store:
        yield store


def together(url: str, work: Callable[[Session, int], Any]) -> list[Any]:
    """What each of several processes gave, each with a store of its own and the same session."""

    def alone(n: int) -> Any:
        with threadline.open(url, durability="relaxed") as store:
            return work(store.session("k"), n)

    return at_once(*(lambda n=n: alone(n) for n in range(PROCESSES)))  # type: ignore[misc]


def test_appends_of_many_processes_leave_no_hole(store: Store, postgres_url: str) -> None:
    each = scaled(20)
    seqs = together(postgres_url, lambda s, n: [s.append(f"{n}/{i}").seq for i in range(each)])

    assert sorted(seq for own in seqs for seq in own) == list(range(1, PROCESSES * each + 1))
    assert all(own == sorted(own) for own in seqs)
    assert store.verify().problems == []


def test_a_key_that_all_use_at_once_writes_once(store: Store, postgres_url: str) -> None:
    calls = scaled(10)
    seqs = together(
        postgres_url, lambda s, _: [s.extend([f"{i}", "and more"], key=f"key {i}")[0].seq for i in range(calls)]
    )

    assert len({tuple(own) for own in seqs}) == 1  # everybody was told of the same entries
    assert store.session("k").head == 2 * calls
    assert store.verify().problems == []


def test_single_appends_with_keys_of_their_own_and_with_the_same_leave_no_hole(store: Store, postgres_url: str) -> None:
    """From the third on they go the short way, which has a lock of its own."""
    each = scaled(20)

    def work(session: Session, n: int) -> list[tuple[int, int]]:
        return [
            (session.append(f"{n}/{i}", key=f"{n}/{i}").seq, session.append(f"all {i}", key=f"all {i}").seq)
            for i in range(each)
        ]

    found = together(postgres_url, work)
    own, shared = (
        [seq for one in found for seq, _ in one],
        {tuple(seq for _, seq in one) for one in found},
    )

    assert len(shared) == 1  # everybody was told of the same entries
    assert sorted([*own, *next(iter(shared))]) == list(range(1, (PROCESSES + 1) * each + 1))
    assert store.verify().problems == []


def test_of_those_who_expect_the_same_head_one_writes(store: Store, postgres_url: str) -> None:
    def work(session: Session, n: int) -> int:
        won = 0
        for head in range(scaled(10)):
            while session.head < head:  # somebody is about to write it
                pass
            try:
                session.append(f"{n}", expect=head)
                won += 1
            except Stale:
                continue
        return won

    assert sum(together(postgres_url, work)) == scaled(10) == store.session("k").head


def test_all_kinds_of_writes_at_once_leave_a_sound_log(store: Store, postgres_url: str) -> None:
    """Those that the server folds and those that Python folds, in each other's way."""

    def work(session: Session, n: int) -> int:
        for i in range(scaled(6)):
            name = f"{n}/{i}"
            session.append(Message.assistant(name, ToolCall(name, "t"), ToolCall("shared", "t")), key=name)
            session.rewind(i, key=f"{name} rewind") if n % 3 == 0 else session.append(Message.tool("shared", "done"))
            with session.batch() as batch:
                batch.append(Message.tool(name, "done"))
                if n % 2:
                    batch.clear()
                batch.note({"by": n})
        return n

    together(postgres_url, work)

    assert store.verify().problems == []


def test_writers_of_different_sessions_never_wait_for_each_other(
    store: Store, postgres_url: str, postgres_database: str, postgres_schema: psycopg.Connection
) -> None:
    """While somebody holds a session for ever: others, its forks, new sessions, listings and readers go on."""
    held = store.session("held")
    held.extend(["one", "two"])
    fork, other = held.fork(1), store.session("other")
    other.append("one")
    (name,) = postgres_schema.execute("SELECT current_database()").fetchone() or ("",)
    postgres_schema.execute(f"ALTER DATABASE {name} SET lock_timeout = '2s'")  # who waits, fails
    try:
        with threadline.open(postgres_url, durability="relaxed") as own, psycopg.connect(postgres_database) as blocker:
            blocker.execute("SELECT 1 FROM threadline.head WHERE session = %s FOR UPDATE", (held._made().number,))
            own.get(fork).append("in the same tree")
            own.get(fork).rewind(1)
            own.get(other).append("in another")
            own.session("new").append("made meanwhile")
            seen = [m.text for m in own.get(held).messages()], len(own.sessions().items), own.verify().problems
    finally:
        postgres_schema.execute(f"ALTER DATABASE {name} RESET lock_timeout")

    assert seen == (["one", "two"], 4, [])
