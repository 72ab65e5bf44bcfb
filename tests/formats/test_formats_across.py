"""From one provider to another: names, arguments, results and what cannot be carried over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from provider_fixtures import FIXTURES, PROVIDERS

from threadline import formats
from threadline.errors import InvalidArgument, InvalidMessage
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult


def round_of(*calls: Part) -> list[Message]:
    """A user turn, calls, and a result for each in a message of its own."""
    results = [Message.tool(call.id, f"did {call.name}") for call in calls if isinstance(call, ToolCall)]
    return [Message.user("go"), Message.assistant(None, *calls), *results]


def legal(messages: list[Message], target: str) -> list[dict[str, Any]]:
    written = formats.write(messages, target)
    assert formats.problems(written, target) == []
    return written


# -- results -------------------------------------------------------------------------------------------


def test_results_in_several_messages_become_one_user_message_for_anthropic() -> None:
    written = legal(round_of(ToolCall("a", "f"), ToolCall("b", "g")), "anthropic")

    assert written[2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "did f"},
            {"type": "tool_result", "tool_use_id": "b", "content": "did g"},
        ],
    }


def test_results_and_text_of_one_message_become_several_for_openai() -> None:
    messages = [*round_of(ToolCall("a", "f"))[:2], Message("user", (ToolResult("a", "1"), Text("and?")))]

    assert [given["role"] for given in legal(messages, "openai")] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("target", PROVIDERS)
def test_results_that_came_late_stand_behind_their_calls(target: str) -> None:
    user, calls, first, second = round_of(ToolCall("a", "f"), ToolCall("b", "g"))

    legal([user, calls, first, Message.user("hurry"), second, Message.assistant("done")], target)


@pytest.mark.parametrize("target", PROVIDERS)
def test_calls_spread_over_several_messages_are_one_turn(target: str) -> None:
    a, b = ToolCall("a", "f"), ToolCall("b", "g")
    calls = [Message.assistant("one", a), Message.assistant("two", b), Message.assistant("three")]

    legal([Message.user("go"), *calls, Message.tool("b", "2"), Message.tool("a", "1")], target)


def test_a_picture_in_a_result_leaves_a_breadcrumb_where_there_is_no_place_for_it() -> None:
    shot = Media("image/png", b"x", name="shot.png")
    messages = [*round_of(ToolCall("a", "f"))[:2], Message.tool("a", [Text("seen"), shot])]

    for target in ("openai", "gemini"):
        assert "[image: shot.png]" in json.dumps(legal(messages, target))
    for target in ("anthropic", "responses"):
        assert "[image: shot.png]" not in json.dumps(legal(messages, target))


def test_responses_without_ids_are_in_the_order_of_their_calls() -> None:
    calls = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"n": n}}} for n in (1, 2)]}
    asked = formats.read([{"role": "user", "parts": [{"text": "go"}]}, calls], "gemini")
    first, second = (call.id for call in asked[1].calls)

    written = legal([*asked, Message.tool(second, "two"), Message.tool(first, "one")], "gemini")

    assert [part["functionResponse"]["response"]["output"] for part in written[2]["parts"]] == ["one", "two"]


@pytest.mark.parametrize("target", PROVIDERS)
def test_any_result_answers_a_call_of_any_kind(target: str) -> None:
    """A screenshot answers a computer; an error that stands for it does too."""
    for name in ("computer, shell and patches", "custom tools"):
        calls = [message for message in formats.read(FIXTURES["responses"][name], "responses") if message.calls]
        messages = [Message.user("go")]
        for message in calls:
            messages += [message, Message.tool(message.calls[0].id, "interrupted", error=True)]

        legal(messages, target)


@pytest.mark.parametrize("target", PROVIDERS)
def test_a_result_of_today_answers_a_call_of_old(target: str) -> None:
    user, call, result, *_ = formats.read(FIXTURES["openai"]["functions of old"], "openai")
    said = Message.tool(call.calls[0].id, "interrupted", error=True)

    legal([user, call, said, user, call, result], target)


def test_for_gemini_calls_of_others_join_what_was_said_just_before() -> None:
    user, call, result = round_of(ToolCall("a", "f"))

    written = legal([user, Message.assistant("Let me see."), call, result], "gemini")

    assert [given["role"] for given in written] == ["user", "model", "user"]


def test_for_gemini_calls_of_others_are_signed_as_such() -> None:
    """Or the first call of a step that another model made would be refused, where Gemini's own are signed."""
    _, call, result = round_of(ToolCall("a", "f"))
    signed = {"role": "model", "parts": [{"functionCall": {"name": "g", "args": {}}, "thoughtSignature": "AAAA"}]}
    own = formats.read([signed], "gemini")

    written = legal([Message.user("go"), *own, Message.tool("g-1", "1"), call, result], "gemini")

    assert [part.get("thoughtSignature") for given in written for part in given["parts"] if "functionCall" in part] == [
        "AAAA",
        "skip_thought_signature_validator",
    ]


