"""Followers on an event loop, woken by the hub's thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import suppress
from typing import Any

from threadline.aio.pages import PAGE, page_of
from threadline.aio.threads import Threads
from threadline.backends.backend import Ref
from threadline.core.entries import Entry
from threadline.core.spending import Prices
from threadline.errors import Damaged
from threadline.following import ENDS, Changes, Follow, Hub
from threadline.info import SessionInfo, info_of


class AsyncFollow(AsyncIterator[Entry]):
    """The entries of a session as they are written: a hop per page, and none while it waits."""

    def __init__(self, follow: Follow, threads: Threads) -> None:
        self._follow = follow
        self._threads = threads
        self._ready: list[Entry | Damaged] = []

    async def __anext__(self) -> Entry:
        follow = self._follow
        follow.patience.renew()
        try:
            if not self._ready:
                with Wakeup(follow.hub, follow.session._ref, follow.after) as wakeup:
                    while not (ready := await self._threads.run(self._page)):
                        await wakeup.came(follow.patience.left_s)
                self._ready = ready[::-1]
        except (TimeoutError, *ENDS):
            raise StopAsyncIteration from None
        item = self._ready.pop()
        if isinstance(item, Damaged):
            follow.after = max(follow.after, item.seq or 0)
            raise item
        follow.after = item.seq
        return item

    def _page(self) -> list[Entry | Damaged]:
        self._follow.hub.must_be_open()
        return page_of(self._follow.session.entries(after=self._follow.after, limit=PAGE))


class AsyncChanges(AsyncIterator[SessionInfo]):
    """Sessions as they change: from the moment when it is awaited, or from its first step on."""

    def __init__(self, start: Callable[[], Changes], prices: Prices, threads: Threads) -> None:
        self._start = start
        self._prices = prices
        self._threads = threads
        self._changes: Changes | None = None

    def __await__(self) -> Generator[Any, None, AsyncChanges]:
        return self._started().__await__()

    async def _started(self) -> AsyncChanges:
        self._changes = self._changes or await self._threads.run(self._start)
        return self

    async def __anext__(self) -> SessionInfo:
        await self._started()
        changes = self._changes
        assert changes is not None
        changes.patience.renew()
        try:
            with Wakeup(changes.hub, None, 0) as wakeup:
                while not await self._threads.run(changes.look):
                    await wakeup.came(changes.patience.left_s)
            return info_of(changes.next_ready(), self._prices)
        except (TimeoutError, *ENDS):
            raise StopAsyncIteration from None


class Wakeup:
    """How the hub, on its own thread, wakes somebody who waits on an event loop."""

    def __init__(self, hub: Hub, ref: Ref | None, seen: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._waiting = hub.waiting(ref, seen, self._wake)

    def __enter__(self) -> Wakeup:
        self._waiting.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._waiting.__exit__(*exc)

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop was closed, and its follower with it
            self._loop.call_soon_threadsafe(self._event.set)

    async def came(self, timeout_s: float | None) -> None:
        """Raises TimeoutError if nothing came for so long."""
        await asyncio.wait_for(self._event.wait(), timeout_s)
        self._event.clear()
