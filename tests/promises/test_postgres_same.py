"""The same calls leave the same rows on SQLite and on PostgreSQL, byte for byte.

On SQLite every row is folded in Python; on PostgreSQL most are folded by a function on the server. Both see the same
histories, with the same dice and the same clock, and all that the core knows of a row is compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from histories import Clock, loaded_dice
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

import threadline
from threadline import Message, Session, Store, ThreadlineError, ToolCall
from threadline.backends.postgres import schema
from threadline.core.entries import Row
from threadline.testing import scaled, seed, strategies
from threadline.testing.strategies import Place, Step, resolve

HISTORIES = 40

Same = Callable[[Sequence[Step | Place]], None]


class Seen:
    """A session as places in a history are looked up in it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.head = session.head

    def landmarks(self, of: str) -> Sequence[Any]:
        if of == "visible":
            return [entry.seq for entry in self._session.view().entries]
        if of == "fold":
            return [entry.seq for entry in self._session.entries(kinds=("compaction", "replacement"))]
        return [pending.call.id for pending in self._session.pending]


@contextmanager
def opened(url: str) -> Iterator[tuple[Store, Clock]]:
    clock = Clock()
    with (
        loaded_dice(),
        threadline.open(url, clock=clock, durability="relaxed", count_tokens=lambda m: 1 + len(m.text)) as store,
    ):
        yield store, clock


def live(url: str, history: Sequence[Step | Place]) -> tuple[list[Any], list[Any]]:
    """Live through a history: what each call gave, and what is stored in the end. A Place is a fork there."""
    answers = []
    with opened(url) as (store, clock):
        session = store.session("first")
        session.append("begin")
        for number, step in enumerate(history, 1):
            clock.step = number
            if isinstance(step, Place):
                session = session.fork(int(resolve(step, Seen(session))) % (session.head + 1), key=f"fork {number}")
                continue
            answers.append(attempt(session, step))
        assert store.verify().problems == []
        return answers, [portrait(store, info.id) for info in store.sessions(order="created")]


def attempt(session: Session, step: Step) -> Any:
    verb, options = step.resolved(Seen(session))
    try:
        return getattr(session, verb)(**options)
    except ThreadlineError as error:
        return type(error), str(error)


def portrait(store: Store, id: str) -> tuple[Any, ...]:
    """All that is stored of a session, as the core knows it: every row with its digest, chain and fold."""
    session = store.get(id)
    ref = session._made()
    rows: list[Row] = list(session._backend.log(ref).rows(1, session.head))
    record = session._backend.record(ref)._replace(number=0)
    return ref.id, ref.key, ref.tree, rows, record, [fork.id for fork in session.forks()]


@pytest.fixture
def same(postgres_url: str, empty_postgres: Callable[[], None]) -> Same:
    def check(history: Sequence[Step | Place]) -> None:
        empty_postgres()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            there = live(postgres_url, history)
        assert there == live(":memory:", history)

    return check


def test_any_history_leaves_the_same_rows(same: Same) -> None:
    moves = strategies.steps() | strategies.appends() | strategies.extends() | strategies.places("entry")

    @seeded(seed())
    @settings(
        max_examples=scaled(HISTORIES),
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(moves, min_size=5, max_size=25))
    def histories(history: list[Step | Place]) -> None:
        same(history)

    histories()


def test_a_deep_stack_of_open_calls_is_the_same(same: Same) -> None:
    """Calls in many nodes, answered from the bottom, from the middle, twice, and not at all; across a fork, too."""
    asks = [Step("append", {"message": Message.assistant(None, *_calls(n, n % 3 + 1))}) for n in range(8)]
    answers = [Step("append", {"message": Message.tool(f"{n}-{i}", "done")}) for n in (0, 5, 3, 5, 9) for i in range(3)]
    both = Step(
        "extend", {"messages": [Message.assistant(None, *_calls(20, 2)), Message.tool("20-1", "x")], "key": "k"}
    )

    same([*asks, *answers[:6], Place("entry", 7), *answers, both, both, Step("repair", {})])


def _calls(n: int, count: int) -> list[ToolCall]:
    return [ToolCall(f"{n}-{i}", "tool", {}) for i in range(count)]


def test_a_wrong_fold_on_the_server_would_be_seen(
    same: Same, postgres_schema: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: a server that forgets that an assistant's words answer the user's."""
    monkeypatch.setattr(schema, "difference", lambda connection: None)  # which would tell, too
    (source,) = postgres_schema.execute("SELECT pg_get_functiondef('threadline.write'::regproc)").fetchone() or ("",)
    postgres_schema.execute(source.replace("ELSIF voices[e] = 3 THEN", "ELSIF voices[e] = 9 THEN").encode())
    try:
        with pytest.raises(AssertionError, match="the stored asked is not the fold of the log"):
            same([Step("append", {"message": Message.assistant("hello")})])
    finally:
        postgres_schema.execute(source.encode())


def test_sums_of_many_models_come_in_the_same_order(postgres_url: str) -> None:
    """Whatever plan the server makes: a sum by hashes has no order of its own."""
    models = [f"model {n * 7 % 40:02}" for n in range(40)]
    url = postgres_url + ("&" if "?" in postgres_url else "?") + "options=-c%20enable_sort%3Doff"
    with threadline.open(url, durability="relaxed") as there, threadline.open(":memory:") as here:
        sums = []
        for store in (there, here):
            session = store.session("s")
            session.append("hi")
            for model in models:
                session.record_usage(input=1, model=model)
            found = session._backend.record(session._made()).spent
            sums.append(([each.model for each in found], session._backend.spent(session._made(), False)))

    assert sums[0] == sums[1]
    assert sums[0][0] == sorted(models)
