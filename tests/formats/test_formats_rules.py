"""Each provider's rules, one planted violation each: the validator names it and where it is."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest

from threadline import formats

Dict = dict[str, Any]


def said(given: Any, format: str) -> str:
    found = formats.problems(given, format)
    assert found, "nothing was found"
    return "\n".join(found)


# -- Anthropic -----------------------------------------------------------------------------------------

ASK: Dict = {"role": "user", "content": "go"}
CALL: Dict = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
RESULT: Dict = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
SAYS: Dict = {"type": "text", "text": "x"}
THINKS: Dict = {"type": "thinking", "thinking": "x", "signature": "s"}


def user(*blocks: Any) -> Dict:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> Dict:
    return {"role": "assistant", "content": list(blocks)}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([assistant(SAYS)], r"messages\[0\]: the first message must be the user's"),
        ([ASK, {"role": "tool", "content": "x"}], r"messages\[1\] has the role 'tool'"),
        ([{"role": "system", "content": "x"}, ASK], r"messages\[0\]: a system message may not stand"),
        ([ASK, {"role": "system", "content": "x"}, ASK], r"messages\[1\]: a system message may not stand"),
        ([ASK, assistant(SAYS), {"role": "system", "content": "x"}], r"messages\[2\]: a system message"),
        ([ASK, 5], r"messages\[1\] is no dict"),
        ([user()], r"messages\[0\] has no content"),
        ([{"role": "user", "content": None}], r"messages\[0\] has no content"),
        ([{"role": "user", "content": " \n"}], r"messages\[0\]\.content\[0\] is blank"),
        ([user(SAYS, {"type": "text", "text": ""})], r"messages\[0\]\.content\[1\] is blank"),
        ([user("x")], r"is no block"),
        ([user({"type": "image"})], r"is a image without a source"),
        ([ASK, assistant(CALL)], r"messages\[1\]: the tool_use 'a' has no tool_result in the next message"),
        ([ASK, assistant(CALL), ASK], r"messages\[1\]: the tool_use 'a' has no tool_result"),
        ([ASK, assistant(CALL), ASK, user(RESULT)], r"messages\[3\]: the tool_result for 'a' answers no call"),
        ([ASK, user(RESULT)], r"messages\[1\]: the tool_result for 'a' answers no call"),
        ([ASK, assistant(CALL), user(RESULT), user(RESULT)], r"messages\[3\]: the tool_result for 'a' answers no"),
        ([ASK, assistant(CALL), user(RESULT, RESULT)], r"messages\[2\]: 'a' has more than one tool_result"),
        ([ASK, assistant(CALL), user(SAYS, RESULT)], r"messages\[2\]: tool_result blocks must come first"),
        ([ASK, assistant(CALL, CALL), user(RESULT)], r"messages\[1\]: the tool_use id 'a' is not unique"),
        ([ASK, *([assistant(CALL), user(RESULT)] * 2)], r"messages\[3\]: the tool_use id 'a' is not unique"),
        ([user(CALL), user(RESULT)], r"messages\[0\]: a tool_use stands in a message of the user"),
        (
            [ASK, assistant(CALL), assistant(RESULT)],
            r"messages\[2\]: a tool_result stands in a message of the assistant",
        ),
        ([ASK, assistant({**CALL, "id": "a b"}), user({**RESULT, "tool_use_id": "a b"})], r"call id 'a b'"),
        ([ASK, assistant({**CALL, "name": "a.b"}), user(RESULT)], r"tool name 'a\.b'"),
        ([ASK, assistant({**CALL, "name": "a" * 129}), user(RESULT)], r"tool name"),
        ([ASK, assistant({**CALL, "input": "{}"}), user(RESULT)], r"input that is no object"),
        ([ASK, assistant(CALL), user({**RESULT, "content": 5})], r"neither text nor blocks"),
        ([ASK, assistant(CALL), user({**RESULT, "content": [{"type": "text", "text": ""}]})], r"content\[0\] is blank"),
        ([ASK, assistant({"type": "thinking", "thinking": "x"}, SAYS)], r"thinking without a signature"),
        ([ASK, assistant({"type": "redacted_thinking"}, SAYS)], r"without its data"),
        ([ASK, assistant(SAYS, THINKS)], r"messages\[1\]: the last block of an assistant message must not be thinking"),
        ([ASK, assistant(CALL, THINKS, SAYS), user(RESULT)], r"messages\[1\]: thinking must come before the tool_use"),
    ],
)
def test_anthropic_refuses(given: list[Any], what: str) -> None:
    assert re.search(what, said(given, "anthropic"))


# -- OpenAI Chat Completions ---------------------------------------------------------------------------

FUNCTION: Dict = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ANSWER: Dict = {"role": "tool", "tool_call_id": "a", "content": "1"}


def calling(*calls: Any, **more: Any) -> Dict:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def function(**other: Any) -> Dict:
    return {**FUNCTION, "function": {**FUNCTION["function"], **other}}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([ASK, calling(FUNCTION)], r"messages\[2\]: the call 'a' was never answered"),
        ([ASK, calling(FUNCTION), ASK, ANSWER], r"messages\[2\]: the call 'a' was not answered before"),
        ([ASK, ANSWER], r"messages\[1\]: the result for 'a' answers no open call"),
        ([ASK, calling(FUNCTION), ANSWER, ANSWER], r"messages\[3\]: the result for 'a' answers no open call"),
        ([ASK, calling(FUNCTION, FUNCTION), ANSWER, ANSWER], r"messages\[1\]: the call id 'a' is used twice"),
        ([ASK, calling({**FUNCTION, "id": "a" * 41}), {**ANSWER, "tool_call_id": "a" * 41}], r"call id 'a+': up to 40"),
        ([ASK, calling(function(name="a.b")), ANSWER], r"tool name 'a\.b'"),
        ([ASK, calling(function(name="a" * 65)), ANSWER], r"tool name"),
        ([ASK, calling(function(arguments="{")), ANSWER], r"arguments that are no JSON object"),
        ([ASK, calling(function(arguments="[]")), ANSWER], r"arguments that are no JSON object"),
        ([ASK, calling(function(arguments={})), ANSWER], r"arguments that are no JSON object"),
        ([ASK, calling({"id": "a", "type": "function"}), ANSWER], r"has no function"),
        ([ASK, calling({"id": "a", "type": "custom", "custom": {"name": "f"}}), ANSWER], r"has no input"),
        ([ASK, calling(FUNCTION), {**ANSWER, "content": None}], r"messages\[2\]: a result needs content"),
        (
            [ASK, calling(FUNCTION), {**ANSWER, "content": [{"type": "image_url", "image_url": {"url": "u"}}]}],
            r"a result holds text only, not image_url",
        ),
        ([{"role": "user", "content": ""}], r"messages\[0\] has no content"),
        ([{"role": "user", "content": []}], r"messages\[0\] has no content"),
        ([{"role": "user"}], r"messages\[0\] has no content"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], r"messages\[0\]\.content\[0\] is empty"),
        ([{"role": "user", "content": ["x"]}], r"is no part"),
        ([ASK, {"role": "assistant", "content": None}], r"messages\[1\] has no content"),
        ([ASK, {"role": "assistant", "content": [{"type": "image_url"}]}], r"cannot show image_url"),
        ([{"role": "model", "content": "x"}], r"unknown role 'model'"),
        (["x"], r"messages\[0\] is no dict"),
        (
            [ASK, {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}],
            r"the call 'function f' was never answered",
        ),
        ([ASK, {"role": "function", "name": "f", "content": "x"}], r"the result for 'function f' answers no open call"),
    ],
)
def test_openai_refuses(given: list[Any], what: str) -> None:
    assert re.search(what, said(given, "openai"))


# -- OpenAI Responses ----------------------------------------------------------------------------------

ITEM: Dict = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT: Dict = {"type": "function_call_output", "call_id": "a", "output": "1"}
REASONING: Dict = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([ASK, ITEM], r"items\[1\]: the call 'a' has no output"),
        ([ASK, OUTPUT], r"items\[1\]: the output for 'a' answers no open function_call"),
        ([ASK, OUTPUT, ITEM], r"items\[1\]: the output for 'a' answers no"),
        ([ASK, ITEM, OUTPUT, OUTPUT], r"items\[3\]: the output for 'a' answers no"),
        ([ASK, ITEM, ITEM, OUTPUT], r"items\[2\]: the call id 'a' is used twice"),
        ([ASK, ITEM, {**OUTPUT, "type": "custom_tool_call_output"}], r"answers no open custom_tool_call"),
        ([ASK, {**ITEM, "call_id": "a" * 65}, {**OUTPUT, "call_id": "a" * 65}], r"call id 'a+': up to 64"),
        ([ASK, {**ITEM, "name": "a b"}, OUTPUT], r"tool name 'a b'"),
        ([ASK, {**ITEM, "arguments": "nope"}, OUTPUT], r"arguments that are no JSON object"),
        ([ASK, {"type": "custom_tool_call", "call_id": "a", "name": "f"}], r"items\[1\] has no input"),
        ([ASK, ITEM, {**OUTPUT, "output": None}], r"items\[2\] has no output"),
        ([ASK, REASONING], r"items\[1\]: reasoning must be followed by"),
        ([ASK, REASONING, ASK], r"items\[1\]: reasoning must be followed by"),
        ([ASK, ITEM, REASONING, OUTPUT], r"items\[2\]: reasoning must be followed by"),
        ([ASK, {"type": "reasoning", "id": "rs_1"}, ITEM, OUTPUT], r"items\[1\] has no summary"),
        ([{"role": "user", "content": ""}], r"items\[0\] has no content"),
        ([{"role": "tool", "content": "x"}], r"unknown role 'tool'"),
        ([{"role": "user", "content": [{"type": "output_text", "text": "x"}]}], r"content\[0\] is 'output_text'"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], r"content\[0\] has no text"),
        (
            [ASK, {"role": "assistant", "id": "msg_1", "content": [{"type": "input_text", "text": "x"}]}],
            r"content\[0\] is 'input_text'",
        ),
        (
            [ASK, {"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}],
            r"only in an item with its id",
        ),
        ([{}], r"items\[0\] has neither a type nor a role"),
        ([None], r"items\[0\] is no dict"),
    ],
)
def test_responses_refuses(given: list[Any], what: str) -> None:
    assert re.search(what, said(given, "responses"))


# -- Gemini --------------------------------------------------------------------------------------------

HELLO: Dict = {"role": "user", "parts": [{"text": "go"}]}
CALLS: Dict = {"functionCall": {"name": "f", "args": {}}}
RESPONDS: Dict = {"functionResponse": {"name": "f", "response": {}}}


def model(*parts: Any) -> Dict:
    return {"role": "model", "parts": list(parts)}


def replies(*parts: Any) -> Dict:
    return {"role": "user", "parts": list(parts)}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([model({"text": "x"})], r"contents\[0\]: the first content must be the user's"),
        ([{"role": "assistant", "parts": [{"text": "x"}]}], r"contents\[0\] has the role 'assistant'"),
        ([{"role": "user", "parts": []}], r"contents\[0\] has no parts"),
        ([{"role": "user"}], r"contents\[0\] has no parts"),
        ([replies({"text": ""})], r"contents\[0\]\.parts\[0\] has empty text"),
        ([replies({})], r"holds 0 kinds of data"),
        ([replies({"text": "x", "inlineData": {}})], r"holds 2 kinds of data"),
        ([HELLO, model(CALLS)], r"contents\[1\]: the call of f has no response in the next turn"),
        ([HELLO, model(CALLS), HELLO], r"contents\[1\]: the call of f has no response"),
        ([HELLO, model(CALLS, CALLS), replies(RESPONDS)], r"contents\[1\]: the call of f has no response"),
        ([HELLO, model(CALLS), replies(RESPONDS, RESPONDS)], r"contents\[2\]: the response of f answers no call"),
        ([HELLO, replies(RESPONDS)], r"contents\[0\]: the response of f answers no call"),
        (
            [HELLO, model(CALLS, CALLS), replies(RESPONDS), replies(RESPONDS)],
            r"contents\[1\]: the call of f has no response in the next turn",
        ),
        (
            [HELLO, model(CALLS), model(CALLS), replies(RESPONDS, RESPONDS)],
            r"contents\[2\]: a call must come right behind",
        ),
        (
            [HELLO, model({"functionCall": {"name": "f", "id": "1"}}), replies(RESPONDS)],
            r"contents\[1\]: the call of f has no response",
        ),
        ([replies(CALLS), replies(RESPONDS)], r"calls are the model's"),
        ([HELLO, model({"functionCall": {"name": "1f"}}), replies(RESPONDS)], r"tool name '1f'"),
        (
            [HELLO, model({"functionCall": {"name": "f", "args": []}}), replies(RESPONDS)],
            r"functionCall that holds no object",
        ),
        (
            [HELLO, model(CALLS), replies({"functionResponse": {"name": "f", "response": "x"}})],
            r"functionResponse that holds no object",
        ),
        (
            [HELLO, model({**CALLS, "thoughtSignature": "A"}), replies(RESPONDS), model(CALLS), replies(RESPONDS)],
            r"contents\[3\]: the first call of a step has no thoughtSignature",
        ),
        ([HELLO, "x"], r"contents\[1\] has the role None"),
    ],
)
def test_gemini_refuses(given: list[Any], what: str) -> None:
    assert re.search(what, said(given, "gemini"))


def test_gemini_forgives_unsigned_calls_of_earlier_turns() -> None:
    signed = {**CALLS, "thoughtSignature": "A"}
    given = [HELLO, model(CALLS), replies(RESPONDS), model({"text": "x"}), HELLO, model(signed), replies(RESPONDS)]

    assert formats.problems(given, "gemini") == []


@pytest.mark.parametrize("format", ["anthropic", "openai", "responses", "gemini"])
def test_validators_take_anything(format: str) -> None:
    junk = [None, 5, "x", [], {}, {"role": 5}, {"role": "user", "content": 5, "parts": 5}, {"type": 5}, {"type": []}]

    assert formats.problems(deepcopy(junk), format)
