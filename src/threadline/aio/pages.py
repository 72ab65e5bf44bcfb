"""Entries and sessions in pages: a hop per page, never one per row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from threadline.aio.threads import Threads
from threadline.core.entries import Entry
from threadline.core.reading import Entries
from threadline.errors import Damaged
from threadline.info import SessionInfo
from threadline.store import Page

PAGE = 256


class AsyncEntries(AsyncIterator[Entry]):
    """The raw log: a hop per page, never one per entry."""

    def __init__(self, start: Callable[[], Entries], threads: Threads) -> None:
        self._start = start
        self._threads = threads
        self._source: Entries | None = None
        self._ready: list[Entry | Damaged] = []
        self._ended = False

    async def __anext__(self) -> Entry:
        if not self._ready and not self._ended:
            self._ready = (await self._threads.run(self._page))[::-1]
        if not self._ready:
            raise StopAsyncIteration
        item = self._ready.pop()
        if isinstance(item, Damaged):
            raise item
        return item

    def _page(self) -> list[Entry | Damaged]:
        self._source = self._source or self._start()
        page = page_of(self._source)
        self._ended = len(page) < PAGE
        return page


def page_of(entries: Entries) -> list[Entry | Damaged]:
    """The next entries, damaged ones in their turn."""
    page: list[Entry | Damaged] = []
    while len(page) < PAGE:
        try:
            page.append(next(entries))
        except Damaged as damaged:
            page.append(damaged)
        except StopIteration:
            break
    return page


class AsyncPage:
    """One page of sessions; `async for` goes on through all pages that follow."""

    def __init__(self, page: Page, threads: Threads) -> None:
        self.items = page.items
        self.next = page.next
        self._page = page
        self._threads = threads

    async def __aiter__(self) -> AsyncIterator[SessionInfo]:
        page: Page | None = self._page
        while page is not None:
            for info in page.items:
                yield info
            page = await self._threads.run(page.following)


class AsyncPages:
    """A listing that is awaited for its first page, or walked with `async for`."""

    def __init__(self, start: Callable[[], Page], threads: Threads) -> None:
        self._start = start
        self._threads = threads

    def __await__(self) -> Generator[Any, None, AsyncPage]:
        return self._first().__await__()

    async def __aiter__(self) -> AsyncIterator[SessionInfo]:
        async for info in await self._first():
            yield info

    async def _first(self) -> AsyncPage:
        return AsyncPage(await self._threads.run(self._start), self._threads)
