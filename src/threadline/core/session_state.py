"""A session's state: names and values that a caller keeps with it, in entries of kind `state`.

An entry says what changed and which entry stood before it. Now and then one holds the whole state, so that no reader
walks far: the state at any moment is one lookup in an index and a few rows, however long the log is. An entry may also
say "as it was right after entry n", which is how a rewind takes the state back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from threadline.core import codec
from threadline.core.entries import Row, content
from threadline.core.view import Log
from threadline.errors import Damaged

Values: TypeAlias = dict[str, Any]

KINDS = ("state", "goal")  # entries that are found by the last of their kind: `Log.last`
WHOLE_BYTES = 1_024  # a state up to this size is written whole with every change: one row tells all of it
STEPS_MAX = 64  # changes between two whole states: what a reader walks at most


def state_at(log: Log, seq: int) -> Values:
    """The state right after entry `seq`."""
    return _read(log, standing(log, "state", seq))[0]


def standing(log: Log, kind: str, upto: int) -> int:
    """The entry that says what the state (or the goal) is right after entry `upto`; 0 where there is none.

    An entry that takes it back only points at another one: that one is meant."""
    seq = log.last(kind, upto)
    return seq if not seq else int(data_of(log.row(seq)).get("of", seq))


def changed(log: Log, head: int, values: Values, remove: Sequence[str]) -> Values:
    """What a `state` entry after `head` holds that sets `values` and removes the names in `remove`."""
    before = standing(log, "state", head)
    state, steps = _read(log, before)
    change: Values = {"set": values, "remove": list(remove)}
    data = {name: value for name, value in change.items() if value} | {"before": before}
    new = _applied(state, change)
    size = len(codec.encode(new))
    if size <= WHOLE_BYTES or len(steps) + 1 >= STEPS_MAX or size <= sum(len(codec.encode(step)) for step in steps):
        data["whole"] = new
    return data


def back(log: Log, kind: str, to: int, head: int) -> Values | None:
    """What an entry holds that takes the state (or the goal) back to what it was after `to`; None if it still is."""
    then = standing(log, kind, to)
    return None if then == standing(log, kind, head) else {"back": to, "of": then}


def wrong(log: Log, row: Row) -> Iterator[str]:
    """What an entry says of the state or the goal that does not follow from the entries before it."""
    data = data_of(row)
    if "of" in data:
        if data["of"] != standing(log, row.kind, data["back"]):
            yield f"the {row.kind} that it goes back to is not the one of that moment"
    elif row.kind == "state":
        if data["before"] != standing(log, "state", row.seq - 1):
            yield "the state before it is not the one that it names"
        elif "whole" in data and data["whole"] != applied(log, data):
            yield "the stored state is not the fold of the log"


def told(log: Log, seq: int) -> Values:
    """The state that entry `seq`, one of kind state, leaves; none where it is 0."""
    return _read(log, seq)[0]


def applied(log: Log, data: Values) -> Values:
    """The state that an entry leaves which holds that."""
    return _applied(told(log, data["before"]), data)


def data_of(row: Row) -> Values:
    if row.kind not in KINDS:
        raise Damaged(None, row.seq, f"it is taken for a state or goal, but is of kind {row.kind!r}")
    row.check(None)
    return content(row)[1] or {}


def _read(log: Log, seq: int) -> tuple[Values, list[Values]]:
    """The state that entry `seq` leaves, and the changes that had to be walked to it from a whole one, latest first."""
    steps: list[Values] = []
    state: Values = {}
    while seq:
        data = data_of(log.row(seq))
        if "whole" in data:
            state = data["whole"]
            break
        steps.append(data)
        before = data.get("before", -1)
        if not 0 <= before < seq:  # whoever forged it: no reader runs in a circle
            raise Damaged(None, seq, "the state that it builds on does not stand before it")
        seq = before
    for step in reversed(steps):
        state = _applied(state, step)
    return state, steps


def _applied(state: Values, change: Values) -> Values:
    gone = change.get("remove", ())
    return {name: value for name, value in {**state, **change.get("set", {})}.items() if name not in gone}
