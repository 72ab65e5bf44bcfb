"""Working memory when things go wrong or happen at once: many processes, damage, moving house."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import apsw
import psycopg
import pytest
from processes import at_once

import threadline
from threadline import Damaged, Memory, Store
from threadline.backends import sql
from threadline.testing import scaled

WORKERS = 4
CLAIMS = scaled(20)

TABLES = ("memory", "node", "node_input", "chain", "chain_member", "working", "memory_event")


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, path: Path) -> str:
    return str(path) if request.param == "file" else request.getfixturevalue("postgres_url")


def lived(memory: Memory) -> None:
    """Something of everything."""
    one, two = memory.claims([{"content": "port 80", "domain": "net", "chain": "ports"}, "the build takes 40 s"])
    memory.supersede(one, "port 8080", agent="bob")
    memory.compress([two], "slow build")
    memory.claim("perhaps", session="s1", agent="bob", preliminary=True, chain="idea", meta={"n": [1, {"m": None}]})
    aside = memory.claim("aside", session="s1", preliminary=True, chain="aside", ttl=timedelta(days=9))
    memory.supersede(aside, "well aside", session="s1")
    memory.stash("aside", "later")
    memory.claim("gone", session="s2", preliminary=True)
    memory.end("s2", promote=False)
    memory.promote("idea")


def everything(memory: Memory) -> list[object]:
    return [
        memory.active(session="s1", agent="bob"),
        memory.chains(),
        memory.events(limit=10_000),
        memory.roots(),
        memory.archives(),
        *(memory.summary(name) for name in ("s1", "s2")),
        *(memory.provenance(node) for node in memory.active()),
        [(hit.addr, hit.words) for hit in memory.recall("port build perhaps", limit=10)],
    ]


# -- at once -------------------------------------------------------------------------------------------


def work(place: str, worker: int) -> None:
    with threadline.open(place, durability="relaxed") as store:
        memory = store.memory("p")
        session = memory.session(f"agent {worker}")
        for n in range(CLAIMS):
            memory.claim(f"fact {n}", meta={f"worker {worker}": n}, chain="facts")
            memory.claim(f"thought {worker} {n}", session=session, agent=f"agent {worker}", preliminary=True, chain="t")
            if n % 7 == 3:
                memory.promote_all(session)
        ending = memory.end(session)
        assert set(ending.archived) == set()


def test_processes_that_claim_and_promote_at_once_lose_nothing(place: str) -> None:
    threadline.open(place).close()

    at_once(*(partial(work, place, worker) for worker in range(WORKERS)))

    with threadline.open(place) as store:
        memory = store.memory("p")
        active = {node.content: node for node in memory.active()}
        thoughts = {f"thought {worker} {n}" for worker in range(WORKERS) for n in range(CLAIMS)}

        assert active.keys() == {f"fact {n}" for n in range(CLAIMS)} | thoughts
        for n in range(CLAIMS):
            fact = active[f"fact {n}"]
            assert {name: value for name, value in fact.meta.items() if name.startswith("worker")} == {
                f"worker {worker}": n for worker in range(WORKERS)
            }
            assert fact.reinforced == WORKERS - 1
        assert len(memory.chain("facts").members) == CLAIMS
        assert {*memory.chain("t").members} == {active[thought].addr for thought in thoughts}
        assert store.verify().problems == []


def ask(place: str, into: str) -> None:
    with threadline.open(place, durability="relaxed") as store, open(into, "a") as answers:
        answers.write(f"{store.memory('p').session('same').id}\n")


def test_processes_that_ask_for_a_session_at_once_get_one(place: str, tmp_path: Path) -> None:
    threadline.open(place).close()
    answers = tmp_path / "answers"

    at_once(*(partial(ask, place, str(answers)) for _ in range(WORKERS)))

    assert len({*answers.read_text().split()}) == 1
    assert len(answers.read_text().split()) == WORKERS


# -- moving house --------------------------------------------------------------------------------------


@pytest.fixture
def source(place: str) -> Iterator[Store]:
    with threadline.open(place, durability="relaxed") as store:
        yield store


@pytest.fixture
def target(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    url = str(tmp_path / "target.db") if place.startswith("postgres") else request.getfixturevalue("postgres_url")
    with threadline.open(url, durability="relaxed") as store:
        yield store


def test_a_copy_takes_memories_along_and_adds_what_is_new(source: Store, target: Store) -> None:
    here, there = source.within("acme").memory("p"), target.within("acme").memory("p")
    lived(here)
    source.memory().claim("global")
    first = threadline.copy(source, target)
    same = everything(there) == everything(here)
    again = threadline.copy(source, target)
    here.supersede(here.recall("slow build")[0], "fast build")
    there.claim("slow build too", chain="ports")
    later = threadline.copy(source, target)

    assert same
    assert [node.content for node in target.memory().active()] == ["global"]
    assert (first.problems, again.problems, later.problems) == ([], [], [])
    assert (first.nodes > 5, again.nodes, later.nodes) == (True, 0, 2)
    contents = [node.content for node in there.active()]
    assert ("fast build" in contents, "slow build" in contents, "slow build too" in contents) == (True, False, True)
    assert target.verify().problems == source.verify().problems == []


def test_a_backup_holds_memories(source: Store, tmp_path: Path) -> None:
    lived(source.memory("p"))
    source.backup(tmp_path / "backup.db")

    with threadline.open(tmp_path / "backup.db") as backup:
        assert everything(backup.memory("p")) == everything(source.memory("p"))


# -- damage --------------------------------------------------------------------------------------------


def columns(engine: str, table: str) -> list[str]:
    prefix = "threadline." if engine == "postgres" else ""
    block = sql.schema(engine).partition(f"CREATE TABLE {prefix}{table} (")[2].partition("\n)")[0]
    names = [line.split()[0] for line in block.splitlines() if line.startswith("    ") and line.split()]
    # `node` only numbers its rows; where the `version` is another one, the next recall makes the words anew.
    return [name for name in names if name not in ("PRIMARY", "UNIQUE", "--", table, "version")]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with something of everything."""
    path = tmp_path_factory.mktemp("original") / "store.db"
    with threadline.open(path, durability="relaxed", namespace="here") as store:
        lived(store.memory("p"))
        store.memory("p").recall("port")
    return path.read_bytes()


