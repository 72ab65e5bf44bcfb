"""What is said of a session: the value that listings give, the tree of a session with all below it, and the check of
what a caller says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from threadline.backends.backend import Record
from threadline.core.codec import check_object
from threadline.core.entries import moment
from threadline.core.spending import Prices, total
from threadline.errors import InvalidArgument


class SessionInfo(Struct, frozen=True):
    """A session as it is now. `messages` and `tokens` are those of the view, `cost` is what it spent by itself,
    `queued` messages wait in its inbox, and `holder` has its lease, if anybody has."""

    id: str
    key: str | None
    title: str | None
    preview: str | None
    agent: str | None
    model: str | None
    provider: str | None
    cwd: str | None
    system: str | None
    tags: tuple[str, ...]
    status: str
    parent: str | None
    depth: int
    lifecycle: str | None
    call_id: str | None
    origin: tuple[str, int] | None
    created_at: datetime
    updated_at: datetime
    head: int
    messages: int
    tokens: int
    cost: float | None
    pending: int
    queued: int
    holder: str | None
    meta: dict[str, Any]


class Tree(Struct, frozen=True):
    """A session with all below it. Iterating gives each, itself first, and a parent before its children."""

    info: SessionInfo
    children: list[Tree]

    def __iter__(self) -> Iterator[SessionInfo]:
        left = [self]
        while left:
            tree = left.pop()
            yield tree.info
            left.extend(reversed(tree.children))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def info_of(record: Record, prices: Prices) -> SessionInfo:
    _, id, key, about, status, state, created_at, updated_at, queued, holder, spent = record
    return SessionInfo(
        id,
        key,
        about.shown_title,
        about.preview,
        about.agent,
        about.model,
        about.provider,
        about.cwd,
        about.system,
        about.tags,
        status,
        about.parent,
        about.depth,
        about.lifecycle,
        about.call_id,
        about.origin,
        moment(created_at),
        moment(updated_at),
        state.head,
        state.messages,
        state.tokens,
        total(spent, prices).cost if spent else 0.0,
        state.pending,
        queued,
        holder,
        about.meta,
    )


def check_about(fields: dict[str, Any], meta: dict[str, Any] | None) -> dict[str, Any]:
    """The fields as they are stored. Raises InvalidArgument, naming the one that is wrong."""
    if meta is not None:
        check_object(meta, "meta")
    for name in ("title", "agent", "model", "provider", "system"):
        if not isinstance(fields.get(name), str | None):
            raise InvalidArgument(f"{name} is text or None, not {fields[name]!r}")
    if (cwd := fields.get("cwd")) is not None:
        if not isinstance(cwd, str | os.PathLike):
            raise InvalidArgument(f"cwd is a path or None, not {cwd!r}")
        fields = fields | {"cwd": os.path.abspath(os.path.expanduser(os.fspath(cwd)))}
    return fields
