"""The formats, each loaded when it is first asked for: most processes speak to one provider."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from threadline.errors import InvalidArgument

THREADLINE, ANTHROPIC, OPENAI, RESPONSES, GEMINI = FORMATS = (
    "threadline",
    "anthropic",
    "openai",
    "responses",
    "gemini",
)


def format_of(name: Any) -> ModuleType:
    """The module that reads, writes and judges a format. Raises InvalidArgument for one that we do not know."""
    return _loaded(check_format(name))


@cache
def _loaded(name: str) -> ModuleType:
    return import_module(f"threadline.formats.{name}")


def check_format(name: Any) -> str:
    if not isinstance(name, str) or name not in FORMATS:
        raise InvalidArgument(f"unknown format {name!r}: use one of {', '.join(FORMATS)}")
    return name