@pytest.mark.parametrize("table", TABLES)
def test_a_changed_value_in_the_file_is_found(path: Path, original: bytes, table: str) -> None:
    for column in columns("sqlite", table):
        path.write_bytes(original)
        file = apsw.Connection(str(path))
        some = f"FROM {table} WHERE {column} IS NOT NULL AND {column} <> x''"
        (kind,) = next(file.execute(f"SELECT typeof({column}) {some}"))
        changed = f"{column} - 999" if kind == "integer" else f"CAST(substr({column}, 2) || 'z' AS BLOB)"
        file.execute(f"UPDATE {table} SET {column} = {changed} WHERE {column} = (SELECT {column} {some} LIMIT 1)")
        assert file.changes() >= 1
        file.close()

        with threadline.open(path) as store:
            assert store.verify().problems != [], column


CHANGED = {
    "bytea": "set_byte({0}, 0, get_byte({0}, 0) # 1)",
    "bigint": "{0} - 999",
    "smallint": "({0} + 1)::smallint",
    "tsvector": "'other'::tsvector",
}


@pytest.mark.parametrize("table", TABLES)
def test_a_changed_value_on_the_server_is_found(
    postgres_url: str, postgres_schema: psycopg.Connection, table: str
) -> None:
    with threadline.open(postgres_url, durability="relaxed", namespace="here") as store:
        lived(store.memory("p"))
        for column in columns("postgres", table):
            (kind,) = postgres_schema.execute(
                "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s",
                (f"threadline.{table}", column),
            ).fetchone() or ("",)
            some = f"{column} IS NOT NULL" + (f" AND length({column}) > 0" if kind == "bytea" else "")
            found = f"SELECT ctid::text, {column}::text FROM threadline.{table} WHERE {some} LIMIT 1"
            row, before = postgres_schema.execute(found).fetchone() or ("", "")
            change = f"UPDATE threadline.{table} SET {column} = {CHANGED[kind].format(column)} WHERE ctid = %s::tid"
            (row,) = postgres_schema.execute(f"{change} RETURNING ctid::text", (row,)).fetchone() or ("",)

            assert store.verify().problems != [], column
            back = f"UPDATE threadline.{table} SET {column} = %s::{kind} WHERE ctid = %s::tid"
            assert postgres_schema.execute(back, (before, row)).rowcount == 1
        assert store.verify().problems == []


