"""The line to the server: slow, cut at any moment, dead without a word, or leading to another host."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

import threadline
from threadline import Message, Session, StoreFailed, Uncertain
from threadline.backends.postgres.connections import DEAD_LINES, connect
from threadline.testing import scaled, seed
from threadline.testing.proxy import Proxy

SLOW_S = 0.02


@pytest.fixture
def server(postgres_url: str) -> Path:
    """The folder of its socket."""
    return Path(str(psycopg.conninfo.conninfo_to_dict(postgres_url)["host"]))


@pytest.fixture
def database(postgres_url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"])


@pytest.fixture
def proxy(server: Path) -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory() as folder, Proxy(Path(folder), server) as proxy:
        yield proxy


def told(session: Session) -> list[str]:
    return [message.text for message in session.messages()]


# -- slow ----------------------------------------------------------------------------------------------


def test_over_a_slow_line_everything_works_and_an_append_waits_for_one_round_trip(proxy: Proxy, database: str) -> None:
    with threadline.open(proxy.url(database)) as store:
        session = store.session("k")
        session.append("warm")
        session.append("warm")
        proxy.delay_s = SLOW_S
        begin = time.monotonic()
        session.append("slow")
        took_s = time.monotonic() - begin
        session.extend(["a", Message.assistant("b")], key="once")
        session.compact("so far", upto=3)
        session.fork().append("elsewhere")
        with session.draft() as draft:
            draft.write("streaming")
            draft.finish()
        proxy.delay_s = 0.0

        assert 2 * SLOW_S <= took_s < 4 * SLOW_S + 0.5
        assert told(session) == ["so far", "a", "b", "streaming"]
        assert store.verify().problems == []


def test_writers_of_different_sessions_do_not_wait_for_each_other_on_a_slow_line(proxy: Proxy, database: str) -> None:
    with threadline.open(proxy.url(database)) as store, ThreadPoolExecutor(8) as threads:
        sessions = [store.session(f"k{n}") for n in range(8)]
        list(threads.map(lambda session: [session.append("warm") for _ in range(2)], sessions))
        proxy.delay_s = 0.1
        begin = time.monotonic()
        list(threads.map(lambda session: session.append("at once"), sessions))
        took_s = time.monotonic() - begin
        proxy.delay_s = 0.0

    assert took_s < 8 * 0.2  # one after the other they would need that


# -- cut -----------------------------------------------------------------------------------------------


def test_what_has_a_key_survives_a_line_that_is_cut_again_and_again(proxy: Proxy, database: str) -> None:
    """Nothing acknowledged is lost, nothing is stored twice, and whoever got no answer calls again."""
    dice = Random(f"{seed()} cuts")
    with threadline.open(proxy.url(database)) as store:
        session = store.session("k")
        session.append("first", key="first")
        proxy.cuts = lambda: dice.random() < 0.04

        def write(name: str) -> int:
            again = 0
            for n in range(scaled(40)):
                while True:
                    try:
                        session.append(f"{name}{n}", key=f"{name}{n}")
                        break
                    except (Uncertain, StoreFailed):
                        again += 1
            return again

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(write, "abcd"))
        proxy.cuts = lambda: False

        said = told(session)
        assert sorted(said) == sorted(["first", *(f"{name}{n}" for name in "abcd" for n in range(scaled(40)))])
        for name in "abcd":
            assert [text for text in said if text[0] == name and text != "first"] == [
                f"{name}{n}" for n in range(scaled(40))
            ]
        assert store.verify().problems == []


def test_a_follower_goes_on_over_a_line_that_is_cut(proxy: Proxy, database: str, postgres_url: str) -> None:
    dice = Random(f"{seed()} follower")
    entries = scaled(30)
    with threadline.open(postgres_url) as near, threadline.open(proxy.url(database)) as far:
        session = near.session("k")
        session.append("0")
        got: list[int] = []

        def follow() -> None:
            following = far.session("k")
            while not got or got[-1] <= entries:
                try:
                    for entry in following.follow(after=got[-1] if got else 0, timeout=30):
                        got.append(entry.seq)
                        if entry.seq > entries:
                            return
                except StoreFailed:
                    continue

        thread = threading.Thread(target=follow)
        thread.start()
        proxy.cuts = lambda: dice.random() < 0.03
        for n in range(entries):
            session.append(str(n))
            time.sleep(0.005)
        thread.join(60)
        proxy.cuts = lambda: False

    assert got == [*range(1, entries + 2)]


# -- another host --------------------------------------------------------------------------------------


def test_a_store_goes_on_with_the_next_host_when_one_is_gone(server: Path, database: str) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two, Proxy(Path(two), server) as second:
        url = f"postgresql://postgres@/{database}?host={one},{two}&target_session_attrs=read-write"
        with Proxy(Path(one), server) as first:
            store = threadline.open(url)
            session = store.session("k")
            session.append("by the first", key="1")
            assert (first.trips > 0, second.trips) == (True, 0)
        session.append("by the second", key="2")
        session.append("unkeyed")

        assert second.trips > 0
        assert told(session) == ["by the first", "by the second", "unkeyed"]
        store.close()


def test_a_host_that_only_reads_is_passed_over(
    server: Path, database: str, postgres_schema: psycopg.Connection
) -> None:
    """As after a failover: the old primary is a standby now."""
    with tempfile.TemporaryDirectory() as folder, Proxy(Path(folder), server):
        url = f"postgresql://postgres@/{database}?host={folder}&target_session_attrs=read-write"
        postgres_schema.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        try:
            with pytest.raises(StoreFailed, match="no connection"):
                threadline.open(url)
        finally:
            postgres_schema.execute("SET default_transaction_read_only = off")
            postgres_schema.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
        with threadline.open(url) as store:
            assert store.session("k").append("now it writes").seq == 1


# -- dead without a word -------------------------------------------------------------------------------


def test_a_dead_line_is_given_up_after_a_while(postgres_url: str) -> None:
    """A host that vanishes says nothing. TCP asks after it; without these settings that begins after two hours."""
    idle, interval, count, timeout = (int(asked_of(postgres_url)[name]) for name in DEAD_LINES)

    assert idle + interval * count <= 120
    assert timeout <= 120_000


def test_a_setting_of_the_url_is_left_as_it_is(postgres_url: str) -> None:
    asked = asked_of(f"{postgres_url}&keepalives_idle=7&tcp_user_timeout=0")

    assert (asked["keepalives_idle"], asked["tcp_user_timeout"]) == ("7", "0")


def asked_of(url: str) -> dict[str, Any]:
    """The settings that a connection was made with."""
    with connect(url) as connection:
        return psycopg.conninfo.conninfo_to_dict(connection.info.dsn)


def test_a_server_that_accepts_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.backends.postgres.connections.CONNECT_TIMEOUT_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/x"
        begin = time.monotonic()
        with pytest.raises(StoreFailed, match="no connection"):
            threadline.open(url)

        assert time.monotonic() - begin < 20
