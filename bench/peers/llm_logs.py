"""llm: its LogStore, messages by their hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llm
import sqlite_utils
from llm.logs import LogStore
from llm.parts import Message, TextPart

from bench.peers.harness import Filling

INSTALL = ("llm==0.36",)
PACKAGES = ("llm",)
IMPORT = "import llm, llm.logs"
DURABILITY = "rollback journal, syncs per append"
assert llm


class Peer(Filling):
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._store = LogStore(sqlite_utils.Database(folder / "logs.db"))
        self._known: set[str] = set()

    def append(self, session: str, role: str, text: str) -> None:
        if session not in self._known:
            self._store.ensure_thread(session)
            self._known.add(session)
        self._store.append(session, [Message(role=role, parts=[TextPart(text=text)])])

    def last(self, session: str, count: int) -> list[str]:
        return [message.parts[0].text for message in self._store.thread_messages(session)[-count:]]

    def sessions(self, count: int) -> Any:
        return None
