"""What goes in comes out exactly, or is refused and the place named."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline import InvalidMessage, Media, Message, Other, Reasoning, Session, Text, ToolCall, ToolResult
from threadline.core import codec
from threadline.testing import scaled, strategies

many = settings(max_examples=scaled(300))


def exactly(a: Any, b: Any) -> bool:
    """Equal, and of the same types all the way down: 1, 1.0 and True are not the same content."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(exactly(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(exactly, a, b))
    if hasattr(a, "__struct_fields__"):
        return all(exactly(getattr(a, name), getattr(b, name)) for name in a.__struct_fields__)
    return bool(a == b) and repr(a) == repr(b)


def as_json(value: Any) -> bytes:
    """What another program may have written: JSON in UTF-8 that allows surrogates."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


@many
@given(strategies.messages())
def test_any_message_comes_back_exactly(message: Message) -> None:
    codec.check_message(message)

    assert exactly(codec.decode_message(codec.encode(message)), message)


@many
@given(strategies.json_objects())
def test_any_data_comes_back_exactly(data: dict[str, Any]) -> None:
    codec.check_object(data, "data")

    assert exactly(codec.decode(codec.encode(data)), data)


@given(strategies.messages())
def test_what_is_stored_is_plain_json(message: Message) -> None:
    assert exactly(codec.message_of(json.loads(codec.encode(message))), message)


@given(strategies.messages(), st.dictionaries(strategies.texts(6).filter(bool), strategies.json_values(), max_size=3))
def test_fields_that_we_do_not_know_are_kept(message: Message, unknown: dict[str, Any]) -> None:
    """A newer version's part with more fields: they are in `extra`, and nothing else moved."""
    raw = json.loads(codec.encode(message))
    known = {"type", "extra", *Text.__struct_fields__}
    more = {name: value for name, value in unknown.items() if name not in known}
    raw["parts"] = [{"type": "text", "text": "t", **more}, *raw.get("parts", [])]

    read = codec.decode_message(as_json(raw))

    assert exactly(read.parts[0], Text("t", more))
    assert exactly(read.parts[1:], message.parts)


@given(strategies.json_objects())
def test_a_part_of_an_unknown_kind_is_kept_whole(raw: dict[str, Any]) -> None:
    part = {**raw, "type": "hologram"}

    read = codec.decode_message(as_json({"role": "user", "parts": [part]}))

    assert exactly(read.parts, (Other(part),))


tags = st.sampled_from([*codec._KINDS, "hologram", [], None])
fields = st.sampled_from(["text", "id", "name", "args", "call_id", "output", "data", "raw", "extra", "mime", "more"])
raw_parts = st.dictionaries(fields, strategies.json_values(3), max_size=4)


@many
@given(st.lists(st.tuples(tags, raw_parts), max_size=2), strategies.json_values(3))
def test_a_dict_of_any_shape_is_stored_exactly_or_refused(given: list[tuple[Any, dict[str, Any]]], meta: Any) -> None:
    raw = {"role": "user", "parts": [{"type": tag, **part} for tag, part in given], "meta": meta}
    try:
        message = codec.message_of(raw)
        codec.check_message(message)
    except InvalidMessage:
        return

    assert exactly(codec.decode_message(codec.encode(message)), message)


@given(strategies.json_objects())
def test_equal_content_has_one_canonical_form_whatever_the_order_of_its_keys(data: dict[str, Any]) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(inner) for key, inner in reversed(value.items())}
        return [turned(inner) for inner in value] if isinstance(value, list) else value

    assert codec.canonical(turned(data)) == codec.canonical(data)


@many
@given(strategies.messages(), strategies.messages())
def test_different_content_has_different_canonical_forms(a: Message, b: Message) -> None:
    assert (codec.canonical(a) == codec.canonical(b)) == exactly(a, b)


@pytest.mark.parametrize("text", ["\ud83d\ude00", "a\ud800\udc00b"])
@pytest.mark.parametrize("make", [Message.user, lambda text: Message.user("", meta={"in": [text]})])
def test_two_surrogates_that_would_become_one_character_are_kept_or_refused(
    session: Session, text: str, make: Any
) -> None:
    """JSON's escapes cannot tell the two from the one character that they spell."""
    message = make(text)
    try:
        session.append(message)
    except InvalidMessage:
        assert session.head == 0
    else:
        assert session.messages() == [message]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


BAD: list[tuple[str, Any]] = [
    ("NaN", float("nan")),
    ("infinity", float("inf")),
    ("a tuple", (1,)),
    ("a set", {1}),
    ("bytes", b"x"),
    ("a Decimal", Decimal(1)),
    ("an object", object()),
    ("a number as key", {1: 2}),
    ("a huge integer", 10**5_000),
    ("deep nesting", nested(1_000)),
]
PLACES: list[tuple[str, Any]] = [
    ("message.meta.x", lambda bad: Message("user", (Text("t"),), {"x": bad})),
    ("message.parts[1].args.x", lambda bad: Message("assistant", (Text("t"), ToolCall("i", "n", {"x": bad})))),
    ("message.parts[0].extra.x", lambda bad: Message("user", (Text("t", {"x": bad}),))),
    ("message.parts[0].raw.x", lambda bad: Message("user", (Other({"x": bad}),))),
    (
        "message.parts[0].output[0].extra.x",
        lambda bad: Message("tool", (ToolResult("i", (Media("m", extra={"x": bad}),)),)),
    ),
]


