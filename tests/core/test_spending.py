"""Charges, prices and totals: exact, in any order, and the same when computed anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline import InvalidArgument, Usage
from threadline.core.spending import (
    BILLION,
    DAY,
    Charge,
    Prices,
    Spending,
    Sum,
    Tokens,
    charged,
    grown,
    larger,
    price,
    spending,
    told,
    total,
    totals,
    whole_days,
)
from threadline.testing import scaled

many = settings(max_examples=scaled(200))
counts = st.integers(0, 10**9)
tokens = st.builds(Tokens, counts, counts, counts, counts, counts)
RATES = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}
PRICES = Prices({"m": RATES})


def snapshot(tokens: Tokens, cost: int | None = None, rates: Any = None) -> Spending:
    charge = Charge("r", 0, "m", None, tokens, cost if cost is not None else price(tokens, rates), cost is not None)
    return Spending(charge, rates)


# -- snapshots -----------------------------------------------------------------------------------------


@many
@given(st.lists(tokens, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_snapshots_give_the_same_in_any_order(given: list[Tokens], dice: Any) -> None:
    def merged(order: list[Tokens]) -> Charge:
        first, *rest = [snapshot(each, rates=RATES) for each in order]
        charge = first.charge
        for more in rest:
            charge = grown(charge, more)
        return charge

    shuffled = dice.sample(given, len(given))
    assert merged(given) == merged(shuffled)
    assert merged(given).tokens == Tokens(*map(max, zip(*given, strict=True)))
    assert merged(given).cost == price(merged(given).tokens, RATES)


@many
@given(tokens)
def test_the_same_snapshot_again_changes_nothing(given: Tokens) -> None:
    for rates in (RATES, None):
        known = snapshot(given, rates=RATES).charge
        assert grown(known, snapshot(given, rates=rates)) == known


def test_when_and_by_whom_it_was_first_recorded_stays() -> None:
    known = Charge("r", 5, "m", "first", Tokens(1), None, False)
    later = Spending(Charge("r", 9, "n", "second", Tokens(2), None, False))

    assert grown(known, later) == Charge("r", 5, "m", "first", Tokens(2), None, False)


def test_a_cost_that_was_said_beats_one_that_was_computed() -> None:
    known = snapshot(Tokens(1_000_000), rates=RATES).charge

    assert grown(known, snapshot(Tokens(1), cost=7)).cost == 7
    assert grown(snapshot(Tokens(1), cost=7).charge, snapshot(Tokens(1_000_000), rates=RATES)).cost == 7


def test_more_tokens_at_an_unknown_price_make_the_cost_unknown() -> None:
    known = snapshot(Tokens(1), rates=RATES).charge

    assert grown(known, snapshot(Tokens(2))).cost is None


# -- prices --------------------------------------------------------------------------------------------


def test_a_price_is_for_a_million_tokens() -> None:
    assert price(Tokens(1_000_000, 1_000_000, 1_000_000, 1_000_000), RATES) == round(22.05 * BILLION)


def test_nothing_costs_nothing_whatever_the_price() -> None:
    assert price(Tokens(), None) == 0


@pytest.mark.parametrize("missing", RATES)
def test_without_one_of_the_prices_the_cost_is_unknown(missing: str) -> None:
    rates = {name: rate for name, rate in RATES.items() if name != missing}

    assert price(Tokens(**{missing: 1}), rates) is None
    assert price(Tokens(**{missing: 1}), rates | {missing: None}) is None  # type: ignore[arg-type]
    assert price(Tokens(**{missing: 1}), rates | {missing: 0.0}) == 0


def test_prices_may_be_a_function() -> None:
    asked: list[str] = []
    prices = Prices(lambda model: asked.append(model))

    assert (prices.of("m"), prices.of(None), asked) == (None, None, ["m"])


def test_a_charge_takes_the_model_and_agent_of_its_session_unless_told() -> None:
    plain, told = spending({"input": 1}, 0), spending({"input": 1, "model": "n"}, 0)

    assert charged(plain, agent="a", model="m", prices=PRICES).charge[2:4] == ("m", "a")
    assert charged(told, agent=None, model="m", prices=PRICES).charge[2:4] == ("n", None)


@pytest.mark.parametrize("name", ["model", "request_id"])
@pytest.mark.parametrize("bad", ["", 7, "x" * 513])
def test_a_name_that_cannot_be_right_is_refused(name: str, bad: Any) -> None:
    with pytest.raises(InvalidArgument, match=name):
        spending({"input": 1, name: bad}, 0)


def test_a_usage_is_kept_by_its_names_and_a_mapping_as_it_is() -> None:
    assert told(Usage(1, cost=0.5)) == {"input": 1, "cost": 0.5}
    assert told({"input_tokens": 1, "service_tier": "standard"}) == {"input_tokens": 1, "service_tier": "standard"}


# -- totals --------------------------------------------------------------------------------------------


def test_money_adds_up_exactly() -> None:
    sums = [Sum((), "m", True, 1, Tokens(), round(0.1 * BILLION)) for _ in range(3)]

    assert total(sums, Prices()).cost == 0.3


def test_one_unknown_price_makes_the_total_unknown() -> None:
    known, unknown = Sum((), "m", True, 1, Tokens(1), 5), Sum((), "n", False, 1, Tokens(1), 0)

    assert total([known], PRICES).cost == 5 / BILLION
    assert total([known, unknown], PRICES) == Usage(2, cost=None, requests=2)


def test_what_was_not_priced_is_priced_when_it_is_asked_for() -> None:
    sums = [Sum((), "m", False, 2, Tokens(1_000_000), 0)]

    assert total(sums, PRICES).cost == 3.0


def test_groups_come_in_order_with_the_nameless_first() -> None:
    sums = [Sum((name,), "m", True, 1, Tokens(), 0) for name in ("b", None, "a", "b")]

    assert [(group, usage.requests) for group, usage in totals(sums, PRICES).items()] == [
        ((None,), 1),
        (("a",), 1),
        (("b",), 2),
    ]


# -- days ----------------------------------------------------------------------------------------------

moments = st.none() | st.integers(-3 * DAY, 3 * DAY) | st.integers(-3, 3).map(lambda day: day * DAY)


@many
@given(moments, moments, st.integers(-4 * DAY, 4 * DAY))
def test_whole_days_and_parts_of_days_are_the_stretch(since: int | None, until: int | None, at: int) -> None:
    first, last, ends = whole_days(since, until)

    within = (since is None or at >= since) and (until is None or at < until)
    found = (first <= at // DAY < last) + sum(end.since <= at < end.until for end in ends)
    assert found == within
    assert all(end.day * DAY <= end.since and end.until <= (end.day + 1) * DAY for end in ends)


@pytest.mark.parametrize(("tokens", "cost"), [((5, 5), 70), ((4, 9), 50), ((6, 6), 70)])
def test_of_one_request_in_two_stores_the_later_snapshot_counts_whole(tokens: tuple[int, int], cost: int) -> None:
    known = Charge("r", 1, "model", "agent", Tokens(5, 5), 50, False)
    new = Spending(Charge("r", 2, "other", None, Tokens(*tokens), 70, True))
    kept = larger(known, new)

    assert (kept.at, kept.agent, kept.cost) == (1, "agent", cost)
    assert kept == known if cost == 50 else (kept.tokens, kept.model, kept.given) == (new.charge.tokens, "other", True)
