"""What only async can promise here: no thread waits, and a cancellation leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import threadline
from threadline import AsyncSession, LeaseHeld
from threadline.aio.leases import AsyncLease
from threadline.aio.threads import Threads

PATIENCE_S = 30.0
HOUR_S = 3600.0


async def seqs(session: AsyncSession, upto: int) -> list[int]:
    got = []
    async for entry in session.follow(timeout=PATIENCE_S):
        got.append(entry.seq)
        if entry.seq == upto:
            break
    return got


def test_a_thousand_followers_take_no_thread_each(path: Path) -> None:
    async def main() -> tuple[list[list[int]], int]:
        async with threadline.aopen(path, durability="relaxed") as store:
            session = await store.new()
            tasks = [asyncio.create_task(seqs(session, 3)) for _ in range(1_000)]
            await asyncio.sleep(0.1)
            for n in range(3):
                await session.append(f"m{n}")
            threads = threading.active_count()
            return await asyncio.gather(*tasks), threads

    got, threads = asyncio.run(main())

    assert got == [[1, 2, 3]] * 1_000
    assert threads < 40


def test_a_follower_that_is_cancelled_loses_nothing(path: Path) -> None:
    async def main() -> list[int]:
        async with threadline.aopen(path, durability="relaxed") as store:
            session = await store.new()
            follow = session.follow(timeout=PATIENCE_S)
            got: list[int] = []
            writing = asyncio.create_task(write(session))
            while len(got) < 50:
                try:
                    got.append((await asyncio.wait_for(anext(follow), 0.001)).seq)
                except TimeoutError:
                    continue
            await writing
            return got

    async def write(session: AsyncSession) -> None:
        for n in range(50):
            await session.append(f"m{n}")
            await asyncio.sleep(0.001)

    assert asyncio.run(main()) == list(range(1, 51))


def test_followers_end_with_their_store(path: Path) -> None:
    async def main() -> tuple[list[int], list[str]]:
        store = await threadline.aopen(path)
        session = await store.new()

        async def changes() -> list[str]:
            return [info.id async for info in store.follow()]

        tasks = asyncio.create_task(seqs(session, 9)), asyncio.create_task(changes())
        await asyncio.sleep(0.05)
        await store.close()
        return await tasks[0], await tasks[1]

    assert asyncio.run(main()) == ([], [])


def test_waiting_for_a_lease_takes_no_thread(path: Path) -> None:
    """More waiters than there are threads, and the holder can still write and give it back."""

    async def main() -> int:
        async with threadline.aopen(path, durability="relaxed") as store:
            session = await store.new()

            async def turn(n: int) -> None:
                async with session.lease(f"worker-{n}", ttl=HOUR_S, wait=PATIENCE_S) as lease:
                    await session.append(f"m{n}", lease=lease)

            async with session.lease("first", ttl=HOUR_S) as lease:
                tasks = [asyncio.create_task(turn(n)) for n in range(40)]
                await asyncio.sleep(0.05)
                await session.append("mine", lease=lease)
            await asyncio.gather(*tasks)
            return await session.head

    assert asyncio.run(main()) == 41


def test_who_is_cancelled_while_waiting_for_a_lease_holds_none(path: Path) -> None:
    async def main() -> None:
        async with threadline.aopen(path, durability="relaxed") as store:
            session = await store.new()
            for _ in range(20):
                task = asyncio.create_task(take(session))
                await asyncio.sleep(0.0005)
                task.cancel()
                await asyncio.wait({task})
                if task.cancelled():
                    async with session.lease("after", ttl=HOUR_S):
                        pass
                else:
                    await (await task).release()

    async def take(session: AsyncSession) -> AsyncLease:
        return await session.lease("cancelled", ttl=HOUR_S)

    asyncio.run(main())


def test_a_cancelled_stream_leaves_its_text(path: Path) -> None:
    async def main() -> list[tuple[str, bool]]:
        async with threadline.aopen(path) as store:
            session = await store.new()
            task = asyncio.create_task(stream(session))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.wait({task})
            return [(draft.text, draft.interrupted) for draft in await session.drafts]

    async def stream(session: AsyncSession) -> None:
        async with session.draft() as d:
            await d.write("so far")
            await asyncio.sleep(PATIENCE_S)

    assert asyncio.run(main()) == [("so far", True)]


def test_a_token_is_no_hop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hops = []
    run = Threads.run

    async def main() -> int:
        async with threadline.aopen(path) as store:
            session = await store.new()
            async with session.draft() as d:
                monkeypatch.setattr(Threads, "run", lambda self, call: hops.append(call) or run(self, call))
                for _ in range(1_000):
                    await d.write("token ")
                return len(hops)

    assert asyncio.run(main()) == 1  # 6,000 bytes: one flush


def test_a_lease_of_the_async_api_serves_it_everywhere(path: Path) -> None:
    async def main() -> list[str]:
        async with threadline.aopen(path) as store:
            session = await store.new()
            lease = await session.lease("worker", ttl=HOUR_S)
            with pytest.raises(LeaseHeld):
                await session.append("no")
            async with session.batch(lease=lease) as b:
                b.append("one")
            async with session.draft(lease=lease) as d:
                await d.write("two")
            await session.enqueue("three")
            await session.take(lease=lease)
            await lease.renew()
            await lease.release()
            return [message.text for message in await session.messages()]

    assert asyncio.run(main()) == ["one", "two", "three"]
