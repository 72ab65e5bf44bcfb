"""Usage: what a request to a model took, in tokens and in money, whichever provider counted it.

Providers count differently: for some the cached part is within the input, for others beside it, and reasoning may or
may not be within the output. Here `input`, `cache_read` and `cache_write` never overlap, so that together they are the
whole prompt; `output` is all that the model wrote, and `reasoning` is a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeAlias

from msgspec import Struct

from threadline.core.models import Model, name_of, plain
from threadline.errors import InvalidArgument

TOKENS_MAX = 10**12  # of one request: sums of millions of them stay exact in 64 bits
COST_MAX = 10**7  # likewise, in whatever currency

COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")
NAMED = ("model", "request_id")  # may stand beside the counts, whoever made them
OURS = frozenset({*COUNTS, *NAMED, "cost", "requests"})


class Usage(Struct, frozen=True):
    """Tokens and cost of one request or of many. `cost` is None while the price of any of it is unknown.

    The prompt is `input` (not cached), `cache_read` and `cache_write` together; `reasoning` is a part of `output`."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: float | None = None
    requests: int = 1

    @property
    def prompt(self) -> int:
        """All tokens that the model read, cached or not."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """All tokens that the model read and wrote."""
        return self.prompt + self.output


NOTHING = Usage(cost=0.0, requests=0)

UsageLike: TypeAlias = Usage | Mapping[str, Any] | Model


def usage_of(value: Any) -> Usage:
    """The usage of one request, from a Usage, from a mapping of its names, or from what a provider says:
    the `usage` of Anthropic Messages, OpenAI Chat Completions, OpenAI Responses, or Gemini's `usageMetadata`.

    Raises InvalidArgument for a shape that nobody is known to use: a wrong count is worse than none."""
    value = plain(value)
    if isinstance(value, Usage):
        return _checked(value)
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"usage is a Usage of threadline, a mapping or response.usage, not {name_of(value)}")
    for read in (_ours, _openai, _responses, _anthropic, _gemini):
        if (found := read(value)) is not None:
            return _checked(found)
    known = ", ".join(map(repr, value))
    raise InvalidArgument(f"this usage says {known}, which is no shape that we know: say {', '.join(COUNTS)}")


# -- each provider's way of counting -------------------------------------------------------------------


def _ours(value: Mapping[str, Any]) -> Usage | None:
    if not value.keys() <= OURS:
        return None
    return Usage(**{name: _count(value, name) for name in COUNTS}, cost=value.get("cost"))


def _openai(value: Mapping[str, Any]) -> Usage | None:
    """Chat Completions, and all that speak it."""
    told = "prompt_tokens" in value or "completion_tokens" in value
    return _cached_within(value, "prompt_tokens", "completion_tokens") if told else None


def _responses(value: Mapping[str, Any]) -> Usage | None:
    """OpenAI Responses. It is told from Anthropic's by its details, which say what is cached."""
    told = "input_tokens_details" in value or "output_tokens_details" in value
    return _cached_within(value, "input_tokens", "output_tokens") if told and not _CACHED & value.keys() else None


def _cached_within(value: Mapping[str, Any], prompt: str, answer: str) -> Usage:
    """Cached tokens are within the prompt, reasoning is within the answer."""
    given, made = _within(value, f"{prompt}_details"), _within(value, f"{answer}_details")
    read = _count(given, "cached_tokens") or _count(value, "prompt_cache_hit_tokens", "cached_tokens")
    written = _count(given, "cache_write_tokens", "cache_creation_tokens")
    return Usage(
        input=_rest(_count(value, prompt), read + written),
        output=_count(value, answer),
        cache_read=read,
        cache_write=written,
        reasoning=_count(made, "reasoning_tokens"),
        cost=_cost(value),
    )


_CACHED = {"cache_read_input_tokens", "cache_creation_input_tokens"}


def _anthropic(value: Mapping[str, Any]) -> Usage | None:
    """Messages: cached tokens are beside the input, thinking is within the output."""
    if "input_tokens" not in value and "output_tokens" not in value:
        return None
    return Usage(
        input=_count(value, "input_tokens"),
        output=_count(value, "output_tokens"),
        cache_read=_count(value, "cache_read_input_tokens"),
        cache_write=_count(value, "cache_creation_input_tokens"),
        reasoning=_count(_within(value, "output_tokens_details"), "thinking_tokens", "reasoning_tokens"),
        cost=_cost(value),
    )


def _gemini(value: Mapping[str, Any]) -> Usage | None:
    """Cached tokens are within the prompt, results of its own tools beside it, thoughts beside the output."""
    if not {"promptTokenCount", "prompt_token_count", "totalTokenCount", "total_token_count"} & value.keys():
        return None
    read = _count(value, "cachedContentTokenCount", "cached_content_token_count")
    prompt = _count(value, "promptTokenCount", "prompt_token_count")
    tools = _count(value, "toolUsePromptTokenCount", "tool_use_prompt_token_count")
    thoughts = _count(value, "thoughtsTokenCount", "thoughts_token_count")
    return Usage(
        input=_rest(prompt, read) + tools,
        output=_count(value, "candidatesTokenCount", "candidates_token_count", "responseTokenCount") + thoughts,
        cache_read=read,
        reasoning=thoughts,
    )


def _count(value: Mapping[str, Any], *names: str) -> int:
    """The first of these that is said; providers leave out, or say None, where there is nothing to count."""
    for name in names:
        if (count := value.get(name)) is not None:
            return check_tokens(count, name)
    return 0


def _rest(whole: int, cached: int) -> int:
    return max(whole - cached, 0)


def _within(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def _cost(value: Mapping[str, Any]) -> Any:
    """Some routers say in the same place what they charge."""
    cost = value.get("cost")
    return cost if isinstance(cost, int | float) else None


# -- checks --------------------------------------------------------------------------------------------


def check_tokens(count: Any, name: str) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= TOKENS_MAX:
        raise InvalidArgument(f"{name} is a number of tokens from 0 to {TOKENS_MAX:,}, not {count!r}")
    return count


def check_cost(cost: Any) -> float | None:
    if cost is None:
        return None
    if not isinstance(cost, int | float) or isinstance(cost, bool) or not isfinite(cost) or not 0 <= cost <= COST_MAX:
        raise InvalidArgument(f"cost is an amount of money from 0 to {COST_MAX:,}, or None while unknown, not {cost!r}")
    return cost


def _checked(usage: Usage) -> Usage:
    for name in COUNTS:
        check_tokens(getattr(usage, name), name)
    check_cost(usage.cost)
    return usage
