"""Models: objects in which the providers' SDKs hand out messages, and the plain data that they carry.

They are told by their method `model_dump`, which is pydantic's: no SDK is imported to know its objects."""

from __future__ import annotations

from base64 import b64encode
from operator import is_
from typing import Any, Protocol

_LEAVES = frozenset({str, int, float, bool, type(None)})  # most of what there is: asked first


class Model(Protocol):
    """An object of a provider's SDK, such as `response.choices[0].message`."""

    def model_dump(self) -> dict[str, Any]: ...


def plain(value: Any) -> Any:
    """The same with each model, at any depth, as the JSON that its provider sent; itself where there is none."""
    if type(value) in _LEAVES:
        return value
    if isinstance(value, dict):
        made = {name: plain(inner) for name, inner in value.items()}
        return value if all(made[name] is inner for name, inner in value.items()) else made
    if isinstance(value, list | tuple):
        items = [plain(inner) for inner in value]
        return value if all(map(is_, items, value)) else items
    return _dumped(value) if hasattr(type(value), "model_dump") else value


def _dumped(model: Any) -> Any:
    """Names as on the wire, and only the fields that came: a null that nobody sent is not sent back."""
    json, python = (model.model_dump(mode=mode, **_AS_SENT) for mode in ("json", "python"))
    return _with_bytes(json, python)


_AS_SENT: dict[str, Any] = {"by_alias": True, "exclude_unset": True, "warnings": False}


def _with_bytes(json: Any, python: Any) -> Any:
    """Bytes in the base64 of providers: Google's SDK dumps them in another alphabet than its server speaks."""
    if isinstance(python, bytes):
        return b64encode(python).decode("ascii")
    if isinstance(json, dict) and isinstance(python, dict):
        return {name: _with_bytes(inner, python.get(name)) for name, inner in json.items()}
    if isinstance(json, list) and isinstance(python, list | tuple):
        return list(map(_with_bytes, json, python))
    return json


def name_of(value: Any) -> str:
    """The name of a value's type, with its package: SDKs have a Message and a Usage, too."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