def test_reasoning_goes_with_what_it_led_to() -> None:
    reasoning = formats.read([{"type": "reasoning", "id": "rs_1", "summary": []}], "responses")
    hidden = Message.assistant("secret", meta={"hidden": True})

    assert len(legal([Message.user("go"), *reasoning, Message.assistant("so"), Message.user("ok")], "responses")) == 4
    assert len(legal([Message.user("go"), *reasoning, hidden, Message.user("ok")], "responses")) == 2


# -- names and arguments -------------------------------------------------------------------------------

BAD = ["", "a b", "é", "x" * 500, "x" * 501, "\ud800", "call_1|fc_2", "a_b", "a.b"]


@pytest.mark.parametrize("target", PROVIDERS)
def test_names_become_valid_and_stay_different(target: str) -> None:
    written = legal(round_of(*(ToolCall(name, name) for name in BAD)), target)
    again = formats.read(written, target)
    calls = [call for message in again for call in message.calls]
    results = [result for message in again for result in message.results]

    assert len({call.id for call in calls}) == len({call.name for call in calls}) == len(BAD)
    assert [call.id for call in calls] == [result.call_id for result in results]


@pytest.mark.parametrize("target", ["anthropic", "openai", "responses"])
def test_a_name_that_was_made_up_is_never_that_of_another_call(target: str) -> None:
    made_up = formats.read(formats.write(round_of(ToolCall("a b", "f")), target), target)[1].calls[0].id
    written = legal(round_of(ToolCall("a b", "f"), ToolCall(made_up, "g")), target)

    assert len({call.id for message in formats.read(written, target) for call in message.calls}) == 2


def test_an_id_that_comes_back_is_a_new_one_for_anthropic() -> None:
    written = legal([*round_of(ToolCall("a", "f")), *round_of(ToolCall("a", "f"))], "anthropic")
    first, second = written[1]["content"][0]["id"], written[4]["content"][0]["id"]

    assert first == "a" != second
    assert written[5]["content"][0]["tool_use_id"] == second


@pytest.mark.parametrize("target", PROVIDERS)
def test_arguments_that_do_not_parse_become_an_object(target: str) -> None:
    (call,) = formats.read(legal(round_of(ToolCall("a", "f", "{broken")), target)[1:2], target)[0].calls

    assert call.args == {"input": "{broken"}


@pytest.mark.parametrize("format", ["openai", "responses"])
def test_arguments_that_do_not_parse_go_back_to_their_own_provider_as_they_are(format: str) -> None:
    bad = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{bro"}}],
        },
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{bro"},
    ][format == "responses"]
    (message,) = formats.read([bad], format)

    assert message.calls[0].args == "{bro"
    assert formats.write([message], format) == [bad]


