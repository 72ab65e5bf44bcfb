"""A backup of a server is the whole store at one moment, whatever is written while it is made."""

from __future__ import annotations

from pathlib import Path

import threadline
from threadline import Progress, Store


def test_a_backup_holds_all_sessions_as_they_were_when_it_began(postgres_url: str, tmp_path: Path) -> None:
    """While it is made, a message goes into one session and then into all others, whichever is copied first: a copy
    that took each at a moment of its own would hold an answer without its question."""
    names = [f"s{n}" for n in range(6)]
    told: list[int] = []

    def meanwhile(progress: Progress) -> None:
        told.append(progress.total)
        for name in names:
            other.session(name).append(f"during {len(told)}")
        other.session(f"new {len(told)}").append("made meanwhile")
        other.memory("project").claim(f"learned meanwhile {len(told)}")

    with threadline.open(postgres_url) as store, threadline.open(postgres_url) as other:
        for name in names:
            store.session(name).append("before")
        store.memory("project").claim("known before")
        store.backup(tmp_path / "copy.db", progress=meanwhile)

        assert len(told) > 1
        assert store.session("s0").head > 1
        with threadline.open(tmp_path / "copy.db") as copy:
            assert {info.key: info.head for info in copy.sessions(limit=100)} == dict.fromkeys(names, 1)
            assert claims(copy) == ["known before"]
            assert copy.verify().problems == []
        assert store.verify().problems == []


def claims(store: Store) -> list[str]:
    return sorted(node.content for node in store.memory("project").nodes())
