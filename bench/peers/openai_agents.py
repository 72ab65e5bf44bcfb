"""openai-agents: its SQLiteSession."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agents import SQLiteSession

INSTALL = ("openai-agents==0.24.0",)
PACKAGES = ("openai-agents",)
IMPORT = "from agents import SQLiteSession"
DURABILITY = "WAL, a sync per append"


class Peer:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "sessions.db"
        self._loop = asyncio.new_event_loop()
        self._sessions: dict[str, SQLiteSession] = {}

    def _session(self, session: str) -> SQLiteSession:
        if session not in self._sessions:
            if len(self._sessions) > 50:  # each holds a connection
                self.close()
            self._sessions[session] = SQLiteSession(session, self._path)
        return self._sessions[session]

    def append(self, session: str, role: str, text: str) -> None:
        item = {"role": role, "content": text}
        self._loop.run_until_complete(self._session(session).add_items([item]))

    def fill(self, session: str, count: int, text: str) -> None:
        items = [{"role": "assistant" if n % 2 else "user", "content": text} for n in range(count)]
        self._loop.run_until_complete(self._session(session).add_items(items))

    def last(self, session: str, count: int) -> list[str]:
        items = self._loop.run_until_complete(self._session(session).get_items(count))
        return [item["content"] for item in items]

    def sessions(self, count: int) -> None:
        return None

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