def test_arguments_that_were_changed_are_written_as_they_are_now() -> None:
    (message,) = formats.read(FIXTURES["openai"]["functions of old"][1:2], "openai")
    call = replace(message.calls[0], args={"location": "Rome"})
    (written,) = formats.write([replace(message, parts=(call,))], "openai")

    assert json.loads(written["function_call"]["arguments"]) == {"location": "Rome"}


# -- what belongs to one provider ----------------------------------------------------------------------


@pytest.mark.parametrize("format", PROVIDERS)
@pytest.mark.parametrize("target", PROVIDERS)
def test_reasoning_and_unknown_parts_go_to_their_own_provider_only(format: str, target: str) -> None:
    parts = (Reasoning("hm", "sig", None, {"provider": format}), Other({"type": "x_y"}, {"provider": format}))
    message = Message.assistant("said", *parts)

    kept, left_out = formats.without_foreign(message, target)

    assert kept == (message if format == target else Message.assistant("said"))
    assert left_out == (
        [] if format == target else [f"signed reasoning of {format} left out", f"x_y of {format} left out"]
    )


def test_reasoning_inside_a_result_is_left_out_as_well() -> None:
    message = Message.tool("a", [Text("x"), Other({"type": "search_result"}, {"provider": "anthropic"})])

    kept, left_out = formats.without_foreign(message, "gemini")

    assert kept == Message.tool("a", [Text("x")])
    assert left_out == ["search_result of anthropic left out"]


def test_nothing_is_foreign_to_ourselves() -> None:
    message = Message.assistant("x", Reasoning("hm", extra={"provider": "gemini"}))

    assert formats.without_foreign(message, "threadline") == (message, [])


def test_reading_marks_reasoning_and_unknown_parts_with_their_provider() -> None:
    for format in PROVIDERS:
        for given in FIXTURES[format].values():
            parts = [part for message in formats.read(given, format) for part in message.parts]
            marks = {part.extra.get("provider") for part in parts if isinstance(part, Reasoning | Other)}
            assert marks <= {format}


def test_the_same_words_are_the_same_message_from_every_provider() -> None:
    """Leftovers apart, equality does not depend on where a message came from."""
    messages = [Message.user("hi"), Message.assistant("hello"), Message.assistant(None, ToolCall("a", "f", {"x": 1}))]
    for format in ("threadline", "anthropic", "openai", "responses"):
        assert formats.read(formats.write([*messages, Message.tool("a", "1")], format), format)[:3] == messages


@pytest.mark.parametrize("target", ["threadline", *PROVIDERS])
def test_hidden_messages_are_never_written(target: str) -> None:
    messages = [Message.user("seen"), Message.user("secret", meta={"hidden": True})]

    assert "secret" not in json.dumps(formats.write(messages, target))


@pytest.mark.parametrize("target", PROVIDERS)
def test_a_user_message_of_foreign_parts_leaves_a_word(target: str) -> None:
    written = legal([Message.user(None, Other({"type": "smell"}, {"provider": "nobody"}))], target)

    assert "smell" in json.dumps(written)


@pytest.mark.parametrize("target", PROVIDERS)
def test_a_conversation_that_begins_with_the_assistant_is_legal(target: str) -> None:
    legal([Message.assistant("Welcome."), Message.user("hi")], target)


@pytest.mark.parametrize("target", PROVIDERS)
def test_a_system_message_in_the_middle_is_legal(target: str) -> None:
    written = legal(
        [Message.user("hi"), Message.assistant("yo"), Message.system("Be brief."), Message.user("so?")], target
    )

    assert "Be brief." in json.dumps(written)


def test_a_changed_message_is_not_written_from_its_raw_dict() -> None:
    raw = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]}
    (message,) = formats.read([raw], "anthropic")
    assert formats.write([message], "anthropic") == [raw]

    shorter = replace(message, parts=message.parts[:1])

    assert formats.write([shorter], "anthropic") == [{"role": "user", "content": "a"}]


