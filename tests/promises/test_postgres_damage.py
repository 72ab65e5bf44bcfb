"""Whatever changes in a row on the server, `verify` finds it and names the session; the others stay readable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import threadline
from threadline import Damaged, Message, Store, ToolCall
from threadline.backends import sql

TABLES = (
    "name",
    "log",
    "session",
    "tag",
    "head",
    "share",
    "entry",
    "key",
    "inbox",
    "draft",
    "chunk",
    "blob",
    "blob_use",
    "request",
    "spent",
)


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    """One session that uses every column, a fork of it, and one that has nothing to do with them."""
    with threadline.open(postgres_url, namespace="here", durability="relaxed") as store:
        session = store.new(id="x", key="k", cwd="/src", agent="a", tags=["red"], title="t")
        calls = Message.assistant("look", ToolCall("c1", "t"), ToolCall("c2", "t"))
        session.extend(["hi", calls], key="call", usage={"input": 1, "request_id": "r", "model": "m", "cost": 1})
        session.append(Message.tool("c2", "done"))
        session.fork(2, id="fork", key="f").append("more", key="own")
        session.enqueue("waiting", key="queued")
        d = session.draft(key="drafted")
        for text in ("one ", "two"):  # the last piece could be lost as if it had not been written yet
            d.write(text)
            d.flush()
        session.lease("worker", ttl=3_600)
        session.spawn("sub", call_id="c1").append("large" * 2_000)
        store.new(id="bystander").append("fine")
        yield store


MEANINGLESS = {
    ("head", "late"),  # it only tells followers where to look
}


def columns() -> list[tuple[str, str]]:
    """Every column of every table, from the schema as it is written."""
    found = []
    for table in TABLES:
        block = sql.schema("postgres").partition(f"CREATE TABLE threadline.{table} (")[2].partition("\n)")[0]
        names = [line.split()[0] for line in block.splitlines() if line.startswith("    ") and line.split()]
        found += [(table, name) for name in names if name not in ("PRIMARY", "--")]
    return [column for column in found if column not in MEANINGLESS]


CHANGED = {
    "bytea": "set_byte({0}, 0, get_byte({0}, 0) # 1)",
    "bigint": "{0} + 1000",
    "smallint": "({0} + 1)::smallint",
    "text": "{0} || 'x'",
    "bigint[]": "array_append({0}, 7)",
    "bytea[]": "array_append({0}, '7'::bytea)",
}


@pytest.mark.parametrize(("table", "column"), columns())
def test_a_changed_value_is_found(store: Store, postgres_schema: psycopg.Connection, table: str, column: str) -> None:
    (kind,) = postgres_schema.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s",
        (f"threadline.{table}", column),
    ).fetchone() or ("",)
    victim = "WHERE tree = (SELECT tree FROM threadline.session WHERE id = 'x')"
    row = f"(SELECT ctid FROM threadline.{table} {victim} AND {column} IS NOT NULL ORDER BY {column} LIMIT 1)"
    with_value = f"{victim} AND ctid = {row} AND {column} IS NOT NULL"
    changed = postgres_schema.execute(
        f"UPDATE threadline.{table} SET {column} = {CHANGED[kind].format(column)} {with_value}"
    ).rowcount

    assert changed == 1
    problems = store.verify().problems
    assert problems != []
    assert "bystander" not in {problem.session for problem in problems}
    assert [m.text for m in store.get("bystander").messages()] == ["fine"]


@pytest.mark.parametrize("table", TABLES)
def test_a_lost_row_is_found(store: Store, postgres_schema: psycopg.Connection, table: str) -> None:
    victim = "tree = (SELECT tree FROM threadline.session WHERE id = 'x')"
    lost = f"(SELECT ctid FROM threadline.{table} WHERE {victim} LIMIT 1)"
    postgres_schema.execute(f"DELETE FROM threadline.{table} WHERE {victim} AND ctid = {lost}")

    assert store.verify().problems != []


def test_a_damaged_entry_is_left_out_of_the_view_and_named(store: Store, postgres_schema: psycopg.Connection) -> None:
    postgres_schema.execute("UPDATE threadline.entry SET body = set_byte(body, 9, 0) WHERE seq = 1 AND key = 'call'")
    session = store.get("x")
    view = session.view()

    assert view.damaged == (1,)
    assert [entry.seq for entry in view.entries] == [2, 3]
    with pytest.raises(Damaged):
        session.entry(1)
    assert [(problem.session, problem.seq) for problem in store.verify().problems] == [("x", 1)]


def test_an_untouched_store_has_no_problems(store: Store) -> None:
    report: Any = store.verify()

    assert (report.problems, report.counts) == ([], {"sessions": 4, "entries": 6, "keys": 2, "requests": 1})
