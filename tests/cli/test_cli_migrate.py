"""`threadline migrate`: the schema of a server from the command line."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from click.testing import CliRunner

import threadline
from threadline.cli import main
from threadline.testing.postgres import FORGETFUL, Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(FORGETFUL) as server:
        yield server


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    """A database without anything."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("CREATE DATABASE bare")
        yield server.url("bare")
        admin.execute("DROP DATABASE bare WITH (FORCE)")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["migrate", *arguments])
    return done.exit_code, done.output


def test_it_makes_the_schema_once(url: str) -> None:
    assert run(url) == (0, "the schema was made\n")
    assert run(url) == (0, "the schema is up to date; it had version 1\n")
    assert run("--check", url) == (0, "the schema is that of this version\n")


def test_checking_makes_nothing(url: str) -> None:
    code, said = run("--check", url)

    assert code == 1
    assert "no threadline schema" in said
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regnamespace('threadline')").fetchone() == (None,)


def test_what_it_prints_makes_a_store(url: str) -> None:
    """An administrator runs it; then the program needs no right to make anything."""
    code, ddl = run("--print", "--tenants")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(ddl.encode())
        admin.execute("CREATE ROLE app LOGIN")
        admin.execute("SELECT threadline.admit('app', '')")
    with threadline.open(url.replace("postgres@", "app@"), durability="relaxed") as store:
        store.session("k").append("hi")

        assert store.verify().problems == []
    assert (code, run("--check", url)[0]) == (0, 0)


def test_tenants_are_separated_on_demand(url: str) -> None:
    code, said = run("--tenants", url)

    assert code == 0
    assert "threadline.admit" in said


def test_without_citus_nothing_is_distributed(url: str) -> None:
    code, said = run("--distribute", url)

    assert code == 1
    assert "CREATE EXTENSION citus" in said


def test_a_url_is_needed() -> None:
    assert run()[0] == 2
