"""What gists tell of a conversation is what looking at its messages tells."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lives import Life, junk, lives
from msgspec.structs import replace

from threadline import Message, Text, ToolCall, context
from threadline.core.entries import known_of
from threadline.core.gists import gist_of, sanitised
from threadline.core.legal import Said, in_order, is_legal, mend
from threadline.formats.loading import FORMATS
from threadline.testing import scaled, strategies
from threadline.testing.strategies import Step

often = settings(max_examples=scaled(300), deadline=None, database=None, suppress_health_check=list(HealthCheck))
said = st.lists(junk() | strategies.messages() | strategies.spoken(), max_size=6) | strategies.conversations()


@often
@given(lives(), st.sampled_from(FORMATS), st.none() | st.integers(1, 60), st.none() | st.integers(1, 6))
def test_a_context_is_the_same_whether_or_not_gists_are_asked(
    steps: list[Step], format: str, max_tokens: int | None, max_messages: int | None
) -> None:
    life = Life(steps)
    wish = {"format": format, "max_tokens": max_tokens, "max_messages": max_messages}
    for at in range(life.head + 1):
        quick = outcome(life, at, wish)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context, "is_legal", lambda gists: False)
            assert outcome(life, at, wish) == quick


def outcome(life: Life, at: int, wish: dict[str, object]) -> object:
    try:
        return life.context(at, **wish)
    except Exception as error:
        return type(error), str(error)


@often
@given(said)
def test_what_gists_call_legal_nobody_changes(messages: list[Message]) -> None:
    told = [Said(seq, message) for seq, message in enumerate(messages, 1)]
    mended = mend([Said(seq, sanitised(message)) for seq, message in told])
    unchanged = mended.repairs == [] and [id(each.message) for each in mended.said] == [id(m) for m in messages]

    assert is_legal([gist_of(message) for message in messages]) == unchanged


@often
@given(junk() | strategies.messages() | strategies.spoken())
def test_the_gist_of_a_simple_message_is_that_of_any_other(message: Message) -> None:
    noted = replace(message, meta={**message.meta, "note": 1})  # so that it is none of the simple ones

    assert gist_of(message) == gist_of(noted)


@often
@given(lives())
def test_a_remembered_row_tells_the_same_line_every_time(steps: list[Step]) -> None:
    life = Life(steps)
    for row in map(life.row, range(1, life.head + 1)):
        known = known_of(row)

        assert [known.line(), known.line()] == [row.line(), row.line()]


def test_calls_of_one_id_are_not_in_order() -> None:
    twice = Message.assistant(None, ToolCall("c1", "look"), ToolCall("c1", "look"))

    assert not in_order([gist_of(twice), gist_of(Message.tool("c1", "seen"))])


def test_the_gist_of_what_an_assistant_copied_is_not_sound() -> None:
    stamped, plain = Message.assistant("[2026-01-02 03:04 UTC] so"), Message.assistant("see [1] and [2]")

    assert not gist_of(stamped).sound
    assert gist_of(plain).sound
    assert sanitised(stamped).parts == (Text("so"),)