@pytest.mark.parametrize("bad", [value for _, value in BAD], ids=[name for name, _ in BAD])
@pytest.mark.parametrize(("place", "make"), PLACES, ids=[place for place, _ in PLACES])
def test_what_json_would_change_is_refused_and_its_place_named(
    session: Session, bad: Any, place: str, make: Any
) -> None:
    message = make(bad)

    with pytest.raises(InvalidMessage) as refused:
        codec.check_message(message)
    with pytest.raises(InvalidMessage):
        session.append(message)

    assert refused.value.place.startswith(place)
    assert session.head == 0


WRONG: list[tuple[str, Any]] = [
    ("message.role", Message(1, ())),  # type: ignore[arg-type]
    ("message.role", Message("", ())),
    ("message.parts[0].text", Message("user", (Text(None),))),  # type: ignore[arg-type]
    ("message.parts[0].signature", Message("user", (Reasoning("", 1),))),  # type: ignore[arg-type]
    ("message.parts[0].encrypted", Message("user", (Reasoning("", None, b""),))),  # type: ignore[arg-type]
    ("message.parts[0].id", Message("user", (ToolCall(1, "n"),))),  # type: ignore[arg-type]
    ("message.parts[0].name", Message("user", (ToolCall("i", None),))),  # type: ignore[arg-type]
    ("message.parts[0].args", Message("user", (ToolCall("i", "n", [1]),))),  # type: ignore[arg-type]
    ("message.parts[0].call_id", Message("user", (ToolResult(None),))),  # type: ignore[arg-type]
    ("message.parts[0].error", Message("user", (ToolResult("i", "", 1),))),  # type: ignore[arg-type]
    ("message.parts[0].display", Message("user", (ToolResult("i", "", False, 1),))),  # type: ignore[arg-type]
    ("message.parts[0].output[0]", Message("user", (ToolResult("i", (1,)),))),  # type: ignore[arg-type]
    ("message.parts[0].data", Message("user", (Media("m", "text"),))),  # type: ignore[arg-type]
    ("message.parts[0].uri", Message("user", (Media("m", None, 1),))),  # type: ignore[arg-type]
    ("message.parts[0].raw", Message("user", (Other([]),))),  # type: ignore[arg-type]
    ("message.parts[0].extra", Message("user", (Text("t", []),))),  # type: ignore[arg-type]
    ("message.parts[1]", Message("user", (Text("t"), 1))),  # type: ignore[arg-type]
    ("message.meta", Message("user", (), [1])),  # type: ignore[arg-type]
    ("message.meta", Message("user", (), [])),  # type: ignore[arg-type]
    ("message.meta", Message("user", (), None)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("place", "message"), WRONG, ids=[f"{i}-{place}" for i, (place, _) in enumerate(WRONG)])
def test_a_field_of_the_wrong_type_is_refused_and_named(session: Session, place: str, message: Message) -> None:
    with pytest.raises(InvalidMessage) as refused:
        codec.check_message(message)
    with pytest.raises(InvalidMessage):
        session.append(message)

    assert refused.value.place == place
    assert session.head == 0


@pytest.mark.parametrize("depth", [1, 100, codec.DEPTH_MAX - 1])
def test_allowed_nesting_comes_back(session: Session, depth: int) -> None:
    message = Message("user", (Text("\ud800"),), nested(depth))
    session.append(message)

    assert session.messages() == [message]


@pytest.mark.parametrize(
    "number", [2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**3_900, -0.0, 5e-324, 1.7976931348623157e308]
)
@pytest.mark.parametrize("beside", ["plain", "\ud800"])
def test_numbers_at_the_edges_come_back_exactly(session: Session, number: float, beside: str) -> None:
    message = Message("user", (Text(beside),), {"n": number})
    session.append(message)

    assert exactly(session.messages()[0], message)


@pytest.mark.parametrize("parts", [3, {"type": "text"}, None, b"bytes"], ids=repr)
def test_parts_that_are_no_list_are_refused(parts: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"message\.parts"):
        codec.message_of({"role": "user", "parts": parts})


def test_what_json_has_no_name_for_is_refused() -> None:
    with pytest.raises(TypeError, match="JSON has no object"):
        codec.encode({"n": object()})


def test_parts_that_are_a_string_are_a_text() -> None:
    assert codec.message_of({"role": "user", "parts": "hi"}) == Message.user("hi")
    assert codec.message_of({"role": "user", "parts": ["hi"]}) == Message.user("hi")
