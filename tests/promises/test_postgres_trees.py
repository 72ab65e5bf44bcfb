"""Every statement of a session's life names its tree, so that it goes to one partition, or to one node of a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import threadline
from threadline import Session, Store
from threadline.backends import sql
from threadline.backends.backend import Query
from threadline.backends.postgres import sessions as listing
from threadline.testing.contract.workshop import CHANGES, READS, WRITES, busy

Spoken = tuple[str, Any]

# What is unique across trees is looked up by its own name, and only when a session is made or first found.
ELSEWHERE = ("threadline.name", "threadline.version")
TABLES = (
    "head",
    "session",
    "share",
    "log",
    "tag",
    "entry",
    "key",
    "inbox",
    "draft",
    "chunk",
    "blob_use",
    "blob",
    "request",
    "spent",
)


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> list[Spoken]:
    """Every statement that goes through the driver; the append function is looked at in its source."""
    statements: list[Spoken] = []
    execute = psycopg.Connection.execute

    def spy(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        statements.append((query if isinstance(query, str) else query.decode(), params))
        return execute(self, query, params, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", spy)
    return statements


@pytest.fixture
def session(postgres_url: str) -> Iterator[Session]:
    with threadline.open(postgres_url) as store:
        store.new().append("somebody else")
        yield busy(store.session("k"))


CALLS: dict[str, Callable[[Session], object]] = {
    **WRITES,
    **CHANGES,
    **READS,
    "fork": lambda s: s.fork(2),
    "batch": lambda s: _batch(s),
    "inbox": lambda s: [s.enqueue("later", key="q"), s.enqueue("later", key="q"), s.take(), s.take()],
    "lease": lambda s: s.lease("worker").renew(),
    "draft": lambda s: [_let_go(s), s.drafts[0].drop()],
    "keyed": lambda s: [s.append("again", key="k") for _ in range(2)],
}


def _let_go(session: Session) -> None:
    d = session.draft()
    d.write("half a sen")
    d.flush()
    d.write("tence")
    d.let_go()


def _batch(session: Session) -> None:
    with session.batch() as batch:
        batch.rewind(2)
        batch.append("again", key="b")


@pytest.mark.parametrize("name", CALLS)
def test_every_statement_of_a_call_stays_in_the_tree(
    session: Session, spoken: list[Spoken], postgres_schema: psycopg.Connection, name: str
) -> None:
    spoken.clear()
    CALLS[name](session)
    ours = [(query, params) for query, params in spoken if "threadline." in query]
    within = [(query, params) for query, params in ours if not any(place in query for place in ELSEWHERE)]

    assert [query for query, params in within if strays(postgres_schema, query, params)] == []
    assert len(ours) == len(within) or name == "fork"


def strays(connection: psycopg.Connection, query: str, params: Any) -> list[str]:
    """Scans of a statement that are not confined to the tree; an INSERT is, by its first column."""
    if query.startswith("INSERT"):
        return [] if re.match(r"INSERT INTO threadline\.\w+ \(tree,", query) else [query]
    with connection.transaction():
        connection.execute("SET LOCAL enable_seqscan = off")
        (found,) = connection.execute(f"EXPLAIN (FORMAT JSON) {query}", params).fetchone() or ("[]",)
    plan = found[0]["Plan"] if isinstance(found, list) else json.loads(found)[0]["Plan"]
    scans = list(scans_of(plan))
    partitions = {name for scan in scans if re.fullmatch(r"\w+_\d", name := scan["Relation Name"])}
    split = len({name[:-2] for name in partitions}) < len(partitions)  # two partitions of one table
    confined = all(
        "tree = " in json.dumps([scan.get(name) for name in ("Index Cond", "Recheck Cond", "Filter")]) for scan in scans
    )
    return [] if confined and not split else [json.dumps(plan)]


def scans_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in plan and "Scan" in plan["Node Type"]:
        yield plan
    for inner in plan.get("Plans", ()):
        yield from scans_of(inner)


def test_a_statement_without_its_tree_would_be_seen(session: Session, postgres_schema: psycopg.Connection) -> None:
    assert strays(postgres_schema, "SELECT body FROM threadline.entry WHERE log = %s", (1,))
    assert strays(postgres_schema, "UPDATE threadline.head SET head = 0 WHERE session = %s", (1,))
    assert strays(postgres_schema, "INSERT INTO threadline.entry (log, tree) VALUES (%s, %s)", (1, b""))


# -- the function on the server ------------------------------------------------------------------------


def statements_of(source: str) -> list[str]:
    plain = re.sub(r"--.*", "", source)
    found = re.findall(r"(?:SELECT|PERFORM 1|INSERT INTO|UPDATE|DELETE FROM)\s[^;]*threadline\.(?!\w+\()[^;]*;", plain)
    return [re.sub(r"\s+", " ", statement) for statement in found]


def names_its_tree(statement: str) -> bool:
    """Each table that it reads or changes is confined to the tree, by whichever name it has there."""
    if statement.startswith("INSERT"):
        return "(tree," in statement and "VALUES (the_tree," in statement
    names = re.findall(rf"threadline\.(?:{'|'.join(TABLES)}) (\w+)", statement)
    return bool(names) and all(f"{name}.tree = the_tree" in statement for name in names)


def test_every_statement_of_the_append_functions_names_its_tree() -> None:
    """`write`, `append`, and what they count requests with."""
    statements = [found for body in sql.functions("postgres").split("$$")[1:8:2] for found in statements_of(body)]

    assert len(statements) >= 20
    assert [statement for statement in statements if not names_its_tree(statement)] == []


def test_one_that_does_not_would_be_seen() -> None:
    source = sql.functions("postgres").split("$$")[1]
    wrong = source.replace("AND n.tree = the_tree ", "", 1)

    assert wrong != source
    assert [s for s in statements_of(wrong) if not names_its_tree(s)]


# -- the schema ----------------------------------------------------------------------------------------


def test_the_tree_stands_first_in_every_key(postgres_schema: psycopg.Connection) -> None:
    keys = postgres_schema.execute(
        """SELECT c.relname, i.relname, (SELECT a.attname FROM pg_attribute a
                                         WHERE a.attrelid = c.oid AND a.attnum = x.indkey[0])
           FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
           WHERE c.relnamespace = 'threadline'::regnamespace AND x.indisunique"""
    ).fetchall()

    assert len(keys) >= len(TABLES)
    apart = ("name", "version", "tenant", "search_state")
    assert [key for key in keys if key[2] != "tree" and key[0] not in apart] == []


def test_nothing_reaches_across_trees(postgres_schema: psycopg.Connection) -> None:
    found = postgres_schema.execute(
        """SELECT 'sequence', relname::text FROM pg_class
           WHERE relnamespace = 'threadline'::regnamespace AND relkind = 'S'
           UNION ALL SELECT 'foreign key', conname FROM pg_constraint
           WHERE connamespace = 'threadline'::regnamespace AND contype = 'f'"""
    ).fetchall()

    assert found == []


def test_the_large_tables_are_partitioned_by_tree(postgres_schema: psycopg.Connection) -> None:
    found = postgres_schema.execute(
        """SELECT c.relname, pg_get_partkeydef(c.oid), (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = c.oid)
           FROM pg_class c WHERE c.relnamespace = 'threadline'::regnamespace AND c.relkind = 'p' ORDER BY 1"""
    ).fetchall()

    large = ("blob", "blob_use", "entry", "key", "request")
    assert found == [(name, "HASH (tree)", 8) for name in large]


# -- listings ------------------------------------------------------------------------------------------


FILTERS: list[dict[str, Any]] = [
    {},
    {"cwd": "/7"},
    {"agent": "7"},
    {"tag": "7"},
    {"key_prefix": "7:"},
    {"id_prefix": "7"},
]


@pytest.mark.parametrize("few", [0, 1_000], ids=["walked", "sorted"])
@pytest.mark.parametrize("order", ["updated", "created"])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_listing_finds_its_page_by_indexes(
    postgres_url: str, postgres_schema: psycopg.Connection, filters: dict[str, Any], order: str, few: int
) -> None:
    """What is common is walked to in the order of an index, without sorting; what is rare is looked up and sorted."""
    with threadline.open(postgres_url, durability="relaxed") as store:
        for n in range(30):
            store.new(cwd="/7", agent="7", tags=["7"], key=f"7:{n}")
    postgres_schema.execute("ANALYZE threadline.head, threadline.session, threadline.tag")
    values = listing._bindings(Query(namespace="", order=order, **filters)) | {"child": 0}
    walked = few == 0 or not filters
    with postgres_schema.transaction():
        postgres_schema.execute("SET LOCAL enable_seqscan = off")
        if walked:
            postgres_schema.execute(sql.queries("postgres")["walk"])
        statement = listing._statement(order, values, "pass" if walked else "filter")
        (found,) = postgres_schema.execute(f"EXPLAIN (FORMAT JSON) {statement}", values).fetchone() or ("",)
    kinds = {node["Node Type"] for node in page_of(found[0]["Plan"])}

    assert "Seq Scan" not in kinds
    assert not walked or not {"Sort", "Materialize", "Hash Join"} & kinds


def page_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """How the page is found; what each of its sessions spent is added up from a few rows of its own."""
    yield plan
    for inner in plan.get("Plans", ()):
        sums = any(node.get("Relation Name") == "spent" for node in nodes_of(inner))
        if inner.get("Parent Relationship") != "SubPlan" or not sums:
            yield from page_of(inner)


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes_of(inner)


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("order", ["updated", "created"])
def test_a_walk_and_a_sort_give_the_same_page(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any], order: str
) -> None:
    with threadline.open(postgres_url, durability="relaxed") as store:
        for n in range(30):
            mine = {"cwd": "/7", "agent": "7", "tags": ["7"]} if n % 3 else {}
            name = f"{7 if n % 3 else 8}:{n}"
            store.new(key=name, id=name, **mine).append("hi")  # type: ignore[arg-type]
        looked_up = [info.id for info in store.sessions(order=order, limit=7, **filters)]
        monkeypatch.setattr(listing, "FEW", -1)
        walked = [info.id for info in store.sessions(order=order, limit=7, **filters)]

    assert looked_up == walked
    assert len(walked) == (20 if filters else 30)


def test_a_store_names_no_tree_that_it_does_not_know(postgres_url: str) -> None:
    """Two sessions of the same key in two namespaces have nothing in common."""
    with threadline.open(postgres_url) as store:
        one, other = (_made(store.within(name)) for name in ("a", "b"))

    assert one.tree != other.tree
    assert one.number != other.number
    assert {piece.log for piece in one.lineage}.isdisjoint(piece.log for piece in other.lineage)


def _made(store: Store) -> Any:
    session = store.session("k")
    session.append("hi")
    return session._made()
