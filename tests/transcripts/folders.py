"""Folders of other tools, made as they make them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BEGAN, ENDED = "2026-11-15T18:26:40.540327+00:00", "2026-11-15T19:26:40.540327+00:00"


def jsonl(path: Path, lines: list[Any]) -> Path:
    """One line of JSON for each; bytes are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() + b"\n")
    return path


class MyCode:
    """A session folder of mycode, in the generation of that version."""

    def __init__(self, home: Path, id: str = "ab12", version: int | None = 5, **about: Any) -> None:
        self.home = home
        self.folder = home / "sessions" / id
        self.about = {"title": "Fix bug", "cwd": "/w", "created_at": BEGAN, "updated_at": ENDED} | about
        if version == 5:
            self.about |= {"id": id, "provider": "anthropic", "model": "claude-x", "api_base": None}
        if version is not None:
            self.about["message_format_version"] = version

    def write(self, lines: list[Any]) -> Path:
        (self.folder / "tool-output").mkdir(parents=True, exist_ok=True)
        (self.folder / "meta.json").write_text(json.dumps(self.about, indent=2))
        jsonl(self.folder / "messages.jsonl", lines)
        return self.folder


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def assistant(text: str, **meta: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return said | ({"meta": meta} if meta else {})


def compact(text: str) -> dict[str, Any]:
    return {"role": "compact", "content": [{"type": "text", "text": text}], "meta": {"compacted_count": 3}}


def rewind(to: int) -> dict[str, Any]:
    return {"role": "rewind", "meta": {"rewind_to": to, "created_at": ENDED}}
