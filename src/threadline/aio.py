"""The async API: the same names, awaited. Each call is one hop to a thread of the store's own.

A transaction is one plain function on one thread, so it can never span an await. A call that has started always
finishes: if its caller is cancelled meanwhile, CancelledError surfaces after it. A call still queued never happens."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadline.backends.backend import ACTIVE
from threadline.core.about import LINKED
from threadline.core.compaction import Plan
from threadline.core.entries import Entry
from threadline.core.reading import Entries
from threadline.core.spending import PriceTable
from threadline.core.usage import UsageLike
from threadline.errors import Closed, Damaged
from threadline.messages import Message
from threadline.session import Batch, PendingCall, Session, SessionInfo
from threadline.store import MAX_DEPTH, Clock, Page, Store
from threadline.store import open as open_store

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 16  # SQLite writes one at a time: more threads only make the shared commits larger
PAGE = 256


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


def in_session(
    method: Callable[Concatenate[Session, P], T],
) -> Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: AsyncSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._threads.run(partial(method, self._session, *args, **kwargs))

    return call


def in_store(
    method: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[AsyncStore, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._threads.run(partial(method, self._store, *args, **kwargs))

    return call


class AsyncSession:
    """A Session whose methods are awaited. See Session for what each promises."""

    def __init__(self, session: Session, threads: Threads) -> None:
        self._session = session
        self._threads = threads

    def __repr__(self) -> str:
        return f"<Async{repr(self._session)[1:]}"

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        """`await store.session(key)` looks it up; without await the first call does."""
        return self._looked_up().__await__()

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._threads.run(self._session.__exit__)

    async def _looked_up(self) -> AsyncSession:
        if self._session.id is None:
            await self._threads.run(self._session._found)
        return self

    @property
    def id(self) -> str | None:
        return self._session.id

    @property
    def key(self) -> str | None:
        return self._session.key

    @property
    def head(self) -> Coroutine[Any, Any, int]:
        return self._threads.run(lambda: self._session.head)

    @property
    def info(self) -> Coroutine[Any, Any, SessionInfo]:
        return self._threads.run(lambda: self._session.info)

    @property
    def parent(self) -> Coroutine[Any, Any, AsyncSession | None]:
        return self._parent()

    async def _parent(self) -> AsyncSession | None:
        found = await self._threads.run(lambda: self._session.parent)
        return None if found is None else AsyncSession(found, self._threads)

    @property
    def pending(self) -> Coroutine[Any, Any, list[PendingCall]]:
        return self._threads.run(lambda: self._session.pending)

    @property
    def unanswered(self) -> Coroutine[Any, Any, Entry | None]:
        return self._threads.run(lambda: self._session.unanswered)

    append = in_session(Session.append)
    extend = in_session(Session.extend)
    note = in_session(Session.note)
    view = in_session(Session.view)
    messages = in_session(Session.messages)
    replace = in_session(Session.replace)
    originals = in_session(Session.originals)
    expand = in_session(Session.expand)
    rewind = in_session(Session.rewind)
    clear = in_session(Session.clear)
    start_call = in_session(Session.start_call)
    repair = in_session(Session.repair)
    entry = in_session(Session.entry)
    rename = in_session(Session.rename)
    tag = in_session(Session.tag)
    untag = in_session(Session.untag)
    update = in_session(Session.update)
    finish = in_session(Session.finish)
    tree = in_session(Session.tree)
    record_usage = in_session(Session.record_usage)
    usage = in_session(Session.usage)
    requests = in_session(Session.requests)

    async def compact(
        self,
        summary: str | Callable[[list[Message]], str | Awaitable[str]],
        plan: Plan | None = None,
        *,
        upto: int | None = None,
        keep_turns: int | None = None,
        since: int | None = None,
        usage: UsageLike | None = None,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
    ) -> Entry:
        """As Session.compact; a function may be async, and runs on the event loop between reading and writing."""
        if not callable(summary):
            return await self._threads.run(
                partial(
                    self._session.compact,
                    summary,
                    plan,
                    upto=upto,
                    keep_turns=keep_turns,
                    since=since,
                    usage=usage,
                    key=key,
                    expect=expect,
                    at=at,
                )
            )
        if key is not None and (done := await self._threads.run(partial(self._session._compacted, key))) is not None:
            return done
        planning = partial(self._session._planned, plan, since=since, upto=upto, keep_turns=keep_turns)
        planned_at, planned = await self._threads.run(planning)
        text = summary(list(planned.messages))
        told = await text if inspect.isawaitable(text) else text
        folding = partial(self._session._compact_planned, told, planned, planned_at)
        return await self._threads.run(partial(folding, usage=usage, key=key, expect=expect, at=at))

    async def fork(
        self,
        at: int | None = None,
        *,
        key: str | None = None,
        title: str | None = None,
        meta: dict[str, Any] | None = None,
        id: str | None = None,
    ) -> AsyncSession:
        call = partial(self._session.fork, at, key=key, title=title, meta=meta, id=id)
        return AsyncSession(await self._threads.run(call), self._threads)

    async def forks(self) -> list[AsyncSession]:
        return [AsyncSession(fork, self._threads) for fork in await self._threads.run(self._session.forks)]

    def spawn(
        self,
        agent: str | None = None,
        *,
        key: str | None = None,
        call_id: str | None = None,
        lifecycle: str = LINKED,
        model: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> AsyncSpawn:
        """`child = await session.spawn(…)`, or `async with session.spawn(…) as child:`."""
        called = partial(self._session.spawn, agent, key=key, call_id=call_id, lifecycle=lifecycle)
        return AsyncSpawn(partial(called, model=model, meta=meta), self._threads)

    async def children(self) -> list[AsyncSession]:
        return [AsyncSession(child, self._threads) for child in await self._threads.run(self._session.children)]

    def batch(self, *, expect: int | None = None) -> AsyncBatch:
        """`async with session.batch() as b:` — the writes are collected without waiting, and done at the end."""
        return AsyncBatch(self._session.batch(expect=expect), self._threads)

    def entries(
        self,
        after: int = 0,
        before: int | None = None,
        kinds: Iterable[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> AsyncEntries:
        call = partial(self._session.entries, after, before, kinds, limit, reverse)
        return AsyncEntries(call, self._threads)


class AsyncSpawn:
    """A child to be made: awaited, or entered. Leaving the block of an ephemeral one deletes it."""

    def __init__(self, spawn: Callable[[], Session], threads: Threads) -> None:
        self._spawn = spawn
        self._threads = threads
        self._child: AsyncSession | None = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._made().__await__()

    async def __aenter__(self) -> AsyncSession:
        self._child = await self._made()
        return self._child

    async def __aexit__(self, *exc: object) -> None:
        if self._child is not None:
            await self._child.__aexit__(*exc)

    async def _made(self) -> AsyncSession:
        return AsyncSession(await self._threads.run(self._spawn), self._threads)


class AsyncBatch:
    def __init__(self, batch: Batch, threads: Threads) -> None:
        self._batch = batch
        self._threads = threads

    async def __aenter__(self) -> Batch:
        return self._batch

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            await self._threads.run(self._batch.commit)


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
        page: list[Entry | Damaged] = []
        while len(page) < PAGE:
            try:
                page.append(next(self._source))
            except Damaged as damaged:
                page.append(damaged)
            except StopIteration:
                self._ended = True
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


class AsyncStore:
    """A Store whose methods are awaited, from any number of event loops. See Store for what each promises."""

    def __init__(self, store: Store, threads: Threads | None = None) -> None:
        self._store = store
        self._threads = threads or Threads()

    def __repr__(self) -> str:
        return f"<Async{repr(self._store)[1:]}"

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        """`await store.within(…)` reads like everything else, though it has nothing to wait for."""
        return self._ready().__await__()

    async def _ready(self) -> AsyncStore:
        return self

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def namespace(self) -> str:
        return self._store.namespace

    def within(self, namespace: str) -> AsyncStore:
        return AsyncStore(self._store.within(namespace), self._threads)

    async def close(self) -> None:
        if not self._threads._closed:
            await self._threads.run(self._store.close)
            self._threads.close()

    def session(self, key: str, **attributes: Any) -> AsyncSession:
        return AsyncSession(self._store._handle(key, attributes), self._threads)

    async def new(
        self,
        key: str | None = None,
        title: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        system: str | None = None,
        tags: Iterable[str] = (),
        meta: dict[str, Any] | None = None,
        id: str | None = None,
        at: datetime | None = None,
    ) -> AsyncSession:
        call = partial(self._store.new, key, title, agent, model, provider, cwd, system, tags, meta, id, at)
        return AsyncSession(await self._threads.run(call), self._threads)

    async def get(self, session_id: str | Session | AsyncSession) -> AsyncSession:
        found = await self._threads.run(partial(self._store.get, _plain(session_id)))
        return AsyncSession(found, self._threads)

    async def find(self, key: str) -> AsyncSession | None:
        found = await self._threads.run(partial(self._store.find, key))
        return None if found is None else AsyncSession(found, self._threads)

    async def latest(
        self, cwd: str | os.PathLike[str] | None = None, agent: str | None = None, tag: str | None = None
    ) -> AsyncSession | None:
        found = await self._threads.run(partial(self._store.latest, cwd, agent, tag))
        return None if found is None else AsyncSession(found, self._threads)

    def sessions(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        agent: str | None = None,
        tag: str | None = None,
        status: str | None = ACTIVE,
        parent: str | Session | AsyncSession | None = None,
        root: bool = True,
        waiting: bool | None = None,
        key_prefix: str | None = None,
        updated_before: datetime | None = None,
        order: str = "updated",
        limit: int = 50,
        cursor: str | None = None,
    ) -> AsyncPages:
        call = partial(
            self._store.sessions,
            cwd=cwd,
            agent=agent,
            tag=tag,
            status=status,
            parent=None if parent is None else _plain(parent),
            root=root,
            waiting=waiting,
            key_prefix=key_prefix,
            updated_before=updated_before,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        return AsyncPages(call, self._threads)

    async def archive(self, session_id: str | Session | AsyncSession) -> None:
        await self._threads.run(partial(self._store.archive, _plain(session_id)))

    async def trash(self, session_id: str | Session | AsyncSession) -> None:
        await self._threads.run(partial(self._store.trash, _plain(session_id)))

    async def restore(self, session_id: str | Session | AsyncSession) -> None:
        await self._threads.run(partial(self._store.restore, _plain(session_id)))

    async def delete(
        self, session_id: str | Session | AsyncSession, cascade: bool = True, expect: int | None = None
    ) -> int:
        return await self._threads.run(partial(self._store.delete, _plain(session_id), cascade, expect))

    prune = in_store(Store.prune)
    usage = in_store(Store.usage)
    verify = in_store(Store.verify)
    backup = in_store(Store.backup)
    stats = in_store(Store.stats)


def _plain(session: str | Session | AsyncSession) -> str | Session:
    return session._session if isinstance(session, AsyncSession) else session


class aopen:
    """Open a store for async use: `store = await aopen(…)`, or `async with aopen(…) as store:`. Arguments as `open`."""

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        namespace: str = "",
        durability: str = "full",
        read_only: bool = False,
        max_depth: int = MAX_DEPTH,
        prices: PriceTable | None = None,
        clock: Clock | None = None,
        count_tokens: Callable[[Message], int] | None = None,
    ) -> None:
        self._open = partial(
            open_store,
            url,
            namespace=namespace,
            durability=durability,
            read_only=read_only,
            max_depth=max_depth,
            prices=prices,
            clock=clock,
            count_tokens=count_tokens,
        )
        self._store: AsyncStore | None = None

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        return self._opened().__await__()

    async def __aenter__(self) -> AsyncStore:
        self._store = await self._opened()
        return self._store

    async def __aexit__(self, *exc: object) -> None:
        if self._store is not None:
            await self._store.close()

    async def _opened(self) -> AsyncStore:
        threads = Threads()
        return AsyncStore(await threads.run(self._open), threads)
