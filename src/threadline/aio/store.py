"""Opening for async use; a store, awaited."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from threadline.aio.following import AsyncChanges
from threadline.aio.memory import AsyncMemory
from threadline.aio.pages import AsyncPages
from threadline.aio.session import AsyncSession
from threadline.aio.threads import Handle, Threads, awaited
from threadline.backends.backend import ACTIVE
from threadline.core.receipts import Receipt
from threadline.core.searching import MARKS
from threadline.core.spending import PriceTable
from threadline.hits import Hit
from threadline.messages import Message
from threadline.session import Session
from threadline.store import MAX_DEPTH, Clock, Store
from threadline.store import open as open_store


class AsyncStore(Handle[Store]):
    """A Store whose methods are awaited, from any number of event loops. See Store for what each promises."""

    def __init__(self, store: Store, threads: Threads | None = None) -> None:
        super().__init__(store, threads or Threads())

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
        return self._plain.namespace

    def within(self, namespace: str) -> AsyncStore:
        return AsyncStore(self._plain.within(namespace), self._threads)

    def memory(self, project: str | None = None, root: str | os.PathLike[str] | None = None) -> AsyncMemory:
        return AsyncMemory(self._plain.memory(project, root), self._threads)

    async def close(self) -> None:
        if not self._threads._closed:
            await self._threads.run(self._plain.close)
            self._threads.close()

    def session(self, key: str, **attributes: Any) -> AsyncSession:
        return AsyncSession(self._plain._handle(key, attributes), self._threads)

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
        call = partial(self._plain.new, key, title, agent, model, provider, cwd, system, tags, meta, id, at)
        return AsyncSession(await self._threads.run(call), self._threads)

    async def get(self, session_id: str | Session | AsyncSession) -> AsyncSession:
        found = await self._threads.run(partial(self._plain.get, _sync(session_id)))
        return AsyncSession(found, self._threads)

    async def find(self, key: str) -> AsyncSession | None:
        found = await self._threads.run(partial(self._plain.find, key))
        return None if found is None else AsyncSession(found, self._threads)

    async def latest(
        self, cwd: str | os.PathLike[str] | None = None, agent: str | None = None, tag: str | None = None
    ) -> AsyncSession | None:
        found = await self._threads.run(partial(self._plain.latest, cwd, agent, tag))
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
            self._plain.sessions,
            cwd=cwd,
            agent=agent,
            tag=tag,
            status=status,
            parent=None if parent is None else _sync(parent),
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
        return AsyncChanges(partial(self._plain._changes, timeout), self._plain._pen.prices, self._threads)

    async def archive(self, session_id: str | Session | AsyncSession) -> None:
        await self._threads.run(partial(self._plain.archive, _sync(session_id)))

    async def trash(self, session_id: str | Session | AsyncSession) -> None:
        await self._threads.run(partial(self._plain.trash, _sync(session_id)))

    async def restore(self, session_id: str | Session | AsyncSession) -> None:
        await self._threads.run(partial(self._plain.restore, _sync(session_id)))

    async def delete(
        self, session_id: str | Session | AsyncSession, cascade: bool = True, expect: int | None = None
    ) -> int:
        return await self._threads.run(partial(self._plain.delete, _sync(session_id), cascade, expect))

    async def erase(self, session_id: str | Session | AsyncSession, cascade: bool = False) -> Receipt:
        return await self._threads.run(partial(self._plain.erase, _sync(session_id), cascade))

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
            self._plain.search,
            query,
            session=None if session is None else _sync(session),
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

    index = awaited(Store.index)
    prune = awaited(Store.prune)
    usage = awaited(Store.usage)
    verify = awaited(Store.verify)
    backup = awaited(Store.backup)
    stats = awaited(Store.stats)


def _sync(session: str | Session | AsyncSession) -> str | Session:
    return session._plain if isinstance(session, AsyncSession) else session


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
