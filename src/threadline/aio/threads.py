"""The threads that do the work of the async API, one hop a call, and what hops to them."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from threadline.errors import Closed

P = ParamSpec("P")
T = TypeVar("T")
Plain = TypeVar("Plain")
Opened = TypeVar("Opened", bound=AbstractAsyncContextManager[Any])
THREADS = 16  # SQLite writes one at a time: more threads only make the shared commits larger


class Threads:
    """The threads that do the work. They belong to the store, not to an event loop, and are made when first used."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0
        self._closed = False

    async def run(self, call: Callable[[], T]) -> T:
        job = self._threads().submit(contextvars.copy_context().run, call)
        done = asyncio.wrap_future(job)
        cancelled: asyncio.CancelledError | None = None
        while not done.done():
            try:
                await asyncio.wait({done})
            except asyncio.CancelledError as error:
                if job.cancel():  # still queued: nothing was written, and nothing will be
                    raise
                cancelled = error
        if cancelled is not None:
            done.exception()  # retrieved, so that no warning hides it; the caller re-reads the head
            raise cancelled
        return done.result()

    def _threads(self) -> ThreadPoolExecutor:
        if self._closed:
            raise Closed
        if self._pool is None or self._pid != os.getpid():  # threads do not survive a fork
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="threadline")
            self._pid = os.getpid()
        return self._pool

    def close(self) -> None:
        self._closed = True
        if self._pool is not None and self._pid == os.getpid():
            self._pool.shutdown(wait=False)


class Handle(Generic[Plain]):
    """An object of the sync API, and the threads that its calls hop to."""

    def __init__(self, plain: Plain, threads: Threads) -> None:
        self._plain = plain
        self._threads = threads

    def __repr__(self) -> str:
        return f"<Async{repr(self._plain)[1:]}"


def awaited(
    method: Callable[Concatenate[Plain, P], T],
) -> Callable[Concatenate[Handle[Plain], P], Coroutine[Any, Any, T]]:
    """The same method of an async object: one hop."""

    @wraps(method)
    async def call(self: Handle[Plain], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._threads.run(partial(method, self._plain, *args, **kwargs))

    return call


class AsyncOpening(Generic[Opened]):
    """Something that is opened by awaiting it, or at the beginning of an `async with` block that closes it."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._start = start

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._start().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._start()
        return self._opened

    async def __aexit__(self, *exc: Any) -> None:
        await self._opened.__aexit__(*exc)
