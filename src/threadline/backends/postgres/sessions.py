"""Listing sessions."""

from __future__ import annotations

from typing import Any

from threadline.backends.backend import STATUSES, Query, Record
from threadline.backends.postgres.places import realm_of
from threadline.backends.postgres.rows import record_of, stored_or_none
from threadline.backends.postgres.statements import SQL, Connection

NO_CURSOR = (2**62, 2**62)
FILTERS = ("status", "waiting", "before", "cwd", "agent", "prefix", "tag")


def records(connection: Connection, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
    values = _bindings(query)
    # Composed of our own fragments only. Planned anew each time: the planner then knows how rare a folder or tag is.
    filters = "\n".join(SQL[f"filter_{name}"] for name in FILTERS if values[name] is not None)
    statement = SQL[f"list_by_{query.order}"].replace("{filters}", filters)
    found = connection.execute(statement, values, prepare=False, binary=True).fetchall()
    records = [record_of(row) for row in found[: query.limit]]
    if len(found) <= query.limit:
        return records, None
    last = records[-1]
    return records, (last.created_at if query.order == "created" else last.updated_at, last.number)


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
        "prefix": prefix,
        "prefix_end": None if prefix is None else prefix + b"\xff" * 8,  # no UTF-8 sorts after that
        "at": at,
        "number": number,
        "limit": query.limit + 1,  # one more tells whether there is a next page
    }
