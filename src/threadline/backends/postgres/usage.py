"""What requests took, on PostgreSQL: a row for each, and sums that move with them, so that no total reads requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from threadline.backends.backend import Ref, SpentQuery
from threadline.backends.postgres.places import realm_of
from threadline.backends.postgres.rows import name_or_none, request_seal, stored_or_none, sum_of
from threadline.backends.postgres.statements import SQL, Connection, Statement, many, numbers, one
from threadline.backends.postgres.wire import BYTEA, INT8, Value, array, number
from threadline.backends.postgres.wire import numbers as binary_numbers
from threadline.core.entries import stored, text_or_none
from threadline.core.spending import Charge, Spending, Sum, Tokens, grown, larger, whole_days
from threadline.errors import Damaged

BEFORE_ALL = (-(2**62), 0)  # a time and a number
ALL = 2**31 - 1  # requests
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # of the calendar that datetime has, since 1970

Grow = Callable[[Charge, Spending], Charge]


class Known(NamedTuple):
    """A request that the tree has: its number, who is charged, in which realm, and what for."""

    number: int
    session: int
    realm: bytes
    charge: Charge


FindRequest = Callable[[str], Known | None]


def nothing_known(id: str) -> None:
    """What a tree knows that is only just made."""


def find_request(connection: Connection, ref: Ref, id: str) -> Known | None:
    """Found and locked: nobody else lets it grow until the transaction ends."""
    found = one(connection, "find_request", (ref.tree, stored(id)))
    if found is None:
        return None
    request, session, *columns = found
    return Known(request, session, columns[1], charge_of(ref, request, columns))


class Charging:
    """What one transaction charges a session for: new requests, and known ones that grow where they stand."""

    def __init__(self, ref: Ref, find: FindRequest, grow: Grow = grown) -> None:
        self._ref = ref
        self._find = find
        self._grow = grow
        self._new: list[Charge] = []
        self._known: dict[str, Known] = {}
        self._grown: dict[str, Charge] = {}

    def add(self, spending: Spending) -> None:
        id = spending.charge.id
        place = None if id is None else self._place(id)
        if place is not None:
            self._new[place] = self._grow(self._new[place], spending)
        elif id is not None and self._is_known(id):
            self._grown[id] = self._grow(self._grown[id], spending)
        else:
            self._new.append(spending.charge)

    def _place(self, id: str) -> int | None:
        return next((place for place, charge in enumerate(self._new) if charge.id == id), None)

    def _is_known(self, id: str) -> bool:
        if id not in self._known:
            found = self._find(id)
            if found is None:
                return False
            self._known[id], self._grown[id] = found, found.charge
        return True

    def statements(self, realm: bytes) -> Iterator[Statement]:
        tree, session = self._ref.tree, self._ref.number
        for charge in self._new:
            id, at, model, agent, *counts, cost, given = columns_of(charge)
            yield "charge", (tree, session, realm, id, at, model, agent, numbers(counts), cost, given)
        for id, known in self._known.items():
            if self._grown[id] != known.charge:
                yield from _growth(tree, known, self._grown[id])


def _growth(tree: bytes, known: Known, after: Charge) -> Iterator[Statement]:
    id, at, model, agent, *counts, cost, given = columns_of(after)
    mark = request_seal(tree, known.number, known.realm, id, at, model, agent, *counts, cost, given)
    yield "grow_request", (model, *counts, cost, given, mark, tree, known.number)
    for charge, sign in ((known.charge, -1), (after, 1)):
        _, at, model, agent, *counts, cost, _ = columns_of(charge)
        yield "add_spent", (tree, known.session, known.realm, at, model, agent, numbers(counts), cost, sign)


def values(spendings: Sequence[tuple[int, Spending]]) -> tuple[Value, ...]:
    """What `threadline.write` takes of requests: by which op, and their columns."""
    rows = [columns_of(spending.charge) for _, spending in spendings]
    return (
        binary_numbers(op for op, _ in spendings),
        array(BYTEA, [row[0] for row in rows]),
        binary_numbers(row[1] for row in rows),
        array(BYTEA, [row[2] for row in rows]),
        array(BYTEA, [row[3] for row in rows]),
        binary_numbers(count for row in rows for count in row[4:9]),
        array(INT8, [None if row[9] is None else number(row[9]) for row in rows]),
        binary_numbers(row[10] for row in rows),
    )


def fates(tree: bytes, goners: str, heir: int | None) -> Iterator[Statement]:
    """Let the parent of sessions that go be charged in their place; without one, their requests go along."""
    if heir is None:
        yield "delete_requests", (tree, goners)
    else:
        yield "inherit_requests", (heir, tree, goners)
        yield "inherit_spent", (heir, tree, goners)
    yield "delete_spent", (tree, goners)


# -- reading -------------------------------------------------------------------------------------------


def spent(connection: Connection, ref: Ref, below: bool) -> list[Sum]:
    rows = many(connection, "spent_below" if below else "spent", {"tree": ref.tree, "session": ref.number})
    return [sum_of((), row) for row in rows]


def spent_by(connection: Connection, query: SpentQuery) -> list[Sum]:
    first, last, ends = whole_days(query.since, query.until)
    values: dict[str, Any] = {
        "realm": realm_of(query.namespace),
        "agent": stored_or_none(query.agent),
        "tag": stored_or_none(query.tag),
        "cwd": stored_or_none(query.cwd),
        **{f"by_{name}": name in query.by for name in ("session", "day", "agent")},
    }
    rows = _grouped(connection, "spent_on_days", values | {"first": first, "last": last}) if first < last else []
    for end in ends:
        rows += _grouped(connection, "spent_within_a_day", values | end._asdict())
    return [_group(query.by, row) for row in rows]


def _grouped(connection: Connection, name: str, values: dict[str, Any]) -> list[Any]:
    filters = "\n".join(SQL[f"spent_{name}"] for name in ("agent", "cwd", "tag") if values[name] is not None)
    statement = SQL[name].replace("{filters}", filters)
    return connection.execute(statement, values, prepare=False, binary=True).fetchall()


def _group(by: tuple[str, ...], row: tuple[Any, ...]) -> Sum:
    session, day, agent, *rest = row
    if day is not None and not FIRST_DAY <= day <= LAST_DAY:
        raise Damaged(None, None, f"a sum of requests is of day {day}")
    values = {
        "session": text_or_none(session),
        "day": day,
        "agent": name_or_none(agent),
        "model": name_or_none(rest[0]),
    }
    return sum_of(tuple(values[name] for name in by), rest)


def charges(connection: Connection, ref: Ref, after: tuple[int, int], limit: int) -> list[tuple[int, Charge]]:
    rows = many(connection, "requests", (ref.tree, ref.number, *after, limit))
    return [(number, charge_of(ref, number, columns)) for number, *columns in rows]


def columns_of(charge: Charge) -> tuple[Any, ...]:
    id, at, model, agent, tokens, cost, given = charge
    return (stored_or_none(id), at, stored(model or ""), stored(agent or ""), *tokens, cost, int(given))


def charge_of(ref: Ref, number: int, row: Sequence[Any]) -> Charge:
    tree, *sealed, mark = row
    if request_seal(tree, number, *sealed) != mark:
        raise Damaged(ref.id, None, "the row of a request does not match its seal")
    _, id, at, model, agent, *tokens, cost, given = sealed
    return Charge(text_or_none(id), at, name_or_none(model), name_or_none(agent), Tokens(*tokens), cost, bool(given))


# -- copies of another store -----------------------------------------------------------------------------


def account(connection: Connection, ref: Ref, realm: bytes, charges: Sequence[Charge]) -> list[Statement]:
    """What charges a session for requests of another store, as they are there."""
    charging = Charging(ref, partial(find_request, connection, ref), larger)
    for charge in charges:
        charging.add(Spending(charge))
    return [*charging.statements(realm)]
