"""The words of a memory on a server are those of today's rules, whichever made them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import threadline
from threadline import Store

OTHERS = "UPDATE threadline.memory SET version = 99"  # as a program with other rules would have left it
NO_WORDS = "UPDATE threadline.node SET words = array_to_tsvector('{otherwise}') WHERE words IS NOT NULL"


@pytest.fixture
def store(postgres_url: str, postgres_schema: psycopg.Connection) -> Iterator[Store]:
    """A memory whose words were made by other rules, which find nothing by ours."""
    with threadline.open(postgres_url) as store:
        store.memory("p").claims(["a known fact", "another fact"])
        postgres_schema.execute(OTHERS)
        postgres_schema.execute(NO_WORDS)
        yield store


def contents(store: Store) -> list[str]:
    return sorted(hit.content for hit in store.memory("p").recall("fact"))


def state(postgres_schema: psycopg.Connection) -> tuple[object, ...]:
    query = """SELECT max(m.version), count(*) FILTER (WHERE n.words @@ 'otherwise')
               FROM   threadline.memory m, threadline.node n"""
    return tuple(postgres_schema.execute(query).fetchone() or ())


def test_words_of_other_rules_are_no_damage_and_made_anew_by_the_next_recall(
    store: Store, postgres_schema: psycopg.Connection
) -> None:
    assert store.verify().problems == []
    assert contents(store) == ["a known fact", "another fact"]
    assert state(postgres_schema) == (1, 0)
    assert store.verify().problems == []


def test_the_next_claim_makes_them_anew_too(store: Store, postgres_schema: psycopg.Connection) -> None:
    store.memory("p").claim("a third fact")

    assert state(postgres_schema) == (1, 0)
    assert contents(store) == ["a known fact", "a third fact", "another fact"]
    assert store.verify().problems == []


def test_a_reader_finds_without_them(store: Store, postgres_url: str, postgres_schema: psycopg.Connection) -> None:
    with threadline.open(postgres_url, read_only=True) as reader:
        assert contents(reader) == ["a known fact", "another fact"]

    assert state(postgres_schema) == (99, 2)


def test_words_of_our_rules_that_are_not_those_of_the_node_are_damage(
    store: Store, postgres_schema: psycopg.Connection
) -> None:
    postgres_schema.execute("UPDATE threadline.memory SET version = 1")

    assert len(store.verify().problems) == 2
