"""A lease: the right to write to a session alone, for a while.

It is kept where the data is and judged by the clock there: on SQLite that of the machine, which all of its processes
share. The `clock` of a store only stamps entries. A lease that expired is lost even if nobody took it over."""

from __future__ import annotations

import os
import threading
from collections import deque
from datetime import datetime
from time import monotonic, sleep
from typing import NamedTuple
from weakref import WeakKeyDictionary

from threadline.backends.backend import Backend, Ref
from threadline.core.entries import moment
from threadline.core.holds import Hold
from threadline.errors import InvalidArgument, LeaseHeld
from threadline.pen import check_name, is_number

PAUSE_S = 0.02  # between two looks at a lease that somebody else holds
TTL_MAX_S = 366 * 24 * 3600


class Terms(NamedTuple):
    """What is asked for: who wants the lease, for how long, and how long to wait for it."""

    holder: str
    ttl_us: int
    wait_s: float


def terms(holder: str, ttl: float, wait: float) -> Terms:
    check_name(holder, "holder")
    if not is_number(ttl) or not 0 < ttl <= TTL_MAX_S:
        raise InvalidArgument(f"ttl is a number of seconds above 0, up to a year, not {ttl!r}")
    if not is_number(wait) or wait < 0:
        raise InvalidArgument(f"wait is a number of seconds from 0 on, not {wait!r}")
    return Terms(holder, max(1, round(ttl * 1e6)), wait)


class Holding:
    """The facts of a lease: whose it is, on which session, until when. `token` counts a session's leases."""

    def __init__(self, session: str, hold: Hold) -> None:
        self.session = session
        self._hold = hold
        self.holder = hold.holder
        self.token = hold.token
        self.until: datetime = moment(hold.until)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.holder!r} on {self.session!r} until {self.until:%H:%M:%S}>"


class Lease(Holding):
    """A lease that was taken. Give it to every write as `lease=`; the end of a `with` block gives it back."""

    def __init__(self, backend: Backend, ref: Ref, hold: Hold, ttl_us: int) -> None:
        super().__init__(ref.id, hold)
        self._backend = backend
        self._ref = ref
        self._ttl_us = ttl_us

    def renew(self) -> None:
        """Let it live for its whole ttl from now on. Raises LeaseLost if it is over."""
        self.until = moment(self._backend.renew_lease(self._ref, self.token, self._ttl_us).until)

    def release(self) -> None:
        """Give it back. Nothing happens if it is over already."""
        self._backend.release_lease(self._ref, self.token)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def take(backend: Backend, ref: Ref, terms: Terms) -> Lease:
    """A lease on the session, as soon as it can be had. Raises LeaseHeld when the wait is over."""
    with Turn(backend, ref, terms) as turn:
        while not (taken := turn.attempt()):
            sleep(turn.pause_s)
        return taken[0]


class Turn:
    """A place in the line of those who wait in this process for the lease of one session: first come, first served."""

    def __init__(self, backend: Backend, ref: Ref, terms: Terms) -> None:
        self._backend = backend
        self._ref = ref
        self._terms = terms
        self._ends_at = monotonic() + terms.wait_s
        self.pause_s = PAUSE_S

    def __enter__(self) -> Turn:
        with _mutex:
            self._line = _lines.setdefault(self._backend, {}).setdefault(self._ref.number, deque())
            self._line.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        with _mutex:
            self._line.remove(self)
            if not self._line:
                _lines[self._backend].pop(self._ref.number, None)

    def attempt(self) -> list[Lease]:
        """The lease; or none, and it may be tried again after a pause. Raises LeaseHeld when the wait is over."""
        over = monotonic() >= self._ends_at
        if self._line[0] is not self and not over:
            return []
        try:
            hold = self._backend.take_lease(self._ref, self._terms.holder, self._terms.ttl_us)
        except LeaseHeld:
            if over:
                raise
            self.pause_s = max(0.0, min(PAUSE_S, self._ends_at - monotonic()))
            return []
        return [Lease(self._backend, self._ref, hold, self._terms.ttl_us)]


_lines: WeakKeyDictionary[Backend, dict[int, deque[Turn]]] = WeakKeyDictionary()
_mutex = threading.Lock()


def _in_child() -> None:
    """Nobody waits in a forked child, and whoever held the mutex is not there."""
    global _mutex
    _mutex = threading.Lock()
    _lines.clear()


os.register_at_fork(after_in_child=_in_child)
