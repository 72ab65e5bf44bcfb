"""`threadline usage`: what was spent, with small charts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import click

import threadline
from threadline import Store, Usage
from threadline.cli import words
from threadline.cli.desk import Desk, command, complete_id
from threadline.cli.screen import Column, Ink, Piece, cut

EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR = 24  # columns of the longest bar
GAP = 7  # days without anything that are drawn one by one
NOTHING = Usage(cost=0.0, requests=0)
COLUMNS = (
    Column("", flexible=True, least=10),
    Column("COST", right=True),
    Column("", flexible=False, drop=3),
    Column("REQUESTS", right=True, drop=4),
    Column("INPUT", right=True, drop=2),
    Column("OUTPUT", right=True, drop=1),
    Column("CACHE READ", right=True, drop=5),
    Column("CACHE WRITE", right=True, drop=6),
    Column("REASONING", right=True, drop=7),
)


class Moment(click.ParamType[datetime]):
    """`2026-05-01`, or how long ago: `30d`."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return datetime.now(UTC) - words.span(value)
        except ValueError:
            try:
                found = datetime.fromisoformat(value)
            except ValueError:
                self.fail(f"{value!r} is no date (2026-05-01) and no span of time (30d, 12h)", param, ctx)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@command(
    examples=[
        "threadline usage --by day --since 30d",
        "threadline usage latest --children",
        "threadline usage --by agent --json",
    ]
)
@click.argument("id", metavar="[ID]", required=False, shell_complete=complete_id)
@click.option("--by", type=click.Choice(["model", "day", "session", "agent"]), help="One line for each [model].")
@click.option("--since", type=Moment(), metavar="WHEN", help="From then on: 2026-05-01, or 30d for the last 30 days.")
@click.option("--until", type=Moment(), metavar="WHEN", help="Before then.")
@click.option("--agent", metavar="NAME", help="Only that agent.")
@click.option("--tag", metavar="TAG", help="Only sessions with that tag.")
@click.option("--cwd", metavar="FOLDER", help="Only sessions of that folder.")
@click.option("--children", is_flag=True, help="With ID: what its sub-agents spent, too.")
def usage(desk: Desk, id: str | None, by: str | None, children: bool, **filters: Any) -> None:
    """Show what the sessions of the store, or session ID, spent: tokens, requests and money. Days are UTC.

    A cost is told only where all prices were known when the requests were recorded.
    """
    if id is not None and (by or any(filters.values())):
        raise click.UsageError("one session is shown by model: the other options are for the whole store")
    with desk.store() as store:
        if id is not None:
            session = desk.session(store, id)
            found = of_session(store, str(session.id), children)
            total = session.usage(children=children)
        else:
            found = store.usage(by or "model", **filters)
            total = store.usage((), **filters).get((), NOTHING)
        titles = titles_of(store, found) if by == "session" else {}
    told(desk, by or "model", sorted(found.items()) if by == "day" else ordered(found), total, titles)


def of_session(store: Store, id: str, children: bool) -> dict[Any, Usage]:
    """What a session spent, by model."""
    ids = {info.id for info in store.get(id).tree()} if children else {id}
    found: dict[Any, list[Usage]] = {}
    for (session, model), spent in store.usage(("session", "model")).items():
        if session in ids:
            found.setdefault(model, []).append(spent)
    return {model: added(spent) for model, spent in found.items()}


def added(usages: Sequence[Usage]) -> Usage:
    names = ("input", "output", "cache_read", "cache_write", "reasoning", "requests")
    sums = {name: sum(getattr(one, name) for one in usages) for name in names}
    costs = [one.cost for one in usages]
    return Usage(**sums, cost=None if None in costs else sum(cost or 0 for cost in costs))


def titles_of(store: Store, found: dict[Any, Usage]) -> dict[str, str]:
    titles = {}
    for id in found:
        try:
            info = store.get(id).info
        except threadline.NotFound:
            continue
        titles[id] = info.title or info.key or ""
    return titles


def ordered(found: dict[Any, Usage]) -> list[tuple[Any, Usage]]:
    """The dearest first; where no price is known, the largest."""
    return sorted(found.items(), key=lambda pair: (-(pair[1].cost or 0), -size_of(pair[1]), str(pair[0])))


def spread(found: dict[Any, Usage]) -> list[tuple[Any, Usage]]:
    """Day after day, those without anything, too: a gap is a part of the picture. A long one is told in one line."""
    days: list[tuple[Any, Usage]] = []
    before: date | None = None
    for name, spent in sorted(found.items()):
        day = date.fromisoformat(name)
        empty = 0 if before is None else (day - before).days - 1
        if before is not None and empty <= GAP:
            days += [((before + timedelta(days=n)).isoformat(), NOTHING) for n in range(1, empty + 1)]
        elif empty:
            days.append((f"… {empty:,} days", NOTHING))
        days.append((name, spent))
        before = day
    return days


def told(desk: Desk, by: str, found: list[tuple[Any, Usage]], total: Usage, titles: dict[str, str]) -> None:
    if desk.as_json:
        for key, spent in found:
            desk.give({by: key} | _fields(spent))
        return
    if not total.requests:
        desk.say("nothing was recorded")
        return
    found = spread(dict(found)) if by == "day" else found
    priced = any(spent.cost for _, spent in found)
    largest = max((weight(spent, priced) for _, spent in found), default=0)
    rows = [row(desk, _name(desk, key, titles), spent, weight(spent, priced), largest) for key, spent in found]
    if len(rows) > 1:
        rows.append(row(desk, "all", total, 0, 0))
    used = [n for n in range(len(COLUMNS)) if n < 6 or any(cell != "" for cell in (line[n] for line in rows))]
    columns = [Column(by.upper(), *COLUMNS[0][1:]), *COLUMNS[1:]]
    desk.table([columns[n] for n in used], [[line[n] for n in used] for line in rows])
    if not priced:
        desk.hint("No prices are known: bars show tokens. threadline.open(prices=…) tells what models cost.")


def _fields(spent: Usage) -> dict[str, Any]:
    names = ("requests", "input", "output", "cache_read", "cache_write", "reasoning", "cost")
    return {name: getattr(spent, name) for name in names}


def _name(desk: Desk, key: Any, titles: dict[str, str]) -> str:
    if key is None:
        return "(not said)"
    if key in titles:
        return f"{key[:8] if desk.screen.terminal else key}  {cut(titles[key], 40)}"
    return str(key)


def row(desk: Desk, name: str, spent: Usage, heavy: float, largest: float) -> list[Piece]:
    tokens = [getattr(spent, field) for field in ("input", "output", "cache_read", "cache_write", "reasoning")]
    return [
        Ink(name, "bold" if name == "all" else ""),
        Ink("" if spent.cost == 0 and not spent.requests else words.money(spent.cost), "green"),
        Ink(bar(heavy, largest), "blue"),
        f"{spent.requests:,}" if spent.requests else "",
        *(words.short(count) if count else "" for count in tokens),
    ]


def weight(spent: Usage, priced: bool) -> float:
    return (spent.cost or 0.0) if priced else float(size_of(spent))


def size_of(spent: Usage) -> int:
    return spent.input + spent.output + spent.cache_read + spent.cache_write


def bar(value: float, largest: float) -> str:
    """A bar as long as its share of the longest; the least thing that is more than nothing is seen."""
    if not largest or not value:
        return ""
    eighths = max(1, round(8 * BAR * value / largest))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
