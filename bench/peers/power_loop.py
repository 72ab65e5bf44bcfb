"""power-loop: its SessionStore."""

from __future__ import annotations

from pathlib import Path

from power_loop.runtime.session_store import SessionStore

from bench.peers.harness import Filling

INSTALL = ("power-loop==0.2.0",)
PACKAGES = ("power-loop",)
IMPORT = "from power_loop.runtime.session_store import SessionStore"
DURABILITY = "WAL, synchronous=NORMAL: a power cut may lose the last commits"


class Peer(Filling):
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._store = SessionStore.open(folder / "sessions.db")
        self._known: set[str] = set()

    def append(self, session: str, role: str, text: str) -> None:
        if session not in self._known and self._store.get_session(session) is None:
            self._store.create_session(session_id=session)
        self._known.add(session)
        self._store.append_message(session, role=role, content=text)

    def last(self, session: str, count: int) -> list[str]:
        return [row.content for row in self._store.load_active_messages(session)[-count:]]

    def sessions(self, count: int) -> None:
        return None

    def close(self) -> None:
        self._store.close()
