"""A memory, awaited."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadline.aio.session import AsyncSession
from threadline.aio.threads import Threads
from threadline.memory.nodes import Node
from threadline.session import Session
from threadline.working_memory import EVERY, MAX_IDLE, Memory, SessionLike

P = ParamSpec("P")
T = TypeVar("T")


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


def _plain(session: str | Session | AsyncSession) -> str | Session:
    return session._session if isinstance(session, AsyncSession) else session
