"""Working memory in our own JSONL: all of it, exactly, and again and again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import threadline
from threadline import Store, transcripts

KEY = "sk-ant-" + "a1B2" * 8


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Store]:
    with threadline.open(tmp_path / "source.db", durability="relaxed") as store:
        yield store


def furnish(store: Store) -> None:
    memory = store.memory("shop")
    first = memory.claim("uses SQLite", domain="architecture", chain="storage", meta={"x": "\ud800"})
    second = memory.claim(f"the key is {KEY}", priority=2)
    whole = memory.compress([first, second], f"SQLite, and the key {KEY}")
    memory.supersede(whole, "SQLite, and no key")
    session = memory.session(agent="coder")
    memory.claim("a hunch", session=session, preliminary=True, chain="hunches")
    memory.claim("mine alone", session=session, agent="coder", preliminary=True)
    memory.end(session)
    store.memory().claim("everywhere")
    store.within("acme").memory("shop").claim("theirs")


def exported(store: Store, path: Path, *, raw: bool = True) -> bytes:
    transcripts.write(store, path, "jsonl", raw=raw)
    return path.read_bytes()


@pytest.mark.parametrize("raw", [True, False])
def test_memories_come_back_exactly(source: Store, store: Store, tmp_path: Path, raw: bool) -> None:
    furnish(source)
    first = exported(source, tmp_path / "a.jsonl", raw=raw)
    report = transcripts.read(tmp_path / "a.jsonl", store=store)
    again = transcripts.read(tmp_path / "a.jsonl", store=store)

    assert (report.problems, again.problems, again.added) == ([], [], 0)
    assert exported(store, tmp_path / "b.jsonl", raw=raw) == first
    assert (KEY.encode() in first) is raw
    assert store.verify().problems == []
    assert [node.content for node in store.memory("shop").active()] == [
        node.content for node in source.memory("shop").active()
    ]
    assert len(store.memory("shop").provenance(store.memory("shop").recall("SQLite")[0])) == 4


def test_both_engines_export_the_same_memories(source: Store, tmp_path: Path, postgres_url: str) -> None:
    furnish(source)
    first = exported(source, tmp_path / "a.jsonl")
    with threadline.open(postgres_url, durability="relaxed") as server:
        report = transcripts.read(tmp_path / "a.jsonl", store=server)

        assert report.problems == []
        assert exported(server, tmp_path / "b.jsonl") == first
        assert server.verify().problems == []


def test_a_node_that_is_not_what_its_address_says_is_set_aside(source: Store, store: Store, tmp_path: Path) -> None:
    source.memory("shop").claim("one")
    source.memory("shop").claim("two")
    whole = exported(source, tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_bytes(whole.replace(b'"content":"one"', b'"content":"eno"'))
    report = transcripts.read(tmp_path / "b.jsonl", store=store)

    assert [node.content for node in store.memory("shop").active()] == ["two"]
    assert len(report.problems) == 1
    assert report.bytes_read == report.bytes_imported + report.bytes_reported
