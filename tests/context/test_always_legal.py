"""Every context is legal for its provider and within its budget, for any log whatever, at any of its moments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from lives import PROVIDERS, Life, lives
from torture import lives as lives_of_dice
from torture.lives import illegal
from torture.runner import Unit

from threadline import Message, Other, Text
from threadline.testing import scaled, seed
from threadline.testing.strategies import Step

SHARDS = 4  # so that several workers share the work
thoroughly = settings(max_examples=scaled(120), deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_history_at_any_moment_for_any_provider(shard: int) -> None:
    @seeded(seed() * SHARDS + shard)
    @thoroughly
    @given(lives(), st.data())
    def legal(steps: list[Step], data: st.DataObject) -> None:
        life = Life(steps)
        options = {"timestamps": data.draw(st.booleans()), "keep_outputs": data.draw(st.none() | st.integers(0, 2))}
        budget = data.draw(st.none() | st.integers(1, 60))
        messages = data.draw(st.none() | st.integers(1, 6))
        for at in range(life.head + 1):
            visible = life.visible(at)
            for format in PROVIDERS:
                wish = {"format": format, "max_tokens": budget, "max_messages": messages, **options}
                assert illegal(life, at, visible, wish) is None

    legal()


def test_random_lives_without_hypothesis_which_are_quicker() -> None:
    trials = lives_of_dice.trials(Unit(seed(), 0, scaled(300)), Path())

    assert [trial.wrong for trial in trials if trial.wrong] == []


@pytest.mark.parametrize("format", PROVIDERS)
def test_a_turn_of_foreign_parts_and_blanks_is_still_told(format: str) -> None:
    parts = [Other({"type": "server_tool_use"}, {"provider": "anthropic"}), Text("", {"provider": "anthropic"})]
    life = Life([Step("append", {"message": Message("user", parts)})])

    assert illegal(life, 1, life.visible(1), {"format": format, "max_tokens": None, "max_messages": None}) is None


def test_a_damaged_goal_does_not_keep_the_conversation_from_being_told() -> None:
    life = Life([Step("set_goal", {"objective": "win"}), Step("append", {"message": Message.user("go on")})])
    assert life.context(2).system == "Goal: win"
    goal = life.row(1)
    life.kept[0] = goal._replace(body=goal.body[:-1] + b" ")

    assert life.context(2).system is None
    assert life.context(2).messages == [Message.user("go on")]
