"""Objects of the providers' SDKs are stored as the JSON that their provider sent, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message as Said
from google.genai.types import Blob, Content, Part
from openai.types.chat import ChatCompletion
from openai.types.responses import Response, ResponseFunctionToolCall, ResponseOutputMessage
from pydantic import BaseModel

import threadline
from threadline import InvalidMessage, Media, Message, Text, ToolCall, Usage, formats

ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3},
}
CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}
ITEMS: list[dict[str, Any]] = [
    {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}],
    },
    {"type": "function_call", "id": "f1", "call_id": "t1", "name": "look", "arguments": "{}", "status": "completed"},
]


def stored(*given: Any) -> list[Message]:
    with threadline.open(":memory:") as store:
        session = store.session("k")
        session.extend(given)
        return session.messages()


def sent(*given: Any, format: str) -> Any:
    return formats.write(stored(*given), format)


def test_a_message_of_anthropic() -> None:
    said = Said.model_validate(ANTHROPIC)

    assert stored(said) == stored(ANTHROPIC)
    assert stored(said)[0].calls == (ToolCall("t1", "look", {"at": 1}),)


def test_blocks_of_anthropic_in_a_dict_as_its_documentation_pastes_them() -> None:
    said = Said.model_validate(ANTHROPIC)
    given = {"role": "assistant", "content": said.content}

    assert sent(given, format="anthropic") == [{"role": "assistant", "content": ANTHROPIC["content"]}]
    assert formats.read([given]) == stored(given)


def test_a_message_of_a_chat() -> None:
    message = ChatCompletion.model_validate(CHAT).choices[0].message

    assert sent(message, format="openai") == [CHAT["choices"][0]["message"]]  # type: ignore[index]


def test_calls_of_a_chat_in_a_dict() -> None:
    message = ChatCompletion.model_validate(CHAT).choices[0].message
    given = {"role": "assistant", "content": None, "tool_calls": message.tool_calls}

    assert stored(given)[0].calls[0].name == "look"


def test_items_of_a_response() -> None:
    items = [ResponseOutputMessage.model_validate(ITEMS[0]), ResponseFunctionToolCall.model_validate(ITEMS[1])]

    assert sent(*items, format="responses") == ITEMS
    assert formats.read(items) == formats.read(ITEMS)


def test_contents_of_gemini_with_its_bytes() -> None:
    image = Part(inline_data=Blob(data=b"\xfb\xff", mime_type="image/png"))
    content = Content(role="model", parts=[image, Part(text="hi")])

    assert stored(content)[0].parts == (Media("image/png", b"\xfb\xff"), Text("hi"))


@pytest.mark.parametrize("usage", [Said.model_validate(ANTHROPIC).usage, ChatCompletion.model_validate(CHAT).usage])
def test_usage_as_an_sdk_hands_it_out(usage: Any) -> None:
    with threadline.open(":memory:") as store:
        session = store.session("k")
        session.append(Message.assistant("hi"), usage=usage)
        session.record_usage(usage=usage)

        assert session.usage().output == 10
        assert threadline.should_compact(usage, 10)
        assert not isinstance(session.entry(1).usage, Usage)


class Odd(BaseModel):
    content: str = "hi"


def test_an_object_put_together_by_hand_warns_nobody() -> None:
    """Streams and parsed answers do that: pydantic would warn of each field that is not as declared."""
    content: Any = [{"type": "text", "text": "hi"}]

    assert stored(Said.model_construct(role="assistant", content=content))[0].text == "hi"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (ChatCompletion.model_validate(CHAT), r"choices\[0\].message"),
        (Response.model_construct(output=[]), "extend"),
        ({"candidates": []}, r"candidates\[0\].content"),
        (Odd(content="hi"), "Odd"),
        ({"type": "text", "text": "a part is not a message"}, "format='responses'"),
        ({"type": "human", "content": "hi"}, "human"),
    ],
)
def test_what_is_no_message_is_refused_in_words_that_help(given: Any, says: str) -> None:
    with pytest.raises(InvalidMessage, match=says):
        stored(given)


def test_a_new_kind_of_item_is_read_where_the_format_is_told() -> None:
    (message,) = formats.read([{"type": "dream", "id": "d1"}], "responses")

    assert formats.write([message], "responses") == [{"type": "dream", "id": "d1"}]
