"""mycode: its SessionStore, a line of JSON per message."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mycode import SessionStore, build_message, flatten_message_text, text_block

from bench.peers.harness import Filling

INSTALL = ("mycode-sdk==0.21.0",)
PACKAGES = ("mycode-sdk",)
IMPORT = "from mycode import SessionStore"
DURABILITY = "a line appended, no sync"
PYTHON = "3.12"


class Peer(Filling):
    def __init__(self, folder: Path) -> None:
        self._store = SessionStore(folder)
        self._loop = asyncio.new_event_loop()

    def append(self, session: str, role: str, text: str) -> None:
        message = build_message(role, [text_block(text)])
        self._loop.run_until_complete(self._store.append_message(session, message))

    def last(self, session: str, count: int) -> list[str]:
        return [flatten_message_text(message) for message in self._store.load_messages_sync(session)[-count:]]

    def sessions(self, count: int) -> None:
        return None
