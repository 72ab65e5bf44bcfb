"""What requests took, on SQLite: a row for each, and sums that move with them, so that no total reads requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from threadline.backends.backend import Ref, SpentQuery
from threadline.backends.sqlite.rows import Connection, many, one, run
from threadline.core import codec
from threadline.core.digest import seal
from threadline.core.entries import stored, text, text_or_none
from threadline.core.spending import BILLION, Charge, Spending, Sum, Tokens, grown, whole_days
from threadline.errors import Damaged

Grow = Callable[[Charge, Spending], Charge]

BEFORE_ALL = (-(2**62), 0)  # a time and a number
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # of the calendar that datetime has, since 1970


def charge(connection: Connection, ref: Ref, namespace: bytes, spending: Spending, grow: Grow = grown) -> None:
    """Count a request: anew, or as a later snapshot of one that anybody of the tree recorded."""
    new = spending.charge
    known = None if new.id is None else one(connection, "find_request", (ref.tree, stored(new.id)))
    if known is None:
        columns = _columns(new)
        mark = seal(ref.tree, namespace, *columns)
        run(connection, "insert_request", (ref.tree, namespace, ref.number, *columns, mark))
        _add(connection, ref.number, namespace, new, 1)
        return
    number, session, *columns = known
    before = _charge_of(ref, columns)
    after = grow(before, spending)
    if after != before:
        _, _, model, _, *counts = columns = _columns(after)
        run(connection, "grow_request", (model, *counts, seal(ref.tree, namespace, *columns), number))
        _add(connection, session, namespace, before, -1)
        _add(connection, session, namespace, after, 1)


def _add(connection: Connection, session: int, namespace: bytes, charge: Charge, sign: int) -> None:
    """Let the sum that a charge belongs to have it, or no longer have it."""
    key = (session, charge.day, _name(charge.model), _name(charge.agent), charge.cost is not None)
    counts = (sign * count for count in (1, *charge.tokens, charge.cost or 0))
    run(connection, "add_spent", (*key, namespace, *counts))
    if sign < 0:
        run(connection, "drop_spent", key)


def inherit(connection: Connection, session: int, parent: int | None) -> None:
    """Let the parent of a session that goes be charged in its place; without one, its requests go along."""
    if parent is None:
        run(connection, "delete_requests", (session,))
    else:
        run(connection, "inherit_requests", (parent, session))
        run(connection, "inherit_spent", (parent, session))
    run(connection, "delete_spent", (session,))


def bequeath(connection: Connection, ref: Ref, heir: Ref | None) -> None:
    """Let the heir of an erased session be charged for what it took, and for nothing that tells whose it was."""
    (namespace, *_) = one(connection, "head", (ref.number,))
    taken = [each for _, each in charges(connection, ref, BEFORE_ALL, -1)]
    run(connection, "delete_requests", (ref.number,))
    run(connection, "delete_spent", (ref.number,))
    for each in taken if heir is not None else ():
        assert heir is not None
        charge(connection, heir, namespace, Spending(each._replace(id=None, agent=None)))


# -- reading -------------------------------------------------------------------------------------------


def spent(connection: Connection, ref: Ref, below: bool) -> list[Sum]:
    rows = many(connection, "spent_below" if below else "spent", (ref.number,))
    return [_sum((), row) for row in rows]


def spent_by_each(connection: Connection, sessions: Iterable[int]) -> dict[int, tuple[Sum, ...]]:
    """What some sessions took, each by itself; those without requests are not in it."""
    found: dict[int, tuple[Sum, ...]] = {}
    for session, *row in many(connection, "spent_by_each", (codec.encode(list(sessions)).decode(),)):
        found[session] = (*found.get(session, ()), _sum((), row))
    return found


def spent_by(connection: Connection, query: SpentQuery) -> list[Sum]:
    first, last, ends = whole_days(query.since, query.until)
    values: dict[str, Any] = {
        "namespace": stored(query.namespace),
        "agent": None if query.agent is None else stored(query.agent),
        "tag": None if query.tag is None else stored(query.tag),
        "cwd": None if query.cwd is None else stored(query.cwd),
        **{f"by_{name}": name in query.by for name in ("session", "day", "agent")},
    }
    rows = many(connection, "spent_on_days", values | {"first": first, "last": last}) if first < last else []
    for end in ends:
        rows += many(connection, "spent_within_a_day", values | end._asdict())
    ids = _ids(connection, {row[0] for row in rows} - {None})
    return [_grouped(query.by, row, ids) for row in rows]


def _grouped(by: tuple[str, ...], row: tuple[Any, ...], ids: dict[int, str]) -> Sum:
    session, day, agent, *rest = row
    if day is not None and not (type(day) is int and FIRST_DAY <= day <= LAST_DAY):
        raise Damaged(None, None, f"a sum of requests is of day {day}")
    values = {"session": ids.get(session), "day": day, "agent": _text(agent), "model": _text(rest[0])}
    return _sum(tuple(values[name] for name in by), rest)


def _ids(connection: Connection, sessions: set[int]) -> dict[int, str]:
    if not sessions:
        return {}
    return {number: text(id) for number, id in many(connection, "ids", (codec.encode(list(sessions)).decode(),))}


def charges(connection: Connection, ref: Ref, after: tuple[int, int], limit: int) -> list[tuple[int, Charge]]:
    rows = many(connection, "requests", (ref.number, *after, limit))
    return [(number, _charge_of(ref, columns)) for number, *columns in rows]


def _sum(group: tuple[Any, ...], row: Iterable[Any]) -> Sum:
    model, priced, *numbers = row
    if {*map(type, numbers)} != {int}:
        raise Damaged(None, None, "a sum of requests is not what it was")
    requests, *counts, whole, rest = numbers
    return Sum(group, _text(model), bool(priced), requests, Tokens(*counts), whole * BILLION + rest)


def _columns(charge: Charge) -> tuple[Any, ...]:
    id, at, model, agent, tokens, cost, given = charge
    return (None if id is None else stored(id), at, _name(model), _name(agent), *tokens, cost, int(given))


def _charge_of(ref: Ref, row: list[Any]) -> Charge:
    *sealed, mark = row
    if seal(*sealed) != mark:
        raise Damaged(ref.id, None, "the row of a request does not match its seal")
    _, _, id, at, model, agent, *tokens, cost, given = sealed
    return Charge(text_or_none(id), at, _text(model), _text(agent), Tokens(*tokens), cost, bool(given))


def _name(name: str | None) -> bytes:
    """Nobody has an empty name, so that is how none is stored: keys of a table have no NULLs."""
    return stored(name or "")


def _text(name: bytes | None) -> str | None:
    return text(name) if name else None
