"""Verify memories: every row against its seal, every address against its content, the index of words against both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from threadline.backends.backend import Problem
from threadline.backends.shelf import node_words
from threadline.backends.sqlite.memory import terms_of
from threadline.backends.sqlite.rows import SQL, Connection, many, one
from threadline.core.entries import text
from threadline.core.words import VERSION
from threadline.memory.audit import Audit, named
from threadline.memory.rows import LASTING, ChainRow, EventRow, NodeRow, Place, WorkingRow

KINDS = ("nodes", "chains", "working memories", "events", "inputs of nodes", "members of chains")


def memories(connection: Connection) -> Iterator[Problem]:
    connection.execute("BEGIN")  # one moment: the rows of several tables are compared
    try:
        yield from _memories(connection)
        yield from _words(connection)
    finally:
        connection.execute("ROLLBACK")


def _memories(connection: Connection) -> Iterator[Problem]:
    audits: dict[bytes, Audit] = {}
    names: dict[bytes, str] = {}
    realms: dict[bytes, bytes] = {}
    counts: dict[bytes, tuple[int, int]] = {}
    for tree, namespace, project, mark, *count in many(connection, "verify_memories"):
        place = Place(text(namespace), text(project) or None)
        audits[tree], names[tree], realms[tree] = Audit(tree, place), named(place), namespace
        counts[tree] = (count[0], count[1])
        yield from _problems(names[tree], audits[tree].memory((tree, namespace, project), mark))
    strays: Counter[str] = Counter()
    for kind, tree, found in _rows(connection, audits, realms):
        if tree in audits:
            yield from _problems(names[tree], found)
        else:
            strays[kind] += 1
    inputs, members = _pairs(connection, "verify_node_inputs"), _pairs(connection, "verify_chain_members")
    for tree, audit in audits.items():
        yield from _problems(names[tree], audit.together(inputs.pop(tree, ()), members.pop(tree, ())))
        yield from _problems(names[tree], audit.count(*counts[tree]))
    strays.update({kind: len(left) for kind, left in zip(KINDS[4:], (inputs, members), strict=True) if left})
    for kind, count in strays.items():
        yield Problem(None, None, f"{count} {kind} of no memory")


def _rows(
    connection: Connection, audits: dict[bytes, Audit], realms: dict[bytes, bytes]
) -> Iterator[tuple[str, bytes, Iterator[str]]]:
    """Every row, with what its memory's audit says of it."""
    for _, tree, *columns, mark in connection.execute(SQL["verify_nodes"]):
        yield "nodes", tree, _of(audits, tree, "node", NodeRow._make(columns), mark)
    for tree, *columns, mark in many(connection, "verify_chains"):
        yield "chains", tree, _of(audits, tree, "chain", ChainRow._make(columns), mark)
    for tree, namespace, *columns, mark in many(connection, "verify_workings"):
        yield "working memories", tree, _of(audits, tree, "working", WorkingRow._make(columns), mark)
        if tree in realms and realms[tree] != namespace:
            yield "working memories", tree, iter(("a working memory is of another namespace",))
    for tree, *columns, mark in many(connection, "verify_memory_events"):
        yield "events", tree, _of(audits, tree, "event", EventRow._make(columns), mark)


def _of(audits: dict[bytes, Audit], tree: bytes, kind: str, row: Any, mark: bytes) -> Iterator[str]:
    if tree in audits:
        yield from getattr(audits[tree], kind)(row, mark)


def _pairs(connection: Connection, name: str) -> dict[bytes, list[Any]]:
    found: dict[bytes, list[Any]] = {}
    for tree, *columns in many(connection, name):
        found.setdefault(tree, []).append(tuple(columns))
    return found


def _problems(name: str, flaws: Iterator[str]) -> Iterator[Problem]:
    for flaw in flaws:
        yield Problem(None, None, f"{name}: {flaw}")


# -- the index of words --------------------------------------------------------------------------------


def _words(connection: Connection) -> Iterator[Problem]:
    """What the index holds of each node, added up in an order that does not matter, is what the node says."""
    found = _indexed(connection)
    upto, version = one(connection, "verify_indexed")
    if version != VERSION:  # made anew by the next recall
        return
    for node, tree, scope, *columns, _mark in connection.execute(SQL["verify_nodes"]):
        row = NodeRow._make((scope, *columns))
        if scope == LASTING and node <= upto and found.pop(node, 0) != _expected(tree, row):
            yield Problem(None, None, f"the index of words does not hold what node {row.addr.hex()[:12]} says")
    if found:
        yield Problem(None, None, f"the index of words holds {len(found)} nodes that are not there")


def _indexed(connection: Connection) -> dict[int, int]:
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.node_words USING fts5vocab(main, node_text, instance)")
    sums: dict[int, int] = {}
    for term, node in connection.execute("SELECT term, doc FROM temp.node_words"):
        sums[node] = sums.get(node, 0) + _weight(term)
    return sums


def _expected(tree: bytes, row: NodeRow) -> int:
    return sum(map(_weight, terms_of(tree, node_words(row.domain, row.content))))


def _weight(term: str) -> int:
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "big")
