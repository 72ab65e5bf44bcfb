"""Queries that must use an index say so in their plans: none of them walks through a table."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest

from threadline.backends import sql
from threadline.backends.sqlite.sessions import listing

QUERIES = sql.queries("sqlite") | sql.queries("sqlite", "memory.sql")

# Those that read everything on purpose: counting, verifying, and the handful that an index has already found.
WHOLE = {"counts", "schema", "list_few", "heads"} | {name for name in QUERIES if name.startswith("verify_")}
INDEXED = sorted(
    name for name, query in QUERIES.items() if not query.startswith(("INSERT", "PRAGMA")) and name not in WHOLE
)

# What a query makes by itself and walks through: a recursive table, and a list that was handed to it. And a table of
# one row, and an index of words, which is asked in no other way.
OWN = ("SCAN below", "SCAN few", "SCAN CONSTANT ROW", "SCAN node_indexed", "SCAN t VIRTUAL TABLE")


@pytest.fixture(scope="module")
def database() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(sql.schema("sqlite"))
    yield connection
    connection.close()


def plan(database: apsw.Connection, name: str) -> list[str]:
    query = QUERIES[name]
    values = dict.fromkeys(QUERY_NAMES) if ":" in query else (None,) * _marks(query)
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()]


def _marks(query: str) -> int:
    """How many values a query wants: `?1` may stand in it twice."""
    numbered = set(re.findall(r"\?\d", query))
    return len(numbered) or query.count("?")


QUERY_NAMES = [
    "namespace",
    "status",
    "waiting",
    "before",
    "cwd",
    "agent",
    "tag",
    "prefix",
    "prefix_end",
    "begins",
    "begins_end",
    "order",
    "at",
    "number",
    "limit",
    "few",
    "numbers",
    "entry",
    "session",
    "parent",
    "child",
    "by_session",
    "by_day",
    "by_agent",
    "first",
    "last",
    "day",
    "since",
    "until",
]


@pytest.mark.parametrize("name", INDEXED)
def test_a_query_finds_its_rows_by_an_index(database: apsw.Connection, name: str) -> None:
    steps = plan(database, name)

    assert steps
    assert [step for step in steps if step.startswith("SCAN") and not step.startswith(OWN)] == []


@pytest.mark.parametrize("name", ["spent", "spent_below", "spent_by_each", "spent_on_days"])
def test_no_total_reads_requests(database: apsw.Connection, name: str) -> None:
    assert [step for step in plan(database, name) if "request" in step] == []


@pytest.mark.parametrize("name", ["list_by_updated", "list_by_created", "rows", "rows_reverse"])
def test_a_page_comes_in_order_without_sorting(database: apsw.Connection, name: str) -> None:
    assert [step for step in plan(database, name) if "TEMP B-TREE" in step] == []


def test_a_scan_would_be_seen(database: apsw.Connection) -> None:
    steps = [row[3] for row in database.execute("EXPLAIN QUERY PLAN SELECT * FROM entry WHERE at = 1").fetchall()]

    assert steps[0].startswith("SCAN")


@pytest.mark.parametrize("name", ["list_by_updated", "list_by_created"])
def test_a_listing_weighs_only_the_filters_that_were_asked_for(database: apsw.Connection, name: str) -> None:
    filters = {"status", "waiting", "before", "cwd", "agent", "parent", "prefix", "begins", "tag"}

    bare, by_tag, whole = (listing(name, frozenset(asked)) for asked in ((), {"tag"}, filters))

    assert [mark for mark in filters if f":{mark}" in bare] == []
    assert [mark for mark in filters if f":{mark}" in by_tag] == ["tag"]
    assert whole == QUERIES[name]
    steps = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {bare}", dict.fromkeys(QUERY_NAMES)).fetchall()]
    assert [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step] == []
