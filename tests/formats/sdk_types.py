"""The providers' own types, made to judge dicts strictly: every field known, every list walked.

The SDKs declare `Iterable`, which pydantic checks only as far as somebody reads it, and let unknown fields pass."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import IO, Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter
from typing_extensions import ReadOnly, TypedDict, is_typeddict

Judge = Callable[[list[dict[str, Any]]], Any]


def strict(hint: Any) -> Any:
    """The same type with lists for iterables and closed dicts all the way down."""
    if is_typeddict(hint):
        return _closed(hint)
    origin, inside = get_origin(hint), get_args(hint)
    if origin is None or origin is Literal:
        return hint
    if origin is Annotated:
        return strict(inside[0])
    if origin in (Required, NotRequired, ReadOnly):
        return origin[strict(inside[0])]
    if origin in (Union, types.UnionType):
        return Union[tuple(map(strict, _plain_choices(hint)))]  # noqa: UP007
    if origin in (Iterable, Sequence, list) or getattr(origin, "__name__", "") == "SequenceNotStr":
        return list[strict(inside[0])]  # type: ignore[misc]
    if origin is dict:
        return dict[inside[0], strict(inside[1])]  # type: ignore[misc, valid-type]
    return hint


def _plain_choices(hint: Any) -> list[Any]:
    """What of a union is plain JSON: no files, no models."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _plain_choices(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return [choice for inner in get_args(hint) for choice in _plain_choices(inner)]
    live = origin in (IO, os.PathLike) or (isinstance(hint, type) and issubclass(hint, BaseModel))
    return [] if live else [hint]


@cache
def _closed(declared: Any) -> Any:
    hints = get_type_hints(declared, include_extras=True)
    required = declared.__required_keys__
    fields = {name: _field(strict(hint), name in required) for name, hint in hints.items()}
    closed = TypedDict(declared.__name__, fields)  # type: ignore[operator]
    closed.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return closed


def _field(hint: Any, required: bool) -> Any:
    bare = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
    return Required[bare] if required else NotRequired[bare]


@cache
def judge(format: str) -> Judge:
    """A function that raises unless the provider's SDK would take these dicts."""
    if format == "gemini":
        from google.genai import types as gemini

        return lambda dicts: [gemini.Content.model_validate(given) for given in dicts]
    return TypeAdapter(list[strict(_param(format))]).validate_python  # type: ignore[misc]


def _param(format: str) -> Any:
    if format == "anthropic":
        from anthropic.types import MessageParam

        return MessageParam
    if format == "openai":
        from openai.types.chat import ChatCompletionMessageParam

        return ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam

    return ResponseInputItemParam
