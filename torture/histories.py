"""Histories: a random but repeatable use of a store through its public API, for tests that break the machine.

Every step is one call and one transaction. The clock stands still within a step and moves between them, so that the
time of an entry tells which step wrote it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from msgspec.structs import replace

from threadline import Entry, Message, Session, Store, ToolCall
from threadline.backends.sqlite.backend import SqliteBackend
from threadline.core.about import LIFECYCLES
from threadline.pen import Pen
from threadline.store import MAX_DEPTH

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXT_BYTES = (20, 20, 150, 700, 3_000, 6_000)  # from a few words to what fills several pages of the file


class Step(NamedTuple):
    """A call that is yet to be made. It leaves so many `traces`: entries, a fork, a child, a request or a tag. With a
    `key` it may be made again and again."""

    number: int
    what: str
    session: str
    traces: int
    key: str | None
    run: Callable[[Store], Any]


class Clock:
    step = 0

    def __call__(self) -> datetime:
        return START + timedelta(seconds=self.step)


def step_of(entry: Entry) -> int:
    return round((entry.at - START).total_seconds())


def open_store(path: Path, clock: Clock | None = None, **options: Any) -> Store:
    return Store(SqliteBackend(str(path), **options), pen=Pen(clock or Clock()))


@contextmanager
def loaded_dice() -> Iterator[None]:
    """The same ids and salts in every run, so that the same seed makes the same files."""
    memory = Random("memory")
    with (
        patch("threadline.store.urandom", Random("ids").randbytes),
        patch("threadline.drafts.urandom", Random("drafts").randbytes),
        patch("threadline.working_memory.token_hex", lambda size: memory.randbytes(size).hex()),
    ):
        yield


@contextmanager
def fast_folder() -> Iterator[Path]:
    """A folder in memory where there is one: these tests model the disk themselves."""
    folder = tempfile.mkdtemp(prefix="threadline-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


def folder_of(folder: Path, name: str) -> Path:
    inner = folder / name
    inner.mkdir(exist_ok=True)
    return inner


def fresh(folder: Path) -> Path:
    """The path of a new store in an emptied folder."""
    for old in folder.iterdir():
        old.unlink()
    return folder / "store.db"


def snapshot(store: Store) -> dict[str, Any]:
    """All that a store says of its sessions, by their keys; without ids, which are drawn by dice."""
    return {info.key or "": _portrait(store, info) for info in store.sessions(status=None, root=False)}


def _portrait(store: Store, info: Any) -> tuple[Any, ...]:
    session = store.get(info.id)
    about = replace(
        info, id="", origin=info.origin and info.origin[1], parent=info.parent and store.get(info.parent).key
    )
    entries = [replace(entry, session="") for entry in session.entries()]
    waiting = [(letter.message, letter.key) for letter in session.queued()]
    return about, entries, session.messages(), session.usage(children=True), session.requests(), waiting


# -- choosing a step -----------------------------------------------------------------------------------


def next_step(store: Store, rng: Random, number: int, *, whole_life: bool = False) -> Step:
    """One that the store, as it is now, will not refuse. In a whole life there are steps, too, that leave no trace of
    their own, or take those of others along: deletions, letters, archives."""
    keys = sorted(info.key or "" for info in store.sessions(limit=1_000, root=False))
    if whole_life and len(keys) > 2 and rng.random() < 0.06:
        return _delete(store.session(rng.choice(keys)), rng, number)
    if not keys or rng.random() < 0.06:
        return _append(f"session-{number}", rng, number)
    session = store.session(rng.choice(keys))
    table = CHOICES | (WHOLE_LIFE if whole_life else {})
    choices = rng.choices(list(table), weights=list(table.values()))
    return choices[0](session, rng, number) or _append(str(session.key), rng, number)


def _append(session: str, rng: Random, number: int) -> Step:
    message, key = _message(rng), _key(rng, number)
    return Step(number, "append", session, 1, key, lambda s: s.session(session).append(message, key=key))


def _say(session: Session, rng: Random, number: int) -> Step:
    return _append(str(session.key), rng, number)


def _tool_round(session: Session, rng: Random, number: int) -> Step:
    ids = [f"call-{number}-{i}" for i in range(rng.randint(1, 4))]
    asks = Message.assistant("let me look", *(ToolCall(id, "look", {"n": number}) for id in ids))
    messages = [asks, *(Message.tool(id, _text(rng)) for id in ids)]
    key, name = _key(rng, number), str(session.key)
    return Step(
        number,
        "extend",
        name,
        len(messages),
        key,
        lambda s: s.session(name).extend(messages, key=key, usage={"input": 1}),
    )


def _batch(session: Session, rng: Random, number: int) -> Step:
    to, message, key, name = rng.randint(0, session.head), _message(rng), _key(rng, number), str(session.key)
    keys = [None if key is None else f"{key}{letter}" for letter in "abc"]

    def run(store: Store) -> list[Entry]:
        with store.session(name).batch() as batch:
            batch.rewind(to, key=keys[0])
            batch.append(message, key=keys[1])
            batch.note({"why": "edited"}, key=keys[2])
        return batch.entries

    return Step(number, "batch", name, 3, key, run)


def _compact(session: Session, rng: Random, number: int) -> Step | None:
    if len(session.view().turns) < 3 or session.pending:
        return None
    summary, key, name = _text(rng), _key(rng, number), str(session.key)
    return Step(number, "compact", name, 1, key, lambda s: s.session(name).compact(summary, keep_turns=1, key=key))


def _replace(session: Session, rng: Random, number: int) -> Step | None:
    seen = [entry.seq for entry in session.view().entries]
    if not seen:
        return None
    low, high = sorted(rng.choices(range(len(seen)), k=2))
    messages = [_message(rng) for _ in range(rng.randint(1, 3))]
    key, name = _key(rng, number), str(session.key)
    return Step(
        number,
        "replace",
        name,
        len(messages) + 1,
        key,
        lambda s: s.session(name).replace(messages, since=seen[low], upto=seen[high], key=key),
    )


def _expand(session: Session, rng: Random, number: int) -> Step | None:
    folds = [entry.seq for entry in session.view().entries if entry.kind == "compaction"]
    if not folds:
        return None
    seq, key, name = rng.choice(folds), _key(rng, number), str(session.key)
    return Step(number, "expand", name, 1, key, lambda s: s.session(name).expand(seq, key=key))


def _rewind(session: Session, rng: Random, number: int) -> Step:
    to, key, name = rng.randint(0, session.head), _key(rng, number), str(session.key)
    return Step(number, "rewind", name, 1, key, lambda s: s.session(name).rewind(to, key=key))


def _set_state(session: Session, rng: Random, number: int) -> Step:
    values, key, name = {f"name-{number % 5}": _text(rng), "n": number}, _key(rng, number), str(session.key)
    return Step(number, "set_state", name, 1, key, lambda s: s.session(name).set_state(values, key=key))


def _fork(session: Session, rng: Random, number: int) -> Step:
    at, name, new = rng.randint(0, session.head), str(session.key), f"fork-{number}"
    return Step(number, "fork", new, 1, None, lambda s: s.session(name).fork(at, key=new))


def _spawn(session: Session, rng: Random, number: int) -> Step | None:
    if session.info.depth >= MAX_DEPTH:
        return None
    name, new, lifecycle = str(session.key), f"child-{number}", rng.choice(LIFECYCLES)
    return Step(number, "spawn", new, 1, new, lambda s: s.session(name).spawn("sub", key=new, lifecycle=lifecycle))


def _spend(session: Session, rng: Random, number: int) -> Step:
    name, request, tokens = str(session.key), f"request-{number}", rng.randint(1, 1_000)
    options = {"input": tokens, "model": rng.choice(("large", "small")), "request_id": request}
    return Step(number, "record_usage", name, 1, request, lambda s: s.session(name).record_usage(**options))


def _delete(session: Session, rng: Random, number: int) -> Step:
    name, cascade = str(session.key), rng.random() < 0.7
    return Step(number, "delete", name, 0, None, lambda s: s.delete(s.session(name), cascade=cascade))


def _retag(session: Session, rng: Random, number: int) -> Step:
    name = str(session.key)
    return Step(number, "tag", name, 1, None, lambda s: s.session(name).tag(f"tag-{number}"))


CHOICES: dict[Callable[[Session, Random, int], Step | None], int] = {
    _say: 6,
    _tool_round: 4,
    _batch: 2,
    _compact: 2,
    _replace: 2,
    _expand: 1,
    _rewind: 1,
    _set_state: 1,
    _fork: 1,
    _spawn: 1,
    _spend: 1,
    _retag: 1,
}


def _enqueue(session: Session, rng: Random, number: int) -> Step:
    message, key, name = _message(rng), _key(rng, number), str(session.key)
    return Step(number, "enqueue", name, 0, key, lambda s: s.session(name).enqueue(message, key=key))


def _take(session: Session, rng: Random, number: int) -> Step | None:
    name = str(session.key)
    return Step(number, "take", name, 1, None, lambda s: s.session(name).take()) if session.queued() else None


def _set_goal(session: Session, rng: Random, number: int) -> Step:
    goal, key, name = _text(rng), _key(rng, number), str(session.key)
    return Step(number, "set_goal", name, 1, key, lambda s: s.session(name).set_goal(goal, key=key))


def _clear(session: Session, rng: Random, number: int) -> Step:
    key, name = _key(rng, number), str(session.key)
    return Step(number, "clear", name, 1, key, lambda s: s.session(name).clear(key=key))


def _archive(session: Session, rng: Random, number: int) -> Step:
    name = str(session.key)
    return Step(number, "archive", name, 0, None, lambda s: s.archive(s.session(name)))


def _erase(session: Session, rng: Random, number: int) -> Step:
    name = str(session.key)
    return Step(number, "erase", name, 0, None, lambda s: s.erase(s.session(name), cascade=True))


def _redact(session: Session, rng: Random, number: int) -> Step | None:
    if not session.head:
        return None
    seq, name = rng.randint(1, session.head), str(session.key)
    return Step(number, "redact", name, 0, None, lambda s: s.session(name).redact(seq, "a secret"))


WHOLE_LIFE: dict[Callable[[Session, Random, int], Step | None], int] = {
    _enqueue: 2,
    _take: 2,
    _set_goal: 1,
    _clear: 1,
    _archive: 1,
    _erase: 1,
    _redact: 1,
}


def _message(rng: Random) -> Message:
    return rng.choice((Message.user, Message.assistant))(_text(rng))


def _text(rng: Random) -> str:
    return rng.randbytes(rng.choice(TEXT_BYTES)).hex()


def _key(rng: Random, number: int) -> str | None:
    return rng.choice((None, f"key-{number}"))
