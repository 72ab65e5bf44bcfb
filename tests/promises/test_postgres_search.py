"""The search index on a server: brought up to date by many at once, it equals a rebuild; what is deleted meanwhile
stays out of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import psycopg
import pytest
from processes import at_once

import threadline
from threadline import Message


def contents(url: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = "SELECT tree, log, seq, terms, words::text FROM threadline.search ORDER BY 1, 2, 3"
        return connection.execute(rows).fetchall()


def _work(url: str, n: int) -> int:
    with threadline.open(url, durability="relaxed") as store:
        session = store.session(f"writer {n}", title=f"of {n}")
        for i in range(6):
            session.append(Message.assistant(f"giraffe {n} {i}"))
            store.search("giraffe")
            gone = store.new()
            gone.append("okapi")
            store.delete(gone)
        return len(store.search("giraffe", limit=1_000))


def test_many_bring_it_up_to_date_at_once(postgres_url: str) -> None:
    with threadline.open(postgres_url, durability="relaxed") as store:
        origin = store.new()
        origin.extend(["zebra", "lion", "giraffe"])
        origin.fork(2).append("zebra again")
        store.delete(origin)

    counts = at_once(*(partial(_work, postgres_url, n) for n in range(3)))

    assert max(counts) == 18
    with threadline.open(postgres_url, durability="relaxed") as store:
        assert store.search("okapi", trashed=True) == []
        assert len(store.search("zebra")) == 2
        assert len(store.search("giraffe", limit=100)) == 18
        before = contents(postgres_url)
        store.index(rebuild=True)
    assert contents(postgres_url) == before


def test_what_is_indexed_is_not_looked_at_again(postgres_url: str) -> None:
    """Once all is known, only what changed since is looked at: not every session of the store, at every search."""
    with threadline.open(postgres_url, durability="relaxed") as store:
        for n in range(3):
            store.new().append(f"giraffe {n}")
        store.search("giraffe")

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        ((known, now),) = connection.execute("SELECT at, threadline.clock() FROM threadline.search_state").fetchall()
    assert now - known < 600_000_000


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("DELETE FROM threadline.search WHERE seq = 2", 2),
        ("DELETE FROM threadline.search WHERE seq = 0", None),
        ("UPDATE threadline.search SET words = '''okapi'':1' WHERE seq = 1", 1),
        ("UPDATE threadline.search SET terms = terms + 1 WHERE seq = 2", 2),
        ("UPDATE threadline.search SET realm = 'elsewhere' WHERE seq = 602", 602),
        ("UPDATE threadline.search SET seq = 900 WHERE seq = 501", 501),
        (
            "INSERT INTO threadline.search SELECT tree, log, 700, realm, terms, words FROM threadline.search LIMIT 1",
            700,
        ),
    ],
)
def test_verify_compares_the_index_with_the_log(postgres_url: str, harm: str, told: int | None) -> None:
    with threadline.open(postgres_url, durability="relaxed") as store:
        session = store.new(id="zoo", title="animals")
        session.extend(["giraffe", "zebra", *(f"lion {n}" for n in range(600))])
        store.index()
        assert store.verify().ok
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(harm.encode())
        problems = store.verify().problems
        store.index(rebuild=True)

        assert (problems[0].session, problems[0].seq) == ("zoo", told)
        assert "threadline index --rebuild" in problems[0].what
        assert store.verify().ok


def test_an_index_that_lags_is_whole_and_documents_of_no_log_are_found(postgres_url: str) -> None:
    with threadline.open(postgres_url, durability="relaxed") as store:
        session = store.new(title="animals")
        session.extend(["giraffe", "zebra"])
        store.index()
        session.redact(1, "private")
        session.rename("plants")
        session.append("lion")
        session.fork(2).append("oak")
        lagging = store.verify().problems
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("UPDATE threadline.search SET log = 12345")

        assert lagging == []
        assert any("documents of no log" in problem.what for problem in store.verify().problems)
