"""Listing sessions."""

from __future__ import annotations

from functools import partial
from typing import Any

from threadline.backends.backend import STATUSES, Query, Record
from threadline.backends.postgres.places import realm_of
from threadline.backends.postgres.rows import record_of, stored_or_none
from threadline.backends.postgres.statements import SQL, Connection

NO_CURSOR = (2**62, 2**62)
FILTERS = ("status", "waiting", "before", "cwd", "agent", "parent", "prefix", "tag")


def records(connection: Connection, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
    values = _bindings(query)
    # Composed of our own fragments only. Planned anew each time: the planner then knows how rare a folder or tag is.
    filters = "\n".join(SQL[f"filter_{name}"] for name in FILTERS if values[name] is not None)
    statement = SQL[f"list_by_{query.order}"].replace("{filters}", filters)
    found: list[Record] = []
    for child in _children(query):
        page = connection.execute(statement, values | {"child": child}, prepare=False, binary=True)
        found += map(record_of, page)
    found.sort(key=partial(_position, query.order), reverse=True)
    if len(found) <= query.limit:
        return found, None
    return found[: query.limit], _position(query.order, found[query.limit - 1])


def _children(query: Query) -> tuple[int, ...]:
    """Roots and children stand apart in the index: where both are asked for, each has its page."""
    if query.parent is not None:
        return (1,)
    return (0,) if query.root else (0, 1)


def _position(order: str, record: Record) -> tuple[int, int]:
    return (record.created_at if order == "created" else record.updated_at, record.number)


def _bindings(query: Query) -> dict[str, Any]:
    prefix = stored_or_none(query.key_prefix)
    at, number = query.cursor or NO_CURSOR
    return {
        "realm": realm_of(query.namespace),
        "status": None if query.status is None else STATUSES.index(query.status),
        "waiting": query.waiting,
        "before": query.updated_before,
        "cwd": stored_or_none(query.cwd),
        "agent": stored_or_none(query.agent),
        "tag": stored_or_none(query.tag),
        "parent": None if query.parent is None else query.parent.number,
        "tree": None if query.parent is None else query.parent.tree,
        "prefix": prefix,
        "prefix_end": None if prefix is None else prefix + b"\xff" * 8,  # no UTF-8 sorts after that
        "at": at,
        "number": number,
        "limit": query.limit + 1,  # one more tells whether there is a next page
    }
