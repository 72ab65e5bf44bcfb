"""Totals of requests, and large families: they cost sums and lookups, whatever the number of requests and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import threadline
from bench.measure import Found, beside, in_turns
from threadline import Message, Session, Store

PRICES = {"large": {"input": 3.0, "output": 15.0}}
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DAYS, SESSIONS, ROUNDS = 30, 100, 1_000
FEW = 10_000


def usage(folder: Path, large: int) -> Iterator[Found]:
    """Totals over a million requests beside totals over ten thousand, and what counting adds to an append."""
    with (
        threadline.open(folder / "usage-few.db", durability="relaxed", prices=PRICES) as few,
        threadline.open(folder / "usage-many.db", durability="relaxed", prices=PRICES) as many,
    ):
        sessions = {"few": spent(few, FEW), "many": spent(many, large)}
        took = in_turns({name: session.usage for name, session in sessions.items()}, 100)
        yield beside(f"s.usage() of {large:,} requests", took["many"], took["few"], 1.3, f"x at {FEW:,}")
        took = in_turns({"few": by_day_and_model(few), "many": by_day_and_model(many)}, 10)
        yield beside(f"store.usage() of {large:,} requests", took["many"], took["few"], 1.3, f"x at {FEW:,}")
        yield counting(many)


def counting(store: Store) -> Found:
    plain, counted, message = store.new(model="large"), store.new(model="large"), Message.assistant("Hello!")
    calls: dict[str, Callable[[], object]] = {
        "plain": lambda: plain.append(message),
        "counted": lambda: counted.append(message, usage={"input_tokens": 1_000, "output_tokens": 200}),
    }
    took = in_turns(calls, 300)
    return beside("append with usage", took["counted"], took["plain"], 3.0, "x without")


def tree(folder: Path, large: int) -> Iterator[Found]:
    """A session with 10,000 children beside one with 100, for each child."""
    with threadline.open(folder / "tree.db", durability="relaxed", prices=PRICES) as store:
        small, big = family(store, 100), family(store, FEW)
        for name, call in {
            "tree()": Session.tree,
            "usage(children=True)": lambda session: session.usage(children=True),
            "children()": Session.children,
        }.items():
            took = in_turns({"small": lambda c=call: c(small), "big": lambda c=call: c(big)}, 3)
            yield beside(f"{name} of {FEW:,} children", took["big"], took["small"], 1.3, "x of 100, each", 100 / FEW)


# -- what they work on ---------------------------------------------------------------------------------


def spent(store: Store, requests: int) -> Session:
    """So many requests, in a hundred sessions and on thirty days; one session has half of them."""
    sessions = [store.new(model="large", agent=f"agent {i % 5}") for i in range(SESSIONS)]
    for round in range(ROUNDS):
        session = sessions[0] if round % 2 else sessions[round // 2 % SESSIONS]
        with session.batch() as batch:
            for i in range(requests // ROUNDS):
                at = NEW_YEAR + timedelta(days=round % DAYS, seconds=i)
                batch.record_usage(input=i % 999, output=7, request_id=f"request-{round}-{i}", at=at)
    return sessions[0]


def by_day_and_model(store: Store) -> Callable[[], object]:
    return lambda: store.usage(by=("day", "model"))


def family(store: Store, children: int) -> Session:
    root = store.new(model="large")
    for i in range(children):
        root.spawn("search", call_id=f"call-{i}").record_usage(input=i, output=7)
    return root


WORKLOADS = (usage, tree)
