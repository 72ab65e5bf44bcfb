"""The async facade keeps the same contract, seen through an adapter that waits for each call; and what only async
can promise: cancellation, many event loops, context variables, a hop per page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

import threadline
from threadline import AsyncStore, Closed, Entry, Message, Stale, Store
from threadline.aio.drafts import AsyncDraft, AsyncDraftWriter
from threadline.aio.following import AsyncChanges, AsyncFollow
from threadline.aio.leases import AsyncLease
from threadline.aio.memory import AsyncMemory
from threadline.aio.pages import AsyncEntries, AsyncPage
from threadline.aio.session import AsyncBatch, AsyncSession
from threadline.aio.threads import Threads
from threadline.testing.contract import DurableContract, OpenStore, StoreContract
from threadline.testing.contract.workshop import talk

T = TypeVar("T")


# -- the adapter: async objects seen from synchronous code ---------------------------------------------


class Loop:
    """One event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def wait(self, awaitable: Awaitable[T]) -> T:
        async def waiting() -> T:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(waiting(), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


ASYNC = (
    AsyncStore,
    AsyncSession,
    AsyncPage,
    AsyncBatch,
    AsyncEntries,
    AsyncLease,
    AsyncDraft,
    AsyncDraftWriter,
    AsyncFollow,
    AsyncChanges,
    AsyncMemory,
)


class Waiting:
    """An object of the async API whose every answer is waited for, so that it reads like the synchronous one."""

    def __init__(self, target: Any, loop: Loop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        return self._call(value) if callable(value) else self._plain(value)

    def __enter__(self) -> Any:
        return self._plain(self._target.__aenter__())

    def __exit__(self, *exc: Any) -> Any:
        return self._plain(self._target.__aexit__(*exc))

    def __iter__(self) -> Iterator[Any]:
        steps = aiter(self._target)
        while True:
            try:
                yield self._plain(anext(steps))
            except StopAsyncIteration:
                return

    def _call(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            named = {name: value._target if isinstance(value, Waiting) else value for name, value in kwargs.items()}
            return self._plain(method(*(self._async(a) for a in args), **named))

        return call

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Awaitable):
            value = self._loop.wait(value)
        if isinstance(value, ASYNC):
            return Waiting(value, self._loop)
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        return value

    def _async(self, value: Any) -> Any:
        if isinstance(value, Waiting):
            return value._target
        return partial(asyncio.to_thread, value) if callable(value) else value  # a function here may wait for the loop


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


class TestAsyncFile(StoreContract, DurableContract):
    @pytest.fixture
    def open_store(self, path: Path, loop: Loop) -> OpenStore:
        def opened(**options: Any) -> Store:
            options = {"durability": "relaxed"} | options  # the facade adds no syncs, so nothing is learnt by waiting
            return cast(Store, Waiting(loop.wait(threadline.aopen(path, **options)), loop))

        return opened


# -- only async ----------------------------------------------------------------------------------------


class Gate:
    """A clock that stops every write until it is opened: so a test knows what has started and what is queued."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self._open = threading.Event()

    def __call__(self, message: Message) -> int:
        if message.text.startswith("slow"):
            self.reached.release()
            assert self._open.wait(10)
        return 1

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


async def until(reached: threading.Semaphore) -> None:
    assert await asyncio.to_thread(reached.acquire, timeout=10)


async def texts(session: AsyncSession) -> list[str]:
    return [message.text for message in await session.messages()]


def test_a_started_write_finishes_before_the_cancellation_surfaces(path: Path, gate: Gate) -> None:
    async def main() -> tuple[bool, bool, list[str]]:
        async with threadline.aopen(path, count_tokens=gate) as store:
            session = await store.new()
            task = asyncio.create_task(session.append("slow"))
            await until(gate.reached)
            task.cancel()
            await asyncio.sleep(0.05)
            surfaced_early = task.done()
            gate.open()
            await asyncio.wait({task})
            return surfaced_early, task.cancelled(), await texts(session)

    assert asyncio.run(main()) == (False, True, ["slow"])


def test_a_write_cancelled_again_and_again_still_finishes_first(path: Path, gate: Gate) -> None:
    async def main() -> tuple[bool, bool, list[str]]:
        async with threadline.aopen(path, count_tokens=gate) as store:
            session = await store.new()
            task = asyncio.create_task(session.append("slow"))
            await until(gate.reached)
            for _ in range(5):
                task.cancel()
                await asyncio.sleep(0.01)
            surfaced_early = task.done()
            gate.open()
            await asyncio.wait({task})
            return surfaced_early, task.cancelled(), await texts(session)

    assert asyncio.run(main()) == (False, True, ["slow"])


def test_a_queued_write_that_is_cancelled_never_happens(
    path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.aio.threads.THREADS", 1)

    async def main() -> tuple[bool, list[str]]:
        async with threadline.aopen(path, count_tokens=gate) as store:
            session = await store.new()
            started = asyncio.create_task(session.append("slow"))
            await until(gate.reached)
            queued = asyncio.create_task(session.append("queued"))
            await asyncio.sleep(0.01)
            queued.cancel()
            await asyncio.wait({queued})
            surfaced_at_once = queued.cancelled() and not started.done()
            gate.open()
            await started
            return surfaced_at_once, await texts(session)

    assert asyncio.run(main()) == (True, ["slow"])


def test_a_cancelled_write_that_fails_surfaces_as_cancelled(path: Path, gate: Gate) -> None:
    async def main() -> tuple[bool, int]:
        async with threadline.aopen(path, count_tokens=gate) as store:
            session = await store.new()
            task = asyncio.create_task(session.append("slow", expect=7))
            await until(gate.reached)
            task.cancel()
            gate.open()
            await asyncio.wait({task})
            return task.cancelled(), await session.head

    assert asyncio.run(main()) == (True, 0)


def test_a_timeout_writes_all_or_nothing_and_the_key_tells_which(path: Path, gate: Gate) -> None:
    async def main() -> list[int]:
        async with threadline.aopen(path, count_tokens=gate) as store:
            session = await store.new()
            asyncio.get_running_loop().call_later(0.1, gate.open)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.extend(["slow", "two"], key="k"), 0.05)
            return [entry.seq for entry in await session.extend(["slow", "two"], key="k")] + [await session.head]

    assert asyncio.run(main()) == [1, 2, 2]


def test_a_slow_call_does_not_hold_up_the_event_loop(path: Path, gate: Gate) -> None:
    async def main() -> int:
        async with threadline.aopen(path, count_tokens=gate) as store:
            session = await store.new()
            task = asyncio.create_task(session.append("slow"))
            await until(gate.reached)
            head = await session.head
            gate.open()
            await task
            return head

    assert asyncio.run(main()) == 0


def test_gathered_appends_lose_nothing(path: Path) -> None:
    async def main() -> list[int]:
        async with threadline.aopen(path) as store:
            session = store.session("k")
            entries = await asyncio.gather(*(session.append(f"m{i}") for i in range(100)))
            return sorted(entry.seq for entry in entries)

    assert asyncio.run(main()) == list(range(1, 101))


def test_several_event_loops_share_one_store(path: Path) -> None:
    store = asyncio.run(opened(path))

    async def write(name: str) -> None:
        session = store.session("shared")
        await asyncio.gather(*(session.append(f"{name}{i}") for i in range(20)))

    threads = [threading.Thread(target=lambda n=name: asyncio.run(write(n))) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def read() -> list[str]:
        async with store:
            return await texts(store.session("shared"))

    assert sorted(asyncio.run(read())) == sorted(f"{name}{i}" for name in "abc" for i in range(20))


async def opened(path: Path) -> AsyncStore:
    return await threadline.aopen(path)


def test_a_store_outlives_the_loop_that_opened_it(path: Path) -> None:
    store = asyncio.run(opened(path))

    async def later() -> int:
        async with store:
            return (await store.session("k").append("hi")).seq

    assert asyncio.run(later()) == 1


def test_a_function_that_summarises_may_be_async(path: Path) -> None:
    async def summary(run: list[Message]) -> str:
        await asyncio.sleep(0)
        return f"{len(run)} messages"

    async def main() -> list[str]:
        async with threadline.aopen(path) as store:
            session = await store.new()
            await session.extend(["one", "two"])
            await session.compact(summary, upto=1)
            return await texts(session)

    assert asyncio.run(main()) == ["1 messages", "two"]


def test_context_variables_reach_the_callers_functions(path: Path) -> None:
    request: ContextVar[str] = ContextVar("request")

    async def one(session: AsyncSession, name: str) -> Entry:
        request.set(name)
        return await session.compact(lambda run: f"{request.get()}: {len(run)} messages")

    async def main() -> list[str]:
        async with threadline.aopen(path) as store:
            sessions = [await store.new() for _ in range(3)]
            for session in sessions:
                await session.append("hi")
            await asyncio.gather(*(one(session, f"r{i}") for i, session in enumerate(sessions)))
            return [text for session in sessions for text in await texts(session)]

    assert asyncio.run(main()) == ["r0: 1 messages", "r1: 1 messages", "r2: 1 messages"]


@contextmanager
def counted_hops(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    hops: list[object] = []
    run = Threads.run

    async def counting(self: Threads, call: Callable[[], Any]) -> Any:
        hops.append(call)
        return await run(self, call)

    monkeypatch.setattr(Threads, "run", counting)
    yield hops


def test_iterating_the_log_hops_once_a_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[list[int], int]:
        async with threadline.aopen(path) as store:
            session = await store.new()
            await session.extend(f"m{i}" for i in range(1000))
            with counted_hops(monkeypatch) as hops:
                found = [entry.seq async for entry in session.entries()]
                return found, len(hops)

    found, hops = asyncio.run(main())

    assert found == list(range(1, 1001))
    assert hops <= 5


@pytest.mark.parametrize("call", ["append", "extend", "view", "rewind", "fork", "spawn", "usage", "info", "batch"])
def test_a_call_is_one_hop(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    async def act(session: AsyncSession) -> None:
        match call:
            case "append":
                await session.append("hi")
            case "extend":
                await session.extend(["hi", "ho"])
            case "view":
                await session.view()
            case "rewind":
                await session.rewind(0)
            case "fork":
                await session.fork()
            case "spawn":
                await session.spawn("search", call_id="c1")
            case "usage":
                await session.record_usage(input=1, request_id="r")
            case "info":
                await session.info
            case "batch":
                async with session.batch() as b:
                    b.append("hi")
                    b.append("ho")

    async def main() -> int:
        async with threadline.aopen(path) as store:
            session = await store.new()
            with counted_hops(monkeypatch) as hops:
                await act(session)
                return len(hops)

    assert asyncio.run(main()) == 1


def test_sessions_are_walked_by_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[int, int]:
        async with threadline.aopen(path) as store:
            for _ in range(10):
                await store.new()
            with counted_hops(monkeypatch) as hops:
                found = [info.id async for info in store.sessions(limit=4)]
                return len(set(found)), len(hops)

    found, hops = asyncio.run(main())

    assert found == 10
    assert hops <= 4


def test_an_iteration_may_be_left_early(path: Path) -> None:
    async def main() -> int:
        async with threadline.aopen(path) as store:
            session = await store.new()
            await session.extend(f"m{i}" for i in range(600))
            async for entry in session.entries():
                if entry.seq == 300:
                    break
            await session.append("still writable")
            return await session.head

    assert asyncio.run(main()) == 601


def test_an_exception_in_an_async_batch_writes_nothing(path: Path) -> None:
    async def interrupted(session: AsyncSession) -> None:
        async with session.batch() as b:
            b.append("one")
            raise ZeroDivisionError

    async def main() -> int:
        async with threadline.aopen(path) as store:
            session = await store.new()
            with pytest.raises(ZeroDivisionError):
                await interrupted(session)
            return await session.head

    assert asyncio.run(main()) == 0


def test_a_session_by_key_needs_no_await_to_be_written(path: Path) -> None:
    async def main() -> tuple[str | None, str | None]:
        async with threadline.aopen(path) as store:
            session = store.session("k")
            before = session.id
            await session.append("hi")
            found = await store.find("k")
            return before, found.key if found else None

    assert asyncio.run(main()) == (None, "k")


def test_errors_come_through_as_they_are(path: Path) -> None:
    async def main() -> None:
        async with threadline.aopen(path) as store:
            await store.session("k").append("hi", expect=7)

    with pytest.raises(Stale) as caught:
        asyncio.run(main())

    assert (caught.value.expected, caught.value.found) == (7, 0)


def test_leaving_the_block_closes_the_async_store(path: Path) -> None:
    async def main() -> None:
        async with threadline.aopen(path) as store:
            pass
        await store.new()

    with pytest.raises(Closed):
        asyncio.run(main())


def test_both_apis_may_share_a_file(path: Path) -> None:
    async def main() -> list[str]:
        async with threadline.aopen(path) as store:
            return await texts(store.session("k"))

    with threadline.open(path) as store:
        talk(store.session("k"), 1)

        assert asyncio.run(main()) == ["q1", "a1"]


def test_threads_end_with_their_store(path: Path) -> None:
    async def main() -> None:
        async with threadline.aopen(path) as store:
            await asyncio.gather(*(store.new() for _ in range(8)))

    before = set(threading.enumerate())
    asyncio.run(main())
    ours = [thread for thread in threading.enumerate() if thread not in before and thread.name.startswith("threadline")]
    for thread in ours:
        thread.join(30)

    assert not [thread.name for thread in ours if thread.is_alive()]


def test_an_ephemeral_child_is_gone_when_its_async_block_ends(path: Path) -> None:
    async def main() -> tuple[list[str], int, int]:
        async with threadline.aopen(path) as store:
            session = await store.new()
            async with session.spawn("search", lifecycle="ephemeral") as child:
                await child.append("look for it", usage={"input": 5})
                while_open = [info.agent or "" async for info in store.sessions(parent=session)]
            return while_open, len(await session.children()), (await session.usage()).input

    assert asyncio.run(main()) == (["search"], 0, 5)


def test_the_family_of_an_async_session_is_async(path: Path) -> None:
    async def main() -> tuple[str | None, str | None, list[str]]:
        async with threadline.aopen(path) as store:
            session = await store.new()
            child = await session.spawn("search")
            parent, (again,) = await child.parent, await session.children()
            await again.append("hi")
            return parent.id if parent else None, session.id, await texts(child)

    found, expected, said = asyncio.run(main())

    assert (found, said) == (expected, ["hi"])
