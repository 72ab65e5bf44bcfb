"""A primary dies and its standby takes over: a handle goes on with it, and what was acknowledged is there."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator

import psycopg
import pytest

import threadline
from threadline import Store, StoreFailed, Uncertain
from threadline.testing.postgres import Server

WRITERS = "abcd"


@pytest.fixture
def primary() -> Iterator[Server]:
    """It does not sync, but waits for its standby: what a dead primary would still know is nobody's business here."""
    settings = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "wal_level": "replica"}
    with warnings.catch_warnings(), Server(settings) as server:
        warnings.filterwarnings("ignore", message=".*can lose what it acknowledged", category=RuntimeWarning)
        yield server


@pytest.fixture
def standby(primary: Server) -> Iterator[Server]:
    with primary.standby() as standby:
        yield standby


def wait_for_standby(primary: Server) -> None:
    """From now on a commit is acknowledged when the standby has it, too."""
    with psycopg.connect(primary.url(), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        admin.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + 30
        while admin.execute("SELECT sync_state FROM pg_stat_replication").fetchone() != ("sync",):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def let_it_follow(primary: Server) -> None:
    """Until the standby has all that was written so far."""
    with psycopg.connect(primary.url(), autocommit=True) as admin:
        written = admin.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        reached = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= %s"
        until(lambda: admin.execute(reached, written).fetchone() == (1,))


def both(primary: Server, standby: Server) -> str:
    return f"postgresql://postgres@/postgres?host={primary.folder},{standby.folder}&target_session_attrs=read-write"


def test_a_handle_goes_on_with_the_promoted_standby_and_nothing_acknowledged_is_lost(
    primary: Server, standby: Server
) -> None:
    """Four writers, in the middle of their work when the primary is killed. One of them gives no keys: of what it was
    told to be uncertain it may find all or nothing."""
    with threadline.open(both(primary, standby)) as store:
        wait_for_standby(primary)
        writers = {name: Writer(store, name) for name in WRITERS}
        for writer in writers.values():
            writer.start()
        until(lambda: all(len(writer.acknowledged) >= 15 for writer in writers.values()))
        primary.kill()
        before = {name: len(writer.acknowledged) for name, writer in writers.items()}
        standby.promote()
        until(lambda: all(len(writers[name].acknowledged) >= before[name] + 15 for name in WRITERS))
        for writer in writers.values():
            writer.stop.set()
            writer.join()

        for name, writer in writers.items():
            stored = [message.text for message in store.session(name).messages()]
            assert [text for text in stored if text in writer.acknowledged] == writer.acknowledged
            assert set(stored) - set(writer.acknowledged) <= set(writer.uncertain)
            assert len(set(stored)) == len(stored)
        assert writers["a"].uncertain == []
        assert store.verify().problems == []


def test_without_waiting_for_the_standby_the_last_commits_may_be_lost(primary: Server, standby: Server) -> None:
    """That is why the test above means something: here the standby is behind when the primary dies."""
    with threadline.open(both(primary, standby)) as store:
        session = store.session("k")
        session.append("followed")
        let_it_follow(primary)
        standby.stop()
        session.append("acknowledged by one")
        primary.kill()
        standby.start()
        standby.promote()

        assert [message.text for message in session.messages()] == ["followed"]
        assert store.verify().problems == []


class Writer(threading.Thread):
    """Appends to a session of its own until it is told to stop. All but the last give keys, and call until it is
    done."""

    def __init__(self, store: Store, name: str) -> None:
        super().__init__()
        self.acknowledged: list[str] = []
        self.uncertain: list[str] = []
        self.stop = threading.Event()
        self._session = store.session(name)
        self._keyed = name != WRITERS[-1]

    def run(self) -> None:
        number = 0
        while not self.stop.is_set():
            text = f"{number}"
            try:
                self._session.append(text, key=text if self._keyed else None)
            except Uncertain:
                if not self._keyed:
                    self.uncertain.append(text)
                    number += 1
            except StoreFailed:  # there is no primary at this moment: nothing was written
                time.sleep(0.05)
            else:
                self.acknowledged.append(text)
                number += 1


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_standby_is_read_while_it_follows(primary: Server, standby: Server) -> None:
    """verify and reports need not burden the primary; and a store that would write says which server it met."""
    with threadline.open(primary.url()) as store:
        wait_for_standby(primary)
        with psycopg.connect(primary.url(), autocommit=True) as admin:
            admin.execute("ALTER DATABASE postgres SET synchronous_commit = remote_apply")
        with threadline.open(primary.url()) as applied:
            applied.session("k").append("hello")
        with threadline.open(standby.url(), read_only=True) as reading:
            assert [message.text for message in reading.session("k").messages()] == ["hello"]
            assert reading.verify().problems == []
        with threadline.open(standby.url()) as writing, pytest.raises(StoreFailed, match="only reads"):
            writing.session("k").append("refused")
        assert store.session("k").head == 1
