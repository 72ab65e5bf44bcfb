"""What can be found of an entry."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import Media, Message, Other, Reasoning, Text, ToolCall, ToolResult
from threadline.core.findable import DEPTH_MAX, Findable, findable, texts_of
from threadline.testing.memory import MemoryLog


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        (Text("said"), ["said"]),
        (Reasoning("thought", "sig"), ["thought"]),
        (
            ToolCall("id", "look", {"n": 1, "deep": [{"x": "y"}, None, True, 2.5]}),
            ["look", "n", "1", "deep", "x", "y", "2.5"],
        ),
        (ToolCall("id", "look", "raw args"), ["look", "raw args"]),
        (ToolResult("id", "seen"), ["seen"]),
        (ToolResult("id", "seen", display="shown"), ["seen", "shown"]),
        (ToolResult("id", "seen", display="seen"), ["seen"]),
        (ToolResult("id", (Text("one"), Text("two"))), ["one", "two"]),
        (Media("image/png", uri="https://host/a.png", name="a.png"), ["a.png", "https://host/a.png"]),
        (Media("image/png", uri="data:image/png;base64,AAAA"), [""]),
        (Media("image/png", b"\x89PNG"), [""]),
        (Other({"type": "odd", "says": "this"}), ["says", "this"]),
    ],
    ids=repr,
)
def test_all_text_of_a_part_can_be_found(part: Any, texts: list[str]) -> None:
    assert list(texts_of(Message("user", (part,)))) == texts


def test_a_value_that_is_nested_without_end_is_looked_at_so_deep() -> None:
    value: Any = "bottom"
    for n in reversed(range(DEPTH_MAX + 3)):
        value = {f"level {n}": value}
    texts = list(texts_of(Message.assistant(None, ToolCall("id", "look", value))))

    assert texts == ["look", *(f"level {n}" for n in range(DEPTH_MAX + 1))]


def test_whose_words_an_entry_has() -> None:
    log = MemoryLog()
    log.do("append", message=Message.user("question"))
    log.do("note", data={"seen": "something", "n": None})
    log.do("set_goal", objective="win")
    log.do("set_state", values={"n": "not to be found"})
    log.do("append", message=Message.user(" "))
    log.do("compact", summary="in short", upto=1)
    found = [findable(log.row(seq)) for seq in range(1, 7)]

    assert found[:2] == [Findable("user", "question"), Findable("note", "seen\nsomething\nn")]
    assert (found[2] or Findable("", "")).role == "goal"
    assert "win" in (found[2] or Findable("", "")).text
    assert found[3:] == [None, None, Findable("summary", "in short")]
