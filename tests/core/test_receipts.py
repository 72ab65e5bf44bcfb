"""Receipts of what was erased."""

from __future__ import annotations

from datetime import UTC, datetime

from threadline.core.receipts import NAMED_MAX, Pending, Receipt, held

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAL = Pending("the WAL", "a reader holds it", "until it is gone")


def test_what_is_pending_tells_where_why_and_until_when() -> None:
    assert str(WAL) == "the WAL: a reader holds it; until it is gone"


def test_it_is_done_when_nothing_is_pending() -> None:
    assert Receipt(NOON, ["s"], 3, [], []).done
    assert not Receipt(NOON, ["s"], 3, [WAL], []).done


def test_a_refusal_names_those_who_hold_parts_but_not_a_crowd() -> None:
    few, many = [[str(n) for n in range(count)] for count in (NAMED_MAX, NAMED_MAX + 1)]

    assert f"'{NAMED_MAX - 1}'. Erase" in str(held("s", few))
    assert f"'{NAMED_MAX}'" not in str(held("s", many))
    assert "and others" in str(held("s", many))
    assert held("s", many).sessions == (*many,)
