"""nanobot: its SessionManager, which writes the whole session at every save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nanobot.session.manager import SessionManager

INSTALL = ("nanobot-ai==0.3.5",)
PACKAGES = ("nanobot-ai",)
IMPORT = "from nanobot.session.manager import SessionManager"
DURABILITY = "a new file renamed over the old one, no sync"


class Peer:
    fill_at_once = True

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._manager = self._fresh()

    def _fresh(self) -> SessionManager:
        return SessionManager(self._folder / "workspace", sessions_root=self._folder / "sessions")

    def append(self, session: str, role: str, text: str) -> None:
        if session == "shared":  # several processes: each reads what the others wrote
            self._manager = self._fresh()
        there = self._manager.get_or_create(session)
        there.add_message(role, text)
        self._manager.save(there)

    def fill(self, session: str, count: int, text: str) -> None:
        there = self._manager.get_or_create(session)
        for n in range(count):
            there.add_message("assistant" if n % 2 else "user", text)
        self._manager.save(there)

    def last(self, session: str, count: int) -> list[str]:
        return [message["content"] for message in self._manager.get_or_create(session).get_history(count)]

    def sessions(self, count: int) -> list[Any]:
        return self._manager.list_sessions()[:count]

    def close(self) -> None: ...
