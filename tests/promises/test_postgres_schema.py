"""The schema on a server: made once by whoever comes first, upgraded all or nothing, refused politely."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from processes import at_once

import threadline
from threadline import InvalidArgument, NotThreadline, StoreFailed, TooNew
from threadline.backends import sql
from threadline.backends.postgres import schema
from threadline.testing.postgres import FORGETFUL, Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(FORGETFUL) as server:
        yield server


@pytest.fixture
def admin(server: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.url(), autocommit=True) as admin:
        yield admin


@pytest.fixture
def url(server: Server, admin: psycopg.Connection) -> Iterator[str]:
    """A database without anything."""
    admin.execute("CREATE DATABASE bare")
    yield server.url("bare")
    admin.execute("DROP DATABASE bare WITH (FORCE)")


def opened(url: str, **options: Any) -> threadline.Store:
    return threadline.open(url, durability="relaxed", **options)


def run(url: str, *statements: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursors = [connection.execute(statement.encode()) for statement in statements]
        return cursors[-1].fetchall() if cursors[-1].description else []


def catalog(url: str) -> list[Any]:
    """All that the server knows of our schema, in its own words."""
    columns = """SELECT c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod) || a.attnotnull
                 FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
                 WHERE c.relnamespace = 'threadline'::regnamespace AND c.relkind IN ('r', 'p')"""
    indexes = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'threadline'"
    functions = """SELECT proname, pg_get_functiondef(oid) FROM pg_proc
                   WHERE pronamespace = 'threadline'::regnamespace"""
    return sorted(run(url, f"{columns} UNION ALL {indexes} UNION ALL {functions}"))


def test_the_first_to_come_makes_it(url: str) -> None:
    with opened(url) as store:
        store.new().append("hi")

        assert store.verify().problems == []


def test_many_may_be_the_first(url: str) -> None:
    def work() -> int:
        with opened(url) as store:
            return store.session("k").append("hi").seq

    assert sorted(at_once(*([work] * 8))) == list(range(1, 9))


def test_the_migrations_together_are_the_schema(url: str, server: Server, admin: psycopg.Connection) -> None:
    opened(url).close()
    admin.execute("CREATE DATABASE migrated")
    try:
        run(server.url("migrated"), *sql.migrations("postgres").values(), sql.functions("postgres"))

        assert catalog(server.url("migrated")) == catalog(url)
    finally:
        admin.execute("DROP DATABASE migrated WITH (FORCE)")


def test_migrating_again_changes_nothing(url: str) -> None:
    threadline.postgres.migrate(url)
    before = catalog(url)

    assert threadline.postgres.migrate(url) == schema.SCHEMA_VERSION
    assert catalog(url) == before


def test_a_newer_schema_is_refused_and_not_touched(url: str) -> None:
    opened(url).close()
    run(url, "UPDATE threadline.version SET version = 99")
    before = catalog(url)
    for refused in (opened, threadline.postgres.migrate, threadline.postgres.check):
        with pytest.raises(TooNew) as caught:
            refused(url)  # type: ignore[operator]

        assert (caught.value.found, caught.value.known) == (99, schema.SCHEMA_VERSION)
    assert catalog(url) == before


def test_an_older_schema_is_left_to_an_administrator(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs may be using it: opening does not upgrade, `migrate` does, all or nothing."""
    opened(url).close()
    steps = {**sql.migrations("postgres"), 2: "CREATE TABLE threadline.more (n int); SELECT 1/0"}
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(sql, "migrations", lambda engine: steps)
    with pytest.raises(StoreFailed, match="threadline migrate"):
        opened(url)
    with pytest.raises(StoreFailed):
        threadline.postgres.migrate(url)
    half = run(url, "SELECT to_regclass('threadline.more'), (SELECT version FROM threadline.version)")
    steps[2] = "CREATE TABLE threadline.more (n int)"
    before = threadline.postgres.migrate(url)

    assert half == [(None, 1)]
    assert (before, run(url, "SELECT version FROM threadline.version")) == (1, [(2,)])
    opened(url).close()


def test_a_schema_of_somebody_else_is_not_touched(url: str) -> None:
    run(url, "CREATE SCHEMA threadline; CREATE TABLE threadline.theirs (n int)")
    for refused in (opened, threadline.postgres.migrate):
        with pytest.raises(NotThreadline):
            refused(url)  # type: ignore[operator]

    assert run(url, "SELECT relname::text FROM pg_class WHERE relnamespace = 'threadline'::regnamespace") == [
        ("theirs",)
    ]


def test_tables_of_others_in_the_same_database_are_no_hindrance(url: str) -> None:
    run(url, "CREATE TABLE session (n int); CREATE TABLE entry (n int); INSERT INTO entry VALUES (7)")
    with opened(url) as store:
        store.new().append("hi")

    assert run(url, "SELECT n FROM entry") == [(7,)]


