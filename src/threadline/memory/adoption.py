"""What another memory holds, given as mappings, made into rows. What it does not say is what a claim would have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from threadline.core import codec
from threadline.core.entries import micros, moment, stored, text, text_or_none
from threadline.errors import InvalidArgument
from threadline.memory.chains import ACTIVE, PRELIMINARY, STATUSES
from threadline.memory.nodes import CONFIDENCE, LEAF, About, about_bytes, address
from threadline.memory.rows import ChainRow, EventRow, NodeRow, WorkingRow

NAME_CHARS = 512


class Working(Struct, frozen=True):
    """The working memory of a session, or of an agent in it: archived since `ended_at`, if it has ended."""

    session: str
    agent: str | None
    started_at: datetime
    touched_at: datetime
    ended_at: datetime | None = None
    turns: int = 0


class Adoption(Struct, frozen=True):
    """How many nodes were new or changed, and how many were there already, the same."""

    added: int
    unchanged: int


def node_row(scope: bytes, given: Mapping[str, Any], now: int) -> NodeRow:
    content, type = _text(given, "content"), _text(given, "type", LEAF)
    inputs = [_addr(addr) for addr in given.get("inputs", ())]
    at = _time(given, "created_at", now)
    confidence = given.get("confidence", CONFIDENCE)
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise InvalidArgument(f"confidence is a number from 0 to 1, not {confidence!r}")
    about = About(
        confidence=float(confidence),
        priority=int(given.get("priority", 0)),
        reinforced=int(given.get("reinforced", 0)),
        anchors=list(given.get("anchors", ())),
        meta=dict(given.get("meta", {})),
    )
    codec.check_object({"anchors": about.anchors, "meta": about.meta}, "node")
    expires = given.get("expires_at")
    return NodeRow(
        scope=scope,
        addr=address(type, content, inputs),
        type=stored(type),
        active=int(bool(given.get("active", True))),
        created_at=at,
        touched_at=max(at, _time(given, "touched_at", at)),
        expires_at=None if expires is None else micros(expires.astimezone(UTC)),
        promoted_at=None,
        session=_name(given, "session"),
        agent=_name(given, "agent"),
        domain=stored(_text(given, "domain", "", empty=True)),
        inputs=b"".join(inputs),
        about=about_bytes(about),
        content=stored(content),
    )


def chain_row(scope: bytes, given: Mapping[str, Any], now: int) -> ChainRow:
    status = given.get("status", PRELIMINARY if scope else ACTIVE)
    if status not in STATUSES:
        raise InvalidArgument(f"the status of a chain is one of {', '.join(STATUSES)}, not {status!r}")
    at = _time(given, "created_at", now)
    meta = dict(given.get("meta", {}))
    codec.check_object(meta, "meta")
    return ChainRow(
        scope=scope,
        chain=stored(_text(given, "id")),
        name=stored(_text(given, "name")),
        status=stored(status),
        created_at=at,
        extended_at=max(at, _time(given, "extended_at", at)),
        session=_name(given, "session"),
        agent=_name(given, "agent"),
        domain=stored(_text(given, "domain", "", empty=True)),
        members=b"".join(dict.fromkeys(_addr(addr) for addr in given.get("members", ()))),
        about=codec.encode(meta),
    )


def working_row(scope: bytes, working: Working) -> WorkingRow:
    ended = None if working.ended_at is None else micros(working.ended_at.astimezone(UTC))
    times = [micros(at.astimezone(UTC)) for at in (working.started_at, working.touched_at)]
    agent = None if working.agent is None else stored(working.agent)
    return WorkingRow(scope, stored(working.session), agent, times[0], max(times), ended, working.turns, 0)


def working_of(row: WorkingRow) -> Working:
    return Working(
        session=text(row.session),
        agent=text_or_none(row.agent),
        started_at=moment(row.started_at),
        touched_at=moment(row.touched_at),
        ended_at=None if row.ended_at is None else moment(row.ended_at),
        turns=row.turns,
    )


def event_row(given: Mapping[str, Any], now: int) -> EventRow:
    detail = dict(given.get("detail", {}))
    codec.check_object(detail, "detail")
    addrs = b"".join(_addr(addr) for addr in given.get("addrs", ()))
    what = stored(_text(given, "what"))
    at = _time(given, "at", now)
    return EventRow(at, what, _name(given, "session"), _name(given, "agent"), addrs, codec.encode(detail))


def in_line(events: list[EventRow]) -> list[EventRow]:
    """In the order of their times; of one time, each a microsecond after the other, so that none is lost."""
    found: list[EventRow] = []
    for row in sorted(events, key=lambda row: row.number):
        found.append(row._replace(number=max(row.number, found[-1].number + 1 if found else row.number)))
    return found


def _text(given: Mapping[str, Any], name: str, default: str | None = None, *, empty: bool = False) -> str:
    value = given.get(name, default)
    if not isinstance(value, str) or not (value or empty):
        raise InvalidArgument(f"{name} is text that is not empty, not {value!r}")
    return value


def _name(given: Mapping[str, Any], name: str) -> bytes | None:
    value = given.get(name)
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= NAME_CHARS):
        raise InvalidArgument(f"{name} is a name of up to {NAME_CHARS} characters, not {value!r}")
    return None if value is None else stored(value)


def _addr(addr: Any) -> bytes:
    try:
        found = bytes.fromhex(addr)
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"an address is 64 hexadecimal digits, not {addr!r}") from error
    if len(found) != 32:
        raise InvalidArgument(f"an address is 64 hexadecimal digits, not {addr!r}")
    return found


def _time(given: Mapping[str, Any], name: str, default: int) -> int:
    at = given.get(name)
    if at is None:
        return default
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidArgument(f"{name} is an aware datetime, not {at!r}")
    return micros(at.astimezone(UTC))
