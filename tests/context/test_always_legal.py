"""Every context is legal for its provider and within its budget, for any log whatever, at any of its moments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from lives import PROVIDERS, Life, lives

from threadline import BudgetTooSmall, Message, Reasoning, Text, ToolResult, formats
from threadline.context import Context
from threadline.core.compaction import Seen
from threadline.testing import scaled, seed
from threadline.testing.strategies import Step

SHARDS = 4  # so that several workers share the work
thoroughly = settings(max_examples=scaled(500), deadline=None, database=None, suppress_health_check=list(HealthCheck))


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
                check(life, at, visible, wish)

    legal()


def check(life: Life, at: int, visible: list[Seen], wish: dict[str, Any]) -> None:
    try:
        context = life.context(at, **wish)
    except BudgetTooSmall as error:
        wish = wish | {"max_tokens": error.needed}
        context = life.context(at, **wish)
        with pytest.raises(BudgetTooSmall):
            life.context(at, **wish | {"max_tokens": error.needed - 1 or 1})
    assert formats.problems(context.messages, wish["format"]) == []
    assert wish["max_tokens"] is None or context.tokens <= wish["max_tokens"]
    assert at < life.head or life.context(at, **wish) == context
    assert_no_user_text_is_lost(visible, context)
    assert_the_newest_turn_survives(visible, context)


def assert_no_user_text_is_lost(visible: list[Seen], context: Context) -> None:
    """Every word that a user said in the entries of this context is in it."""
    sent = repr(context.messages)
    for entry in visible:
        if entry.seq in context.seqs and entry.message.role == "user":
            for part in entry.message.parts:
                assert type(part) is not Text or not part.text.strip() or repr(part.text)[1:-1] in sent


def assert_the_newest_turn_survives(visible: list[Seen], context: Context) -> None:
    asked = [entry.seq for entry in visible if entry.message.role == "user" and _speaks(entry.message)]

    assert asked[-1:] == [] or asked[-1] in context.seqs


def _speaks(message: Message) -> bool:
    said = [part for part in message.parts if not (isinstance(part, Text | Reasoning) and not part.text.strip())]
    return "compaction" not in message.meta and any(type(part) is not ToolResult for part in said)


def test_a_damaged_goal_does_not_keep_the_conversation_from_being_told() -> None:
    life = Life([Step("set_goal", {"objective": "win"}), Step("append", {"message": Message.user("go on")})])
    assert life.context(2).system == "Goal: win"
    goal = life.row(1)
    life.kept[0] = goal._replace(body=goal.body[:-1] + b" ")

    assert life.context(2).system is None
    assert life.context(2).messages == [Message.user("go on")]
