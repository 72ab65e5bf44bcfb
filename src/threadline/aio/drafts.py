"""Drafts, awaited."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from threadline.aio.threads import Threads
from threadline.core.entries import Entry
from threadline.core.usage import UsageLike
from threadline.drafts import Draft, DraftWriter
from threadline.leases import Holding
from threadline.pen import MessageLike


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
