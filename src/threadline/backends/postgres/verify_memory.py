"""Verify memories, one after the other, each as it is at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from threadline.backends.backend import Problem
from threadline.backends.postgres.places import realm_of
from threadline.backends.postgres.statements import Connection, many, one
from threadline.backends.postgres.wire import roll_back
from threadline.backends.shelf import node_words
from threadline.core.entries import text
from threadline.core.words import VERSION
from threadline.memory.audit import Audit, named
from threadline.memory.rows import LASTING, ChainRow, EventRow, NodeRow, Place, WorkingRow

STRAYS = ("nodes", "inputs of nodes", "chains", "members of chains", "working memories", "events")


def memories(connection: Connection) -> Iterator[Problem]:
    for tree, realm, namespace, project, mark, version in many(connection, "verify_memories"):
        place = Place(text(namespace), text(project) or None)
        audit = Audit(tree, place)
        flaws = [*audit.memory((tree, realm, namespace, project), mark)]
        if realm != realm_of(place.namespace):
            flaws.append("its realm is not that of its namespace")
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            flaws += _flaws(connection, tree, realm, audit, by_our_rules=version == VERSION)
        finally:
            roll_back(connection)
        yield from (Problem(None, None, f"{named(place)}: {flaw}") for flaw in flaws)
    for count, kind in zip(one(connection, "verify_memory_strays"), STRAYS, strict=True):
        if count:
            yield Problem(None, None, f"{count} {kind} of no memory")


def _flaws(connection: Connection, tree: bytes, realm: bytes, audit: Audit, *, by_our_rules: bool) -> Iterator[str]:
    """Words that other rules made are made anew by whoever asks for some."""
    for *columns, mark, words in many(connection, "verify_nodes", (tree,)):
        row = NodeRow._make(columns)
        yield from audit.node(row, mark)
        if by_our_rules and _expected(row) != (None if words is None else {*words}):
            yield f"the index of words does not hold what node {row.addr.hex()[:12]} says"
    for *columns, mark in many(connection, "verify_chains", (tree,)):
        yield from audit.chain(ChainRow._make(columns), mark)
    for its_realm, *columns, mark in many(connection, "verify_workings", (tree,)):
        yield from audit.working(WorkingRow._make(columns), mark)
        if its_realm != realm:
            yield "a working memory is of another namespace"
    for *columns, mark in many(connection, "verify_memory_events", (tree,)):
        yield from audit.event(EventRow._make(columns), mark)
    inputs: Any = many(connection, "verify_node_inputs", (tree,))
    yield from audit.together(inputs, many(connection, "verify_chain_members", (tree,)))
    yield from audit.count(*one(connection, "verify_count", (tree,)))


def _expected(row: NodeRow) -> set[str] | None:
    return {*node_words(row.domain, row.content)} if row.scope == LASTING else None
