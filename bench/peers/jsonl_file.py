"""A bare file, the floor: a line per message, and no sync."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

INSTALL: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
IMPORT = "import json"
DURABILITY = "no sync: a power cut loses the last seconds"


class Peer:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def append(self, session: str, role: str, text: str) -> None:
        with (self._folder / f"{session}.jsonl").open("a") as file:
            file.write(json.dumps({"role": role, "content": text}) + "\n")

    def fill(self, session: str, count: int, text: str) -> None:
        with (self._folder / f"{session}.jsonl").open("a") as file:
            file.writelines(json.dumps({"role": "user", "content": text}) + "\n" for _ in range(count))

    def last(self, session: str, count: int) -> list[str]:
        lines = (self._folder / f"{session}.jsonl").read_text().splitlines()
        return [json.loads(line)["content"] for line in lines[-count:]]

    def sessions(self, count: int) -> list[Any]:
        return sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)[:count]

    def close(self) -> None: ...
