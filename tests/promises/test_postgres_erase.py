"""Promise 8 on a server: what is erased is unreachable at once, and its bytes go as the receipt says they do."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import threadline
from threadline import Message, Session, Store, StoreFailed, ToolCall
from threadline.backends.postgres import trees
from threadline.testing.postgres import FORGETFUL, Server

NEEDLE = "needle-in-a-server"


@pytest.fixture
def server() -> Iterator[Server]:
    """One of its own: its files are looked at."""
    with warnings.catch_warnings(), Server(FORGETFUL) as server:
        warnings.simplefilter("ignore", RuntimeWarning)
        yield server


def lived(store: Store, said: str) -> Session:
    session = store.new(id=said + "id", key=said + "key", title=said, agent=said, cwd=said, tags=[said], meta={said: 1})
    session.extend([said, Message.assistant(said, ToolCall(said, said, {said: said}))], key=said, usage={"input": 1})
    session.append(Message.tool(said, said * 3_000))
    session.enqueue(said, key=said + "queued")
    session.set_state({said: said})
    session.spawn(said, call_id=said).append(said)
    session.fork(key=said + "fork").append(said)
    with session.draft() as draft:
        draft.write(said)
        draft.flush()
        draft.finish()
    store.memory("p").claim(said, session=session.id, preliminary=True)
    store.search(said)
    return session


def found(server: Server, needle: str) -> list[str]:
    """The files of the database, without its write-ahead log, that hold it."""
    files = (file for file in Path(server.folder, "data", "base").rglob("*") if file.is_file())
    return [file.name for file in files if needle.encode() in file.read_bytes()]


def test_a_vacuum_removes_the_bytes_as_the_receipt_says(server: Server) -> None:
    with threadline.open(server.url()) as store:
        session = lived(store, NEEDLE)
        kept = lived(store, "kept")
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute("CHECKPOINT")
            before = found(server, NEEDLE)
            receipt = store.erase(session, cascade=True)
            reached = rows_with(admin, NEEDLE)
            admin.execute("VACUUM FULL")
            admin.execute("CHECKPOINT")

        assert before != []
        assert reached == []
        assert ["vacuum" in pending.until.lower() for pending in receipt.pending] == [True, False]
        assert "write-ahead log" in receipt.pending[1].what
        assert found(server, NEEDLE) == []
        assert kept.head == 5
        assert store.verify().problems == []


def rows_with(admin: psycopg.Connection, needle: str) -> list[str]:
    """The tables in which a row still holds it."""
    tables = admin.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'threadline'::regnamespace AND relkind IN ('r', 'p')"
    ).fetchall()
    held = "SELECT count(*) FROM threadline.{} t WHERE t::text LIKE %s OR t::text LIKE %s"
    likes = (f"%{needle}%", f"%{needle.encode().hex()}%")
    counts = {table: admin.execute(held.format(table), likes).fetchone() for (table,) in tables}
    return [table for table, count in counts.items() if count != (0,)]


def test_names_that_could_not_be_freed_are_pending(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StoreFailed("the server went away")

    with threadline.open(postgres_url) as store:
        session = store.new(id="x", key="k")
        monkeypatch.setattr(trees, "free_names", refuse)
        receipt = store.erase(session)

        assert receipt.pending[-1].what == "reserved names in threadline.name"
        assert store.find("k") is None
        assert store.new(id="x", key="k").head == 0
