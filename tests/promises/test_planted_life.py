"""Damage that is planted in leases, inboxes and drafts is found by `verify`, and never read as if it were whole."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

import threadline
from threadline import Damaged, Session


@pytest.fixture
def lived_in(path: Path) -> Path:
    with threadline.open(path) as store:
        session = store.new(id="x")
        session.append("hi")
        session.set_state({"n": 1})
        for n in range(3):
            session.enqueue(f"waiting {n}", key=f"k{n}")
        d = session.draft()
        for text in ("one ", "two ", "three"):
            d.write(text)
            d.flush()
        d.let_go()
        session.lease("worker", ttl=3_600)
        assert store.verify().ok
    return path


def vandalise(path: Path, statement: str) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(statement)
        assert connection.changes()


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE head SET queued = queued + 1", "its inbox holds 3 messages, and its head row says 4"),
        ("UPDATE head SET lease = CAST(replace(lease, 'worker', 'walker') AS BLOB)", "its lease cannot be read"),
        ("UPDATE head SET lease = x'00'", "its lease cannot be read"),
        ("UPDATE inbox SET body = CAST(replace(body, 'waiting', 'shouting') AS BLOB)", "a message in its inbox"),
        ("UPDATE inbox SET at = at + 1 WHERE number = 2", "a message in its inbox does not match its seal"),
        ("DELETE FROM inbox WHERE number = 2", "its inbox holds 2 messages, and its head row says 3"),
        ("UPDATE inbox SET session = 99 WHERE number = 3", "1 messages in the inbox of no session"),
        ("UPDATE draft SET role = CAST('user' AS BLOB)", "a draft does not match its seal"),
        ("UPDATE draft SET writer = CAST('0123456789abcdef' AS BLOB)", "a draft does not match its seal"),
        ("UPDATE draft SET session = 99", "1 drafts of no session"),
        (
            "UPDATE chunk SET text = CAST('five ' AS BLOB) WHERE number = 2",
            "a piece of a draft does not match its seal",
        ),
        ("DELETE FROM chunk WHERE number = 2", "a piece of a draft is missing"),
        ("DELETE FROM draft", "3 pieces of no draft"),
    ],
)
def test_planted_damage_is_found_and_named(lived_in: Path, statement: str, found: str) -> None:
    vandalise(lived_in, statement)
    with threadline.open(lived_in) as store:
        problems = store.verify().problems

    assert [problem for problem in problems if problem.what.startswith(found)], problems
    assert {problem.session for problem in problems} <= {"x", None}


@pytest.mark.parametrize(
    ("statement", "reading"),
    [
        ("UPDATE inbox SET body = CAST(replace(body, 'waiting', 'shouting') AS BLOB)", lambda s: s.queued()),
        ("UPDATE inbox SET body = CAST(replace(body, 'waiting', 'shouting') AS BLOB)", lambda s: s.take(lease=None)),
        ("UPDATE draft SET role = CAST('user' AS BLOB)", lambda s: s.drafts),
        ("UPDATE chunk SET text = CAST('five ' AS BLOB) WHERE number = 2", lambda s: s.drafts),
        ("DELETE FROM chunk WHERE number = 2", lambda s: s.drafts),
        ("DELETE FROM chunk WHERE number = 2", lambda s: s.repair()),
        ("UPDATE head SET lease = CAST(replace(lease, 'worker', 'walker') AS BLOB)", lambda s: s.append("hi")),
    ],
)
def test_damage_is_never_read_as_if_it_were_whole(lived_in: Path, statement: str, reading: object) -> None:
    vandalise(lived_in, statement)
    with threadline.open(lived_in) as store:
        session = store.get("x")
        with pytest.raises(Damaged):
            reading(session)  # type: ignore[operator]

        assert still_there(session)


def still_there(session: Session) -> bool:
    """A damaged lease, inbox or draft hides neither the session nor its log."""
    return [message.text for message in session.messages()] == ["hi"] and session.info.id == "x"
