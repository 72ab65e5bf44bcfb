"""A session, awaited."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from threadline.aio.drafts import AsyncDraft, AsyncDraftWriter
from threadline.aio.following import AsyncFollow
from threadline.aio.leases import AsyncLease, leased
from threadline.aio.pages import AsyncEntries
from threadline.aio.threads import AsyncOpening, Handle, Threads, awaited
from threadline.batch import Batch
from threadline.core.about import LINKED
from threadline.core.compaction import Plan
from threadline.core.entries import Entry
from threadline.core.goals import Goal
from threadline.core.usage import UsageLike
from threadline.info import SessionInfo
from threadline.leases import Holding, terms
from threadline.messages import Message
from threadline.session import PendingCall, Session


class AsyncSession(Handle[Session]):
    """A Session whose methods are awaited. See Session for what each promises."""

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        """`await store.session(key)` looks it up; without await the first call does."""
        return self._looked_up().__await__()

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._threads.run(self._plain.__exit__)

    async def _looked_up(self) -> AsyncSession:
        if self._plain.id is None:
            await self._threads.run(self._plain._found)
        return self

    @property
    def id(self) -> str | None:
        return self._plain.id

    @property
    def key(self) -> str | None:
        return self._plain.key

    @property
    def head(self) -> Coroutine[Any, Any, int]:
        return self._threads.run(lambda: self._plain.head)

    @property
    def info(self) -> Coroutine[Any, Any, SessionInfo]:
        return self._threads.run(lambda: self._plain.info)

    @property
    def parent(self) -> Coroutine[Any, Any, AsyncSession | None]:
        return self._parent()

    async def _parent(self) -> AsyncSession | None:
        found = await self._threads.run(lambda: self._plain.parent)
        return None if found is None else AsyncSession(found, self._threads)

    @property
    def pending(self) -> Coroutine[Any, Any, list[PendingCall]]:
        return self._threads.run(lambda: self._plain.pending)

    @property
    def unanswered(self) -> Coroutine[Any, Any, Entry | None]:
        return self._threads.run(lambda: self._plain.unanswered)

    @property
    def state(self) -> Coroutine[Any, Any, Mapping[str, Any]]:
        return self._threads.run(lambda: self._plain.state)

    @property
    def goal(self) -> Coroutine[Any, Any, Goal | None]:
        return self._threads.run(lambda: self._plain.goal)

    @property
    def drafts(self) -> Coroutine[Any, Any, list[AsyncDraft]]:
        return self._drafts()

    async def _drafts(self) -> list[AsyncDraft]:
        return [AsyncDraft(draft, self._threads) for draft in await self._threads.run(lambda: self._plain.drafts)]

    append = awaited(Session.append)
    extend = awaited(Session.extend)
    note = awaited(Session.note)
    view = awaited(Session.view)
    context = awaited(Session.context)
    messages = awaited(Session.messages)
    replace = awaited(Session.replace)
    originals = awaited(Session.originals)
    expand = awaited(Session.expand)
    rewind = awaited(Session.rewind)
    clear = awaited(Session.clear)
    start_call = awaited(Session.start_call)
    repair = awaited(Session.repair)
    state_at = awaited(Session.state_at)
    set_state = awaited(Session.set_state)
    set_goal = awaited(Session.set_goal)
    complete_goal = awaited(Session.complete_goal)
    enqueue = awaited(Session.enqueue)
    queued = awaited(Session.queued)
    take = awaited(Session.take)
    entry = awaited(Session.entry)
    read = awaited(Session.read)
    redact = awaited(Session.redact)
    rename = awaited(Session.rename)
    tag = awaited(Session.tag)
    untag = awaited(Session.untag)
    update = awaited(Session.update)
    finish = awaited(Session.finish)
    tree = awaited(Session.tree)
    record_usage = awaited(Session.record_usage)
    usage = awaited(Session.usage)
    requests = awaited(Session.requests)

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
                    self._plain.compact,
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
        if key is not None and (done := await self._threads.run(partial(self._plain._compacted, key))) is not None:
            return done
        planning = partial(self._plain._planned, plan, since=since, upto=upto, keep_turns=keep_turns)
        planned_at, planned = await self._threads.run(planning)
        text = summary(list(planned.messages))
        told = await text if inspect.isawaitable(text) else text
        folding = partial(self._plain._compact_planned, told, planned, planned_at)
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
        call = partial(self._plain.fork, at, key=key, title=title, meta=meta, id=id)
        return AsyncSession(await self._threads.run(call), self._threads)

    async def forks(self) -> list[AsyncSession]:
        return [AsyncSession(fork, self._threads) for fork in await self._threads.run(self._plain.forks)]

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
        called = partial(self._plain.spawn, agent, key=key, call_id=call_id, lifecycle=lifecycle)
        about = partial(called, model=model, meta=meta, title=title, system=system, id=id, at=at)
        return AsyncSpawn(about, self._threads)

    async def children(self) -> list[AsyncSession]:
        return [AsyncSession(child, self._threads) for child in await self._threads.run(self._plain.children)]

    def batch(self, expect: int | None = None, lease: Holding | None = None) -> AsyncBatch:
        """`async with session.batch() as b:` — the writes are collected without waiting, and done at the end."""
        return AsyncBatch(self._plain.batch(expect=expect, lease=lease), self._threads)

    def entries(
        self,
        after: int = 0,
        before: int | None = None,
        kinds: Iterable[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> AsyncEntries:
        call = partial(self._plain.entries, after, before, kinds, limit, reverse)
        return AsyncEntries(call, self._threads)

    def follow(self, after: int = 0, timeout: float | None = None) -> AsyncFollow:
        """`async for entry in session.follow():` — as Session.follow; no thread waits with it."""
        return AsyncFollow(self._plain.follow(after, timeout), self._threads)

    def lease(self, holder: str, ttl: float = 30, wait: float = 0) -> AsyncOpening[AsyncLease]:
        """`async with session.lease("worker-7") as lease:`, or `lease = await session.lease(…)`."""
        return AsyncOpening(partial(leased, self._plain, self._threads, terms(holder, ttl, wait)))

    def draft(
        self, role: str = "assistant", key: str | None = None, lease: Holding | None = None
    ) -> AsyncOpening[AsyncDraftWriter]:
        """`async with session.draft() as d:`, or `d = await session.draft()`."""
        return AsyncOpening(partial(self._drafting, role, key, lease))

    async def _drafting(self, role: str, key: str | None, lease: Holding | None) -> AsyncDraftWriter:
        opened = await self._threads.run(partial(self._plain.draft, role, key=key, lease=lease))
        return AsyncDraftWriter(opened, self._threads)


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
    """A block that collects writes without waiting; they happen, in one hop, when it ends."""

    def __init__(self, batch: Batch, threads: Threads) -> None:
        self._batch = batch
        self._threads = threads

    async def __aenter__(self) -> Batch:
        return self._batch

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._batch._end(well=False)
        else:
            await self._threads.run(lambda: self._batch._end(well=True))
