"""Listing sessions."""

from __future__ import annotations

from functools import partial
from typing import Any

from threadline.backends.backend import STATUSES, Query, Record
from threadline.backends.postgres.places import realm_of
from threadline.backends.postgres.rows import record_and_sums, stored_or_none, sum_of
from threadline.backends.postgres.statements import SQL, Connection, byteas, many, numbers, one
from threadline.core.spending import Sum

FEW = 1_000  # up to so many sessions are sorted rather than walked to
NO_CURSOR = (2**62, 2**62)
OF_HEAD = ("status", "waiting", "before")
OF_SESSION = ("begins", "prefix", "tag", "cwd", "agent")  # may be few among many
OF_FAMILY = ("parent",)  # always few


def records(connection: Connection, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
    values = _bindings(query)
    few = values["parent"] is not None or _few(connection, values)
    statement = _statement(query.order, values, "filter" if few else "pass")
    read = _sorted if few else _walked
    pages = (read(connection, statement, values | {"child": child}) for child in _children(query))
    rows = [row for page in pages for row in page]
    found = records_of(connection, rows)
    found.sort(key=partial(_position, query.order), reverse=True)
    if len(found) <= query.limit:
        return found, None
    return found[: query.limit], _position(query.order, found[query.limit - 1])


def records_of(connection: Connection, rows: list[Any]) -> list[Record]:
    """From the columns of a listing: the tree, then the rest."""
    sums = _sums(connection, rows)
    return [record_and_sums(row[1:], tuple(sums[row[1]])) for row in rows]


def _sums(connection: Connection, rows: list[Any]) -> dict[int, list[Sum]]:
    """What each of them took, by its number; apart, because not every server joins sums to a page."""
    found: dict[int, list[Sum]] = {number: [] for _, number, *_ in rows}
    trees = byteas({row[0] for row in rows})
    for session, *columns in many(connection, "spent_of", (trees, numbers(found))) if rows else ():
        found[session].append(sum_of((), columns))
    return found


def _children(query: Query) -> tuple[int, ...]:
    """Roots and children stand apart in the index: where both are asked for, each has its page."""
    if query.parent is not None:
        return (1,)
    return (0,) if query.root else (0, 1)


def _position(order: str, record: Record) -> tuple[int, int]:
    return (record.created_at if order == "created" else record.updated_at, record.number)


def _few(connection: Connection, values: dict[str, Any]) -> bool:
    """Whether the sessions of a folder, agent, tag or key prefix are few enough to sort: a walk in the order of change
    might pass a hundred thousand others on its way to them."""
    names = [name for name in OF_SESSION if values[name] is not None]
    return any(one(connection, f"few_by_{name}", values)[0] <= FEW for name in names)


def _sorted(connection: Connection, statement: str, values: dict[str, Any]) -> list[Any]:
    return connection.execute(statement, values, prepare=False, binary=True).fetchall()


def _walked(connection: Connection, statement: str, values: dict[str, Any]) -> list[Any]:
    """In the order of an index, until the page is full; the settings and the query in one round trip."""
    with connection.pipeline():
        connection.execute("BEGIN READ ONLY")
        connection.execute(SQL["walk"], prepare=True)
        cursor = connection.execute(statement, values, prepare=False, binary=True)
        connection.execute("COMMIT")
    return cursor.fetchall()


def _statement(order: str, values: dict[str, Any], manner: str) -> str:
    """The listing, composed of our own fragments only."""
    head, session = _filters("filter", OF_HEAD, values), _filters(manner, (*OF_SESSION, *OF_FAMILY), values)
    if order == "created":
        head = head and SQL["with_head"].replace("{filters}", head)
    else:
        session = session and SQL["with_session"].replace("{filters}", session)
    return SQL[f"list_by_{order}"].replace("{head}", head).replace("{session}", session)


def _filters(manner: str, names: tuple[str, ...], values: dict[str, Any]) -> str:
    return "\n".join(SQL[f"{manner}_{name}"] for name in names if values[name] is not None)


def _bindings(query: Query) -> dict[str, Any]:
    prefix, begins = stored_or_none(query.key_prefix), stored_or_none(query.id_prefix)
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
        "begins": begins,
        "begins_end": None if begins is None else begins + b"\xff" * 8,
        "at": at,
        "number": number,
        "few": FEW + 1,
        "limit": query.limit + 1,  # one more tells whether there is a next page
    }
