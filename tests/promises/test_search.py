"""The search index follows from the log: it always equals a rebuild, whoever brings it up to date and however that
ends, and nothing of what was deleted is left in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import at_once

import threadline
from threadline import Message, Store
from threadline.backends.sqlite import search as index
from threadline.testing import scaled, seed

WORDS = ["harbour", "boat", "giraffe", "zebra", "parse_config", "ParseConfig", "東京都", "café", "migration", "E1234"]


def contents(path: Path) -> list[Any]:
    """All that the index says, by what the documents are: their numbers differ from one making to the next."""
    connection = apsw.Connection(str(path))
    connection.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab (main, search, instance)")
    found = connection.execute(
        """SELECT v.term, s.log, s.part * 64 + v.doc % 64 FROM v JOIN search_stretch s ON s.stretch = v.doc / 64
           UNION ALL
           SELECT '', s.log * 1000000 + s.part * 64 + d.doc % 64, d.terms
           FROM search_doc d JOIN search_stretch s ON s.stretch = d.doc / 64
           UNION ALL SELECT '', docs, terms FROM search_state"""
    ).fetchall()
    connection.close()
    return sorted(found)


def indexed_anew(path: Path) -> list[Any]:
    with threadline.open(path) as store:
        store.index(rebuild=True)
        assert store.verify().problems == []
    return contents(path)


def write_something(store: Store, random: Random) -> None:
    known = list(store.sessions(root=False, status=None))
    act = random.randrange(10)
    if not known or act < 2:
        store.new(title=random.choice((None, " ".join(random.sample(WORDS, 2)))))
        return
    session = store.get(random.choice(known).id)
    if session.info.status != "active":
        store.restore(session)
    if act < 6:
        session.append(Message(random.choice(("user", "assistant")), session_text(random)))
    elif act == 6:
        session.rename(random.choice(WORDS))
    elif act == 7 and session.head:
        session.fork(random.randint(0, session.head)).append(random.choice(WORDS))
    elif act == 8:
        store.delete(session)
    else:
        store.search(random.choice(WORDS))


def session_text(random: Random) -> Any:
    size = random.choice((1, 3, 8, 2_000))
    return (threadline.Text(" ".join(random.choices(WORDS, k=size))),)


@pytest.mark.parametrize("n", range(scaled(2)))
def test_the_index_always_equals_a_rebuild(path: Path, n: int) -> None:
    random = Random(f"{seed()}-{n}")
    with threadline.open(path, durability="relaxed") as store:
        for _ in range(100):
            write_something(store, random)
        store.index()
        assert store.verify().problems == []

    found = contents(path)

    assert found == indexed_anew(path)


def test_an_index_that_lacks_something_is_seen(path: Path) -> None:
    with threadline.open(path) as store:
        store.new().extend(["giraffe", "zebra"])
        store.index()
        with store._backend._reading() as connection:  # type: ignore[attr-defined]
            connection.execute("DELETE FROM search_doc WHERE doc % 64 = 2")

        assert [problem for problem in store.verify().problems if "threadline index --rebuild" in problem.what]


def _catch_up(path: str, n: int) -> int:
    with threadline.open(path, durability="relaxed") as store:
        session = store.session(f"writer {n}")
        for i in range(20):
            session.append(f"giraffe {n} {i}")
            store.search("giraffe")
        return len(store.search("giraffe", limit=1_000))


def test_several_processes_bring_it_up_to_date_at_once(path: Path) -> None:
    with threadline.open(path, durability="relaxed") as store:
        store.new().extend(["zebra"] * 500)

    counts = at_once(*(partial(_catch_up, str(path), n) for n in range(4)))

    assert max(counts) == 80
    assert contents(path) == indexed_anew(path)


CATCHING_UP = """
import sys, threadline
from threadline.backends.sqlite import search
search.STEP_ROWS = 7
store = threadline.open(sys.argv[1], durability="relaxed")
print("up", flush=True)
while True:
    store.index(rebuild=True)
