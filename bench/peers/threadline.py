"""threadline itself, as it comes: durable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import threadline
from threadline import Message

INSTALL: tuple[str, ...] = ()  # the environment of the project
PACKAGES = ("threadline",)
IMPORT = "import threadline.backends.sqlite.backend, threadline.store"  # `import threadline` alone loads nothing
DURABILITY = "WAL, a sync per append"


class Peer:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._store = threadline.open(folder / "threadline.db")
        self._sessions: dict[str, Any] = {}

    def _session(self, session: str) -> Any:
        if session not in self._sessions:
            self._sessions[session] = self._store.session(session)
        return self._sessions[session]

    def append(self, session: str, role: str, text: str) -> None:
        self._session(session).append(Message(role, text))

    def fill(self, session: str, count: int, text: str) -> None:
        self._session(session).extend([Message("assistant" if n % 2 else "user", text) for n in range(count)])

    def last(self, session: str, count: int) -> list[str]:
        return [message.text for message in self._session(session).view(last=count).messages]

    def sessions(self, count: int) -> list[Any]:
        return self._store.sessions(limit=count).items

    def close(self) -> None:
        self._store.close()