def test_a_message_may_be_marked_and_is_still_written_as_it_came() -> None:
    raw = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]}
    (message,) = formats.read([raw], "anthropic")
    marked = replace(message, meta={**message.meta, "proactive": True})

    assert formats.write([marked], "anthropic") == [raw]


def test_dicts_may_be_changed_without_changing_the_messages() -> None:
    """Callers put cache_control on the last block."""
    raw = {"role": "user", "content": [{"type": "hologram"}, {"type": "text", "text": ""}]}
    messages = formats.read([raw], "anthropic")
    formats.write(messages, "anthropic")[0]["content"][0]["cache_control"] = {}

    assert formats.write(messages, "anthropic") == [raw]


# -- what cannot be said -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "claude", "OpenAI", 5, [], None])
def test_an_unknown_format_is_named(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="unknown format"):
        formats.write([], name)
    if name is not None:
        with pytest.raises(InvalidArgument, match="unknown format"):
            formats.read([], name) or formats.read([{}], name)


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ([Message.user("x"), {"role": "user"}], r"messages\[1\]"),
        ([Message("user", (ToolCall("a", "f"),))], r"messages\[0\]: only an assistant calls tools"),
        ([Message("assistant", (ToolResult("a"),))], r"messages\[0\]: an assistant cannot answer"),
    ],
)
@pytest.mark.parametrize("target", PROVIDERS)
def test_what_no_provider_can_express_is_named(messages: list[Any], where: str, target: str) -> None:
    with pytest.raises(InvalidMessage, match=where):
        formats.write(messages, target)


@pytest.mark.parametrize(
    ("raw", "format", "where"),
    [
        ("x", "openai", r"messages\[0\]: a message is"),
        ({}, "anthropic", r"messages\[0\]\.role"),
        ({"role": "user", "content": 5}, "anthropic", r"messages\[0\]\.content: must be"),
        ({"role": "user", "content": [5]}, "anthropic", r"messages\[0\]\.content\[0\]: a block is a dict"),
        ({"role": "user", "content": [{"type": "tool_result"}]}, "anthropic", r"content\[0\]: .* needs 'tool_use_id'"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}, "anthropic", r"needs 'name'"),
        ({"role": "tool", "content": "x"}, "openai", r"messages\[0\]\.tool_call_id"),
        (
            {"role": "assistant", "tool_calls": [{"id": "a"}]},
            "openai",
            r"messages\[0\]\.tool_calls\[0\]: .* a function",
        ),
        ({"role": "assistant", "tool_calls": 5}, "openai", r"messages\[0\]\.tool_calls: must be a list"),
        ({"type": "function_call", "name": "f"}, "responses", r"messages\[0\]\.call_id"),
        ({"type": 5}, "responses", r"messages\[0\]: an item has a type"),
        ({"role": "user"}, "gemini", r"messages\[0\]\.parts"),
        ({"role": "model", "parts": [{"functionCall": {}}]}, "gemini", r"messages\[0\]\.parts\[0\]\.name"),
        ({"role": "user", "parts": 5}, "threadline", r"messages\[0\]"),
    ],
)
def test_bad_input_names_its_place(raw: Any, format: str, where: str) -> None:
    with pytest.raises(InvalidMessage, match=where):
        formats.read([raw], format)


@pytest.mark.parametrize("given", [None, 5, "text", {"role": "user"}])
def test_what_is_no_list_of_messages_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument):
        formats.read(given)


def test_blocks_that_are_nested_too_deep_are_refused() -> None:
    deep: Any = {"type": "text", "text": "x"}
    for _ in range(100_000):
        deep = {"type": "tool_result", "tool_use_id": "a", "content": [deep]}

    with pytest.raises(InvalidMessage, match="nested too deep"):
        formats.read([{"role": "user", "content": [deep]}], "anthropic")
