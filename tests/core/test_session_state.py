"""The state at any moment is the fold of all changes, found with few rows, and stored in little room."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from test_fold import lived

from threadline.core import session_state
from threadline.core.audit import Audit
from threadline.core.entries import Row, data_draft
from threadline.core.fold import draft_of, start
from threadline.core.goals import TEXT_CHARS, goal_at, goal_text
from threadline.core.session_state import STEPS_MAX, WHOLE_BYTES, state_at
from threadline.errors import Damaged
from threadline.testing import scaled, strategies
from threadline.testing.memory import SALT, MemoryLog
from threadline.testing.strategies import Step

LARGE = {f"name {n}": "x" * 100 for n in range(200)}  # 20 KB: not written whole with each change


class CountingLog(MemoryLog):
    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def row(self, seq: int) -> Row:
        self.read += 1
        return super().row(seq)


def grown(changes: int, first: dict[str, Any]) -> CountingLog:
    log = CountingLog()
    log.do("set_state", values=first)
    for n in range(changes):
        log.do("set_state", values={"n": n})
        log.do("append", message="something else")
    return log


@settings(max_examples=scaled(150))
@given(strategies.histories())
def test_the_state_and_goal_of_any_moment_are_what_the_model_says(history: list[Step]) -> None:
    log, model = lived(history)

    for n in range(log.head + 1):
        assert state_at(log, n) == model.state(n)
        goal, said = goal_at(log, n), model.goal(n)
        assert (goal and goal.objective, goal and goal.status) == (said and said["objective"], said and said["status"])


@pytest.mark.parametrize("first", [{"n": 0}, LARGE])
@pytest.mark.parametrize("changes", [10, 500])
def test_a_reader_walks_a_bounded_number_of_rows_however_long_the_log(first: dict[str, Any], changes: int) -> None:
    log = grown(changes, first)
    log.read = 0

    assert state_at(log, log.head) == first | {"n": changes - 1}
    assert log.read <= STEPS_MAX + 1


def test_a_small_state_is_one_row() -> None:
    log = grown(500, {"n": 0})
    log.read = 0
    state_at(log, log.head)

    assert log.read <= 2


def test_small_changes_of_a_large_state_take_little_room() -> None:
    """Far less than the state again and again."""
    log = grown(500, LARGE)
    stored = sum(len(row.body) for row in log.kept if row is not None and row.kind == "state")

    assert stored < (500 / STEPS_MAX + 3) * (len(LARGE) * 125)


def test_a_state_is_whole_at_least_when_as_much_has_changed_as_it_holds() -> None:
    """So no reader works through more than twice the state."""
    log = MemoryLog()
    for _ in range(12):
        log.do("set_state", values={"text": "x" * 2 * WHOLE_BYTES})

    assert [row.seq for row in log.kept if row and b'"whole"' in row.body] == [2, 4, 6, 8, 10, 12]


def altered(log: MemoryLog, seq: int, **data: Any) -> list[tuple[int, str]]:
    """What the audit says when an entry, its digest made anew, says something else."""
    row = log.row(seq)
    draft = data_draft(row.kind, {**session_state.data_of(row), **data}, at=row.at)
    rows = list(log.kept)
    anew = MemoryLog()
    for other in rows:
        assert other is not None
        anew.add([draft if other.seq == seq else draft_of(other)])
    return list(Audit(anew, start(SALT), anew.head))


@pytest.mark.parametrize(
    ("seq", "data"),
    [(2, {"whole": {"n": 7}}), (2, {"before": 0}), (2, {"set": {"n": 3}}), (4, {"of": 2}), (4, {"back": 2})],
)
def test_a_state_that_does_not_follow_from_the_log_is_found(seq: int, data: dict[str, Any]) -> None:
    log = MemoryLog()
    log.do("set_state", values={"n": 1})
    log.do("set_state", values={"m": 2})
    log.do("append", message="hi")
    log.do("rewind", to=1, state=True)

    assert altered(log, 2) == []
    assert [found for found, _ in altered(log, seq, **data)] == [seq]


def test_a_model_is_told_of_an_active_goal_and_of_how_it_went() -> None:
    log = MemoryLog()
    assert goal_text(goal_at(log, 0)) == ""
    log.do("set_goal", objective="win", summary="two moves left")
    assert goal_text(goal_at(log, 1)) == "Goal: win\ntwo moves left"
    log.do("complete_goal")

    assert goal_text(goal_at(log, 2)) == ""
    log.do("set_goal", objective="win again")
    log.do("complete_goal", recap="in four moves")

    assert goal_text(goal_at(log, 4)) == "Goal, completed: win again\nRecap: in four moves"


def test_a_goal_does_not_crowd_out_the_conversation() -> None:
    log = MemoryLog()
    log.do("set_goal", objective="win " * TEXT_CHARS)

    assert len(goal_text(goal_at(log, 1))) == TEXT_CHARS


def test_what_is_no_state_is_not_read_as_one() -> None:
    log = MemoryLog()
    log.do("append", message="hi")

    with pytest.raises(Damaged, match="of kind 'message'"):
        session_state.told(log, 1)


@pytest.mark.parametrize("before", [2, 3, -1])
def test_states_that_build_on_each_other_in_a_circle_are_damage(before: int) -> None:
    log = MemoryLog()
    log.do("set_state", values={"n": 1})
    log.add([data_draft("state", {"set": {"n": 2}, "remove": (), "before": before}, at=1)])

    with pytest.raises(Damaged, match="does not stand before it"):
        session_state.told(log, 2)
