"""The providers' SDKs take what we write for them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from provider_fixtures import CASES, FIXTURES, PROVIDERS
from provider_strategies import CONVERSATIONS
from pydantic import ValidationError
from sdk_types import judge

from threadline import formats
from threadline.messages import Media, Message, Reasoning, Text, ToolCall
from threadline.testing import scaled

NEUTRAL = [
    Message.system("mid-way"),
    Message.user(
        "hi", Media("image/png", b"x"), Media("application/pdf", b"x", name="a.pdf"), Media("audio/wav", b"x")
    ),
    Message.assistant(
        "text", Text("more"), Reasoning("hm"), ToolCall("a b", "my.tool", {"x": 1}), ToolCall("c", "f", "{")
    ),
    Message.tool("a b", [Text("seen"), Media("image/png", b"x")]),
    Message.tool("c", "", error=True),
    Message.user("text", Media("image/*", uri="https://e.com/a.png"), Media("application/zip", b"x")),
]


# What a provider returns is more than what its types let one send: its own fixtures are not for its types to judge.
FROM_ELSEWHERE = [(*case, target) for case in CASES for target in PROVIDERS if case[0] not in (target, "threadline")]


@pytest.mark.parametrize(("format", "name", "target"), FROM_ELSEWHERE)
def test_the_sdk_takes_every_conversation_from_elsewhere(format: str, name: str, target: str) -> None:
    judge(target)(formats.write(formats.read(FIXTURES[format][name], format), target))


@pytest.mark.parametrize("target", PROVIDERS)
def test_the_sdk_takes_messages_made_by_hand(target: str) -> None:
    written = formats.write(NEUTRAL, target)

    judge(target)(written)
    assert formats.problems(written, target) == []


@pytest.mark.parametrize("target", PROVIDERS)
@settings(max_examples=scaled(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_sdk_takes_any_conversation_from_elsewhere(target: str, data: st.DataObject) -> None:
    format = data.draw(st.sampled_from([format for format in PROVIDERS if format != target]))

    judge(target)(formats.write(formats.read(data.draw(CONVERSATIONS[format]()), format), target))


@pytest.mark.parametrize("target", ["anthropic", "openai", "responses"])
def test_the_judge_sees_a_field_that_does_not_belong(target: str) -> None:
    written = formats.write([Message.user("hi", Media("image/png", b"x"))], target)
    written[0]["content"][0]["wrong"] = 1

    with pytest.raises(ValidationError):
        judge(target)(written)
