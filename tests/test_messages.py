"""Messages are values; and whatever is said comes back exactly, or is refused with the place that is in the way."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st

import threadline
from threadline import (
    InvalidMessage,
    Media,
    Message,
    Other,
    Reasoning,
    Session,
    Text,
    ToolCall,
    ToolResult,
    formats,
)
from threadline.testing import scaled
from threadline.testing import seed as run_seed

PNG = b"\x89PNG\r\n\x1a\n"
PNG_64 = b64encode(PNG).decode()


@pytest.fixture(scope="module")
def log() -> Iterator[Session]:
    """One log for all trials of a property: opening a store for each would take longer than the trial."""
    with threadline.open(":memory:") as store:
        yield store.new()


def same(a: Any, b: Any) -> bool:
    """Equal, and of the same types all the way down: 1, 1.0 and True are three values."""
    if isinstance(a, msgspec.Struct):
        return type(a) is type(b) and all(same(getattr(a, f), getattr(b, f)) for f in a.__struct_fields__)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (repr(a) == repr(b) if isinstance(a, float) else a == b)


def stored_or_refused(log: Session, given: Any) -> Message | None:
    """Append it: the message as it is read back, or None if it was refused and nothing was written."""
    head = log.head
    try:
        entry = log.append(given)
    except InvalidMessage:
        assert log.head == head
        return None
    read = log.entry(head + 1).message
    assert log.head == entry.seq == head + 1
    assert read == entry.message
    return read


def comes_back(log: Session, message: Message) -> bool:
    return same(stored_or_refused(log, message), message)


# -- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        Message.user("hi"),
        Text("hi"),
        Reasoning("hm"),
        ToolCall("c1", "f"),
        ToolResult("c1"),
        Media("image/png"),
        Other({"type": "new"}),
    ],
)
def test_a_value_is_frozen(value: Any) -> None:
    with pytest.raises(AttributeError):
        setattr(value, value.__struct_fields__[0], "changed")


def test_equal_content_is_equal() -> None:
    one = Message("assistant", [Text("hi"), ToolCall("c1", "f", {"a": 1, "b": 2})], {"n": 1})
    other = Message("assistant", (Text("hi"), ToolCall("c1", "f", {"b": 2, "a": 1})), {"n": 1})

    assert one == other


@pytest.mark.parametrize(
    "other",
    [
        Message.assistant("hi"),
        Message.user("ho"),
        Message.user("hi", Text("more")),
        Message.user("hi", meta={"n": 1}),
        Message("user", (Text("hi", {"n": 1}),)),
        Message("user", (Reasoning("hi"),)),
    ],
)
def test_other_content_is_not_equal(other: Message) -> None:
    assert Message.user("hi") != other


def test_parts_are_a_tuple_whatever_they_were_given_as() -> None:
    assert Message("user", [Text("hi")]).parts == Message("user", iter([Text("hi")])).parts == (Text("hi"),)  # type: ignore[arg-type]


def test_text_is_a_part() -> None:
    assert Message("user", "hi") == Message("user", ["hi"]) == Message("user", (Text("hi"),))  # type: ignore[arg-type]


def test_the_short_forms() -> None:
    call, picture = ToolCall("c1", "f"), Media("image/png", PNG)

    assert Message.user("look", picture) == Message("user", (Text("look"), picture))
    assert Message.assistant("yes", call) == Message("assistant", (Text("yes"), call))
    assert Message.assistant(None, call) == Message("assistant", (call,))
    assert Message.system("Be brief.") == Message("system", (Text("Be brief."),))
    assert Message.tool("c1", "out") == Message("tool", (ToolResult("c1", "out"),))
    assert Message.tool("c1", [picture], error=True) == Message("tool", (ToolResult("c1", (picture,), True),))
    assert Message.user("hi", meta={"hidden": True}).meta == {"hidden": True}


def test_parts_have_the_defaults_of_what_is_not_said() -> None:
    assert (Reasoning().text, Reasoning().signature, Reasoning().encrypted) == ("", None, None)
    assert (ToolResult("c1", "x").error, ToolResult("c1", "x").display) == (False, None)
    assert (Media("a/b").data, Media("a/b").uri, Media("a/b").name) == (None, None, None)
    assert Text("x").extra == {}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Message.user("hi"), "hi"),
        (Message.user("one", Text("two")), "one\ntwo"),
        (Message.tool("c1", "output"), "output"),
        (Message.tool("c1", [Text("one"), Media("image/png", PNG), Text("two")]), "one\ntwo"),
        (Message("assistant", (Reasoning("secret"), Text("said"), ToolCall("c1", "f", {"a": "b"}))), "said"),
        (Message("user", (Media("image/png", PNG), Other({"type": "new", "text": "unknown"}))), ""),
        (Message("user", ()), ""),
    ],
)
def test_the_text_of_a_message_is_what_people_read(message: Message, text: str) -> None:
    assert message.text == text


def test_a_message_knows_its_calls_and_results() -> None:
    calls, results = (ToolCall("c1", "f"), ToolCall("c2", "g")), (ToolResult("c1", "x"), ToolResult("c2", "y"))
    message = Message("assistant", (Text("hi"), calls[0], results[0], calls[1], results[1]))

    assert (message.calls, message.results) == (calls, results)


def test_a_value_given_to_a_store_may_be_changed_afterwards(session: Session) -> None:
    args = {"list": [1]}
    session.append(Message.assistant(None, ToolCall("c1", "f", args)))
    args["list"].append(2)

    assert session.messages()[0].calls[0].args == {"list": [1]}


# -- exactly, or not at all ----------------------------------------------------------------------------

characters = st.characters(exclude_categories=())  # lone surrogates, too
texts = st.text(characters, max_size=12) | st.sampled_from(["", "\0", "\ud83d\ude00", "\ud800", "\u2028", "😀", "é"])
numbers = (
    st.integers()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([2**63 - 1, 2**63, -(2**63) - 1, 10**400, 10**4100])
    | st.floats()
)
scalars = st.none() | st.booleans() | numbers | texts
foreign = st.sampled_from([b"bytes", (1, 2), {1, 2}, 1j, Decimal(1), datetime(2026, 1, 1, tzinfo=UTC), object(), ...])
values = st.recursive(
    scalars | foreign,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.integers(0, 9), inner, max_size=4),
    max_leaves=12,
)
readable = st.text(max_size=12) | st.sampled_from(["\0", "\ud800", "lone \udfff", "😀"])
finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | readable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(readable, inner, max_size=4),
    max_leaves=12,
)


def parts(texts: st.SearchStrategy[str], extra: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Any]:
    maybe = st.none() | texts
    simple = (
        st.builds(Text, texts, extra)
        | st.builds(Reasoning, texts, maybe, maybe, extra)
        | st.builds(ToolCall, texts, texts, extra | texts, extra)
        | st.builds(Media, texts, st.none() | st.binary(max_size=9), maybe, maybe, extra)
        | st.builds(Other, extra, extra)
    )
    nested = st.lists(simple, max_size=3).map(tuple)
    return simple | st.builds(ToolResult, texts, texts | nested, st.booleans(), maybe, extra)


def messages(texts: st.SearchStrategy[str], inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    roles = st.sampled_from(["system", "user", "assistant", "tool", "critic", "\ud800"])
    extra = st.dictionaries(texts, inner, max_size=3)
    return st.builds(Message, roles, st.lists(parts(texts, extra), max_size=3).map(tuple), extra)


@seed(run_seed())
@settings(max_examples=scaled(150), deadline=None, database=None)
@given(value=values)
@example(value={"\ud83d\ude00": 1, "😀": 2})
@example(value="\ud83d\ude00")
def test_any_value_comes_back_exactly_or_is_refused(log: Session, value: Any) -> None:
    message = Message("user", (Other({"value": value}),))

    read = stored_or_refused(log, message)

    assert read is None or same(read, message)


@seed(run_seed())
@settings(max_examples=scaled(150), deadline=None, database=None)
@given(message=messages(texts, values))
def test_any_message_comes_back_exactly_or_is_refused(log: Session, message: Message) -> None:
    read = stored_or_refused(log, message)

    assert read is None or same(read, message)


@seed(run_seed())
@settings(max_examples=scaled(100), deadline=None, database=None)
@given(message=messages(readable, plain))
def test_any_message_of_plain_data_comes_back_exactly(log: Session, message: Message) -> None:
    assert comes_back(log, message)


@seed(run_seed())
@settings(max_examples=scaled(60), deadline=None, database=None)
@given(data=st.dictionaries(texts, values, max_size=3))
def test_any_note_comes_back_exactly_or_is_refused(log: Session, data: dict[str, Any]) -> None:
    head = log.head
    try:
        log.note(data)
    except InvalidMessage:
        assert log.head == head
    else:
        assert same(log.entry(log.head).data, data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "a\0b",
        "\ud800",
        "\udc80 from surrogateescape",
        "😀",
        "\u2028\u2029\ufeff\uffff",
        '"\\\x1b[31m',
        "e\u0301",
        "한국어 日本語 العربية",
        "\r\n",
    ],
)
def test_text_comes_back_exactly(log: Session, text: str) -> None:
    assert comes_back(log, Message("user", (Text(text), Reasoning(text), ToolResult(text, text, display=text))))


def test_two_lone_surrogates_are_never_joined(log: Session) -> None:
    message = Message.user("\ud83d\ude00")  # JSON's escapes for them read as one character

    assert stored_or_refused(log, message) in (message, None)


@pytest.mark.parametrize("number", [0, -0.0, 1.0, 1e308, 5e-324, 0.1 + 0.2, 2**53 + 1, 2**64, -(2**64), 10**3000, True])
def test_a_number_comes_back_exactly(log: Session, number: Any) -> None:
    assert comes_back(log, Message.assistant(None, ToolCall("c1", "f", {"n": number})))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), 10**4100, -(10**4100)])
def test_a_number_that_json_cannot_carry_is_refused(log: Session, number: Any) -> None:
    assert stored_or_refused(log, Message.assistant(None, ToolCall("c1", "f", {"n": number}))) is None


def test_30_megabytes_come_back_exactly(session: Session) -> None:
    text = "0123456789abcdeé" * (30 * 2**20 // 17)
    session.append(Message.tool("c1", text))

    assert session.entry(1).message == Message.tool("c1", text)


def test_megabytes_of_lone_surrogates_come_back_exactly(log: Session) -> None:
    assert comes_back(log, Message.user("\ud800x" * 2**20))


def test_bytes_of_media_come_back_exactly(log: Session) -> None:
    assert comes_back(log, Message("user", (Media("image/png", bytes(range(256)) * 4096, name="a.png"),)))


def nested(depth: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"k": value}
    return value


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_deep_nesting_comes_back_exactly(log: Session, kind: str) -> None:
    assert comes_back(log, Message.user("deep", meta={"deep": nested(100, kind)}))


@pytest.mark.parametrize("kind", ["list", "dict"])
@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deeper_nesting_is_refused(log: Session, kind: str, depth: int) -> None:
    assert stored_or_refused(log, Message.user("deep", meta={"deep": nested(depth, kind)})) is None


def test_a_cycle_is_refused(log: Session) -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = [cycle]

    assert stored_or_refused(log, Message.user("round", meta=cycle)) is None


def test_results_within_results_come_back_exactly(log: Session) -> None:
    result = ToolResult("c0", "deepest")
    for i in range(1, 50):
        result = ToolResult(f"c{i}", (Text("around"), result))

    assert comes_back(log, Message("tool", (result,)))


def test_results_too_deep_within_results_are_refused(log: Session) -> None:
    result = ToolResult("c0", "deepest")
    for i in range(1, 1_000):
        result = ToolResult(f"c{i}", (result,))

    assert stored_or_refused(log, Message("tool", (result,))) is None


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


@pytest.mark.parametrize(
    "value", [Colour.RED, Size.BIG, OrderedDict(a=1), defaultdict(int, a=1), type("S", (str,), {})("s")]
)
def test_a_value_that_passes_for_plain_data_is_stored_as_an_equal_one_or_refused(log: Session, value: Any) -> None:
    message = Message.user("hi", meta={"value": value})

    assert stored_or_refused(log, message) in (message, None)


NAN = float("nan")


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (Message.user("x", meta={"a": [0, NAN]}), "meta.a[1]"),
        (Message.user("x", meta={"a": {1: 2}}), "meta.a[1]"),
        (Message.user("x", meta={"a": b"bytes"}), "meta.a"),
        (Message.user("x", meta={"a": (1, 2)}), "meta.a"),
        (Message.user("x", meta={"a": {1}}), "meta.a"),
        (Message.user("x", Text("y", {"a": NAN})), "parts[1].extra.a"),
        (Message.user("x", Text(7)), "parts[1].text"),  # type: ignore[arg-type]
        (Message.assistant("x", ToolCall("c", "f", {"a": {"b": NAN}})), "parts[1].args.a.b"),
        (Message.assistant("x", ToolCall("c", "f", [1])), "parts[1].args"),  # type: ignore[arg-type]
        (Message.assistant("x", ToolCall(7, "f")), "parts[1].id"),  # type: ignore[arg-type]
        (Message.assistant("x", ToolCall("c", None)), "parts[1].name"),  # type: ignore[arg-type]
        (Message.tool("c", [Text("a"), Other({"b": NAN})]), "parts[0].output[1].raw.b"),
        (Message("tool", (ToolResult("c", "x", error=1),)), "parts[0].error"),  # type: ignore[arg-type]
        (Message("user", (Media("image/png", "text"),)), "parts[0].data"),  # type: ignore[arg-type]
        (Message("user", (Media("image/png", bytearray(b"x")),)), "parts[0].data"),  # type: ignore[arg-type]
        (Message("user", (Reasoning("x", signature=b"x"),)), "parts[0].signature"),  # type: ignore[arg-type]
        (Message("user", (Text("a"), {"type": "text"})), "parts[1]"),  # type: ignore[arg-type]
        (Message("user", (7,)), "parts[0]"),  # type: ignore[arg-type]
        (Message("", ()), "role"),
        (Message(7, ()), "role"),  # type: ignore[arg-type]
        (Message("user", (), None), "meta"),  # type: ignore[arg-type]
        (Message("user", (), [1]), "meta"),  # type: ignore[arg-type]
    ],
)
def test_a_refusal_names_the_place(log: Session, message: Message, place: str) -> None:
    head = log.head

    with pytest.raises(InvalidMessage) as caught:
        log.append(message)

    assert caught.value.place.endswith(place)
    assert str(caught.value).startswith(caught.value.place)
    assert log.head == head


# -- dicts in our own form -----------------------------------------------------------------------------


@seed(run_seed())
@settings(max_examples=scaled(60), deadline=None, database=None)
@given(message=messages(readable, plain))
def test_a_message_written_as_a_dict_reads_as_the_same_message(message: Message) -> None:
    assert same(formats.read([msgspec.to_builtins(message)], "threadline"), [message])


def test_our_own_form_is_recognised(log: Session) -> None:
    raw = {
        "role": "assistant",
        "parts": [
            "text",
            {"type": "text", "text": "hi", "new_field": 1},
            {"type": "reasoning", "text": "hm", "signature": "s"},
            {"type": "call", "id": "c1", "name": "f", "args": {"a": 1}},
            {"type": "result", "call_id": "c1", "output": [{"type": "text", "text": "x"}], "error": True},
            {"type": "media", "mime": "image/png", "data": PNG_64},
            {"type": "hologram", "depth": 3},
        ],
        "meta": {"n": 1},
    }

    assert stored_or_refused(log, raw) == Message(
        "assistant",
        (
            Text("text"),
            Text("hi", {"new_field": 1}),
            Reasoning("hm", "s"),
            ToolCall("c1", "f", {"a": 1}),
            ToolResult("c1", (Text("x"),), True),
            Media("image/png", PNG),
            Other({"type": "hologram", "depth": 3}),
        ),
        {"n": 1},
    )


def test_parts_may_be_one_text_in_a_dict_as_well(log: Session) -> None:
    assert stored_or_refused(log, {"role": "user", "parts": "hi"}) in (Message.user("hi"), None)


def test_a_dict_without_content_is_an_empty_message(log: Session) -> None:
    assert stored_or_refused(log, {"role": "assistant"}) == Message("assistant")


def test_an_unknown_role_is_kept(log: Session) -> None:
    read = stored_or_refused(log, {"role": "critic", "content": "no"})

    assert read is not None
    assert (read.role, read.text) == ("critic", "no")


def test_an_unknown_field_of_our_own_form_is_not_lost_in_silence(log: Session) -> None:
    read = stored_or_refused(log, {"role": "user", "parts": [], "colour": "red"})

    assert read is None or "red" in repr(read)


# -- Anthropic -----------------------------------------------------------------------------------------

ANTHROPIC: dict[str, dict[str, Any]] = {
    "text": {"role": "user", "content": "hi"},
    "blocks": {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
    "response": {
        "id": "msg_01",
        "type": "message",
        "model": "claude",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "The user wants both.", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "EmwK"},
            {"type": "text", "text": "Looking.", "citations": None},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py", "n": 1.5}},
            {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "cache_read_input_tokens": 0},
    },
    "results": {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "print(1)"},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "no such file"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_64}},
                ],
            },
            {"type": "tool_result", "tool_use_id": "toolu_3"},
        ],
    },
    "result and text": {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"},
            {"type": "text", "text": "and now?"},
        ],
    },
    "image by address": {
        "role": "user",
        "content": [{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}],
    },
    "document": {
        "role": "user",
        "content": [
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": b64encode(b"%PDF").decode()},
                "title": "a.pdf",
                "citations": {"enabled": True},
            }
        ],
    },
    "unknown blocks": {
        "role": "assistant",
        "content": [
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "new"}]},
        ],
    },
    "nothing": {"role": "assistant", "content": []},
    "null": {"role": "assistant", "content": None},
}

# -- OpenAI --------------------------------------------------------------------------------------------


def openai_call(id: str, arguments: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}


OPENAI: dict[str, dict[str, Any]] = {
    "developer": {"role": "developer", "content": "Be brief."},
    "user with a name": {"role": "user", "name": "bob", "content": "hi"},
    "images": {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_64}", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        ],
    },
    "sound": {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]},
    "parallel calls": {
        "role": "assistant",
        "content": None,
        "tool_calls": [openai_call("call_1", '{"path": "a.py"}'), openai_call("call_2", "{}")],
    },
    "text and call": {"role": "assistant", "content": "Looking.", "tool_calls": [openai_call("call_1", "{}")]},
    "reasoning": {"role": "assistant", "content": "42", "reasoning_content": "6 * 7"},
    "refusal": {"role": "assistant", "content": None, "refusal": "I cannot."},
    "result": {"role": "tool", "tool_call_id": "call_1", "content": "print(1)"},
    "result in parts": {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "one"}]},
    "empty result": {"role": "tool", "tool_call_id": "call_1", "content": ""},
    "custom call": {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}],
    },
}

DICTS = {f"anthropic {name}": ("anthropic", raw) for name, raw in ANTHROPIC.items()} | {
    f"openai {name}": ("openai", raw) for name, raw in OPENAI.items()
}


@pytest.mark.parametrize("name", DICTS)
def test_a_providers_dict_is_recognised_and_comes_back_exactly(log: Session, name: str) -> None:
    _, raw = DICTS[name]
    read = stored_or_refused(log, raw)

    assert read is not None
    assert formats.write([read], formats.guess(raw)) == [raw]


@pytest.mark.parametrize("name", DICTS)
def test_a_providers_dict_is_read_in_the_format_that_is_named(session: Session, name: str) -> None:
    format, raw = DICTS[name]
    read = session.append(raw, format=format).message

    assert read is not None
    assert formats.write([read], format) == [raw]


@pytest.mark.parametrize("name", DICTS)
def test_reading_does_not_change_the_dict(name: str) -> None:
    format, raw = DICTS[name]
    before = json.dumps(raw)
    formats.read([raw], format)

    assert json.dumps(raw) == before


def marked(value: Any, marks: list[str]) -> Any:
    """The value with an unknown field in each of its dicts, but for the arguments of tools, which know no others."""
    if isinstance(value, list):
        return [marked(item, marks) for item in value]
    if not isinstance(value, dict):
        return value
    new = {name: inner if name == "input" else marked(inner, marks) for name, inner in value.items()}
    marks.append(f"mark-{len(marks)}")
    return new | {"a_field_of_tomorrow": marks[-1]}


@pytest.mark.parametrize("name", DICTS)
def test_unknown_fields_of_a_providers_dict_are_kept(name: str) -> None:
    format, raw = DICTS[name]
    marks: list[str] = []
    message = formats.read([marked(raw, marks)], format)[0]

    found = msgspec.json.encode(message).decode()
    assert [mark for mark in marks if f'"{mark}"' not in found] == []


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        '{"path": "a.py"',
        "[1, 2]",
        '"text"',
        "null",
        "not json at all",
        '{"n": NaN}',
        '{"n": 1e999}',
        '{"n": ' + "9" * 5000 + "}",
        '{"a":' * 300 + "1" + "}" * 300,
        "[" * 100_000,
    ],
)
def test_arguments_that_are_no_object_are_kept_as_they_came(log: Session, arguments: str) -> None:
    raw = {"role": "assistant", "content": None, "tool_calls": [openai_call("call_1", arguments)]}

    read = stored_or_refused(log, raw)

    assert read is not None
    assert [(call.id, call.name, call.args) for call in read.calls] == [("call_1", "read", arguments)]


def test_arguments_that_are_null_are_no_text(log: Session) -> None:
    raw = {"role": "assistant", "content": None, "tool_calls": [openai_call("call_1", None)]}

    read = stored_or_refused(log, raw)

    assert read is None or read.calls[0].args in ({}, "")


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ({"role": "user", "content": 7}, "content"),
        ({"role": "user", "content": [7]}, "content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "content[0].text"),
        ({"role": "user", "content": [{"type": "tool_result", "content": "x"}]}, "content[0]"),
        ({"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}, "content[0]"),
        ({"role": "tool", "content": "x"}, "tool_call_id"),
        ({"role": "assistant", "content": None, "tool_calls": [7]}, "tool_calls[0]"),
        ({"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}, "tool_calls[0].id"),
        ({"role": "user", "parts": [7]}, "parts[0]"),
        ({"role": "user", "parts": [{"type": "text"}]}, "parts[0]"),
        ({"role": 7, "content": "x"}, "message"),
    ],
)
def test_a_broken_dict_is_refused_with_the_place(log: Session, raw: dict[str, Any], place: str) -> None:
    head = log.head

    with pytest.raises(InvalidMessage) as caught:
        log.append(raw)

    assert caught.value.place.endswith(place)
    assert log.head == head


kinds = st.sampled_from(["text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"])
kinds |= st.sampled_from(["image_url", "reasoning", "call", "result", "media", "other", "new"])
junk = st.none() | st.booleans() | st.integers(0, 3) | texts | st.just([1]) | st.just({"a": 1}) | st.just(["x"])
sources = st.fixed_dictionaries(
    {"type": st.sampled_from(["base64", "url", "text"]) | junk},
    optional={"media_type": junk, "data": st.sampled_from([PNG_64, "é", "abc"]) | junk, "url": junk},
)
names = ["text", "id", "name", "input", "args", "call_id", "tool_use_id", "output", "content", "thinking"]
names += ["signature", "data", "mime", "raw", "extra", "error", "is_error"]
urls = st.sampled_from(["data:image/png;base64,é", "data:image/png;base64,abc", "data:,x", "https://x"]) | junk
blocks = st.deferred(
    lambda: st.fixed_dictionaries(
        {"type": kinds | junk},
        optional={name: junk | st.lists(blocks, max_size=2) for name in names}
        | {"source": sources | junk, "image_url": st.fixed_dictionaries({}, optional={"url": urls}) | junk},
    )
)
calls = st.fixed_dictionaries(
    {}, optional={"id": texts | junk, "function": st.dictionaries(st.sampled_from(["name", "arguments"]), junk) | junk}
)
dicts = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"]) | junk},
    optional={
        "content": junk | st.lists(blocks | junk, max_size=3),
        "parts": junk | st.lists(blocks | junk, max_size=3),
        "meta": junk,
        "tool_calls": junk | st.lists(calls | junk, max_size=2),
        "tool_call_id": junk,
        "reasoning_content": junk,
        "name": junk,
    },
)


@seed(run_seed())
@settings(max_examples=scaled(400), deadline=None, database=None)
@given(raw=dicts)
@example(raw={"role": "user", "parts": None})
@example(raw={"role": "user", "parts": [], "meta": None})
@example(raw={"role": "user", "parts": [{"type": ["x"]}]})
@example(raw={"role": "user", "parts": [{"type": "media", "mime": "i", "data": "é"}]})
@example(raw={"role": "user", "parts": [{"type": "media", "mime": "i", "data": "abc"}]})
@example(raw={"role": "user", "parts": [{"type": "text", "text": "x", "extra": "s", "new": 1}]})
@example(raw={"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "é"}}]})
@example(raw={"role": "user", "content": [{"type": "image_url", "image_url": {"url": None}}]})
@example(raw={"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:a/b;base64,é"}}]})
@example(raw={"role": "user", "content": [{"type": ["a"]}]})
@example(raw={"role": "assistant", "content": None, "tool_calls": 5})
def test_any_dict_is_stored_or_refused_and_nothing_else(log: Session, raw: dict[str, Any]) -> None:
    stored_or_refused(log, raw)


@pytest.mark.parametrize("given", [None, 5, {"type": "text", "text": "hi"}, b"hi", Text("hi")])
@pytest.mark.parametrize("made", [lambda given: Message("user", given), lambda given: Message.tool("c1", given)])
def test_what_is_neither_text_nor_a_list_of_parts_is_refused_at_once(made: Any, given: Any) -> None:
    """A dict is iterable, too: its keys must not become the message."""
    with pytest.raises(InvalidMessage, match=type(given).__name__):
        made(given)


def test_what_a_tool_returned_may_be_a_list_of_texts() -> None:
    assert Message.tool("c1", ["a", "b"]).text == "a\nb"  # type: ignore[list-item]
