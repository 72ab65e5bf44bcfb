"""The contract: a session's state and its goal."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import Goal, InvalidArgument, NotFound, Session, Store
from threadline.testing.contract.workshop import A_SECOND, NOON, Contract, OpenStore, talk


class StateContract(Contract):
    """Names and values that are kept with a session, and what it works towards."""

    def test_a_new_session_has_no_state_and_no_goal(self, store: Store) -> None:
        unmade = store.session("k")

        assert (dict(unmade.state), unmade.goal, dict(unmade.state_at(0))) == ({}, None, {})

    def test_set_names_are_read_back_and_others_stay(self, session: Session) -> None:
        session.set_state({"n": 1, "deep": {"list": [1, None, "\ud800"]}})
        session.set_state({"n": 2})

        assert session.state == {"n": 2, "deep": {"list": [1, None, "\ud800"]}}

    def test_none_is_a_value_and_remove_takes_away(self, session: Session) -> None:
        session.set_state({"a": None, "b": 1})
        session.set_state({"c": 2}, remove=["b", "never set"])

        assert session.state == {"a": None, "c": 2}

    def test_the_state_is_read_only(self, session: Session) -> None:
        session.set_state({"n": 1})
        with pytest.raises(TypeError):
            session.state["n"] = 2  # type: ignore[index]

        assert session.state == {"n": 1}

    def test_setting_writes_an_entry_that_the_model_never_sees(self, session: Session) -> None:
        talk(session, 1)

        entry = session.set_state({"n": 1})

        assert (entry.seq, entry.kind, session.head) == (3, "state", 3)
        assert len(session.messages()) == 2

    def test_the_state_of_any_past_moment(self, session: Session) -> None:
        for n in range(5):
            session.set_state({"n": n})
            session.append("something")

        assert [session.state_at(seq).get("n") for seq in range(11)] == [None, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]

    @pytest.mark.parametrize("size", [1, 400, 3_000])
    def test_many_changes_of_a_state_of_any_size(self, session: Session, size: int) -> None:
        """Small states are stored whole, large ones mostly as changes: both read the same."""
        kept: dict[str, Any] = {}
        moments = []
        for n in range(150):
            values, remove = {f"name {n % 7}": "x" * size, "n": n}, [f"name {n % 5}"] if n % 3 == 0 else []
            values = {name: value for name, value in values.items() if name not in remove}
            session.set_state(values, remove)
            kept = {name: value for name, value in (kept | values).items() if name not in remove}
            moments.append(kept)

        assert [session.state_at(seq) for seq in range(1, 151)] == moments

    def test_a_moment_that_is_not_in_the_log_is_not_found(self, session: Session) -> None:
        session.set_state({"n": 1})

        with pytest.raises(NotFound):
            session.state_at(2)

    def test_rewinding_leaves_the_state_alone(self, session: Session) -> None:
        session.set_state({"n": 1})
        session.append("one")
        session.set_state({"n": 2})
        session.rewind(2)
        session.clear()

        assert session.state == {"n": 2}

    def test_rewinding_with_the_state_takes_it_back(self, session: Session) -> None:
        session.set_state({"n": 1, "old": True})
        session.append("one")
        session.set_state({"n": 2}, remove=["old"])

        entry = session.rewind(2, state=True)

        assert (entry.kind, entry.seq, session.head) == ("rewind", session.head, session.head)
        assert session.state == session.state_at(entry.seq) == {"n": 1, "old": True}
        assert session.state_at(3) == {"n": 2}

    def test_rewinding_forward_with_the_state_brings_it_again(self, session: Session) -> None:
        session.set_state({"n": 1})
        session.set_state({"n": 2})
        session.rewind(1, state=True)
        session.set_state({"m": 3})
        session.rewind(2, state=True)

        assert session.state == {"n": 2}
        session.rewind(0, state=True)
        assert session.state == {}

    def test_a_rewind_with_the_state_is_one_call_with_one_key(self, session: Session) -> None:
        session.set_state({"n": 1})
        session.set_state({"n": 2})
        session.rewind(1, state=True, key="k")
        head = session.head

        assert session.rewind(1, state=True, key="k").kind == "rewind"
        assert session.head == head

    def test_changes_build_on_a_state_that_was_taken_back(self, session: Session) -> None:
        session.set_state({"n": 1, "text": "x" * 2_000})
        session.set_state({"n": 2})
        session.rewind(1, state=True)
        session.set_state({"m": 3})

        assert session.state == {"n": 1, "text": "x" * 2_000, "m": 3}

    def test_a_batch_sets_step_by_step(self, session: Session) -> None:
        with session.batch() as b:
            b.set_state({"n": 1})
            b.append("hi")
            b.set_state({"m": 2}, remove=["n"])
            b.set_goal("win")
            b.complete_goal("won")

        assert session.state == {"m": 2}
        assert session.state_at(2) == {"n": 1}
        assert session.goal is not None
        assert session.goal.recap == "won"

    def test_a_fork_has_the_state_and_the_goal_of_its_point(self, session: Session) -> None:
        session.set_state({"n": 1})
        session.set_goal("first")
        session.set_state({"n": 2})
        session.set_goal("second")
        fork = session.fork(2)
        session.set_state({"n": 3})
        fork.set_state({"mine": True})

        assert (fork.state, session.state) == ({"n": 1, "mine": True}, {"n": 3})
        assert fork.goal is not None
        assert fork.goal.objective == "first"

    def test_goals_come_and_go(self, session: Session) -> None:
        session.set_goal("win the game", "two moves left", at=NOON)
        assert session.goal == Goal("win the game", "two moves left", "active", NOON)
        session.complete_goal("checkmate", at=NOON + A_SECOND)

        assert session.goal == Goal("win the game", "two moves left", "completed", NOON, NOON + A_SECOND, "checkmate")

    def test_one_goal_is_active_at_a_time(self, session: Session) -> None:
        session.set_goal("first")
        session.set_goal("second")
        session.complete_goal()

        assert session.goal is not None
        assert (session.goal.objective, session.goal.status) == ("second", "completed")
        with pytest.raises(NotFound):
            session.complete_goal()

    def test_rewinding_with_the_state_takes_the_goal_back(self, session: Session) -> None:
        session.append("hi")
        session.set_goal("first")
        session.complete_goal()
        session.rewind(2, state=True)
        assert session.goal is not None
        assert session.goal.status == "active"
        session.rewind(1, state=True)

        assert session.goal is None

    @pytest.mark.parametrize("name", ["state", "goal"])
    def test_a_note_cannot_pass_for_it(self, session: Session, name: str) -> None:
        with pytest.raises(InvalidArgument):
            session.note({"set": {"n": 1}}, kind=name)

    @pytest.mark.parametrize("values", [7, "n", [("n", 1)], {1: 2}, {"n": NOON}, {"n": float("nan")}, None])
    def test_a_state_is_names_and_json(self, session: Session, values: Any) -> None:
        with pytest.raises(InvalidArgument):
            session.set_state(values)

        assert session.head == 0

    @pytest.mark.parametrize("remove", ["n", [1], ["set"]])
    def test_remove_lists_names_that_are_not_set(self, session: Session, remove: Any) -> None:
        with pytest.raises(InvalidArgument):
            session.set_state({"set": 1}, remove)

    @pytest.mark.parametrize("objective", ["", "  ", None, 7])
    def test_an_objective_is_text(self, session: Session, objective: Any) -> None:
        with pytest.raises(InvalidArgument):
            session.set_goal(objective)


class DurableStateContract(Contract):
    """What is there again when the store is opened again."""

    def test_state_and_goal_are_there_again(self, open_store: OpenStore) -> None:
        with open_store() as store:
            session = store.session("k")
            session.set_state({"n": 1})
            session.set_goal("win")
            goal = session.goal

        with open_store() as store:
            assert (store.session("k").state, store.session("k").goal) == ({"n": 1}, goal)
