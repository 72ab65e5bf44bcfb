"""The search index on a server: brought up to date by many at once, it equals a rebuild; what is deleted meanwhile
stays out of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import psycopg
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
