"""What requests took, as a store keeps it: charges, prices and totals.

Money is counted in whole billionths, so that sums are exact in any order, and come out the same when computed anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from operator import lt
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from threadline.core.entries import moment
from threadline.core.models import plain
from threadline.core.usage import COUNTS, NAMED, Usage, UsageLike, usage_of
from threadline.errors import InvalidArgument

BILLION = 10**9
NAME_CHARS = 512
DAY = 86_400_000_000  # in microseconds: times are counted in those


class Request(Struct, frozen=True):
    """One request to a model. `agent` is that of the session when it was recorded; `cost` None while unknown."""

    request_id: str | None
    at: datetime
    model: str | None
    agent: str | None
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    cost: float | None


class Tokens(NamedTuple):
    """The counts of a Usage."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


class Charge(NamedTuple):
    """A request as a store keeps it. `cost` is in billionths, None while unknown; `given` if the caller said it."""

    id: str | None
    at: int
    model: str | None
    agent: str | None
    tokens: Tokens
    cost: int | None
    given: bool

    @property
    def day(self) -> int:
        """Since 1970, UTC."""
        return self.at // DAY

    def request(self, prices: Prices) -> Request:
        """As callers see it; priced now if it could not be when it was recorded."""
        cost = price(self.tokens, prices.of(self.model)) if self.cost is None else self.cost
        money = None if cost is None else cost / BILLION
        return Request(self.id, moment(self.at), self.model, self.agent, *self.tokens, money)


class Spending(NamedTuple):
    """A request on its way into a store, and what its model costs; None while that is unknown."""

    charge: Charge
    rates: Rates | None = None


def spending(value: UsageLike, at: int) -> Spending:
    """What one request took. A model and a request_id may stand in the mapping beside the counts."""
    usage = usage_of(value := plain(value))
    names = {name: _name(value.get(name), name) for name in NAMED} if isinstance(value, Mapping) else {}
    tokens = Tokens(*(getattr(usage, name) for name in COUNTS))
    cost = None if usage.cost is None else round(usage.cost * BILLION)
    return Spending(Charge(names.get("request_id"), at, names.get("model"), None, tokens, cost, cost is not None))


def _name(given: Any, what: str) -> str | None:
    if given is not None and (not isinstance(given, str) or not 0 < len(given) <= NAME_CHARS):
        raise InvalidArgument(f"{what} is a string of 1 to {NAME_CHARS} characters or None, not {given!r}")
    return given


def told(value: UsageLike) -> dict[str, Any]:
    """A usage as an entry keeps it: a mapping as it was given, a Usage by its names."""
    value = plain(value)
    if not isinstance(value, Usage):
        return dict(value) if isinstance(value, Mapping) else told(usage_of(value))
    named = {name: count for name in COUNTS if (count := getattr(value, name))}
    return named if value.cost is None else named | {"cost": value.cost}


def charged(spending: Spending, *, agent: str | None, model: str | None, prices: Prices) -> Spending:
    """The same with what its session knows, priced at once: prices that change later do not change the past."""
    charge = spending.charge._replace(agent=agent or None, model=spending.charge.model or model or None)
    rates = prices.of(charge.model)
    return Spending(charge if charge.given else charge._replace(cost=price(charge.tokens, rates)), rates)


def grown(known: Charge, new: Spending) -> Charge:
    """Two snapshots of one request: each count is the larger of both, and the price that of the counts together.

    When and by whom it was first recorded stays. The order of the snapshots makes no difference to the counts."""
    tokens = Tokens(*map(max, known.tokens, new.charge.tokens))
    model = known.model or new.charge.model
    told = [charge.cost for charge in (known, new.charge) if charge.given and charge.cost is not None]
    if told:
        return known._replace(tokens=tokens, model=model, cost=max(told), given=True)
    cost = known.cost if tokens == known.tokens and known.cost is not None else price(tokens, new.rates)
    return known._replace(tokens=tokens, model=model, cost=cost)


def larger(known: Charge, new: Spending) -> Charge:
    """One request in two stores: the later snapshot, which is the one that counts more, exactly as it is."""
    if any(map(lt, new.charge.tokens, known.tokens)):
        return known
    return known._replace(
        tokens=new.charge.tokens, model=new.charge.model, cost=new.charge.cost, given=new.charge.given
    )


