"""A rough count of tokens."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import Media, Message, Other, Reasoning, Text, ToolCall, ToolResult
from threadline.core.tokens import MEDIA_TOKENS, MESSAGE_TOKENS, count, estimate, estimate_text


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本", 2), ("\ud800", 1)])
def test_a_text_counts_a_quarter_of_its_bytes(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens


PARTS = [
    (Text("abcd"), 4),
    (Reasoning("think", "sig", "enc"), 11),
    (ToolCall("id", "name", {"a": 1}), 13),
    (ToolResult("id", "found"), 7),
    (ToolResult("id", (Text("found"), Media("image/png"))), 7 + MEDIA_TOKENS),
    (Media("image/png", b"\x89PNG"), MEDIA_TOKENS),
    (Other({"a": "b"}), 9),
]


@pytest.mark.parametrize(("part", "characters"), PARTS, ids=[repr(part) for part, _ in PARTS])
def test_all_that_is_sent_of_a_part_counts(part: Any, characters: int) -> None:
    assert count(Message("user", (part, part)), len) == MESSAGE_TOKENS + 2 * characters


def test_somebody_elses_count_replaces_ours_and_nothing_else() -> None:
    message = Message("assistant", tuple(part for part, _ in PARTS))

    assert count(message, estimate_text) == estimate(message)
