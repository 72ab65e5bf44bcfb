"""What the contract works with: conversations to begin with, and tables of everything that can be called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from threadline import (
    Closed,
    Entry,
    Message,
    Session,
    Store,
    ToolCall,
)

OpenStore = Callable[..., Store]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A_SECOND = timedelta(seconds=1)

# Names that file systems, URLs, collations and normal forms take for one another, or for something else than a name.
NAMES = (
    "a:b",
    "a_b",
    "a/b",
    "a\\b",
    "A:B",
    "a:b ",
    " a:b",
    "a:b\n",
    "a:b\0",
    "a",
    "\0",
    "\u00e9",  # é as one character
    "e\u0301",  # and as two
    "\ufb01",
    "fi",
    "..",
    "../..",
    "/etc/passwd",
    "con",
    "0",
    "0.0",
    "00",
    "null",
    "%",
    "_",
    "*",
    "'; DROP TABLE session; --",
    "\ud83d",
    "\ude00",
    "\ud83d\ude00",  # two lone surrogates
    "\U0001f600",  # the character that they would make
    "\uffff",
    "k" * 512,
    "k" * 511 + "K",
    "k" * 511,
    "\U0001f600" * 512,
)


# -- builders ------------------------------------------------------------------------------------------


def asks(*call_ids: str, text: str | None = None) -> Message:
    """An assistant's message that calls a tool once per id."""
    return Message.assistant(text, *(ToolCall(id, "search", {"for": id}) for id in call_ids))


def answers(call_id: str, output: str = "found") -> Message:
    return Message.tool(call_id, output)


def talk(session: Session, turns: int) -> Session:
    """So many turns of two entries each: q1, a1, q2, a2 …"""
    for i in range(1, turns + 1):
        session.extend([f"q{i}", Message.assistant(f"a{i}")])
    return session


def busy(session: Session) -> Session:
    """A session on which every kind of write is possible: see WRITES."""
    talk(session, 1)
    session.compact("so far")  # entry 3
    session.extend(["go on", asks("c1")])  # entries 4 and 5
    return session


def told(session: Session, at: int | None = None) -> list[str]:
    return [message.text for message in session.messages(at)]


def seqs(session: Session, at: int | None = None) -> list[int]:
    return [entry.seq for entry in session.view(at).entries]


def made(page: Any) -> list[str]:
    """The ids of a whole walk through a listing."""
    return [info.id for info in page]


Write = Callable[..., Entry | list[Entry]]

# Everything that writes an entry, each possible on a busy session.
WRITES: dict[str, Write] = {
    "append": lambda s, **o: s.append("more", **o),
    "extend": lambda s, **o: s.extend(["more", "and more"], **o),
    "note": lambda s, **o: s.note({"seen": True}, **o),
    "compact": lambda s, **o: s.compact("all of it", upto=4, **o),
    "compact_by_function": lambda s, **o: s.compact(lambda run: f"{len(run)} messages", upto=4, **o),
    "replace": lambda s, **o: s.replace(["instead"], since=4, upto=4, **o),
    "expand": lambda s, **o: s.expand(3, **o),
    "rewind": lambda s, **o: s.rewind(2, **o),
    "rewind_with_state": lambda s, **o: s.rewind(2, state=True, **o),
    "clear": lambda s, **o: s.clear(**o),
    "set_state": lambda s, **o: s.set_state({"n": 1}, **o),
    "set_goal": lambda s, **o: s.set_goal("win", "somehow", **o),
    "start_call": lambda s, **o: s.start_call("c1", **o),
    "repair": lambda s, **o: s.repair(**o),
}

# Everything that changes a session without writing an entry.
CHANGES: dict[str, Callable[[Session], None]] = {
    "rename": lambda s: s.rename("a name"),
    "rename_auto": lambda s: s.rename("a name", auto=True),
    "tag": lambda s: s.tag("red"),
    "untag": lambda s: s.untag("red"),
    "update": lambda s: s.update(agent="a", model="m", provider="p", cwd="/src", meta={"n": 1}),
}

READS: dict[str, Callable[[Session], object]] = {
    "head": lambda s: s.head,
    "info": lambda s: s.info,
    "view": lambda s: s.view(),
    "view_at": lambda s: s.view(at=2, last=1),
    "messages": lambda s: s.messages(),
    "context": lambda s: s.context(format="openai", max_tokens=10_000),
    "entries": lambda s: list(s.entries()),
    "entry": lambda s: s.entry(1),
    "originals": lambda s: s.originals(3),
    "pending": lambda s: s.pending,
    "unanswered": lambda s: s.unanswered,
    "forks": lambda s: s.forks(),
    "state": lambda s: s.state,
    "state_at": lambda s: s.state_at(2),
    "goal": lambda s: s.goal,
    "drafts": lambda s: s.drafts,
    "queued": lambda s: s.queued(),
    "parent": lambda s: s.parent,
    "children": lambda s: s.children(),
    "tree": lambda s: s.tree(),
    "usage": lambda s: s.usage(),
    "usage_of_all": lambda s: s.usage(children=True),
    "requests": lambda s: s.requests(),
}

STORE_CALLS: dict[str, Callable[[Store, Session], object]] = {
    "session": lambda store, s: store.session("a key"),
    "new": lambda store, s: store.new(),
    "get": lambda store, s: store.get(str(s.id)),
    "find": lambda store, s: store.find("a key"),
    "latest": lambda store, s: store.latest(),
    "sessions": lambda store, s: store.sessions(),
    "follow": lambda store, s: store.follow(),
    "enqueue": lambda store, s: s.enqueue("hi"),
    "lease": lambda store, s: s.lease("worker"),
    "draft": lambda store, s: s.draft(),
    "archive": lambda store, s: store.archive(s),
    "trash": lambda store, s: store.trash(s),
    "restore": lambda store, s: store.restore(s),
    "search": lambda store, s: store.search("anything"),
    "index": lambda store, s: store.index(),
    "verify": lambda store, s: store.verify(),
    "stats": lambda store, s: store.stats(),
    "fork": lambda store, s: s.fork(),
    "spawn": lambda store, s: s.spawn(),
    "record_usage": lambda store, s: s.record_usage(input=1),
    "usage": lambda store, s: store.usage(),
    "delete": lambda store, s: store.delete(s),
    "erase": lambda store, s: store.erase(s),
    "redact": lambda store, s: s.redact(1, "why"),
    "prune": lambda store, s: store.prune(older_than=A_SECOND),
    "memory_claim": lambda store, s: store.memory("p").claim("x"),
    "memory_active": lambda store, s: store.memory("p").active(),
    "memory_recall": lambda store, s: store.memory("p").recall("x"),
}


class Contract:
    """The fixtures that all of it stands on. A subclass supplies `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        raise NotImplementedError("a subclass says how to open a store")

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[Store]:
        with open_store() as store:
            yield store
            with suppress(Closed):
                assert store.verify().problems == []

    @pytest.fixture
    def session(self, store: Store) -> Session:
        return store.new()
