"""Following: entries as they are written, and sessions as they change, by whomever.

A follower reads, and when there is nothing left it waits until the store's hub wakes it. The hub is one thread for all
followers of a store: when something was committed it looks once at the heads of all that is followed. It runs only
while somebody waits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple

from threadline.backends.backend import Backend, Record, Ref
from threadline.core.entries import Entry
from threadline.core.reading import Entries
from threadline.errors import Closed, Damaged, InvalidArgument, NotFound, ThreadlineError
from threadline.pen import is_number

if TYPE_CHECKING:
    from threadline.session import Session

IDLE_S = 1.0  # the hub ends when nobody waited for so long
BREATH_S = 0.001  # between two looks: a store that is written all the time does not keep the hub busy all the time
ENDS = (Closed, NotFound)  # what a follower meets when the store is closed or the session deleted: it is over


class Waiter(NamedTuple):
    """Somebody who waits: for entries after `seen` of one session, or, without one, for any change."""

    ref: Ref | None
    seen: int
    wake: Callable[[], None]


class Hub:
    """Wakes those who wait for changes of a store."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._waiters: dict[int, Waiter] = {}
        self._running = False
        self.closed = False

    @contextmanager
    def waiting(self, ref: Ref | None, seen: int, wake: Callable[[], None]) -> Iterator[None]:
        """Within the block `wake` is called, from another thread, when there is something to see, or at the end of all.

        What was committed before the block began may go unnoticed: look once more inside it before waiting."""
        if self._pid != os.getpid():  # threads do not survive a fork
            self._renew()
        waiter = Waiter(ref, seen, wake)
        with self._mutex:
            if self.closed:
                raise Closed
            self._waiters[id(waiter)] = waiter
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="threadline-follow", daemon=True).start()
        try:
            yield
        finally:
            with self._mutex:
                self._waiters.pop(id(waiter), None)

    def must_be_open(self) -> None:
        """Those who wait are woken before the backend closes: it would not tell them yet that it is over."""
        if self.closed:
            raise Closed

    def close(self) -> None:
        if self._pid != os.getpid():
            self._renew()
        with self._mutex:
            self.closed = True
            waiters = list(self._waiters.values())
        for waiter in waiters:
            waiter.wake()

    def _run(self) -> None:
        idle_since = monotonic()
        while True:
            try:
                if self._backend.await_change(IDLE_S):
                    self._look()
                    sleep(BREATH_S)
            except ThreadlineError:  # those who wait shall meet it themselves
                self._wake(lambda waiter: True)
                sleep(BREATH_S * 100)
            with self._mutex:
                if self._waiters:
                    idle_since = monotonic()
                if self.closed or monotonic() - idle_since > IDLE_S:
                    self._running = False
                    self._backend.stop_awaiting()
                    return

    def _look(self) -> None:
        with self._mutex:
            refs = list({w.ref.number: w.ref for w in self._waiters.values() if w.ref is not None}.values())
        heads = self._backend.heads(refs) if refs else []
        found = {ref.number: head for ref, head in zip(refs, heads, strict=True)}
        self._wake(lambda waiter: waiter.ref is None or _is_news(found.get(waiter.ref.number, 0), waiter.seen))

    def _wake(self, chosen: Callable[[Waiter], bool]) -> None:
        with self._mutex:
            waiters = [waiter for waiter in self._waiters.values() if chosen(waiter)]
        for waiter in waiters:
            waiter.wake()


def _is_news(head: int | None, seen: int) -> bool:
    """Also that the session is gone."""
    return head is None or head > seen


class Patience:
    """How long a follower waits for the next thing: so many seconds each time, or for ever."""

    def __init__(self, timeout: float | None) -> None:
        if timeout is not None and not (is_number(timeout) and timeout >= 0):
            raise InvalidArgument(
                f"timeout is a number of seconds from 0 on, or None to wait for ever, not {timeout!r}"
            )
        self._timeout = timeout
        self.renew()

    def renew(self) -> None:
        """From now on, the whole time again."""
        self._ends_at = None if self._timeout is None else monotonic() + self._timeout

    @property
    def left_s(self) -> float | None:
        return None if self._ends_at is None else max(0.0, self._ends_at - monotonic())


class Follow(Iterator[Entry]):
    """The entries of a session after one, those to come included. Ends as `Session.follow` says.

    A damaged entry raises Damaged in its turn; `next()` then goes on with the one after it."""

    def __init__(self, session: Session, after: int, timeout: float | None) -> None:
        self.session = session
        self.after = after
        self.patience = Patience(timeout)
        self.hub = session._store._hub
        self._entries = Entries.none()

    def __repr__(self) -> str:
        return f"<Follow of {self.session!r} after entry {self.after}>"

    def __next__(self) -> Entry:
        self.patience.renew()
        try:
            while (entry := self._read()) is None:
                if not self._wait():
                    raise StopIteration
            return entry
        except ENDS:
            raise StopIteration from None

    def _read(self) -> Entry | None:
        try:
            entry = next(self._entries, None)
            if entry is None:
                self._entries = self.session.entries(after=self.after)
                entry = next(self._entries, None)
        except Damaged as damaged:
            self.after = max(self.after, damaged.seq or 0)
            raise
        if entry is not None:
            self.after = entry.seq
        return entry

    def _wait(self) -> bool:
        """Whether there is more to read."""
        rung = threading.Event()
        with self.hub.waiting(self.session._found(), self.after, rung.set):
            while not self.is_news():
                if not rung.wait(self.patience.left_s):
                    return False
                rung.clear()
        return True

    def is_news(self) -> bool:
        """Raises Closed or NotFound when it is all over."""
        self.hub.must_be_open()
        return self.session.head > self.after


class Changes(Iterator[Record]):
    """The sessions of a store as they change, from now on. One that changed twice before it was read comes once."""

    def __init__(
        self, backend: Backend, hub: Hub, namespace: str, now: Callable[[], int], timeout: float | None
    ) -> None:
        self.patience = Patience(timeout)
        self.hub = hub
        self._backend = backend
        self._namespace = namespace
        self._now = now
        self._ready: list[Record] = []
        _, self._mark = backend.changed(namespace, None, now())

    def __next__(self) -> Record:
        self.patience.renew()
        try:
            rung = threading.Event()
            while not self.look():
                with self.hub.waiting(None, 0, rung.set):
                    if not self.look() and not rung.wait(self.patience.left_s):
                        raise StopIteration
                rung.clear()
            return self.next_ready()
        except ENDS:
            raise StopIteration from None

    def look(self) -> bool:
        """Whether something changed. Raises Closed when it is all over."""
        self.hub.must_be_open()
        if not self._ready:
            found, self._mark = self._backend.changed(self._namespace, self._mark, self._now())
            self._ready = found[::-1]
        return bool(self._ready)

    def next_ready(self) -> Record:
        return self._ready.pop()
