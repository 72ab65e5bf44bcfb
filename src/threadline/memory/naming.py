"""What a memory knows of whose it was: taken away when a session is erased. What was learned stays."""

from __future__ import annotations

from typing import Any, TypeVar

from threadline.core import codec
from threadline.core.entries import text
from threadline.memory.rows import ChainRow, EventRow, NodeRow

Named = TypeVar("Named", NodeRow, ChainRow, EventRow)


def quoted(session: bytes) -> bytes:
    """How JSON in a row would name the session."""
    return codec.encode(text(session))


def nameless(row: Named, session: bytes) -> Named:
    """The same row, with nothing in it that names the session."""
    if row.session == session:
        row = row._replace(session=None)
    if isinstance(row, EventRow):
        return row._replace(detail=_told(row.detail, session))
    return row._replace(about=_told(row.about, session))


def _told(json: bytes, session: bytes) -> bytes:
    if quoted(session) not in json:
        return json
    return codec.encode(_without(codec.decode(json), text(session)))


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(inner, name) for key, inner in value.items() if name not in (inner, key)}
    if isinstance(value, list):
        return [_without(inner, name) for inner in value if inner != name]
    return value
