"""Whatever JSON comes in, reading gives messages or says InvalidMessage."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from provider_fixtures import FIXTURES

from threadline import formats
from threadline.errors import InvalidMessage
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult
from threadline.testing import scaled
from threadline.testing.strategies import json_values, messages


def _words(text: str) -> list[str]:
    return text.split()


NAMES = _words("""
role content parts type text id name input arguments function tool_calls tool_call_id call_id output summary
functionCall function_response response args inlineData inline_data mime_type data source media_type url file_data
image_url thinking signature tool_use_id is_error refusal audio function_call custom encrypted_content raw extra meta
provider kind field key title filename image format input_audio thought thoughtSignature action status""")
KINDS = _words("""
user assistant tool system developer function model text tool_use tool_result thinking redacted_thinking
image document base64 url file message function_call function_call_output custom_tool_call reasoning computer_call
computer_call_output shell_call shell_call_output local_shell_call_output apply_patch_call_output image_url input_audio
input_image input_file output_text refusal call result media other {} [] {"a":1}""")


def shaped() -> SearchStrategy[Any]:
    """JSON with the names that formats look for, in places where they do not belong."""
    leaves = st.sampled_from(KINDS) | st.none() | st.booleans() | st.integers(-2, 2) | st.just(1.5) | st.just("")
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
        max_leaves=12,
    )


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """A fixture with something in it replaced, renamed or taken away."""
    cases = [raw for cases in FIXTURES.values() for given in cases.values() for raw in given]
    return _broken(draw, draw(st.sampled_from(cases)))


def _broken(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(value)))
        match draw(st.integers(0, 3)):
            case 0:
                return {key: inner for key, inner in value.items() if key != name}
            case 1:
                return {**value, draw(st.sampled_from(NAMES)): value[name]}
        return {**value, name: _broken(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _broken(draw, value[at]), *value[at + 1 :]]
    return draw(shaped())


def taken(raw: Any, format: str | None) -> Message | None:
    try:
        return formats.read_one(raw, format)
    except InvalidMessage:
        return None


quickly = settings(max_examples=scaled(80), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("format", [None, *formats.FORMATS])
@quickly
@given(raw=st.dictionaries(st.sampled_from(NAMES), shaped(), max_size=5) | broken() | json_values())
def test_reading_gives_a_message_or_says_what_is_wrong(format: str | None, raw: Any) -> None:
    message = taken(raw, format)
    for target in formats.FORMATS:
        if message is not None and not (message.calls and message.role != "assistant"):
            if message.results and message.role == "assistant":
                continue
            formats.problems(formats.write([message], target), target)


@pytest.mark.parametrize("format", [format for format in formats.FORMATS if format != "threadline"])
@quickly
@given(raw=st.dictionaries(st.sampled_from(NAMES), shaped(), max_size=5) | broken())
def test_what_was_read_comes_out_again_whatever_it_was(format: str, raw: Any) -> None:
    """But for names that the provider would refuse, a place for system messages, and a missing first user turn."""
    message = taken(raw, format)
    if message is None or message.calls or message.results:
        return
    written = formats.write([message], format)

    assert written[-1:] == [raw] or raw.get("role") in ("system", "assistant", "model")


@quickly
@given(raw=json_values())
def test_validators_take_any_json(raw: Any) -> None:
    for format in formats.FORMATS:
        formats.problems([raw, {"role": "user", "content": raw, "parts": raw}, {"type": raw, "role": raw}], format)


def noted() -> SearchStrategy[dict[str, Any]]:
    """Notes of ours with values that we never wrote."""
    provider = st.fixed_dictionaries({"provider": st.sampled_from([*formats.FORMATS, "nobody"])})
    return st.builds(
        lambda mark, rest: {**rest, **mark}, provider, st.dictionaries(st.sampled_from(NAMES), shaped(), max_size=3)
    )


def any_parts() -> SearchStrategy[Part]:
    words, maybe = st.sampled_from(["", "a", "{}", "f-1", "\ud800"]), st.none() | st.just("x")
    flat = st.one_of(
        st.builds(Text, words, noted()),
        st.builds(Reasoning, words, maybe, maybe, noted()),
        st.builds(
            Media,
            st.sampled_from(["image/png", "", "application/pdf"]),
            st.none() | st.just(b"x"),
            maybe,
            maybe,
            noted(),
        ),
        st.builds(Other, st.dictionaries(st.sampled_from(NAMES), shaped(), max_size=3), noted()),
    )
    output = words | st.lists(flat, max_size=2).map(tuple)
    return flat | st.builds(ToolResult, words, output, st.booleans(), maybe, noted())


def any_calls() -> SearchStrategy[Part]:
    words = st.sampled_from(["", "a", "f-1"])
    return st.builds(ToolCall, words, words, st.just({}) | st.just("{"), noted())


def any_messages() -> SearchStrategy[Message]:
    meta = st.dictionaries(
        st.sampled_from(list(formats.FORMATS)),
        st.dictionaries(st.sampled_from(NAMES), shaped(), max_size=3) | shaped(),
        max_size=2,
    )
    spoken = st.lists(any_parts(), max_size=3).map(tuple)
    called = st.lists(any_parts() | any_calls(), max_size=3).map(
        lambda parts: tuple(part for part in parts if not isinstance(part, ToolResult))
    )
    return st.builds(Message, st.sampled_from(["user", "tool", "system", "x"]), spoken, meta) | st.builds(
        Message, st.just("assistant"), called, meta
    )


@quickly
@given(given=st.lists(any_messages(), max_size=4))
def test_whatever_notes_a_message_carries_it_is_written(given: list[Message]) -> None:
    for target in formats.FORMATS:
        formats.problems(formats.write(given, target), target)


@quickly
@given(given=st.lists(messages(), max_size=4))
def test_anything_that_can_be_stored_is_written_or_refused_by_name(given: list[Message]) -> None:
    for target in formats.FORMATS:
        with suppress(InvalidMessage):
            formats.write(given, target)
