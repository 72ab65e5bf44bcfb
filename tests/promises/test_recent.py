"""What a connection remembers of the rows that it read is never what the store no longer holds."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import threadline
from threadline import Message, Session, Store
from threadline.backends.sqlite import recent
from threadline.backends.sqlite.backend import SqliteBackend


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def store(path: Path) -> Store:
    return threadline.open(path)


def filled(store: Store, entries: int = 40) -> Session:
    session = store.new()
    session.extend([Message.user(f"message {n}") for n in range(1, entries + 1)])
    return session


def told(session: Session) -> list[str]:
    return [message.text for message in session.view(last=20).messages]


def test_a_tail_is_read_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = filled(store)
    context, view = session.context(max_messages=20), told(session)
    monkeypatch.setattr(recent.RecentLog, "_looked_up", None)  # whoever looks up a row now fails

    assert told(session) == view
    assert session.context(max_messages=20) == context


def test_of_a_tail_that_grew_only_the_new_rows_are_looked_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session, looked_up = filled(store), []
    told(session)
    session.append("another")
    real = recent.RecentLog._looked_up

    def counted(self: recent.RecentLog, connection: apsw.Connection, log: int, low: int, high: int) -> object:
        looked_up.append((low, high))
        return real(self, connection, log, low, high)

    monkeypatch.setattr(recent.RecentLog, "_looked_up", counted)

    assert told(session)[-2:] == ["message 40", "another"]
    assert looked_up == [(41, 41)]


def test_what_another_process_changes_is_seen_at_once(store: Store, path: Path) -> None:
    session = filled(store)
    told(session)
    with apsw.Connection(str(path)) as other:
        other.execute("UPDATE entry SET body = x'7b7d' WHERE seq = 39")

    assert session.view(last=20).damaged == (39,)


def test_what_this_process_changes_is_seen_at_once(store: Store) -> None:
    session = filled(store)
    told(session)
    backend = session._backend
    assert isinstance(backend, SqliteBackend)

    backend._submit(lambda connection: connection.execute("UPDATE entry SET body = x'7b7d' WHERE seq = 39"))

    assert session.view(last=20).damaged == (39,)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_was_redacted_is_told_no_more(store: Store, path: Path, elsewhere: bool) -> None:
    session = filled(store)
    told(session)
    session.context(max_messages=20)
    (threadline.open(path) if elsewhere else store).get(str(session.id)).redact(39, "a secret")

    assert "message 39" not in told(session)
    assert "message 39" not in [message.text for message in session.context(max_messages=20).messages]


def test_damage_is_never_remembered_as_whole(store: Store, path: Path) -> None:
    session = filled(store)
    with apsw.Connection(str(path)) as other:
        other.execute("UPDATE entry SET body = x'7b7d' WHERE seq = 39")
        other.execute("DELETE FROM entry WHERE seq = 35")

    for _ in range(2):
        assert session.view(last=20).damaged == (35, 39)


def test_a_fork_reads_its_parents_rows_as_its_own(store: Store) -> None:
    session = filled(store)
    told(session)
    fork = session.fork(30)
    fork.append("another way")

    assert told(fork) == [*(f"message {n}" for n in range(12, 31)), "another way"]
    assert {entry.session for entry in fork.view(last=20).entries} == {fork.id}


def test_of_many_logs_the_latest_are_remembered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "ROWS_BYTES", 10_000)
    sessions = [filled(store) for _ in range(20)]
    for session in sessions:
        told(session)
    backend = store._backend
    assert isinstance(backend, SqliteBackend)

    kept = [log for each in backend._recents.values() for log in each._logs.values()]

    assert 0 < sum(len(row.body) for log in kept for row in log.values()) <= 10_000
    assert [told(session) for session in sessions] == [told(sessions[0])] * 20
