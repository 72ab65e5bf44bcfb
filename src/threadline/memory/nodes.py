"""Nodes: claims that are addressed by their content.

An address is a SHA-256 over type, content and inputs, in their order. Metadata stands beside it, is no part of it, and
is only ever added to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from msgspec import Struct

from threadline.core import codec
from threadline.core.entries import moment, stored, text, text_or_none
from threadline.memory.rows import LASTING, NodeRow, split_addrs

LEAF, COMPRESS, SUPERSEDE, ROOT = "leaf", "compress", "supersede", "root"
CONFIDENCE = 0.8
FORMER = "former"  # where a value goes that a later claim says otherwise


class Node(Struct, frozen=True):
    """A claim, or what was made of claims. `addr` is the digest of its type, content and inputs.

    `preliminary` ones belong to a session and are not in the lasting memory. `active` ones are not superseded,
    compressed or stashed. `meta` holds what callers said, and where it comes from."""

    addr: str
    type: str
    content: str
    inputs: tuple[str, ...]
    domain: str
    confidence: float
    preliminary: bool
    session: str | None
    agent: str | None
    created_at: datetime
    meta: dict[str, Any]
    priority: int = 0
    anchors: tuple[dict[str, Any], ...] = ()
    reinforced: int = 0
    active: bool = True
    touched_at: datetime | None = None
    expires_at: datetime | None = None


class About(Struct):
    """What is said of a node besides its content."""

    confidence: float = CONFIDENCE
    priority: int = 0
    reinforced: int = 0
    anchors: list[dict[str, Any]] = []
    domains: list[str] = []
    meta: dict[str, Any] = {}


def address(type: str, content: str, inputs: Sequence[bytes] = ()) -> bytes:
    """Lengths are written out and the order of inputs counts, so that no two nodes read alike."""
    parts = (stored(type), stored(content), *inputs)
    return sha256(b"\0".join(b"%d:%b" % (len(part), part) for part in parts)).digest()


def node_of(row: NodeRow, about: About | None = None) -> Node:
    """As callers see it; what is said of it need not be decoded again where it is known."""
    about = about or about_of(row)
    domain, *others = [name for name in (text(row.domain), *about.domains) if name] or [""]
    meta = {**about.meta, "domains": [domain, *others]} if others else about.meta
    return Node(
        addr=row.addr.hex(),
        type=text(row.type),
        content=text(row.content),
        inputs=tuple(addr.hex() for addr in split_addrs(row.inputs)),
        domain=domain,
        confidence=about.confidence,
        preliminary=row.scope != LASTING and row.promoted_at is None,
        session=text_or_none(row.session),
        agent=text_or_none(row.agent),
        created_at=moment(row.created_at),
        meta=meta,
        priority=about.priority,
        anchors=tuple(about.anchors),
        reinforced=about.reinforced,
        active=bool(row.active),
        touched_at=moment(row.touched_at),
        expires_at=None if row.expires_at is None else moment(row.expires_at),
    )


def about_of(row: NodeRow) -> About:
    return About(**codec.decode(row.about))


def about_bytes(about: About) -> bytes:
    return codec.encode(about)


def in_domain(row: NodeRow, domain: str | None) -> bool:
    return domain is None or text(row.domain) == domain or domain in about_of(row).domains


def is_live(row: NodeRow, now: int) -> bool:
    """Active, and not past its time."""
    return bool(row.active) and (row.expires_at is None or row.expires_at > now)


# -- a second claim ------------------------------------------------------------------------------------


def joined(old: NodeRow, new: NodeRow, *, again: bool = True) -> NodeRow:
    """A node that is there and is claimed again, or promoted into: all of the one and all of the other.

    Confidence and priority are the larger of the two, and it expires at the later time, or never. It is active."""
    mine, other = about_of(old), about_of(new)
    domains = [text(new.domain)] if new.domain not in (b"", old.domain) else []
    about = About(
        confidence=max(mine.confidence, other.confidence),
        priority=max(mine.priority, other.priority),
        reinforced=mine.reinforced + other.reinforced + (1 if again else 0),
        anchors=_union(mine.anchors, other.anchors),
        domains=_union(_union(mine.domains, domains), other.domains),
        meta=merged(mine.meta, other.meta),
    )
    expires = None if None in (old.expires_at, new.expires_at) else max(old.expires_at or 0, new.expires_at or 0)
    return old._replace(
        active=1,
        touched_at=max(old.touched_at, new.touched_at),
        expires_at=expires,
        promoted_at=None,
        session=old.session if old.session is not None else new.session,
        agent=old.agent if old.agent is not None else new.agent,
        about=about_bytes(about),
    )


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """All names and values of both. Where they disagree the new value stands, and the old one goes to `former`."""
    if not old or not new:
        return dict(old or new)
    result = dict(old)
    former: dict[str, Any] = dict(old.get(FORMER, {})) if isinstance(old.get(FORMER), dict) else {}
    for name, value in new.items():
        known = result.get(name)
        if name not in result or known == value:
            result[name] = value
        elif isinstance(known, dict) and isinstance(value, dict):
            result[name] = merged(known, value)
        elif isinstance(known, list) and isinstance(value, list):
            result[name] = _union(known, value)
        else:
            former[name] = _union(former.get(name, []), [known])
            result[name] = value
    if former:
        result[FORMER] = merged(result.get(FORMER, {}), former)
    return result


def _union(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old, *(value for value in new if value not in old)]