def test_a_read_only_store_makes_nothing(url: str) -> None:
    with pytest.raises(StoreFailed, match="no threadline schema"):
        opened(url, read_only=True)

    assert run(url, "SELECT to_regnamespace('threadline')") == [(None,)]


def test_who_may_not_make_it_is_told_what_to_do(url: str, admin: psycopg.Connection) -> None:
    admin.execute("CREATE ROLE guest LOGIN")
    with pytest.raises(StoreFailed, match="threadline migrate --print"):
        opened(url.replace("postgres@", "guest@"))


def test_another_function_is_noticed(url: str) -> None:
    with opened(url) as store:
        (source,) = run(url, "SELECT pg_get_functiondef('threadline.write'::regproc)")[0]
        run(url, source.replace("h.asked := 0;", "h.asked := 1;"))

        assert [problem.what for problem in store.verify().problems] == [
            "the function threadline.write is not the one of this version"
        ]
    with pytest.raises(StoreFailed, match="not the one of this version"):
        threadline.postgres.check(url)
    threadline.postgres.migrate(url)
    threadline.postgres.check(url)


def test_a_database_that_cannot_hold_all_text_is_refused(server: Server, admin: psycopg.Connection) -> None:
    admin.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with pytest.raises(InvalidArgument, match="UTF8"):
            opened(server.url("latin"))
    finally:
        admin.execute("DROP DATABASE latin WITH (FORCE)")


# -- durability ----------------------------------------------------------------------------------------


def test_a_server_that_does_not_sync_is_told_of(url: str) -> None:
    with pytest.warns(RuntimeWarning, match=r"can lose what it acknowledged .*fsync = off, full_page_writes = off"):
        threadline.open(url).close()


@pytest.mark.parametrize(("durability", "setting"), [("full", "on"), ("relaxed", "off")])
@pytest.mark.parametrize("call", ["append", "rewind"])
@pytest.mark.filterwarnings("ignore:.*can lose what it acknowledged")
def test_a_commit_is_as_durable_as_was_promised(url: str, durability: str, setting: str, call: str) -> None:
    """Whatever the server's own default is; here it is off."""
    with threadline.open(url, durability=durability) as store:
        session = store.session("k")
        session.append("hi")
        run(
            url,
            "CREATE TABLE public.seen (setting text)",
            """CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$""",
            "CREATE TRIGGER see AFTER UPDATE ON threadline.head FOR EACH ROW EXECUTE FUNCTION public.see()",
        )
        session.append("ho") if call == "append" else session.rewind(0)

    assert run(url, "SELECT DISTINCT setting FROM public.seen") == [(setting,)]


def test_a_stricter_default_of_the_server_is_kept(url: str, admin: psycopg.Connection) -> None:
    admin.execute("ALTER DATABASE bare SET synchronous_commit = 'remote_apply'")
    run(url, "CREATE TABLE public.seen (setting text)")
    source = sql.functions("postgres")

    assert "current_setting('synchronous_commit') = 'off'" in source  # only what is too little is changed
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.queries("postgres")["durably"], (True,))
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("remote_apply",)


# -- Citus ---------------------------------------------------------------------------------------------


def test_every_table_and_function_has_its_step(url: str) -> None:
    """A table or function that is added must be distributed, too."""
    opened(url).close()
    tables = run(
        url,
        """SELECT relname::text FROM pg_class
           WHERE relnamespace = 'threadline'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition""",
    )
    functions = run(url, "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'threadline'::regnamespace")
    steps = sql.queries("postgres", "distribute.sql")
    spoken = re.sub(r"\s+", "", " ".join(steps.values()))

    assert {name for (name,) in tables} <= set(steps)
    assert [name for (name,) in functions if re.sub(r"\s+", "", name) not in spoken] == []


def test_partitions_give_way_to_whole_tables(url: str) -> None:
    """The part of the distribution that any server can do: rows and keys stay what they were."""
    with opened(url) as store:
        session = store.session("k")
        session.extend(["one", "two"], key="12")
        steps = sql.queries("postgres", "distribute.sql")
        for _ in range(2):  # twice is once
            run(url, steps["whole_entry"], steps["whole_key"])
        session.append("three", key="3")

        assert [m.text for m in session.messages()] == ["one", "two", "three"]
        assert session.extend(["one", "two"], key="12")[0].seq == 1
        assert store.verify().problems == []
    kinds = run(url, "SELECT DISTINCT relkind FROM pg_class WHERE relname IN ('entry', 'key', 'entry_0') ORDER BY 1")
    assert kinds == [(b"r",)] or kinds == [("r",)]


