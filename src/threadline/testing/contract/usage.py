"""The contract: what requests took, in tokens and in money."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from threadline import (
    InvalidArgument,
    KeyReused,
    Message,
    NotActive,
    Session,
    Stale,
    Store,
    ThreadlineError,
    Usage,
)
from threadline.testing.contract.workshop import (
    NOON,
    Contract,
    OpenStore,
    talk,
)

NOTHING = Usage(cost=0.0, requests=0)
A_DAY = timedelta(days=1)
A_MOMENT = timedelta(microseconds=1)

PRICES = {
    "large": {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75},
    "small": {"input": 1.0, "output": 2.0},
    "thinker": {"input": 1.0, "output": 2.0, "reasoning": 10.0},
}

ANTHROPIC = {
    "input_tokens": 10,
    "output_tokens": 20,
    "cache_read_input_tokens": 300,
    "cache_creation_input_tokens": 40,
}


class UsageContract(Contract):
    """What requests took, in tokens and in money."""

    def test_nothing_was_spent_at_first(self, store: Store, session: Session) -> None:
        assert (session.usage(), session.usage(children=True), session.requests()) == (NOTHING, NOTHING, [])
        assert (store.usage(), store.usage(by=())) == ({}, {})
        assert store.session("later").usage() == NOTHING
        assert session.info.cost == 0.0

    def test_recorded_usage_is_added_up(self, session: Session) -> None:
        session.record_usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5, cost=0.1)
        session.record_usage(input=10, output=20, cache_read=30, cache_write=40, reasoning=50, cost=0.2)

        assert session.usage() == Usage(11, 22, 33, 44, 55, 0.3, 2)
        assert session.info.cost == 0.3

    def test_recording_usage_is_no_entry(self, session: Session) -> None:
        before = session.info
        session.record_usage(input=1, cost=0.0)

        assert session.info == before

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            (Usage(10, 20, 300, 40), {"input": 10, "output": 20, "cache_read": 300, "cache_write": 40}),
            ({"input": 10, "output": 20, "cache_read": 300, "cache_write": 40}, None),
            (ANTHROPIC, None),
            (ANTHROPIC | {"service_tier": "standard"}, None),
            (
                {
                    "prompt_tokens": 350,
                    "completion_tokens": 20,
                    "prompt_tokens_details": {"cached_tokens": 300, "cache_write_tokens": 40},
                },
                None,
            ),
        ],
    )
    def test_an_entry_brings_its_usage(self, session: Session, given: Any, kept: Any) -> None:
        entry = session.append(Message.assistant("hello"), usage=given)

        assert session.usage() == Usage(10, 20, 300, 40, 0, None, 1)
        assert entry.usage == session.entry(1).usage == (kept or given)

    def test_the_usage_of_a_call_counts_once_however_many_entries(self, session: Session) -> None:
        session.extend(["one", "two", "three"], usage={"input": 3})

        assert session.usage() == Usage(3, requests=1)

    def test_an_empty_call_counts_nothing(self, session: Session) -> None:
        session.extend([], usage={"input": 3})

        assert session.usage() == NOTHING

    def test_what_was_rewound_or_folded_was_paid_for_all_the_same(self, session: Session) -> None:
        session.append("hi", usage={"input": 1})
        session.append(Message.assistant("hello"), usage={"output": 2})
        session.compact("greetings", usage={"output": 4})
        session.rewind(0)
        session.clear()

        assert session.usage() == Usage(1, 6, requests=3)

    def test_a_repeated_call_is_paid_once(self, session: Session) -> None:
        for _ in range(3):
            session.append("hi", key="k", usage={"input": 5})
        with pytest.raises(KeyReused):
            session.append("other", key="k", usage={"input": 5})

        assert session.usage() == Usage(5, requests=1)

    def test_a_refused_call_is_not_paid(self, store: Store, session: Session) -> None:
        with pytest.raises(Stale):
            session.append("hi", expect=7, usage={"input": 5})
        store.archive(session)
        with pytest.raises(NotActive):
            session.append("hi", usage={"input": 5})
        with pytest.raises(NotActive):
            session.record_usage(input=5)

        assert session.usage() == NOTHING

    def test_the_first_append_of_a_key_may_bring_usage(self, store: Store) -> None:
        session = store.session("k", model="m", agent="a")
        session.append("hi", usage={"input": 5})

        assert store.usage(by=("model", "agent")) == {("m", "a"): Usage(5, requests=1)}

    def test_a_batch_records_usage_with_the_rest_or_not_at_all(self, session: Session) -> None:
        with session.batch() as b:
            b.append("hi", usage={"input": 1})
            b.record_usage(input=2, request_id="r")
        stale = session.batch(expect=7)
        with pytest.raises(Stale), stale as b:
            b.record_usage(input=4)

        assert session.usage() == Usage(3, requests=2)

    def test_a_batch_of_usage_alone_writes_no_entry(self, session: Session) -> None:
        with session.batch() as b:
            b.record_usage(input=2)

        assert (session.head, session.usage().input, b.entries) == (0, 2, [])

    # -- requests --------------------------------------------------------------------------------------

    def test_every_request_is_a_row(self, store: Store) -> None:
        session = store.new(model="large", agent="main")
        session.record_usage(input=1, output=2, request_id="r1", at=NOON)
        session.record_usage(cache_read=3, cache_write=4, reasoning=5, model="small", cost=0.25, at=NOON - A_DAY)

        second, first = session.requests()
        assert (second.request_id, second.model, second.agent, second.at) == (None, "small", "main", NOON - A_DAY)
        assert (second.cache_read, second.cache_write, second.reasoning, second.cost) == (3, 4, 5, 0.25)
        assert (first.request_id, first.model, first.at) == ("r1", "large", NOON)
        assert (first.input, first.output, first.cost) == (1, 2, None)

    def test_thousands_of_requests_are_all_there(self, session: Session) -> None:
        with session.batch() as b:
            for i in range(2_500):
                b.record_usage(input=i, at=NOON)

        assert [request.input for request in session.requests()] == list(range(2_500))
        assert session.usage().requests == 2_500

    def test_a_request_id_counts_once(self, session: Session) -> None:
        for _ in range(3):
            session.record_usage(input=5, request_id="r")
        session.append("hi", usage={"input": 5, "request_id": "r"})

        assert (session.usage(), len(session.requests())) == (Usage(5, requests=1), 1)

    def test_counted_at_once_by_many_it_counts_once(self, session: Session) -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda i: session.record_usage(input=i, request_id="r"), range(40)))

        assert session.usage() == Usage(39, requests=1)

    @pytest.mark.parametrize("order", [(1, 20, 300), (300, 20, 1), (20, 300, 1)])
    def test_of_growing_snapshots_the_largest_wins(self, session: Session, order: tuple[int, ...]) -> None:
        for output in order:
            session.record_usage(input=7, output=output, request_id="r")

        assert session.usage() == Usage(7, 300, requests=1)

    def test_snapshots_of_a_stream_complete_each_other(self, open_store: OpenStore) -> None:
        with open_store(prices=PRICES) as store:
            session = store.new(model="large")
            start = ANTHROPIC | {"output_tokens": 1, "request_id": "r"}
            session.record_usage(usage=start)
            session.record_usage(usage={"output_tokens": 20, "request_id": "r"})

            cost = (10 * 3.0 + 20 * 15.0 + 300 * 0.3 + 40 * 3.75) / 1e6
            assert session.usage() == Usage(10, 20, 300, 40, 0, round(cost, 9), 1)

    def test_a_request_id_counts_once_in_a_whole_tree(self, store: Store, session: Session) -> None:
        session.append("hi", usage={"input": 5, "request_id": "r1"})
        fork, child = session.fork(), session.spawn("search")
        below = child.spawn().fork()
        for one in (fork, child, below):
            one.record_usage(input=5, request_id="r1")
        child.record_usage(output=9, request_id="r2")
        session.record_usage(output=9, request_id="r2")  # a parent reports what its child's calls took

        assert store.usage(by=()) == {(): Usage(5, 9, requests=2)}
        assert session.usage() == Usage(5, requests=1)
        assert session.usage(children=True) == Usage(5, 9, requests=2)
        assert (fork.usage(), below.usage()) == (NOTHING, NOTHING)

    def test_a_snapshot_from_anywhere_in_the_tree_grows_the_request_where_it_stands(self, session: Session) -> None:
        child = session.spawn()
        child.record_usage(output=9, request_id="r")
        session.record_usage(output=12, request_id="r")

        assert (child.usage().output, session.usage().output) == (12, 0)

    def test_request_ids_of_other_trees_are_others(self, store: Store) -> None:
        for _ in range(2):
            store.new().record_usage(input=5, request_id="r")

        assert store.usage(by=()) == {(): Usage(10, requests=2)}

    # -- forks and children ----------------------------------------------------------------------------

    def test_a_fork_counts_only_its_own(self, session: Session) -> None:
        session.append("hi", usage={"input": 5})
        fork = session.fork()
        fork.append("ho", usage={"input": 7})

        assert (session.usage(), fork.usage()) == (Usage(5, requests=1), Usage(7, requests=1))
        assert session.usage(children=True) == Usage(5, requests=1)

    def test_usage_comes_with_and_without_children(self, session: Session) -> None:
        child = session.spawn()
        session.record_usage(input=1)
        child.record_usage(input=10)
        child.spawn(lifecycle="detached").record_usage(input=100)

        assert [s.usage().input for s in (session, child)] == [1, 10]
        assert [s.usage(children=True).input for s in (session, child)] == [111, 110]

    # -- money -----------------------------------------------------------------------------------------

    def test_a_cost_is_unknown_until_a_price_is_known(self, open_store: OpenStore) -> None:
        with open_store(prices=PRICES) as store:
            session = store.new(model="large")
            session.record_usage(input=1_000_000)
            known = session.usage().cost, session.info.cost
            session.record_usage(input=5, model="nobody's")

            assert known == (3.0, 3.0)
            assert session.usage() == Usage(1_000_005, cost=None, requests=2)
            assert session.info.cost is None
            assert [request.cost for request in session.requests()] == [3.0, None]
            assert store.usage() == {"large": Usage(1_000_000, cost=3.0), "nobody's": Usage(5, cost=None)}

    def test_without_prices_every_cost_is_unknown_and_never_nothing(self, session: Session) -> None:
        session.record_usage(input=5, model="large")

        assert session.usage().cost is None

    def test_a_price_that_becomes_known_tells_the_past(self, open_store: OpenStore) -> None:
        known: dict[str, Any] = {}
        with open_store(prices=known.get) as store:
            session = store.new(model="small")
            session.record_usage(input=1_000_000)
            before = session.usage().cost
            known |= PRICES

            assert before is None
            assert session.usage().cost == session.info.cost == session.requests()[0].cost == 1.0
            assert store.usage() == {"small": Usage(1_000_000, cost=1.0)}

    def test_a_price_that_changes_does_not_change_the_past(self, open_store: OpenStore) -> None:
        known: dict[str, Any] = {"m": {"input": 1.0}}
        with open_store(prices=known) as store:
            session = store.new(model="m")
            session.record_usage(input=1_000_000)
            known["m"] = {"input": 9.0}
            session.record_usage(input=1_000_000)

            assert session.usage().cost == 10.0

    def test_a_kind_of_token_without_a_price_makes_the_cost_unknown(self, open_store: OpenStore) -> None:
        with open_store(prices=PRICES) as store:
            session = store.new(model="small")
            session.record_usage(input=1_000_000, cache_read=1)

            assert session.usage().cost is None

    def test_reasoning_is_a_part_of_the_output(self, open_store: OpenStore) -> None:
        with open_store(prices=PRICES) as store:
            plain, thinker = store.new(model="small"), store.new(model="thinker")
            for session in (plain, thinker):
                session.record_usage(output=1_000_000, reasoning=500_000)

            assert (plain.usage().cost, thinker.usage().cost) == (2.0, 6.0)

    def test_a_given_cost_is_the_cost(self, open_store: OpenStore) -> None:
        with open_store(prices=PRICES) as store:
            session = store.new(model="large")
            session.record_usage(input=1_000_000, cost=0.5, request_id="r")
            session.record_usage(input=1_000_000, cost=0.75, request_id="r")
            session.record_usage(input=1_000_000, request_id="r")

            assert session.usage().cost == 0.75

    def test_money_is_added_up_exactly(self, session: Session) -> None:
        for _ in range(10):
            session.record_usage(cost=0.1)

        assert session.usage().cost == 1.0

    @pytest.mark.parametrize(
        "prices", [7, "cheap", {"m": {"in": 1.0}}, {"m": {"input": -1.0}}, {"m": {"input": "1"}}, {"m": [1.0]}]
    )
    def test_prices_that_cannot_be_right_are_refused(self, open_store: OpenStore, prices: Any) -> None:
        def spend() -> None:
            with open_store(prices=prices) as store:
                store.new(model="m").record_usage(input=1)

        with pytest.raises(InvalidArgument, match="price"):
            spend()

    # -- of a whole store ------------------------------------------------------------------------------

    def test_usage_is_told_by_model_day_session_and_agent(self, store: Store) -> None:
        main, other = store.new(model="m", agent="a"), store.new()
        main.record_usage(input=1, at=NOON)
        main.record_usage(input=10, at=NOON + A_DAY, model="n")
        other.record_usage(input=100, at=NOON)

        def inputs(**options: Any) -> dict[Any, int]:
            return {key: usage.input for key, usage in store.usage(**options).items()}

        assert inputs() == inputs(by="model") == {None: 100, "m": 1, "n": 10}
        assert inputs(by="day") == {"2026-01-01": 101, "2026-01-02": 10}
        assert inputs(by="session") == {main.id: 11, other.id: 100}
        assert inputs(by="agent") == {None: 100, "a": 11}
        assert inputs(by=("day", "model")) == {
            ("2026-01-01", None): 100,
            ("2026-01-01", "m"): 1,
            ("2026-01-02", "n"): 10,
        }
        assert inputs(by=("agent",)) == {(None,): 100, ("a",): 11}
        assert inputs(by=()) == {(): 111}

    def test_groups_come_in_order(self, store: Store, session: Session) -> None:
        for day in (3, 1, 2):
            session.record_usage(input=1, at=NOON + day * A_DAY)

        assert list(store.usage(by="day")) == ["2026-01-02", "2026-01-03", "2026-01-04"]

    def test_the_agent_of_a_request_is_the_one_that_made_it(self, store: Store) -> None:
        session = store.new(agent="before")
        session.record_usage(input=1)
        session.update(agent="after")
        session.record_usage(input=10)

        assert {key: usage.input for key, usage in store.usage(by="agent").items()} == {"before": 1, "after": 10}

    def test_usage_is_told_of_some_sessions_only(self, store: Store) -> None:
        store.new(agent="a", cwd="/src", tags=["red"]).record_usage(input=1)
        store.new(agent="b", cwd="/src").record_usage(input=10)
        store.new(agent="a", tags=["red", "blue"]).record_usage(input=100)

        def total(**only: Any) -> int:
            return store.usage(by=(), **only).get((), NOTHING).input

        assert [total(agent="a"), total(cwd="/src"), total(tag="red"), total(tag="blue")] == [101, 11, 101, 100]
        assert [total(agent="a", cwd="/src"), total(agent="nobody")] == [1, 0]

    def test_sub_agents_count_in_the_store(self, store: Store) -> None:
        session = store.new(agent="main", tags=["red"])
        session.spawn("search").record_usage(input=5)

        assert store.usage(by="agent", tag="red") == {"search": Usage(5, requests=1)}

    @pytest.mark.parametrize(
        ("since", "until", "expected"),
        [
            (None, None, 1111),
            (NOON, None, 1111),
            (NOON + A_MOMENT, None, 1110),
            (None, NOON + A_DAY, 1),
            (None, NOON + A_DAY + A_MOMENT, 11),
            (NOON, NOON, 0),
            (NOON, NOON + A_MOMENT, 1),
            (NOON + A_DAY, NOON + 3 * A_DAY, 110),
            (NOON + A_DAY, NOON + 3 * A_DAY + A_MOMENT, 1110),
            (datetime.fromisoformat("2026-01-02T00:00:00Z"), datetime.fromisoformat("2026-01-04T00:00:00Z"), 110),
            (datetime.fromisoformat("2026-01-02T00:00:00Z"), datetime.fromisoformat("2026-01-02T12:00:00Z"), 0),
            (datetime.fromisoformat("2026-01-02T01:00:00+13:00"), None, 1111),
            (NOON + 3 * A_DAY, NOON, 0),
        ],
    )
    def test_time_is_cut_to_the_microsecond(
        self, store: Store, session: Session, since: datetime | None, until: datetime | None, expected: int
    ) -> None:
        for day in range(4):
            session.record_usage(input=10**day, at=NOON + day * A_DAY)

        found = store.usage(by="day", since=since, until=until)
        assert sum(usage.input for usage in found.values()) == expected
        assert store.usage(by=(), since=since, until=until).get((), NOTHING).input == expected

    def test_a_day_ends_at_midnight_utc(self, store: Store, session: Session) -> None:
        midnight = datetime.fromisoformat("1969-12-31T00:00:00Z")
        for at in (midnight, midnight + A_DAY - A_MOMENT, midnight + A_DAY):
            session.record_usage(input=1, at=at)

        found = {day: usage.requests for day, usage in store.usage(by="day").items()}
        assert found == {"1969-12-31": 2, "1970-01-01": 1}

    def test_usage_stays_in_its_namespace(self, store: Store) -> None:
        store.within("acme").new().record_usage(input=5)

        assert store.usage() == {}
        assert store.within("acme").usage(by=()) == {(): Usage(5, requests=1)}

    def test_what_was_put_away_was_paid_for(self, store: Store, session: Session) -> None:
        session.record_usage(input=5)
        store.trash(session)

        assert store.usage(by=()) == {(): Usage(5, requests=1)}

    # -- refusals --------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "refused",
        [
            lambda s: s.record_usage(input=-1),
            lambda s: s.record_usage(output=1.5),
            lambda s: s.record_usage(cache_read="7"),
            lambda s: s.record_usage(reasoning=True),
            lambda s: s.record_usage(cost=-0.1),
            lambda s: s.record_usage(cost=float("nan")),
            lambda s: s.record_usage(model=""),
            lambda s: s.record_usage(request_id=7),
            lambda s: s.record_usage(request_id=""),
            lambda s: s.record_usage(at="yesterday"),
            lambda s: s.record_usage(input=1, usage={"input": 1}),
            lambda s: s.record_usage(usage=[1]),
            lambda s: s.append("hi", usage={"input": -1}),
            lambda s: s.append("hi", usage={"input_tokens": -1}),
            lambda s: s.append("hi", usage={"tokens": 7}),
            lambda s: s.append("hi", usage={"input": 1, "request_id": ""}),
            lambda s: s.append("hi", usage=7),
            lambda s: s.compact("short", usage={"output": -1}),
        ],
    )
    def test_usage_that_cannot_be_right_is_refused(self, session: Session, refused: Callable[[Any], object]) -> None:
        talk(session, 1)
        with pytest.raises(InvalidArgument):
            refused(session)

        assert (session.head, session.usage()) == (2, NOTHING)

    def test_negative_tokens_are_named(self, session: Session) -> None:
        with pytest.raises(InvalidArgument, match="output is a number of tokens from 0"):
            session.record_usage(output=-5)

    @pytest.mark.parametrize(
        "options",
        [
            {"by": "week"},
            {"by": ("model", "model")},
            {"by": ("model", "colour")},
            {"since": "yesterday"},
            {"until": datetime(2026, 1, 1)},
            {"agent": 7},
            {"tag": 7},
            {"cwd": 7},
        ],
    )
    def test_a_question_that_cannot_be_right_is_refused(self, store: Store, options: dict[str, Any]) -> None:
        with pytest.raises(ThreadlineError):
            store.usage(**options)
