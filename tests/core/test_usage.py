"""Usage: every provider's way of counting, in one."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import InvalidArgument, Usage
from threadline.core.usage import usage_of

COUNTED = {
    "ours": ({"input": 3, "output": 5, "cache_read": 7}, Usage(3, 5, 7)),
    "ours, with a cost": ({"input": 3, "cost": 0.25, "model": "m", "request_id": "r"}, Usage(3, cost=0.25)),
    "a Usage": (Usage(1, 2, 3, 4, 5, 0.5), Usage(1, 2, 3, 4, 5, 0.5)),
    "nothing": ({}, Usage()),
    "anthropic": (
        {
            "input_tokens": 2095,
            "output_tokens": 503,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 2000,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
            "server_tool_use": {"web_search_requests": 0},
            "service_tier": "standard",
        },
        Usage(2095, 503, 2000, 100),
    ),
    "anthropic, a delta of a stream": (
        {"input_tokens": None, "output_tokens": 15, "cache_read_input_tokens": None},
        Usage(output=15),
    ),
    "openai": (
        {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 192, "audio_tokens": 0},
        },
        Usage(86, 300, 1920, 0, 192),
    ),
    "openai, without details": (
        {"prompt_tokens": 9, "completion_tokens": 12, "prompt_tokens_details": None},
        Usage(9, 12),
    ),
    "openai, through a router that says its price": (
        {
            "prompt_tokens": 194,
            "completion_tokens": 2,
            "cost": 0.95,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 100},
        },
        Usage(94, 2, 0, 100, cost=0.95),
    ),
    "deepseek": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "prompt_cache_hit_tokens": 64,
            "prompt_cache_miss_tokens": 36,
        },
        Usage(36, 10, 64),
    ),
    "responses": (
        {
            "input_tokens": 328,
            "input_tokens_details": {"cached_tokens": 128},
            "output_tokens": 52,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 380,
        },
        Usage(200, 52, 128, 0, 20),
    ),
    "gemini": (
        {
            "promptTokenCount": 1000,
            "cachedContentTokenCount": 600,
            "candidatesTokenCount": 50,
            "thoughtsTokenCount": 25,
            "toolUsePromptTokenCount": 30,
            "totalTokenCount": 1105,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}],
        },
        Usage(430, 75, 600, 0, 25),
    ),
    "gemini, from its Python SDK": (
        {"prompt_token_count": 10, "candidates_token_count": 5, "cached_content_token_count": None},
        Usage(10, 5),
    ),
}


@pytest.mark.parametrize(("given", "expected"), COUNTED.values(), ids=COUNTED)
def test_a_providers_usage_is_read(given: Any, expected: Usage) -> None:
    assert usage_of(given) == expected


@pytest.mark.parametrize("name", ["anthropic", "openai", "responses", "gemini"])
def test_no_token_is_lost_or_counted_twice(name: str) -> None:
    given: dict[str, Any] = COUNTED[name][0]  # type: ignore[assignment]
    beside = {"cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens", "output_tokens"}
    total = given.get("total_tokens") or given.get("totalTokenCount") or sum(given[key] for key in beside)

    assert usage_of(given).total == total


@pytest.mark.parametrize("bad", [-1, 1.5, "7", True, 10**13])
@pytest.mark.parametrize("name", ["input", "output_tokens", "prompt_tokens", "promptTokenCount"])
def test_a_count_that_cannot_be_right_is_refused_by_name(bad: Any, name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        usage_of({name: bad})


@pytest.mark.parametrize("cost", [-0.1, float("nan"), float("inf"), "1", True])
def test_a_cost_that_cannot_be_right_is_refused(cost: Any) -> None:
    with pytest.raises(InvalidArgument, match="cost"):
        usage_of(Usage(1, cost=cost))


@pytest.mark.parametrize("given", [{"in": 1}, {"input": 1, "tokens": 2}, {"total_tokens": 9}, [1], "7", None, 7])
def test_a_shape_that_nobody_uses_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="usage"):
        usage_of(given)


def test_the_prompt_is_all_that_was_read() -> None:
    usage = Usage(1, 20, 300, 4000, 7)

    assert (usage.prompt, usage.total) == (4301, 4321)
