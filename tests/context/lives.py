"""Histories for contexts: all that can happen to a log, and what providers, importers and crashes leave in it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from provider_strategies import CONVERSATIONS
from torture import lives as lives_of_dice
from torture.lives import PROVIDERS

from threadline import Message, Text, ToolCall, formats
from threadline.messages import Media, Other, Part, Reasoning, ToolResult
from threadline.testing import strategies
from threadline.testing.strategies import Step, resolve

__all__ = ["PROVIDERS", "Life", "lives"]


class Life(lives_of_dice.Life):
    """A log that steps are applied to, without a model."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.model = None
        for step in steps:
            self.step(step.verb, **{name: resolve(value, self) for name, value in step.options.items()})


# -- what is said --------------------------------------------------------------------------------------


def junk() -> SearchStrategy[Message]:
    """Messages that no provider would take as they are."""
    ids = st.sampled_from(strategies.CALL_IDS)
    tools, args = st.sampled_from(["tool", "Tool 2", ""]), st.sampled_from([{}, {"a": 1}, "{oops"])
    mimes, bytes_ = st.sampled_from(["image/png", "audio/wav", ""]), st.sampled_from([None, b"x"])
    texts = st.sampled_from(["hi", "", "  ", "done \n", "[2026-01-02 03:04 UTC] so", "[image: a.png]", "\0\ud800"])
    extras = st.sampled_from(
        [
            {},
            {},
            {"provider": "anthropic"},
            {"provider": "openai", "arguments": "text"},
            {"provider": "openai", "kind": "custom"},
            {"provider": "responses"},
            {"provider": "gemini", "thoughtSignature": "sig"},
            {"cache_control": {"type": "ephemeral"}},
        ]
    )
    parts: SearchStrategy[Part] = st.one_of(
        st.builds(Text, texts, extras),
        st.builds(Reasoning, texts, st.none() | st.just("sig"), st.none() | st.just("enc"), extras),
        st.builds(ToolCall, ids, tools, args, extras),
        st.builds(ToolResult, ids, texts | st.lists(st.builds(Text, texts), max_size=2).map(tuple), st.booleans()),
        st.builds(Media, mimes, bytes_, st.just("/tmp/a.png")),
        st.builds(Other, st.just({"type": "server_tool_use", "id": "s"}), extras),
    )
    roles = st.sampled_from([*strategies.ROLES, "critic"])
    metas = st.sampled_from([{}, {}, {"proactive": True}, {"repair": "crash"}, {"anthropic": {"content": "string"}}])
    return st.builds(Message, roles, st.lists(parts, max_size=4).map(tuple), metas)


@st.composite
def native(draw: st.DrawFn) -> Step:
    """A piece of what a provider's conversation was read into: whole, or torn anywhere."""
    format = draw(st.sampled_from(PROVIDERS))
    messages = formats.read(draw(CONVERSATIONS[format]()), format)
    first = draw(st.integers(0, max(0, len(messages) - 1)))
    last = draw(st.integers(first, len(messages)))
    return Step("extend", {"messages": messages[first:last]})


def lives(max_size: int = 12) -> SearchStrategy[list[Step]]:
    """Any history: of steps, of junk, of natives; appends are the most of it."""
    said: Callable[[Message], Step] = lambda message: Step("append", {"message": message})  # noqa: E731
    steps = st.one_of(strategies.steps(), strategies.extends(), junk().map(said), junk().map(said), native())
    return st.lists(steps, min_size=1, max_size=max_size)
