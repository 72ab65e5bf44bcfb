"""Finding and listing sessions."""

from __future__ import annotations

from typing import Any

import apsw

from threadline.backends.backend import STATUSES, KeyRow, Original, Piece, Query, Record, Ref
from threadline.backends.sqlite.rows import NUMBERS_AND_BYTES, many, one
from threadline.core import codec
from threadline.core.about import decode
from threadline.core.entries import stored, text, text_or_none
from threadline.core.fold import State
from threadline.errors import Damaged

FEW = 1_000  # up to so many sessions of a folder, agent or tag are sorted rather than walked to
NO_CURSOR = (2**62, 2**62)


def find(connection: apsw.Connection, namespace: str, *, id: str | None = None, key: str | None = None) -> Ref | None:
    name, value = ("by_id", id) if id is not None else ("by_key", key)
    found = one(connection, name, (stored(namespace), stored(value or "")))
    return None if found is None else ref_of(connection, *found)


def ref_of(connection: apsw.Connection, number: int, tree: bytes, id: bytes, key: bytes | None) -> Ref:
    pieces = many(connection, "lineage", (number,))
    return Ref(number, text(id), text_or_none(key), tuple(Piece(*piece) for piece in pieces), tree)


def record_of(found: tuple[Any, ...]) -> Record:
    number, id, key, about, status, created_at, updated_at, *fold = found
    if not {type(created_at), type(updated_at), *map(type, fold)} <= NUMBERS_AND_BYTES:
        raise Damaged(text(id), None, "its head row is not what it was")
    named = text_or_none(key)
    return Record(number, text(id), named, decode(about), STATUSES[status], State._make(fold), created_at, updated_at)


def records(connection: apsw.Connection, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
    values = _bindings(query)
    name = f"list_by_{query.order}"
    if (few := _few(connection, query, values)) is not None:
        name, values["numbers"] = "list_few", codec.encode(few).decode()
    found = many(connection, name, values)
    records = [record_of(row) for row in found[: query.limit]]
    if len(found) <= query.limit:
        return records, None
    last = records[-1]
    return records, (last.created_at if query.order == "created" else last.updated_at, last.number)


def _bindings(query: Query) -> dict[str, Any]:
    prefix = None if query.key_prefix is None else stored(query.key_prefix)
    at, number = query.cursor or NO_CURSOR
    return {
        "namespace": stored(query.namespace),
        "status": None if query.status is None else STATUSES.index(query.status),
        "waiting": query.waiting,
        "before": query.updated_before,
        "cwd": None if query.cwd is None else stored(query.cwd),
        "agent": None if query.agent is None else stored(query.agent),
        "tag": None if query.tag is None else stored(query.tag),
        "prefix": prefix,
        "prefix_end": None if prefix is None else prefix + b"\xff" * 8,  # no UTF-8 sorts after that
        "order": query.order,
        "at": at,
        "number": number,
        "limit": query.limit + 1,  # one more tells whether there is a next page
        "few": FEW + 1,
    }


def _few(connection: apsw.Connection, query: Query, values: dict[str, Any]) -> list[int] | None:
    """The sessions of a folder, agent, tag or key prefix, where they are few enough to sort: a walk in the order of
    change might pass a hundred thousand others on its way to them."""
    for name in ("prefix", "tag", "cwd", "agent"):
        if values[name] is not None:
            found = many(connection, f"few_by_{name}", values)
            if len(found) <= FEW:
                return [number for (number,) in found]
    return None


def originals(connection: apsw.Connection, after: int) -> list[Original]:
    """A page of all sessions in the order they were made, for a copy of the store."""
    return [_original(connection, *found) for found in many(connection, "originals", (after, FEW))]


def _original(
    connection: apsw.Connection, number: int, tree: bytes, id: bytes, key: bytes | None, *columns: Any
) -> Original:
    namespace, created_at, updated_at, status, about, origin = columns
    ref = ref_of(connection, number, tree, id, key)
    (salt,) = one(connection, "salt", (ref.lineage[0].log,))
    return Original(ref, text(namespace), salt, created_at, updated_at, STATUSES[status], decode(about), origin)


def keys(connection: apsw.Connection, ref: Ref, after: int) -> list[KeyRow]:
    return [KeyRow(*found) for found in many(connection, "keys_after", (ref.lineage[-1].log, after))]
