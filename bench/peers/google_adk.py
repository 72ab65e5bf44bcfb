"""google-adk: its SqliteSessionService; an event per message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content, Part

from bench.peers.harness import Filling

INSTALL = ("google-adk==2.13.0", "aiosqlite")
PACKAGES = ("google-adk",)
IMPORT = "from google.adk.sessions.sqlite_session_service import SqliteSessionService"
DURABILITY = "rollback journal, syncs per append"
WHO = {"app_name": "bench", "user_id": "user"}


class Peer(Filling):
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._service = SqliteSessionService(str(folder / "sessions.db"))
        self._loop = asyncio.new_event_loop()
        self._sessions: dict[str, Any] = {}

    def _run(self, call: Any) -> Any:
        return self._loop.run_until_complete(call)

    def _session(self, session: str) -> Any:
        if session == "shared" or session not in self._sessions:  # several processes: read what the others wrote
            config = GetSessionConfig(num_recent_events=1)
            found = self._run(self._service.get_session(**WHO, session_id=session, config=config))
            found = found or self._run(self._service.create_session(**WHO, session_id=session))
            self._sessions[session] = found
        return self._sessions[session]

    def append(self, session: str, role: str, text: str) -> None:
        content = Content(role="user" if role == "user" else "model", parts=[Part(text=text)])
        event = Event(author="user" if role == "user" else "agent", content=content)
        self._run(self._service.append_event(self._session(session), event))

    def last(self, session: str, count: int) -> list[str]:
        config = GetSessionConfig(num_recent_events=count)
        found = self._run(self._service.get_session(**WHO, session_id=session, config=config))
        return [event.content.parts[0].text for event in found.events]

    def sessions(self, count: int) -> list[Any]:
        return self._run(self._service.list_sessions(**WHO)).sessions[:count]
