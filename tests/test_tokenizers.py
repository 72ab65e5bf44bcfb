"""Exact counts of tokens, with the extra that brings the vocabularies."""

from __future__ import annotations

import sys

import pytest

import threadline
from threadline import InvalidArgument, Media, Message, Reasoning, Text, ToolCall, tokenizers

AROUND = 4  # tokens that a message takes besides its text


@pytest.mark.parametrize(
    ("encoding", "text", "tokens"),
    [
        ("o200k_base", "hello world", 2),  # as published by the vocabulary's maker
        ("o200k_base", "antidisestablishmentarianism", 6),
        ("cl100k_base", "tiktoken is great!", 6),
        ("cl100k_base", "antidisestablishmentarianism", 6),
        ("o200k_base", "", 0),
    ],
)
def test_text_is_counted_as_its_vocabulary_does(encoding: str, text: str, tokens: int) -> None:
    assert tokenizers.exact(encoding)(Message.user(text)) == AROUND + tokens


@pytest.mark.parametrize("encoding", ["llama3", "qwen3", "deepseek_v3", "mistral_v3", "gemma3", "kimi_k2"])
def test_vocabularies_come_with_the_extra(encoding: str) -> None:
    assert 2 <= tokenizers.exact(encoding)(Message.user("hello world")) - AROUND <= 3


def test_every_part_is_counted() -> None:
    count = tokenizers.exact()
    parts = [
        Text("hello world"),
        Reasoning("hm", "sig"),
        ToolCall("c1", "search", {"q": "oslo"}),
        Media("image/png", b"1"),
    ]
    alone = [count(Message("assistant", (part,))) - AROUND for part in parts]

    assert all(alone)
    assert count(Message("assistant", tuple(parts))) == AROUND + sum(alone)


def test_words_that_look_like_special_tokens_are_text() -> None:
    assert tokenizers.exact()(Message.user("<|endoftext|>")) > AROUND + 1


def test_a_lone_surrogate_is_counted_as_a_question_mark() -> None:
    count = tokenizers.exact()

    assert count(Message.user("a\ud800b")) == count(Message.user("a?b"))


def test_a_store_counts_with_it() -> None:
    with threadline.open(":memory:", count_tokens=tokenizers.exact()) as store:
        session = store.new()
        session.extend(["hello world", Message.assistant("hello world")])

        assert session.info.tokens == session.context().tokens == 2 * (AROUND + 2)


@pytest.mark.parametrize("encoding", ["no such", "", None, 7])
def test_an_unknown_vocabulary_is_named(encoding: str) -> None:
    with pytest.raises(InvalidArgument, match=f"no tokenizer is named {encoding!r}"):
        tokenizers.exact(encoding)


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splintr", None)

    with pytest.raises(InvalidArgument, match=r"pip install 'threadline\[tokens\]'"):
        tokenizers.exact()
