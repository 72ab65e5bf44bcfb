"""agno: its SqliteDb; a run per message, the unit that it stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from agno.db.base import SessionType
from agno.db.sqlite import SqliteDb
from agno.models.message import Message
from agno.run.agent import RunOutput
from agno.session.agent import AgentSession

from bench.peers.harness import Filling

INSTALL = ("agno==3.1.10", "sqlalchemy[asyncio]", "aiosqlite")
PACKAGES = ("agno",)
IMPORT = "from agno.db.sqlite import SqliteDb"
DURABILITY = "WAL, a sync per append"


class Peer(Filling):
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._db = SqliteDb(db_file=str(folder / "agno.db"))
        self._known: set[str] = set()

    def append(self, session: str, role: str, text: str) -> None:
        if session not in self._known:
            if self._db.get_session(session, SessionType.AGENT, runs_limit=1) is None:
                self._db.upsert_session(AgentSession(session_id=session, agent_id="agent"))
            self._known.add(session)
        run = RunOutput(
            run_id=uuid4().hex, session_id=session, agent_id="agent", messages=[Message(role=role, content=text)]
        )
        self._db.upsert_run(run, session)

    def last(self, session: str, count: int) -> list[str]:
        found = self._db.get_session(session, SessionType.AGENT, runs_limit=count)
        return [message.content for run in found.runs or [] for message in run.messages]

    def sessions(self, count: int) -> list[Any]:
        return self._db.get_sessions(
            SessionType.AGENT, limit=count, sort_by="updated_at", sort_order="desc", include_runs=False
        )