# -- prices --------------------------------------------------------------------------------------------

Rates: TypeAlias = Mapping[str, float]  # by the names of the counts, for a million tokens
PriceTable: TypeAlias = Callable[[str], Rates | None] | Mapping[str, Rates]


class Prices:
    """What models cost, as the caller says: a function of a model's name, or a mapping."""

    def __init__(self, given: PriceTable | None = None) -> None:
        if given is not None and not callable(given) and not isinstance(given, Mapping):
            raise InvalidArgument(f"prices is a function of a model's name, or a mapping, not {type(given).__name__}")
        self._given = given

    def of(self, model: str | None) -> Rates | None:
        """The rates of a model; None where nobody knows. Raises InvalidArgument for a table that cannot be right."""
        if model is None or self._given is None:
            return None
        found = self._given.get(model) if isinstance(self._given, Mapping) else self._given(model)
        return None if found is None else _checked_rates(found, model)


def price(tokens: Tokens, rates: Rates | None) -> int | None:
    """What so many tokens cost, in billionths; None if any of them has no known price, which is not the same as 0."""
    if not any(tokens):
        return 0
    if rates is None:
        return None
    counts = tokens._asdict()
    if rates.get("reasoning") is not None:  # else it costs what the output costs, which it is a part of
        counts["output"] = max(tokens.output - tokens.reasoning, 0)
    else:
        counts["reasoning"] = 0
    if any(count and rates.get(name) is None for name, count in counts.items()):
        return None
    exact: float = sum(count * rates[name] for name, count in counts.items() if count)
    return round(exact * (BILLION // 1_000_000))


def _checked_rates(rates: Any, model: str) -> Rates:
    if not isinstance(rates, Mapping) or not rates.keys() <= {*COUNTS}:
        raise InvalidArgument(f"the prices of {model!r} are a mapping of {', '.join(COUNTS)}, not {rates!r}")
    for name, rate in rates.items():
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 10**6):
            raise InvalidArgument(f"the price of {name} of {model!r} is money for a million tokens, not {rate!r}")
    return rates


# -- totals --------------------------------------------------------------------------------------------


class Sum(NamedTuple):
    """Requests of one model added up; `cost` is that of the priced ones, which are never added to the others."""

    group: tuple[Any, ...]
    model: str | None
    priced: bool
    requests: int
    tokens: Tokens
    cost: int


def total(sums: Iterable[Sum], prices: Prices) -> Usage:
    """All of it together. What was not priced when it was recorded is priced now, if it can be."""
    parts = list(sums)
    tokens = {name: sum(getattr(part.tokens, name) for part in parts) for name in COUNTS}
    costs = [part.cost if part.priced else price(part.tokens, prices.of(part.model)) for part in parts]
    known = [cost for cost in costs if cost is not None]
    money = sum(known) / BILLION if len(known) == len(costs) else None
    return Usage(**tokens, cost=money, requests=sum(part.requests for part in parts))


def totals(sums: Iterable[Sum], prices: Prices) -> dict[tuple[Any, ...], Usage]:
    """The same for each group, in the order of the groups."""
    groups: dict[tuple[Any, ...], list[Sum]] = {}
    for part in sums:
        groups.setdefault(part.group, []).append(part)
    in_order = sorted(groups, key=lambda group: tuple((value is not None, value) for value in group))
    return {group: total(groups[group], prices) for group in in_order}


class Stretch(NamedTuple):
    """Part of a day: from a moment on, and before another."""

    day: int
    since: int
    until: int


def whole_days(since: int | None, until: int | None) -> tuple[int, int, list[Stretch]]:
    """A stretch of time as whole days, from one on and before another, and the parts of days at its ends."""
    first = -(2**40) if since is None else -(-since // DAY)
    last = 2**40 if until is None else until // DAY
    if since is not None and until is not None and last < first:  # within one day
        return 0, 0, [Stretch(last, since, until)] if since < until else []
    ends = []
    if since is not None and since < first * DAY:
        ends.append(Stretch(first - 1, since, first * DAY))
    if until is not None and until > last * DAY:
        ends.append(Stretch(last, last * DAY, until))
    return first, max(first, last), ends
