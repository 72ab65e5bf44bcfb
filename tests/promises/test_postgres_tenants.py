"""Namespaces on a server: apart by the store, and by row-level security for whoever runs SQL of their own."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import psycopg
import pytest

import threadline
from threadline import Conflict, NotFound, Store, StoreFailed, ThreadlineError
from threadline.backends.postgres import schema
from threadline.backends.postgres.places import realm_of
from threadline.testing import scaled, seed
from threadline.testing.contract.workshop import NAMES
from threadline.testing.postgres import FORGETFUL, Server

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
    "search",
    "search_log",
    "memory",
    "node",
    "node_input",
    "chain",
    "chain_member",
    "working",
    "memory_event",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of its own, with two tenants and their roles."""
    with Server(FORGETFUL) as server:
        threadline.open(server.url(), durability="relaxed").close()
        with psycopg.connect(server.url(), autocommit=True) as admin:
            schema.separate_tenants(admin)
            schema.separate_tenants(admin)  # twice is once
            for name in ("acme", "evil"):
                admin.execute(f"CREATE ROLE {name} LOGIN")
                admin.execute("SELECT threadline.admit(%s, %s)", (name, name))
        yield server


@pytest.fixture
def acme(server: Server) -> Iterator[Store]:
    with threadline.open(server.url(user="acme"), namespace="acme", durability="relaxed") as store:
        yield store


def test_a_tenant_has_the_whole_store_within_its_namespace(acme: Store) -> None:
    session = acme.session("k", tags=["red"], cwd="/src")
    session.extend(["one", "two"], key="12")
    session.compact("both")
    fork = session.fork(2, key="fork")
    fork.append("three")
    session.rename("named")

    assert [info.key for info in acme.sessions(tag="red")] == ["k", "fork"]
    assert [m.text for m in acme.session("fork").messages()] == ["one", "two", "three"]
    assert session.extend(["one", "two"], key="12")[0].seq == 1
    assert acme.verify().problems == []


def test_the_store_of_a_tenant_reaches_no_other_namespace(acme: Store, server: Server) -> None:
    """Even if its program asks for it."""
    secret = acme.new(id="secret")
    secret.append("secret")
    with threadline.open(server.url(user="evil"), namespace="acme", durability="relaxed") as evil:
        assert list(evil.sessions()) == []
        with pytest.raises(NotFound):
            evil.get("secret")
        with pytest.raises(StoreFailed):
            evil.new(id="mine")
        evil._backend.find("acme", id="secret")
        with pytest.raises(ThreadlineError):
            evil._backend.state(secret._made())

        assert evil.stats()["entries"] == 0
        assert evil.search("secret") == []


@pytest.mark.parametrize("table", TABLES)
def test_no_sql_of_a_tenant_sees_or_changes_a_row_of_another(acme: Store, server: Server, table: str) -> None:
    acme.session("raw", tags=["red"]).append("large" * 2_000, key="large", usage={"input": 1})
    acme.session("raw").append("secret", key="raw")
    acme.session("raw").enqueue("secret", key="queued")
    d = acme.session("raw").draft()
    d.write("secret")
    d.let_go()
    assert acme.search("secret") != []
    memory = acme.memory("p")
    memory.supersede(memory.claim("secret", session="s", preliminary=True, chain="c"), "more secret", session="s")
    with psycopg.connect(server.url(user="evil"), autocommit=True) as evil:
        seen = evil.execute(f"SELECT count(*) FROM threadline.{table}").fetchone()
        changed = evil.execute(f"UPDATE threadline.{table} SET tree = tree").rowcount
        removed = evil.execute(f"DELETE FROM threadline.{table}").rowcount

    assert (seen, changed, removed) == ((0,), 0, 0)
    assert [m.text for m in acme.session("raw").messages()][-1] == "secret"
    assert [node.content for node in memory.active(session="s")] == ["more secret"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO threadline.tenant VALUES ('evil', threadline.realm('acme'))",
        "SELECT threadline.admit('evil', 'acme')",
        "ALTER TABLE threadline.entry DISABLE ROW LEVEL SECURITY",
        "SELECT * FROM threadline.entry_0",
        "SET ROLE acme",
        "SET SESSION AUTHORIZATION acme",
        "DROP SCHEMA threadline CASCADE",
        "UPDATE threadline.version SET version = 9",
    ],
)
def test_a_tenant_cannot_let_itself_in(server: Server, statement: str) -> None:
    with psycopg.connect(server.url(user="evil"), autocommit=True) as evil, pytest.raises(psycopg.Error):
        evil.execute(statement)


def test_the_server_names_a_namespace_as_we_do(server: Server) -> None:
    with psycopg.connect(server.url(), autocommit=True) as admin:
        for name in ("", "acme", "é", "\U0001f600", "'; DROP TABLE x; --"):
            assert admin.execute("SELECT threadline.realm(%s)", (name,)).fetchone() == (realm_of(name),)


# -- hostile names, without any policy -----------------------------------------------------------------


def hostile(rng: Random) -> str:
    """A name that tries to be something else."""
    pieces = (*NAMES, "%s", "%(realm)s", "{}", "$1", "\\x00", "' OR ''='", "');--", "\x1a", "E'\\'", "$$", "🦄")
    return "".join(rng.choice(pieces) for _ in range(rng.randint(1, 4)))[:512]


def test_hostile_names_change_nothing_and_find_only_themselves(postgres_url: str) -> None:
    rng = Random(seed())
    with threadline.open(postgres_url, durability="relaxed") as store:
        bystander = store.session("bystander", tags=["t"], cwd="/src", agent="a")
        bystander.append("untouched")
        for _ in range(scaled(40)):
            one, other = hostile(rng), hostile(rng)
            mine = store.within(one)
            try:
                session = mine.new(key=other, id=one, agent=one, tags=[other], title=one, meta={one: other})
            except Conflict:  # the same dice twice
                continue
            session.append(one, key=other)
            filters = ({"agent": one}, {"tag": other}, {"key_prefix": other}, {"agent": one, "tag": other})
            for found in filters:
                assert [info.id for info in mine.sessions(**found)] == [one]  # type: ignore[arg-type]
            assert (mine.get(one).id, mine.find(other) is not None) == (one, True)
            assert mine.sessions(agent=other + "?").items == []

        assert [info.id for info in store.sessions()] == [bystander.id]
        assert [m.text for m in bystander.messages()] == ["untouched"]
        assert store.verify().problems == []
