"""strands: its FileSessionManager, a file per message."""

from __future__ import annotations

from pathlib import Path

from strands.session.file_session_manager import FileSessionManager
from strands.types.session import SessionAgent, SessionMessage

from bench.peers.harness import Filling

INSTALL = ("strands-agents==1.62.0",)
PACKAGES = ("strands-agents",)
IMPORT = "from strands.session.file_session_manager import FileSessionManager"
DURABILITY = "a new file per message, renamed, no sync"


class Peer(Filling):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._managers: dict[str, FileSessionManager] = {}
        self._next: dict[str, int] = {}

    def _manager(self, session: str) -> FileSessionManager:
        if session not in self._managers:
            manager = FileSessionManager(session, storage_dir=str(self._folder))
            if manager.read_agent(session, "agent") is None:
                manager.create_agent(session, SessionAgent("agent", {}, {}))
            self._managers[session] = manager
        return self._managers[session]

    def append(self, session: str, role: str, text: str) -> None:
        """The number of a message is that of the last one and one more, as its own append_message does it."""
        manager = self._manager(session)
        if session == "shared" or session not in self._next:
            self._next[session] = len(manager.list_messages(session, "agent"))
        number = self._next[session]
        message = SessionMessage.from_message({"role": role, "content": [{"text": text}]}, number)
        manager.create_message(session, "agent", message)
        self._next[session] = number + 1

    def last(self, session: str, count: int) -> list[str]:
        found = self._manager(session).list_messages(session, "agent")[-count:]
        return [each.to_message()["content"][0]["text"] for each in found]

    def sessions(self, count: int) -> None:
        return None