class Rows:
    """The rows of the table `node`, behind the store's back."""

    def __init__(self, place: str, server: psycopg.Connection | None) -> None:
        self._place = place
        self._server = server

    def first(self) -> tuple[object, ...]:
        """What may change in it, and where it is."""
        return self._run("SELECT active, touched_at, about, seal, addr, scope FROM {node}")[0]

    def put(self, *row: object) -> None:
        self._run(
            "UPDATE {node} SET active = ?, touched_at = ?, about = ?, seal = ? WHERE addr = ? AND scope = ?", *row
        )

    def lose(self, *row: object) -> None:
        self._run("DELETE FROM {node} WHERE addr = ? AND scope = ?", *row[-2:])

    def _run(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        if self._server is not None:
            cursor = self._server.execute(statement.format(node="threadline.node").replace("?", "%s"), values)
            return cursor.fetchall() if cursor.description else []
        file = apsw.Connection(self._place)
        found = list(file.execute(statement.format(node="node"), values))
        file.close()
        return found


@pytest.fixture
def rows(place: str, request: pytest.FixtureRequest) -> Rows:
    return Rows(place, request.getfixturevalue("postgres_schema") if place.startswith("postgres") else None)


def test_a_node_that_is_lost_without_a_trace_is_missed(place: str, rows: Rows) -> None:
    """It leads to no other, no chain holds it, and all rows that are there are sound."""
    with threadline.open(place, durability="relaxed") as store:
        store.memory("p").claims(["one", "two"])
    rows.lose(*rows.first())

    with threadline.open(place) as store:
        assert [problem.what for problem in store.verify().problems] == [
            "the memory of 'p': 1 nodes are there, 2 were written"
        ]


def test_a_node_that_is_an_older_version_of_itself_is_noticed(place: str, rows: Rows) -> None:
    with threadline.open(place, durability="relaxed") as store:
        node = store.memory("p").claim("true for now")
        before = rows.first()
        store.memory("p").retire(node.addr)
    rows.put(*before)

    with threadline.open(place) as store:
        assert [node.content for node in store.memory("p").active()] == ["true for now"]
        assert [problem.what for problem in store.verify().problems] == [
            "the memory of 'p': one of its nodes is not what was written last"
        ]


def test_a_damaged_node_is_left_out_and_named(path: Path) -> None:
    with threadline.open(path) as store:
        good, bad = store.memory("p").claims(["good fact", "bad fact"])
        store.memory("p").recall("fact")
    file = apsw.Connection(str(path))
    file.execute("UPDATE node SET about = ? WHERE addr = ?", (b"{}", bytes.fromhex(bad.addr)))
    file.close()

    with threadline.open(path) as store:
        memory = store.memory("p")

        assert [node.addr for node in memory.active()] == [hit.addr for hit in memory.recall("fact")] == [good.addr]
        assert bad.addr[:12] in store.verify().problems[0].what
        with pytest.raises(Damaged, match=bad.addr[:12]):
            memory.get(bad.addr)


def test_words_are_indexed_by_the_first_recall_and_found_before_by_a_reader(path: Path) -> None:
    with threadline.open(path) as store:
        store.memory("p").claims([f"fact {n}" for n in range(5)])
    with threadline.open(path, read_only=True) as reader:
        found = {hit.content for hit in reader.memory("p").recall("fact", limit=10)}
    with threadline.open(path) as store:
        again = {hit.content for hit in store.memory("p").recall("fact", limit=10)}

    assert found == again == {f"fact {n}" for n in range(5)}


def test_an_index_of_other_rules_is_made_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with threadline.open(path) as store:
        store.memory("p").claim("known fact")
        store.memory("p").recall("fact")
        monkeypatch.setattr("threadline.backends.sqlite.memory.VERSION", 99)

        assert [hit.content for hit in store.memory("p").recall("fact")] == ["known fact"]
        assert store.verify().problems == []


def test_recall_on_a_server_reads_no_list_of_what_its_index_has_pending(postgres_schema: psycopg.Connection) -> None:
    """Some 4 MB by default, read by each recall for each of its words: 1 ms each of 100,000 nodes."""
    found = postgres_schema.execute(
        "SELECT reloptions FROM pg_class WHERE oid = 'threadline.node_by_words'::regclass"
    ).fetchone()

    assert found == (["fastupdate=off"],)