STAND_IN = """
CREATE TABLE public.pg_dist_partition (logicalrelid regclass PRIMARY KEY, by text, beside text);
CREATE FUNCTION public.create_distributed_table(its_name regclass, by text, colocate_with text DEFAULT NULL)
RETURNS void LANGUAGE sql AS $$ INSERT INTO public.pg_dist_partition VALUES (its_name, by, colocate_with) $$;
CREATE FUNCTION public.create_reference_table(its_name regclass) RETURNS void
LANGUAGE sql AS $$ INSERT INTO public.pg_dist_partition VALUES (its_name, NULL, NULL) $$;
CREATE FUNCTION public.create_distributed_function(its_name regprocedure, its_argument text DEFAULT NULL,
                                                   colocate_with text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$ SELECT 1 $$;
"""  # what a cluster does with them, only a cluster shows


def test_all_steps_of_the_distribution_can_be_taken_and_taken_again(url: str) -> None:
    with opened(url) as store:
        store.session("before").extend(["one", "large " * 20_000], key="k", usage={"input": 1})
        run(url, STAND_IN)
        steps = sql.queries("postgres", "distribute.sql")

        assert threadline.postgres.distribute(url) == [*steps]
        assert threadline.postgres.distribute(url) == [step for step in steps if step.startswith("function_")]
        beside = run(url, "SELECT DISTINCT by, beside FROM public.pg_dist_partition ORDER BY 1, 2")
        assert beside == [
            ("name", "none"),
            ("realm", "none"),
            ("tree", "none"),
            ("tree", "threadline.head"),
            (None, None),
        ]
        store.session("before").append("after")
        store.session("new").append("after")
        assert store.verify().problems == []


def test_tenants_and_a_cluster_do_not_go_together(url: str) -> None:
    opened(url).close()
    threadline.postgres.separate_tenants(url)
    run(url, STAND_IN)
    with pytest.raises(StoreFailed, match="do not go together"):
        threadline.postgres.distribute(url)

    for table, policy in run(url, "SELECT tablename::text, policyname::text FROM pg_policies"):
        run(url, f"DROP POLICY {policy} ON threadline.{table}")
    threadline.postgres.distribute(url)
    with pytest.raises(StoreFailed, match="do not go together"):
        threadline.postgres.separate_tenants(url)


def statements() -> dict[str, str]:
    """Every statement that a store sends, and those of its functions, by name."""
    named = {
        f"{file} {name}": statement
        for file in ("queries.sql", "erasing.sql", "memory.sql", "search.sql")
        for name, statement in sql.queries("postgres", file).items()
    }
    inner = re.findall(
        r"^ *((?:UPDATE|DELETE FROM|INSERT INTO|SELECT) .*?);$", sql.functions("postgres"), re.MULTILINE | re.DOTALL
    )
    return named | {f"function {number}": statement for number, statement in enumerate(inner)}


def test_no_update_or_delete_calls_a_function_that_a_cluster_would_not_take(url: str) -> None:
    """Citus: functions used in UPDATE and DELETE must not be VOLATILE, and one that is STABLE gets no column. `late`
    gets a value only."""
    opened(url).close()
    kinds = dict(run(url, "SELECT proname::text, max(provolatile::text) FROM pg_proc GROUP BY 1"))
    changing = {name: text for name, text in statements().items() if text.startswith(("UPDATE", "DELETE"))}
    called = {(name, call) for name, text in changing.items() for call in re.findall(r"(\w+)\(", text)}

    assert len(changing) > 40
    assert {call for _, call in called if kinds.get(call) == "v"} == set()
    assert {call for _, call in called if kinds.get(call) == "s"} <= {"late"}


def test_no_statement_asks_for_what_a_cluster_cannot_hand_on() -> None:
    """Rows within a row, subqueries of a query that has no FROM, and joins with what is not distributed by tree."""
    for name, statement in statements().items():
        assert "ROW(" not in statement, name
        assert not re.match(r"SELECT \(SELECT", statement), name
        apart = re.findall(r"threadline\.(?:search_state|name)\b", statement)
        assert not apart or len(set(re.findall(r"(?:FROM|JOIN|INTO|UPDATE) +threadline\.(\w+)", statement))) == 1, name


def test_the_grants_of_the_page_name_every_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text()
    (granted,) = re.findall(r"GRANT SELECT, INSERT, UPDATE, DELETE ON (.*?) TO app;", page, re.DOTALL)
    tables = re.findall(r"CREATE TABLE threadline\.(\w+) \(", sql.schema("postgres"))

    assert set(re.findall(r"threadline\.(\w+)", granted)) == {*tables} - {"version"}
