"""An append that knows the head row from the append before writes what it would have written after reading it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import threadline
from threadline import LeaseHeld, NotActive, NotFound, Session, Store
from threadline.backends.backend import Ref, Target, Written
from threadline.backends.sqlite import leases, transactions
from threadline.backends.sqlite.rows import Connection
from threadline.backends.sqlite.writers import Job
from threadline.pen import Pen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def session(path: Path) -> Session:
    session = threadline.open(path).new(key="k")
    session.append("first")
    return session


def is_whole(session: Session) -> bool:
    found = session._store.verify()
    return found.ok and [entry.seq for entry in session.entries()] == [*range(1, session.head + 1)]


def test_a_lone_append_after_another_does_not_read_the_head_row(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "head_of", None)  # whoever reads it now fails

    assert session.append("second").seq == 2
    monkeypatch.undo()
    assert is_whole(session)


def test_what_another_process_appended_counts(session: Session, path: Path) -> None:
    with threadline.open(path) as other:  # its connections are others, as in another process
        other.session("k").append("second, by another")

    assert session.append("third").seq == 3
    assert is_whole(session)


def test_a_lease_that_was_taken_since_counts(session: Session) -> None:
    session.lease("somebody")

    with pytest.raises(LeaseHeld):
        session.append("second")


def test_a_lease_counts_also_after_a_call_that_wrote_nothing(session: Session) -> None:
    session.append("second", key="once")
    session.lease("somebody")
    session.append("second", key="once")

    with pytest.raises(LeaseHeld):
        session.append("third")


def test_a_status_that_was_set_since_counts(session: Session) -> None:
    session._store.archive(session)

    with pytest.raises(NotActive):
        session.append("second")


def test_a_change_in_the_same_transaction_counts(session: Session) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    session.update(system="Be brief.", at=moment)  # an entry, then what is said of the session
    changed_at = session.info.updated_at
    session.append("third", at=moment)

    assert session.info.updated_at > changed_at
    assert is_whole(session)


def test_what_was_rolled_back_is_not_known(session: Session) -> None:
    batch = session.batch()
    batch.append("never stored")
    batch.rewind(99)
    with pytest.raises(NotFound):
        batch.commit()

    assert session.append("second").seq == 2
    assert is_whole(session)


def test_what_was_rolled_back_after_the_head_moved_is_not_known(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "Written", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        session.append("never stored", key="once")
    monkeypatch.undo()
    session.append("first of all", key="other")

    assert session.append("third").seq == 3
    assert is_whole(session)


def test_two_sessions_in_turns_are_not_taken_for_each_other(session: Session) -> None:
    store: Store = session._store
    other = store.new()

    assert [s.append("and so on").seq for s in (other, session, other, session)] == [1, 2, 2, 3]
    assert is_whole(session)


def leased(connection: Connection, ref: Ref) -> None:
    leases.take(connection, ref, "somebody", 60_000_000)


def appended(connection: Connection, ref: Ref) -> Written:
    return transactions.write(connection, Target(ref), (Pen().append(("second",)),), None)


def test_what_another_thread_does_in_the_same_transaction_counts(session: Session) -> None:
    ref = session._made()
    group = [Job(leased, (ref,)), Job(appended, (ref,))]
    session._backend._commit(group)  # type: ignore[attr-defined]

    assert [type(job.error) for job in group] == [type(None), LeaseHeld]


def test_what_an_operation_did_before_it_writes_counts(session: Session) -> None:
    def both(connection: Connection, ref: Ref) -> None:
        leased(connection, ref)
        appended(connection, ref)

    with pytest.raises(LeaseHeld):
        session._backend._submit(both, session._made())  # type: ignore[attr-defined]
