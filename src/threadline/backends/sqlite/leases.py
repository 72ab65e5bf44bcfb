"""Leases inside a write transaction. The clock is the machine's: all that share the file share it."""

from __future__ import annotations

from time import time_ns

from threadline.backends.backend import STATUSES, Ref
from threadline.backends.sqlite.rows import Connection, one, run
from threadline.core import holds
from threadline.core.holds import Hold
from threadline.errors import NotActive, NotFound


def now_us() -> int:
    return time_ns() // 1_000


def take(connection: Connection, ref: Ref, holder: str, ttl_us: int) -> Hold:
    status, hold = held(connection, ref)
    if status:
        raise NotActive(ref.id, STATUSES[status])
    return _set(connection, ref, holds.taken(hold, holder, now_us(), ttl_us))


def renew(connection: Connection, ref: Ref, token: int, ttl_us: int) -> Hold:
    _, hold = held(connection, ref)
    now = now_us()
    holds.check(hold, token, now, ref.id)
    assert hold is not None
    return _set(connection, ref, hold._replace(until=now + ttl_us))


def release(connection: Connection, ref: Ref, token: int) -> None:
    _, hold = held(connection, ref)
    if hold is not None and hold.token == token:
        _set(connection, ref, hold._replace(until=0))


def held(connection: Connection, ref: Ref) -> tuple[int, Hold | None]:
    """The status of a session and its last lease."""
    found = one(connection, "lease", (ref.number,))
    if found is None:
        raise NotFound("session", ref.id)
    return found[0], holds.decode(found[1])


def _set(connection: Connection, ref: Ref, hold: Hold) -> Hold:
    run(connection, "set_lease", (holds.encode(hold), ref.number))
    return hold
