"""A lease, taken and given back without holding a thread while it waits."""

from __future__ import annotations

import asyncio

from threadline.aio.threads import Threads
from threadline.leases import Holding, Lease, Terms, Turn
from threadline.session import Session


class AsyncLease(Holding):
    """A Lease whose methods are awaited."""

    def __init__(self, lease: Lease, threads: Threads) -> None:
        super().__init__(lease.session, lease._hold)
        self._lease = lease
        self._threads = threads

    async def renew(self) -> None:
        await self._threads.run(self._lease.renew)
        self.until = self._lease.until

    async def release(self) -> None:
        await self._threads.run(self._lease.release)

    async def __aenter__(self) -> AsyncLease:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.release()


async def leased(session: Session, threads: Threads, asked: Terms) -> AsyncLease:
    """Waiting takes no thread: between two attempts it sleeps on the event loop."""
    ref = await threads.run(session._ensured)
    taken: list[Lease] = []
    with Turn(session._backend, ref, asked) as turn:
        try:
            while not taken:
                await threads.run(lambda: taken.extend(turn.attempt()))
                if not taken:
                    await asyncio.sleep(turn.pause_s)
        except asyncio.CancelledError:
            for lease in taken:  # it was granted in the very moment of the cancellation
                await threads.run(lease.release)
            raise
    return AsyncLease(taken[0], threads)
