"""Promise 8 for families and requests: each kind of damage that a single row can suffer is planted, and found."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

import threadline

DAMAGE = {
    "a sum too large": "UPDATE spent SET input = input + 1 WHERE session = 1",
    "a sum of too many": "UPDATE spent SET requests = requests + 1 WHERE session = 1",
    "a cost too small": "UPDATE spent SET cost = cost - 1 WHERE priced = 1",
    "a sum on another day": "UPDATE spent SET day = day + 1 WHERE session = 1",
    "a sum of another model": "UPDATE spent SET model = x'6d' WHERE session = 2",
    "a sum that is missing": "DELETE FROM spent WHERE session = 2",
    "a sum of nothing": "INSERT INTO spent VALUES (1, 7, x'', x'', 1, x'', 0, 0, 0, 0, 0, 0, 0)",
    "a sum of nobody": "INSERT INTO spent VALUES (99, 7, x'', x'', 1, x'', 1, 0, 0, 0, 0, 0, 0)",
    "a request of other tokens": "UPDATE request SET output = output + 1 WHERE request = 1",
    "a request at another time": "UPDATE request SET at = at + 1 WHERE request = 1",
    "a request of another id": "UPDATE request SET id = x'6f' WHERE id IS NOT NULL",
    "a request that somebody else made": "UPDATE request SET session = 4 WHERE request = 1",
    "a request of nobody": "UPDATE request SET session = 99 WHERE request = 1",
    "a request that is missing": "DELETE FROM request WHERE request = 1",
    "a child that listings take for a root": "UPDATE head SET child = 0 WHERE session = 2",
    "a root that listings take for a child": "UPDATE head SET child = 1 WHERE session = 1",
    "a child of somebody else": "UPDATE session SET parent = 4 WHERE session = 2",
    "a child of nobody": "UPDATE session SET parent = 99 WHERE session = 2",
    "a child without its parent": "UPDATE session SET parent = NULL WHERE session = 2",
    "a child of another call": "UPDATE session SET call_id = x'6f' WHERE session = 2",
    "a parent that is missing": "DELETE FROM session WHERE session = 1",
    "an entry that a fork shares with nobody": "UPDATE entry SET body = x'7b7d' WHERE log = 5 AND seq = 2",
    "an entry where nobody reads": "UPDATE entry SET seq = 9 WHERE log = 5 AND seq = 3",
    "an entry that a fork has lost": "DELETE FROM entry WHERE log = 5 AND seq = 1",
    "a log that is missing": "DELETE FROM log WHERE log = 5",
    "a key that a fork has lost": "DELETE FROM key WHERE log = 5",
    "a key of no log": "INSERT INTO key SELECT 99, key, seq, count, identity, seal FROM key",
}


@pytest.fixture
def family(path: Path) -> Path:
    """1 with its children 2 and 3, 4 by itself, 5 that is gone, and 6 that shares its log."""
    with threadline.open(path, prices={"m1": {"input": 1.0}}) as store:
        root = store.new(model="m1")
        child, _ = root.spawn("a", call_id="c1"), root.spawn("b")
        root.append("hi", usage={"input": 5, "request_id": "r1"})
        root.record_usage(output=3)
        child.record_usage(output=3, model="m2")
        store.new()
        gone = store.new()
        gone.extend(["one", "two", "three", "four"], key="k")
        gone.fork(3)
        store.delete(gone)
        assert store.verify().ok
    return path


def test_a_family_is_sound(family: Path) -> None:
    with threadline.open(family) as store:
        report = store.verify()

    assert report.problems == []
    assert report.counts == {"sessions": 5, "entries": 4, "keys": 1, "requests": 3}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_planted_damage_is_found(family: Path, damage: str) -> None:
    with closing(apsw.Connection(str(family))) as connection:
        connection.execute(damage)
        assert connection.changes()
    with threadline.open(family) as store:
        assert store.verify().problems != []
