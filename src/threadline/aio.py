"""The async API: the same names, awaited. Each call is one hop to a thread of the store's own.

A transaction is one plain function on one thread, so it can never span an await. A call that has started always
finishes: if its caller is cancelled meanwhile, CancelledError surfaces after it. A call still queued never happens."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from threadline.backends.backend import ACTIVE, Ref
from threadline.batch import Batch
from threadline.core.about import LINKED
from threadline.core.compaction import Plan
from threadline.core.entries import Entry
from threadline.core.goals import Goal
from threadline.core.reading import Entries
from threadline.core.receipts import Receipt
from threadline.core.searching import MARKS
from threadline.core.spending import Prices, PriceTable
from threadline.core.usage import UsageLike
from threadline.drafts import Draft, DraftWriter
from threadline.errors import Closed, Damaged
from threadline.following import ENDS, Changes, Follow, Hub
from threadline.hits import Hit
from threadline.info import SessionInfo, info_of
from threadline.leases import Holding, Lease, Terms, Turn, terms
from threadline.memory.nodes import Node
from threadline.messages import Message
from threadline.pen import MessageLike
from threadline.session import PendingCall, Session
from threadline.store import MAX_DEPTH, Clock, Page, Store
from threadline.store import open as open_store
from threadline.working_memory import EVERY, MAX_IDLE, Memory, SessionLike

P = ParamSpec("P")
T = TypeVar("T")
Opened = TypeVar("Opened", bound=AbstractAsyncContextManager[Any])

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

    @property
    def state(self) -> Coroutine[Any, Any, Mapping[str, Any]]:
        return self._threads.run(lambda: self._session.state)

    @property
    def goal(self) -> Coroutine[Any, Any, Goal | None]:
        return self._threads.run(lambda: self._session.goal)

    @property
    def drafts(self) -> Coroutine[Any, Any, list[AsyncDraft]]:
        return self._drafts()

    async def _drafts(self) -> list[AsyncDraft]:
        return [AsyncDraft(draft, self._threads) for draft in await self._threads.run(lambda: self._session.drafts)]

    append = in_session(Session.append)
    extend = in_session(Session.extend)
    note = in_session(Session.note)
    view = in_session(Session.view)
    context = in_session(Session.context)
    messages = in_session(Session.messages)
    replace = in_session(Session.replace)
    originals = in_session(Session.originals)
    expand = in_session(Session.expand)
    rewind = in_session(Session.rewind)
    clear = in_session(Session.clear)
    start_call = in_session(Session.start_call)
    repair = in_session(Session.repair)
    state_at = in_session(Session.state_at)
    set_state = in_session(Session.set_state)
    set_goal = in_session(Session.set_goal)
    complete_goal = in_session(Session.complete_goal)
    enqueue = in_session(Session.enqueue)
    queued = in_session(Session.queued)
    take = in_session(Session.take)
    entry = in_session(Session.entry)
    read = in_session(Session.read)
    redact = in_session(Session.redact)
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
        lease: Holding | None = None,
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
                    lease=lease,
                )
            )
        if key is not None and (done := await self._threads.run(partial(self._session._compacted, key))) is not None:
            return done
        planning = partial(self._session._planned, plan, since=since, upto=upto, keep_turns=keep_turns)
        planned_at, planned = await self._threads.run(planning)
        text = summary(list(planned.messages))
        told = await text if inspect.isawaitable(text) else text
        folding = partial(self._session._compact_planned, told, planned, planned_at)
        return await self._threads.run(partial(folding, usage=usage, key=key, expect=expect, at=at, lease=lease))

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
        title: str | None = None,
        system: str | None = None,
        id: str | None = None,
        at: datetime | None = None,
    ) -> AsyncSpawn:
        """`child = await session.spawn(…)`, or `async with session.spawn(…) as child:`."""
        called = partial(self._session.spawn, agent, key=key, call_id=call_id, lifecycle=lifecycle)
        about = partial(called, model=model, meta=meta, title=title, system=system, id=id, at=at)
        return AsyncSpawn(about, self._threads)

    async def children(self) -> list[AsyncSession]:
        return [AsyncSession(child, self._threads) for child in await self._threads.run(self._session.children)]

    def batch(self, *, expect: int | None = None, lease: Holding | None = None) -> AsyncBatch:
        """`async with session.batch() as b:` — the writes are collected without waiting, and done at the end."""
        return AsyncBatch(self._session.batch(expect=expect, lease=lease), self._threads)

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

    def follow(self, after: int = 0, timeout: float | None = None) -> AsyncFollow:
        """`async for entry in session.follow():` — as Session.follow; no thread waits with it."""
        return AsyncFollow(self._session.follow(after, timeout), self._threads)

    def lease(self, holder: str, ttl: float = 30, wait: float = 0) -> AsyncOpening[AsyncLease]:
        """`async with session.lease("worker-7") as lease:`, or `lease = await session.lease(…)`."""
        return AsyncOpening(partial(leased, self._session, self._threads, terms(holder, ttl, wait)))

    def draft(
        self, role: str = "assistant", *, key: str | None = None, lease: Holding | None = None
    ) -> AsyncOpening[AsyncDraftWriter]:
        """`async with session.draft() as d:`, or `d = await session.draft()`."""
        return AsyncOpening(partial(self._drafting, role, key, lease))

    async def _drafting(self, role: str, key: str | None, lease: Holding | None) -> AsyncDraftWriter:
        opened = await self._threads.run(partial(self._session.draft, role, key=key, lease=lease))
        return AsyncDraftWriter(opened, self._threads)


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


class AsyncDraftWriter:
    """A DraftWriter whose methods are awaited. `write` hops to a thread only when 4 KiB have gathered."""

    def __init__(self, writer: DraftWriter, threads: Threads) -> None:
        self._writer = writer
        self._threads = threads

    @property
    def id(self) -> int:
        return self._writer.id

    @property
    def text(self) -> str:
        return self._writer.text

    async def write(self, text: str) -> None:
        if self._writer.add(text):
            await self._threads.run(self._writer.flush)

    async def flush(self) -> None:
        await self._threads.run(self._writer.flush)

    async def finish(self, message: MessageLike | None = None, usage: UsageLike | None = None) -> Entry:
        return await self._threads.run(partial(self._writer.finish, message, usage))

    async def drop(self) -> None:
        await self._threads.run(self._writer.drop)

    async def let_go(self) -> None:
        await self._threads.run(self._writer.let_go)

    async def __aenter__(self) -> AsyncDraftWriter:
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._threads.run(partial(self._writer.__exit__, *exc))


class AsyncDraft:
    """A Draft whose methods are awaited."""

    def __init__(self, draft: Draft, threads: Threads) -> None:
        self._draft = draft
        self._threads = threads
        self.id = draft.id
        self.role = draft.role
        self.key = draft.key
        self.at = draft.at
        self.text = draft.text
        self.interrupted = draft.interrupted

    def __repr__(self) -> str:
        return f"<Async{repr(self._draft)[1:]}"

    async def keep(
        self, *, expect: int | None = None, at: datetime | None = None, lease: Holding | None = None
    ) -> Entry:
        return await self._threads.run(partial(self._draft.keep, expect=expect, at=at, lease=lease))

    async def drop(self) -> None:
        await self._threads.run(self._draft.drop)


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


def in_memory(
    method: Callable[Concatenate[Memory, P], T],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._threads.run(partial(method, self._memory, *args, **kwargs))

    return call


class AsyncMemory:
    """A Memory whose methods are awaited. See Memory for what each promises."""

    def __init__(self, memory: Memory, threads: Threads) -> None:
        self._memory = memory
        self._threads = threads

    def __repr__(self) -> str:
        return f"<Async{repr(self._memory)[1:]}"

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        """`await store.memory(…)` reads like everything else, though it has nothing to wait for."""
        return self._ready().__await__()

    async def _ready(self) -> AsyncMemory:
        return self

    @property
    def project(self) -> str | None:
        return self._memory.project

    @property
    def root(self) -> str:
        return self._memory.root

    claim = in_memory(Memory.claim)
    claims = in_memory(Memory.claims)
    compress = in_memory(Memory.compress)
    supersede = in_memory(Memory.supersede)
    retire = in_memory(Memory.retire)
    reroot = in_memory(Memory.reroot)
    get = in_memory(Memory.get)
    active = in_memory(Memory.active)
    recall = in_memory(Memory.recall)
    provenance = in_memory(Memory.provenance)
    descendants = in_memory(Memory.descendants)
    roots = in_memory(Memory.roots)
    render = in_memory(Memory.render)
    events = in_memory(Memory.events)
    chains = in_memory(Memory.chains)
    chain = in_memory(Memory.chain)
    create_chain = in_memory(Memory.create_chain)
    extend = in_memory(Memory.extend)
    stash = in_memory(Memory.stash)
    pop = in_memory(Memory.pop)
    archive_chain = in_memory(Memory.archive_chain)
    supersede_chain = in_memory(Memory.supersede_chain)
    promote = in_memory(Memory.promote)
    promote_all = in_memory(Memory.promote_all)
    summary = in_memory(Memory.summary)
    end = in_memory(Memory.end)
    handoff = in_memory(Memory.handoff)
    archives = in_memory(Memory.archives)
    recover = in_memory(Memory.recover)
    gc = in_memory(Memory.gc)
    check_anchors = in_memory(Memory.check_anchors)
    nodes = in_memory(Memory.nodes)
    workings = in_memory(Memory.workings)
    adopt = in_memory(Memory.adopt)
    address = staticmethod(Memory.address)

    async def session(self, agent: str | None = None, max_idle: timedelta = MAX_IDLE) -> AsyncSession:
        return AsyncSession(await self._threads.run(partial(self._memory.session, agent, max_idle)), self._threads)

    async def cycle(
        self,
        session: SessionLike,
        summary: Callable[[list[Node]], str | Awaitable[str]],
        *,
        every: int = EVERY,
        agent: str | None = None,
    ) -> Node | None:
        """As Memory.cycle; the function may be async, and runs on the event loop between reading and writing."""
        due = await self._threads.run(partial(self._memory._turn, session, agent, every))
        if due is None:
            return None
        content = summary(due)
        told = await content if inspect.isawaitable(content) else content
        return await self._threads.run(partial(self._memory._fold, session, agent, due, told))


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

    def memory(self, project: str | None = None, root: str | os.PathLike[str] | None = None) -> AsyncMemory:
        return AsyncMemory(self._store.memory(project, root), self._threads)

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
        id_prefix: str | None = None,
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
            id_prefix=id_prefix,
            updated_before=updated_before,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        return AsyncPages(call, self._threads)

    def follow(self, timeout: float | None = None) -> AsyncChanges:
        """`async for info in store.follow():`, or first `changes = await store.follow()` to begin at once."""
        return AsyncChanges(partial(self._store._changes, timeout), self._store._pen.prices, self._threads)

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

    async def erase(self, session_id: str | Session | AsyncSession, cascade: bool = False) -> Receipt:
        return await self._threads.run(partial(self._store.erase, _plain(session_id), cascade))

    async def search(
        self,
        query: str,
        *,
        session: str | Session | AsyncSession | None = None,
        role: str | None = None,
        agent: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        trashed: bool = False,
        group: bool = False,
        limit: int = 20,
        around: int = 1,
        marks: tuple[str, str] = MARKS,
    ) -> list[Hit]:
        call = partial(
            self._store.search,
            query,
            session=None if session is None else _plain(session),
            role=role,
            agent=agent,
            cwd=cwd,
            since=since,
            until=until,
            trashed=trashed,
            group=group,
            limit=limit,
            around=around,
            marks=marks,
        )
        return await self._threads.run(call)

    index = in_store(Store.index)
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