"""


def test_kill_9_while_it_catches_up_leaves_an_index_that_goes_on(path: Path) -> None:
    with threadline.open(path, durability="relaxed") as store:
        session = store.new(title="animals")
        session.extend([f"giraffe zebra {i}" for i in range(400)])
    random = Random(seed())
    for _ in range(scaled(3)):
        with subprocess.Popen([sys.executable, "-c", CATCHING_UP, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(random.uniform(0.02, 0.4))
            os.kill(process.pid, signal.SIGKILL)

        with threadline.open(path, durability="relaxed") as store:
            assert len(store.search("giraffe", limit=1_000)) == 400
            assert store.verify().problems == []
            store.index()
        found = contents(path)
        assert found == indexed_anew(path)


@pytest.mark.parametrize("gone", ["delete", "erase", "redact"])
def test_nothing_of_what_is_gone_is_left_in_the_index(path: Path, gone: str) -> None:
    """To the last byte: words, and the beginnings of words by which FTS5 finds its pages."""
    random = Random(seed())
    secrets = [f"qx{random.randrange(16**12):012x}" for _ in range(40)]
    with threadline.open(path, durability="relaxed") as store:
        for n in range(40):
            crowd = store.new()
            crowd.extend([" ".join(f"word{random.randrange(5_000)}" for _ in range(30)) for _ in range(30)])
            if n == 20:
                session = store.new(title=secrets[0])
                for secret in secrets[1:]:
                    session.append(f"{secret} word{random.randrange(5_000)}")
            store.index()
        assert [len(store.search(secret)) for secret in secrets] == [1] * 40

        if gone == "delete":
            store.delete(session)
        elif gone == "erase":
            store.erase(session)
        else:
            for seq in range(1, 40):
                session.redact(seq, "secret")
            session.rename("nothing")
            store.index()

        assert [store.search(secret, trashed=True) for secret in secrets] == [[]] * 40
        assert store.verify().problems == []
    kept = _bytes_of_index(path)
    assert [secret for secret in secrets if secret[:8].encode() in kept] == []


def _bytes_of_index(path: Path) -> bytes:
    connection = apsw.Connection(str(path))
    rows = connection.execute(
        """SELECT block FROM search_data UNION ALL SELECT CAST(term AS BLOB) FROM search_idx
           UNION ALL SELECT title FROM search_title"""
    ).fetchall()
    connection.close()
    return b"\n".join(bytes(block) for (block,) in rows if block is not None)


def test_a_damaged_entry_that_is_deleted_takes_the_index_along(path: Path) -> None:
    with threadline.open(path) as store:
        session = store.new()
        session.extend(["giraffe", "zebra"])
        other = store.new()
        other.append("giraffe")
        store.index()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE entry SET body = x'7b7d' WHERE log = 1 AND seq = 2")
    connection.close()

    with threadline.open(path) as store:
        store.delete(session.id or "")

        assert [hit.session.id for hit in store.search("giraffe")] == [other.id]
        assert store.search("zebra") == []


def test_an_index_of_other_rules_is_made_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with threadline.open(path) as store:
        store.new().append("giraffe")
        store.index()

        monkeypatch.setattr(index, "VERSION", index.VERSION + 1)

        assert store._backend.index_lag("").left
        assert len(store.search("giraffe")) == 1
        assert not store._backend.index_lag("").left


def test_appending_does_not_touch_the_index(path: Path) -> None:
    with threadline.open(path) as store:
        session = store.new()
        session.append("giraffe")
        store.index()
        before = contents(path)

        session.append("zebra")

        assert contents(path) == before


def test_long_lists_are_read_as_far_as_it_takes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of common words are cut; what a filter leaves of them is found all the same, and what has them all."""
    from threadline.backends import searching

    monkeypatch.setattr(searching, "CUTS", (5, 10, 1 << 40))
    monkeypatch.setattr(searching, "LOOKS", 4)
    with threadline.open(path, durability="relaxed") as store:
        both = store.new()
        both.append("giraffe zebra")
        rare = store.new()
        rare.append(Message.assistant("giraffe"))
        for word in ("giraffe", "zebra"):
            for _ in range(30):
                store.new().append(word)

        assert store.search("giraffe zebra", limit=3)[0].session.id == both.id
        assert [hit.session.id for hit in store.search("giraffe", role="assistant")] == [rare.id]
        assert len(store.search("giraffe", limit=100)) == 32


@pytest.fixture(scope="module")
def furnished() -> Any:
    with threadline.open(":memory:") as store:
        for n in range(20):
            store.new(title=WORDS[n % 10]).extend([f"{word} {n}" for word in WORDS])
        store.index()
        yield store


@given(
    query=st.one_of(
        st.text(max_size=80),
        st.lists(
            st.sampled_from([*WORDS, '"', "AND", "OR", "NOT", "NEAR(", ")", "*", "^", ":", "-", "+", "{", "}", "\0"])
        ).map(" ".join),
    ),
    role=st.none() | st.text(min_size=1, max_size=5),
    limit=st.integers(1, 5),
)
@settings(max_examples=scaled(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_is_an_error(furnished: Store, query: str, role: str | None, limit: int) -> None:
    hits = furnished.search(query, role=role, limit=limit)

    assert len(hits) <= limit
    assert all(role in (None, hit.role) for hit in hits)
