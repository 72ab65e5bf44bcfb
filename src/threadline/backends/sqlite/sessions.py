"""Finding and listing sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

from threadline.backends.backend import STATUSES, KeyRow, Original, Piece, Query, Record, Ref
from threadline.backends.sqlite.leases import now_us
from threadline.backends.sqlite.rows import SQL, Connection, many, one
from threadline.backends.sqlite.usage import spent_by_each
from threadline.core import codec, holds
from threadline.core.about import decode
from threadline.core.digest import seal
from threadline.core.entries import MISTYPED, stored, text, text_or_none
from threadline.core.fold import TYPES, state_of
from threadline.core.spending import Sum
from threadline.errors import Damaged

FEW = 1_000  # up to so many sessions of a folder, agent or tag are sorted rather than walked to
NO_CURSOR = (2**62, 2**62)
HEAD_TYPES = (int, int, int, *TYPES)  # of a record's times, its queue and its state


def find(connection: Connection, namespace: str, *, id: str | None = None, key: str | None = None) -> Ref | None:
    name, value = ("by_id", id) if id is not None else ("by_key", key)
    found = one(connection, name, (stored(namespace), stored(value or "")))
    return None if found is None else ref_of(connection, *found)


def ref_of(connection: Connection, number: int, tree: bytes, id: bytes, key: bytes | None) -> Ref:
    pieces = many(connection, "lineage", (number,))
    for log, first, last, session, mark in pieces:
        if seal(session, first, last, log) != mark:
            raise Damaged(text(id), None, "where its entries lie cannot be told: a share row does not match its seal")
    return Ref(number, text(id), text_or_none(key), tuple(Piece(*piece[:3]) for piece in pieces), tree)


def record_of(found: tuple[Any, ...], spent: tuple[Sum, ...] = ()) -> Record:
    if tuple(map(type, (*found[5:8], *found[9:]))) != HEAD_TYPES:
        raise Damaged(text(found[1]), None, "its head row is not what it was")
    return _record(found, spent)


def _record(found: tuple[Any, ...], spent: tuple[Sum, ...]) -> Record:
    """The record of a row whose columns are of the types that were written."""
    number, id, key, about, status, created_at, updated_at, queued, lease = found[:9]
    return _record_of(
        (
            number,
            id.decode("utf-8", "surrogatepass"),
            None if key is None else text(key),
            decode(about),
            STATUSES[status],
            state_of(found[9:]),
            created_at,
            updated_at,
            queued,
            None if lease is None else _holder(lease),
            spent,
        )
    )


_record_of: Callable[[Sequence[Any]], Record] = partial(tuple.__new__, Record)  # as Record._make, in C


def _holder(lease: bytes) -> str | None:
    """Who holds the lease now; None where it is over, or cannot be read: a damaged lease hides no session."""
    with suppress(Damaged, *MISTYPED):
        hold = holds.decode(lease)
        return hold.holder if hold is not None and hold.lives(now_us()) else None
    return None


def records_of(connection: Connection, found: list[tuple[Any, ...]]) -> list[Record]:
    if not found:
        return []
    spent = spent_by_each(connection, (row[0] for row in found))
    read = _record if _well_typed(found) else record_of
    return [read(row, spent.get(row[0], ())) for row in found]


def _well_typed(found: list[tuple[Any, ...]]) -> bool:
    """Whether the columns of numbers hold nothing else, all rows at once: any other type changes a sum, or stops it."""
    columns = list(zip(*found, strict=True))
    try:
        numbers = [sum(column) for column in (*columns[5:8], columns[9], *columns[11:])]
        return {int} == {*map(type, numbers)} and {bytes} == {*map(type, columns[10])}
    except TypeError:
        return False


def records(connection: Connection, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
    found = _page(connection, query, _bindings(query))
    records = records_of(connection, found[: query.limit])
    if len(found) <= query.limit:
        return records, None
    last = records[-1]
    return records, (last.created_at if query.order == "created" else last.updated_at, last.number)


def _page(connection: Connection, query: Query, values: dict[str, Any]) -> list[Any]:
    """The rows of a page and one more. Roots and children stand apart in the index: where both are asked for, each
    has its page, and the two are merged."""
    if (few := _few(connection, query, values)) is not None:
        return _listed(connection, "list_few", values | {"numbers": codec.encode(few).decode()})
    name, time = f"list_by_{query.order}", 5 if query.order == "created" else 6
    if values["child"] is not None:
        return _listed(connection, name, values)
    both = [row for child in (0, 1) for row in _listed(connection, name, values | {"child": child})]
    return sorted(both, key=lambda row: (row[time], row[0]), reverse=True)


def _listed(connection: Connection, name: str, values: dict[str, Any]) -> list[Any]:
    asked = frozenset(name for name, value in values.items() if value is not None)
    return connection.execute(listing(name, asked), values).fetchall()


@cache
def listing(name: str, asked: frozenset[str]) -> str:
    """The listing without the filters that nobody asked for: each would be weighed again for every session."""
    clauses = re.split(r"\n(?=AND|ORDER BY)", SQL[name])
    filters = [re.match(r"AND +\(:(\w+) +IS NULL OR", clause) for clause in clauses]
    return "\n".join(c for c, filter in zip(clauses, filters, strict=True) if filter is None or filter[1] in asked)


def _bindings(query: Query) -> dict[str, Any]:
    prefix = None if query.key_prefix is None else stored(query.key_prefix)
    begins = None if query.id_prefix is None else stored(query.id_prefix)
    at, number = query.cursor or NO_CURSOR
    return {
        "namespace": stored(query.namespace),
        "status": None if query.status is None else STATUSES.index(query.status),
        "waiting": query.waiting,
        "before": query.updated_before,
        "cwd": None if query.cwd is None else stored(query.cwd),
        "agent": None if query.agent is None else stored(query.agent),
        "tag": None if query.tag is None else stored(query.tag),
        "parent": None if query.parent is None else query.parent.number,
        "child": 1 if query.parent is not None else 0 if query.root else None,
        "prefix": prefix,
        "prefix_end": None if prefix is None else prefix + b"\xff" * 8,  # no UTF-8 sorts after that
        "begins": begins,
        "begins_end": None if begins is None else begins + b"\xff" * 8,
        "order": query.order,
        "at": at,
        "number": number,
        "limit": query.limit + 1,  # one more tells whether there is a next page
        "few": FEW + 1,
    }


def _few(connection: Connection, query: Query, values: dict[str, Any]) -> list[int] | None:
    """The sessions of a folder, agent, tag or key prefix, where they are few enough to sort: a walk in the order of
    change might pass a hundred thousand others on its way to them."""
    for name in ("begins", "parent", "prefix", "tag", "cwd", "agent"):
        if values[name] is not None:
            found = many(connection, f"few_by_{name}", values)
            if len(found) <= FEW:
                return [number for (number,) in found]
    return None


def originals(connection: Connection, after: int) -> list[Original]:
    """A page of all sessions in the order they were made, for a copy of the store."""
    return [_original(connection, *found) for found in many(connection, "originals", (after, FEW))]


def trees(connection: Connection, after: bytes) -> list[bytes]:
    return [tree for (tree,) in many(connection, "trees", (after,))]


def family(connection: Connection, tree: bytes) -> list[Original]:
    return [_original(connection, *found) for found in many(connection, "family", (tree,))]


def _original(
    connection: Connection, number: int, tree: bytes, id: bytes, key: bytes | None, *columns: Any
) -> Original:
    namespace, created_at, updated_at, status, about, origin, parent = columns
    ref = ref_of(connection, number, tree, id, key)
    (salt,) = one(connection, "salt", (ref.lineage[0].log,))
    return Original(ref, text(namespace), salt, created_at, updated_at, STATUSES[status], decode(about), origin, parent)


def calls_named(connection: Connection, ref: Ref, keys: Iterable[bytes]) -> list[KeyRow]:
    found = ((key, one(connection, "find_key", (key, key, ref.number))) for key in keys)
    return [KeyRow(key, *call) for key, call in found if call is not None]


def keys(connection: Connection, ref: Ref, after: int) -> list[KeyRow]:
    return [KeyRow(*found) for found in many(connection, "keys_after", (ref.lineage[-1].log, after))]
