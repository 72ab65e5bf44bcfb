"""A memory, awaited."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from functools import partial
from typing import Any

from threadline.aio.session import AsyncSession
from threadline.aio.threads import Handle, awaited
from threadline.memory.nodes import Node
from threadline.working_memory import EVERY, MAX_IDLE, Memory, SessionLike


class AsyncMemory(Handle[Memory]):
    """A Memory whose methods are awaited. See Memory for what each promises."""

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        """`await store.memory(…)` reads like everything else, though it has nothing to wait for."""
        return self._ready().__await__()

    async def _ready(self) -> AsyncMemory:
        return self

    @property
    def project(self) -> str | None:
        return self._plain.project

    @property
    def root(self) -> str:
        return self._plain.root

    claim = awaited(Memory.claim)
    claims = awaited(Memory.claims)
    compress = awaited(Memory.compress)
    supersede = awaited(Memory.supersede)
    retire = awaited(Memory.retire)
    reroot = awaited(Memory.reroot)
    get = awaited(Memory.get)
    active = awaited(Memory.active)
    recall = awaited(Memory.recall)
    provenance = awaited(Memory.provenance)
    descendants = awaited(Memory.descendants)
    roots = awaited(Memory.roots)
    render = awaited(Memory.render)
    events = awaited(Memory.events)
    chains = awaited(Memory.chains)
    chain = awaited(Memory.chain)
    create_chain = awaited(Memory.create_chain)
    extend = awaited(Memory.extend)
    stash = awaited(Memory.stash)
    pop = awaited(Memory.pop)
    archive_chain = awaited(Memory.archive_chain)
    supersede_chain = awaited(Memory.supersede_chain)
    promote = awaited(Memory.promote)
    promote_all = awaited(Memory.promote_all)
    summary = awaited(Memory.summary)
    end = awaited(Memory.end)
    handoff = awaited(Memory.handoff)
    archives = awaited(Memory.archives)
    recover = awaited(Memory.recover)
    gc = awaited(Memory.gc)
    check_anchors = awaited(Memory.check_anchors)
    nodes = awaited(Memory.nodes)
    workings = awaited(Memory.workings)
    adopt = awaited(Memory.adopt)
    address = staticmethod(Memory.address)

    async def session(self, agent: str | None = None, max_idle: timedelta = MAX_IDLE) -> AsyncSession:
        return AsyncSession(await self._threads.run(partial(self._plain.session, agent, max_idle)), self._threads)

    async def cycle(
        self,
        session: SessionLike,
        summary: Callable[[list[Node]], str | Awaitable[str]],
        *,
        every: int = EVERY,
        agent: str | None = None,
    ) -> Node | None:
        """As Memory.cycle; the function may be async, and runs on the event loop between reading and writing."""
        due = await self._threads.run(partial(self._plain._turn, session, agent, every))
        if due is None:
            return None
        content = summary(due)
        told = await content if inspect.isawaitable(content) else content
        return await self._threads.run(partial(self._plain._fold, session, agent, due, told))
