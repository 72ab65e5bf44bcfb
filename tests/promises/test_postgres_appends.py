"""The short way of an append gives the same answers as the long one, whatever speaks for or against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import threadline
from threadline import Lease, Session, Store, ThreadlineError
from threadline.backends.postgres import appends


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The statements by which appends went."""
    taken: list[bytes] = []
    call = appends.call

    def noted(connection: Any, name: bytes, values: Any) -> list[int]:
        taken.append(name)
        return call(connection, name, values)

    monkeypatch.setattr(appends, "call", noted)
    return taken


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with threadline.open(postgres_url) as store:
        yield store


def warmed(session: Session) -> Session:
    """One whose opening words are known to the store: its appends go the short way from now on."""
    session.append("opening")
    session.append("more")
    return session


def root(store: Store) -> Session:
    session = warmed(store.session("k"))
    session.append("known", key="known")
    return session


def fork(store: Store) -> Session:
    """It shares the first key of its origin, and has one of its own; the second came after it."""
    origin = root(store)
    forked = warmed(origin.fork())
    origin.append("late", key="late")
    return forked


def redacted(store: Store) -> Session:
    session = root(store)
    session.redact(3, "why")
    return session


def archived(store: Store) -> Session:
    session = root(store)
    store.archive(session)
    return session


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

CASES: dict[str, tuple[Callable[[Store], Session], Callable[[Session], Any]]] = {
    "a new key": (root, lambda s: s.append("new", key="new")),
    "a known key": (root, lambda s: s.append("known", key="known")),
    "a known key for other content": (root, lambda s: s.append("other", key="known")),
    "a known key of what a fork shares": (fork, lambda s: s.append("known", key="known")),
    "the same for other content": (fork, lambda s: s.append("other", key="known")),
    "a key that the origin used after the fork": (fork, lambda s: s.append("late", key="late")),
    "a key whose entry is redacted": (redacted, lambda s: s.append("known", key="known")),
    "the same for other content, redacted": (redacted, lambda s: s.append("other", key="known")),
    "a new key where something is redacted": (redacted, lambda s: s.append("new", key="new")),
    "what is expected": (root, lambda s: s.append("new", expect=3)),
    "what is not expected": (root, lambda s: s.append("new", expect=2)),
    "what is not expected, with a key": (root, lambda s: s.append("new", key="new", expect=2)),
    "a known key, whatever is expected": (root, lambda s: s.append("known", key="known", expect=1)),
    "an archived session": (archived, lambda s: s.append("new")),
    "an archived session and a new key": (archived, lambda s: s.append("new", key="new")),
    "an archived session and a known key": (archived, lambda s: s.append("known", key="known")),
    "a moment long ago": (root, lambda s: s.append("new", key="new", at=LONG_AGO)),
    "a note": (root, lambda s: s.note({"n": 1}, key="new")),
}


def outcome(call: Callable[[], Any]) -> tuple[object, ...]:
    try:
        entry = call()
    except ThreadlineError as error:
        return type(error), str(error).partition(" (")[0]
    return entry.seq, entry.key, entry.message, entry.data


@pytest.mark.parametrize("name", CASES)
def test_both_ways_give_the_same_answer(store: Store, ways: list[bytes], name: str) -> None:
    made, call = CASES[name]
    session = made(store.within("short"))
    del ways[:]
    short = outcome(lambda: call(session))
    assert ways[:1] == [b"append"]

    other = store.within("long")
    same = made(other)
    other._backend._seen.clear()  # type: ignore[attr-defined]
    del ways[:]
    long = outcome(lambda: call(same))
    assert ways[:1] == [b"write"]

    assert [str(part).replace(session.id, "") for part in short] == [str(part).replace(same.id, "") for part in long]
    assert (session.head, len(session.messages())) == (same.head, len(same.messages()))
    assert store.verify().problems == []


def test_a_lease_counts_on_the_short_way_too(store: Store, ways: list[bytes]) -> None:
    session = root(store)
    del ways[:]
    with session.lease("worker") as lease:
        assert session.append("mine", lease=lease).seq == 4
        assert session.append("mine", lease=lease, key="with a key").seq == 5
        with pytest.raises(threadline.LeaseHeld):
            session.append("not mine")
        with pytest.raises(threadline.LeaseHeld):
            session.append("not mine", key="new")
        assert session.append("known", key="known").seq == 3
    with pytest.raises(threadline.LeaseLost):
        session.append("mine", lease=lease)
    assert session.append("free again").seq == 6

    assert set(ways) == {b"append"}
    assert isinstance(lease, Lease)
    assert store.verify().problems == []
