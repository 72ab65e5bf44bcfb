"""Arguments of a call: an object for us, JSON text for some providers, free text for some tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any, NoReturn

from threadline.core.codec import DEPTH_MAX


def parsed(text: str) -> dict[str, Any] | str:
    """The object that the text says; the text itself where it does not say one that JSON carries exactly."""
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        return text
    return value if type(value) is dict and not _deep(value, DEPTH_MAX) else text


def _deep(value: Any, levels: int) -> bool:
    """Whether JSON is nested so deep that it cannot be stored as an object."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_deep(item, levels - 1) for item in inner if isinstance(item, dict | list))


def as_object(args: dict[str, Any] | str) -> dict[str, Any]:
    """An object in any case: text that is none becomes its `input`, as freeform tools call it."""
    return {"input": args} if isinstance(args, str) else args


def as_text(args: dict[str, Any] | str) -> str:
    """JSON text of an object in any case, compact as the models write it."""
    return _encode(as_object(args))


def style(text: str, args: dict[str, Any] | str) -> str | None:
    """How `text` writes `args` where `as_text` would not: a name for `styled`; None where there is none."""
    if isinstance(args, str):
        return "text"
    return None if as_text(args) == text else next((name for name in _STYLES if styled(args, name) == text), None)


def styled(args: dict[str, Any] | str, name: Any) -> str:
    if isinstance(args, str):
        return args if name == "text" else as_text(args)
    how = _STYLES.get(name) if isinstance(name, str) else None
    return as_text(args) if how is None else how(args)


def _finite(digits: str) -> float:
    value = float(digits)
    return value if isfinite(value) else _refuse(digits)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")


# Made once: json.loads and json.dumps make theirs anew for every call that asks for anything special.
_decode = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_STYLES: dict[str, Callable[[Any], str]] = {
    "spaced": json.JSONEncoder(ensure_ascii=False).encode,
    "spaced ascii": json.JSONEncoder().encode,
    "compact ascii": json.JSONEncoder(separators=(",", ":")).encode,
}
