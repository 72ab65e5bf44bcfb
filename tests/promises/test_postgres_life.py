"""Leases, drafts and followers on a server: what dies with its process, and what is told to whom."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from processes import at_once, exit_code, fork

import threadline
from threadline import Conflict, LeaseLost
from threadline.backends.postgres import changes
from threadline.backends.postgres.changes import FOLLOWED

PATIENCE_S = 30.0


def becomes(found: Callable[[], object], expected: object) -> bool:
    """Whether it is so after a while: a server hears of a death a moment later."""
    ends_at = time.monotonic() + PATIENCE_S
    while found() != expected:
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.01)
    return True


def test_a_writer_that_stands_still_is_not_gone_and_one_that_was_killed_is(postgres_url: str) -> None:
    reading, writing = os.pipe()

    def work() -> None:
        d = threadline.open(postgres_url).session("k").draft()
        d.write("a thought that is never")
        d.flush()
        os.write(writing, b"!")
        time.sleep(PATIENCE_S)

    pid = fork(work)
    os.read(reading, 1)
    os.kill(pid, signal.SIGSTOP)
    with threadline.open(postgres_url) as store:
        session = store.session("k")
        (draft,) = session.drafts
        assert (draft.text, draft.interrupted) == ("a thought that is never", False)
        with pytest.raises(Conflict):
            draft.keep()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

        assert becomes(lambda: session.drafts[0].interrupted, True)
        session.drafts[0].keep()
        assert [message.text for message in session.messages()] == ["a thought that is never"]


def test_a_claim_that_was_cut_is_taken_again(postgres_url: str, postgres_schema: psycopg.Connection) -> None:
    with threadline.open(postgres_url) as store:
        session = store.session("k")
        d = session.draft()
        d.write("before ")
        d.flush()
        postgres_schema.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in%'")
        assert becomes(lambda: session.drafts[0].interrupted, True)
        d.write("after")
        d.flush()

        assert [(draft.text, draft.interrupted) for draft in session.drafts] == [("before after", False)]
        d.finish()
        assert store.verify().problems == []


def test_a_claim_keeps_nothing_from_being_vacuumed(postgres_url: str, postgres_schema: psycopg.Connection) -> None:
    with threadline.open(postgres_url) as store:
        d = store.session("k").draft()
        d.write("so far")
        d.flush()
        claims = postgres_schema.execute(
            "SELECT backend_xmin, backend_xid FROM pg_stat_activity WHERE state = 'idle in transaction' "
            "AND datname = current_database()"
        ).fetchall()
        d.finish()

    assert claims == [(None, None)]


def test_many_processes_take_turns(postgres_url: str) -> None:
    """Read, think, write: only a lease keeps two of them from writing the same number."""

    def count_up(name: str) -> int:
        with threadline.open(postgres_url) as store:
            session = store.session("k")
            for _ in range(5):
                with session.lease(name, ttl=PATIENCE_S, wait=PATIENCE_S) as lease:
                    n = session.state.get("n", 0)
                    session.append(f"{name} saw {n}", lease=lease)
                    session.set_state({"n": n + 1}, lease=lease)
        return 0

    at_once(*(lambda name=name: count_up(name) for name in ("a", "b", "c")))

    with threadline.open(postgres_url) as store:
        assert store.session("k").state == {"n": 15}
        assert store.verify().problems == []


def test_a_lease_is_measured_by_the_clock_of_the_server(postgres_url: str, postgres_schema: psycopg.Connection) -> None:
    with threadline.open(postgres_url) as store:
        session = store.session("k")
        lease = session.lease("worker", ttl=3_600)
        (now,) = postgres_schema.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone() or (0,)
        assert abs(lease.until.timestamp() - float(now) - 3_600) < 60
        lease.release()
        with pytest.raises(LeaseLost):
            session.append("too late", lease=lease)


def test_takers_in_many_processes_get_each_message_once(postgres_url: str) -> None:
    with threadline.open(postgres_url) as store:
        for n in range(30):
            store.session("k").enqueue(f"m{n}", key=f"u{n}")

    def take() -> int:
        with threadline.open(postgres_url) as store:
            taken = 0
            while store.session("k").take() is not None:
                taken += 1
            return taken

    assert sum(at_once(take, take, take)) == 30
    with threadline.open(postgres_url) as store:
        assert [message.text for message in store.session("k").messages()] == [f"m{n}" for n in range(30)]
        assert store.verify().problems == []


def test_another_process_is_heard_and_followers_are_told_only_while_there_are_any(
    postgres_url: str, postgres_schema: psycopg.Connection
) -> None:
    followed = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objid = %s"

    def followers() -> object:
        return postgres_schema.execute(followed, (FOLLOWED & 0xFFFFFFFF,)).fetchone()

    def write() -> None:
        with threadline.open(postgres_url) as store:
            for n in range(20):
                store.session("k").append(f"m{n}")

    with threadline.open(postgres_url) as store:
        assert followers() == (0,)
        got: list[int] = []

        def follow() -> None:
            for entry in store.session("k").follow(timeout=PATIENCE_S):
                got.append(entry.seq)
                if entry.seq == 20:
                    return

        thread = threading.Thread(target=follow)
        thread.start()
        assert becomes(followers, (1,))
        assert exit_code(fork(write)) == 0
        thread.join()

        assert got == list(range(1, 21))
        assert becomes(followers, (0,))


def test_a_follower_is_woken_by_what_it_is_told_and_not_by_looking(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking is put off for ever: what comes, comes because another process said so."""

    def speak() -> None:
        with threadline.open(postgres_url) as store:
            store.session("k").append("two")

    monkeypatch.setattr(changes, "LOOK_S", 3_600.0)
    with threadline.open(postgres_url) as store:
        session = store.session("k")
        session.append("one")
        follow = session.follow(after=1, timeout=PATIENCE_S)
        asked = threading.Thread(target=lambda: got.append(next(follow).seq))
        got: list[int] = []
        asked.start()
        assert becomes(lambda: followers_of(postgres_url), 1)
        begin = time.monotonic()
        pid = fork(speak)
        asked.join()

        assert exit_code(pid) == 0
        assert got == [2]
        assert time.monotonic() - begin < PATIENCE_S


def followers_of(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objid = %s"
        (count,) = connection.execute(held, (FOLLOWED & 0xFFFFFFFF,)).fetchone() or (0,)
        return int(count)
