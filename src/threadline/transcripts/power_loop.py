"""power-loop: a SQLite file of sessions, its tables without a prefix up to 1.x, with one since; or its JSON export.

A compaction is a row among the messages, `compact_note`, with a seq behind all that it stands for: told in the order of
seq it folds what was marked, where that stood. Up to 0.2 the range that it names may be inverted; then nothing was
folded, and both the note and its originals are shown."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import apsw
from msgspec.structs import replace

from threadline import DepthExceeded, Entry, InvalidMessage, Message, Request, Session, SessionInfo, formats
from threadline.transcripts.chat import dicts_of
from threadline.transcripts.course import Course, Shown, standing
from threadline.transcripts.desk import Desk, Origin
from threadline.transcripts.masking import Mask
from threadline.transcripts.sources import Source, decode, is_regular
from threadline.transcripts.timeline import Timeline
from threadline.transcripts.times import milliseconds

NAME = "power-loop"
PREFIX = "pl_"  # of its tables, from 2.0 on
NEWEST = 9  # the schema that we know
MAGIC = b"SQLite format 3\0"
NEEDED = ("sessions", "messages", "compactions", "session_state")
# Rows that belong to a session and are kept as notes, each once for each content.
BESIDE = (
    "session_state",
    "session_runtime_state",
    "background_tasks",
    "timers",
    "notes",
    "project_messages",
    "hook_events",
    "follow_up_queue",
)
LIFECYCLES = ("ephemeral", "linked", "detached")
CELL_MAX = 64 * 2**20
NOTE = "compact_note"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


class Tables(Protocol):
    """The tables of one store, whether in SQLite or in an export."""

    version: int | None

    def sessions(self) -> list[Row]: ...

    def of(self, table: str, session_id: str, order: str = "") -> Iterator[Row]:
        """The rows of a session, in the order of a column; none where there is no such table."""


# -- reading -------------------------------------------------------------------------------------------


def claims(source: Source) -> bool:
    if source.is_folder:
        return False
    if source.path.suffix == ".json":
        return bool(found := source.first(source.path, 1)) and {"schema_version", "tables"} <= found[0].keys()
    if source.magic() != MAGIC:
        return False
    try:
        with _opened(source.path) as connection:
            return bool(_prefixes(connection))
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
        return True  # damaged, and perhaps somebody's only copy: `bring` says so
    except (apsw.Error, OSError):
        return False


def bring(source: Source, desk: Desk) -> None:
    if source.path.suffix == ".json":
        export = source.object(source.path) or {}
        _bring_all(source, desk, Exported(export))
        return
    size = source.path.stat().st_size
    source.count(source.path, size)
    try:
        with _opened(source.path) as connection:
            for prefix in _prefixes(connection):
                _bring_all(source, desk, Database(connection, prefix, partial(desk.remark, source.path)))
    except (apsw.Error, UnicodeDecodeError) as error:
        source.report(source.path, 0, size, f"not imported whole: the database cannot be read: {error}")


def _bring_all(source: Source, desk: Desk, tables: Tables) -> None:
    """Parents before their children."""
    if (tables.version or 0) > NEWEST:
        desk.remark(source.path, f"schema {tables.version} is newer than we know: read as {NEWEST}")
    rows = sorted(tables.sessions(), key=lambda row: (_int(row, "spawn_depth"), _int(row, "created_at")))
    known: dict[str, str] = {}
    for row in rows:
        id = row.get("session_id")
        if not isinstance(id, str) or not id:
            desk.remark(source.path, f"a session without an id was left out: {row}")
            continue
        session = _bring_session(source, desk, tables, row, known)
        known[id] = str(session.id) if session is not None else id


def _bring_session(source: Source, desk: Desk, tables: Tables, row: Row, known: dict[str, str]) -> Session | None:
    id, parent = row["session_id"], row.get("parent_session_id")
    metadata = _json(row.get("metadata_json"))
    config = _json(row.get("config_json"))
    own = {"metadata": metadata, "config": config, "kind": row.get("kind"), "lifecycle": row.get("lifecycle")}
    origin = Origin(
        format=NAME,
        name=id,
        id=id,
        agent=_text(_dict(metadata).get("agent_name")) or NAME,
        title=_text(_dict(metadata).get("title")),
        model=_text(row.get("model")),
        system=_text(row.get("system_prompt")),
        meta={NAME: {name: value for name, value in own.items() if value not in (None, {})}},
        at=milliseconds(row.get("created_at")),
        updated_at=milliseconds(row.get("updated_at")),
        parent=known.get(parent) if isinstance(parent, str) else None,
        call_id=_text(row.get("spawn_tool_call_id")),
        lifecycle=row["lifecycle"] if row.get("lifecycle") in LIFECYCLES else None,
    )
    if parent and origin.parent is None:
        desk.remark(source.path, f"session {id}: its parent {parent} is gone, so that it is a root")

    def tell(timeline: Timeline) -> None:
        _Reader(source, tables, row, timeline).tell()

    try:
        return _finished(desk, tables, row, desk.bring(origin, source.path, tell))
    except DepthExceeded as error:
        desk.remark(source.path, f"session {id}: {error}; imported as a root")
        root = replace(origin, parent=None)
        return _finished(desk, tables, row, desk.bring(root, source.path, tell))


def _finished(desk: Desk, tables: Tables, row: Row, session: Session | None) -> Session | None:
    """What is no entry: what its requests took, and whether it was put away."""
    if session is None or desk.dry_run:
        return session
    for spent in tables.of("usage_rounds", row["session_id"], "created_at"):
        _spend(session, row["session_id"], spent)
    if row.get("status") == "archived" and desk.is_new(session):
        desk.store.archive(session)
    return session


def _spend(session: Session, id: str, spent: Row) -> None:
    cached, prompt = _int(spent, "cached_tokens"), _int(spent, "prompt_tokens")
    session.record_usage(
        input=max(prompt - cached, 0),
        output=_int(spent, "completion_tokens"),
        cache_read=min(cached, prompt),
        model=_text(spent.get("model")),
        request_id=f"{NAME}:{id}:{_int(spent, 'send_index')}:{_int(spent, 'round_index')}",
        at=milliseconds(spent.get("created_at")),
    )


class _Reader:
    """Tells one session to a timeline."""

    def __init__(self, source: Source, tables: Tables, row: Row, timeline: Timeline) -> None:
        self.source = source
        self.tables = tables
        self.id: str = row["session_id"]
        self.at = milliseconds(row.get("updated_at"))
        self.timeline = timeline
        self.course = Course(timeline)
        self.seqs: dict[int, int] = {}  # their seq by the place of ours
        self.folds = {_int(fold, "note_seq"): fold for fold in tables.of("compactions", self.id)}

    def tell(self) -> None:
        dropped: list[tuple[int, int]] = []
        for row in self.tables.of("messages", self.id, "seq"):
            place = self._step(row)
            if row.get("state") == "dropped" and place is not None:
                dropped.append((place, _int(row, "seq")))
                self.course.shown[-1] = self.course.shown[-1]._replace(note=True)
        for place, seq in dropped:
            self._drop(place, seq)
        for table in BESIDE:
            for row in self.tables.of(table, self.id):
                self._beside(table, row)

    def _step(self, row: Row) -> int | None:
        seq, at = _int(row, "seq"), milliseconds(row.get("created_at"))
        if row.get("name") == NOTE and self._fold(row, seq, at):
            return None
        try:
            message = message_of(row)
        except InvalidMessage as error:  # power-loop keeps what no provider takes, and so do we
            self.source.report(self.source.path, 0, 0, f"session {self.id}, seq {seq}, kept as a note: {error}")
            self.course.note({"row": {name: _kept(value) for name, value in row.items()}}, NAME, at=at)
            return None
        place = self.course.append(message, at=at)
        self.seqs[place] = seq
        return place

    def _fold(self, row: Row, seq: int, at: datetime | None) -> bool:
        """Fold what a note stands for, where that stood; False if it stands for nothing that is shown."""
        meta, audit = _dict(_json(row.get("meta_json"))), self.folds.get(seq, {})
        first = _int(meta, "from_seq") or _int(audit, "from_seq")
        last = _int(meta, "to_seq") or _int(audit, "to_seq")
        shown = self.course.shown
        exact = "ord" in meta  # since 1.x not all of the range is folded, but what is marked
        marked = self._marked(first, last) if exact else None
        found = [
            i
            for i, item in enumerate(shown)
            if first <= (at_seq := self.seqs.get(item.place, 0)) <= last and (marked is None or at_seq in marked)
        ]
        if not found:
            return False
        run = shown[found[0] : found[-1] + 1]
        kept = [item for item in run if self.seqs.get(item.place, 0) not in {self.seqs[shown[i].place] for i in found}]
        new = self._folded(row, run, kept, at)
        self.seqs[new[0].place] = seq
        self.course.shown = [*shown[: found[0]], *new, *shown[found[-1] + 1 :]]
        self.course.note({"compaction": _own(row) | ({"audit": audit} if audit else {})}, NAME, at=at)
        return True

    def _folded(self, row: Row, run: list[Shown], kept: list[Shown], at: datetime | None) -> list[Shown]:
        text = str(row.get("content") or "")
        if not kept:
            return [self.course.fold(text, run, at=at)]
        places = [item.place for item in run if not item.note]
        messages = [self._message(self.seqs[item.place]) for item in kept if not item.note]
        first = self.timeline.replace([standing(text), *messages], since=places[0], upto=places[-1], at=at)
        to = first + 1 + len(messages)
        new = [Shown(first + i, to) for i in range(1 + len(messages))]
        for item, old in zip(new[1:], (item for item in kept if not item.note), strict=True):
            self.seqs[item.place] = self.seqs[old.place]
            self.course.moved(old.place, item.place)
        return new

    def _marked(self, first: int, last: int) -> set[int]:
        return {
            _int(row, "seq")
            for row in self.tables.of("messages", self.id, "seq")
            if first <= _int(row, "seq") <= last and row.get("state") == "compacted_out"
        }

    def _message(self, seq: int) -> Message:
        (row,) = [row for row in self.tables.of("messages", self.id, "seq") if _int(row, "seq") == seq]
        return message_of(row)

    def _drop(self, place: int, seq: int) -> None:
        """A row that was dropped later, to mend the history: it leaves the view, and stays in the log."""

        def write(session: Session, key: str) -> object:
            entry = self.timeline.seq(place)
            if all(shown.seq != entry for shown in session.view().entries):
                return session.note({"dropped": seq}, NAME, key=key, at=self.at)
            return session.replace([], since=entry, upto=entry, key=key, at=self.at)

        self.timeline.settle("dropped", seq, write)

    def _beside(self, table: str, row: Row) -> None:
        data = {name: _kept(value) for name, value in row.items() if value is not None}
        if table == "session_state" and not data.get("pending_json"):
            return  # counters, which follow from the log
        self.timeline.settle(table, data, lambda session, key: session.note({table: data}, NAME, key=key, at=self.at))


# -- writing -------------------------------------------------------------------------------------------


def write(session: Session, path: Path, mask: Mask) -> None:
    """A SQLite file of the session and its sub-agents that power-loop reads from 2.0 on.

    It has the first schema with a prefix: each version brings it to its own when it opens it."""
    write_tables(session, path, mask, PREFIX, SCHEMA + SINCE_2)


def write_tables(session: Session, path: Path, mask: Mask, prefix: str, schema: str) -> None:
    """A SQLite file with that schema, its tables named with that prefix: whole, or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, partial = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".partial", dir=path.parent)
    os.close(fd)
    try:
        connection = apsw.Connection(partial)
        connection.execute(schema.replace("{p}", prefix))
        with connection:
            for each in _family(session):
                for table, row in _told(each, each.info, mask):
                    _insert(connection, prefix + table, row)
        connection.close()
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


SCHEMA = """
CREATE TABLE {p}sessions (
    session_id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, system_prompt TEXT,
    model TEXT, config_json TEXT, status TEXT NOT NULL DEFAULT 'active', kind TEXT NOT NULL DEFAULT 'root',
    parent_session_id TEXT, spawn_tool_call_id TEXT, spawn_depth INTEGER NOT NULL DEFAULT 0,
    lifecycle TEXT NOT NULL DEFAULT 'ephemeral', metadata_json TEXT
);
CREATE INDEX {p}idx_sessions_parent ON {p}sessions(parent_session_id);
CREATE TABLE {p}messages (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL, name TEXT, content TEXT, tool_calls_json TEXT,
    tool_call_id TEXT, round_index INTEGER, state TEXT NOT NULL DEFAULT 'active', meta_json TEXT,
    created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq)
);
CREATE INDEX {p}idx_messages_session_state ON {p}messages(session_id, state, seq);
CREATE TABLE {p}compactions (
    session_id TEXT NOT NULL, compact_seq INTEGER NOT NULL, note_seq INTEGER NOT NULL, from_seq INTEGER NOT NULL,
    to_seq INTEGER NOT NULL, before_tokens INTEGER, after_tokens INTEGER, round_index INTEGER,
    created_at INTEGER NOT NULL, PRIMARY KEY (session_id, compact_seq)
);
CREATE TABLE {p}usage_rounds (
    session_id TEXT NOT NULL, round_index INTEGER NOT NULL, prompt_tokens INTEGER, completion_tokens INTEGER,
    total_tokens INTEGER, model TEXT, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, round_index)
);
CREATE TABLE {p}session_state (
    session_id TEXT PRIMARY KEY, next_seq INTEGER NOT NULL DEFAULT 1, round_index INTEGER NOT NULL DEFAULT 0,
    last_compact_seq INTEGER NOT NULL DEFAULT 0, pending_json TEXT
);
"""

# What 2.0 has beside: its migrations change some of these, so they must be there.
SINCE_2 = """
CREATE TABLE {p}schema_migrations (id INTEGER PRIMARY KEY CHECK (id=1), version INTEGER NOT NULL);
INSERT INTO {p}schema_migrations VALUES (1, 1);
CREATE TABLE {p}session_runtime_state (
    session_id TEXT NOT NULL, state_key TEXT NOT NULL, value_json TEXT, updated_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, state_key)
);
CREATE TABLE {p}shared_state (
    owner TEXT NOT NULL, state_key TEXT NOT NULL, value_json TEXT, updated_at INTEGER NOT NULL,
    PRIMARY KEY (owner, state_key)
);
CREATE TABLE {p}background_tasks (
    session_id TEXT NOT NULL, task_id TEXT NOT NULL, command TEXT NOT NULL, status TEXT NOT NULL, return_code INTEGER,
    output_tail TEXT, output_path TEXT, last_seen_at INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, PRIMARY KEY (session_id, task_id)
);
CREATE INDEX {p}idx_background_tasks_session_status ON {p}background_tasks(session_id, status, updated_at);
CREATE TABLE {p}session_stats (
    session_id TEXT PRIMARY KEY, sends INTEGER NOT NULL DEFAULT 0, rounds INTEGER NOT NULL DEFAULT 0,
    llm_calls INTEGER NOT NULL DEFAULT 0, tool_calls INTEGER NOT NULL DEFAULT 0,
    prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,
    total_tokens INTEGER NOT NULL DEFAULT 0, first_send_at INTEGER, last_send_at INTEGER, updated_at INTEGER NOT NULL
);
CREATE TABLE {p}timers (
    session_id TEXT NOT NULL, timer_id INTEGER NOT NULL, due_at INTEGER NOT NULL, note TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'armed', interval_s INTEGER, fire_count INTEGER NOT NULL DEFAULT 0,
    last_fired_at INTEGER, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (session_id, timer_id)
);
CREATE INDEX {p}idx_timers_due ON {p}timers(status, due_at);
CREATE TABLE {p}notes (
    session_id TEXT NOT NULL, note_id INTEGER NOT NULL, content TEXT NOT NULL, pinned INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (session_id, note_id)
);
"""


def _family(session: Session) -> Iterator[Session]:
    """The session and all below it, a parent before its children."""
    yield session
    for child in session.children():
        yield from _family(child)


def _told(session: Session, info: SessionInfo, mask: Mask) -> Iterator[tuple[str, Row]]:
    """The rows of one session, each with its table."""
    own = _dict(info.meta.get(NAME))
    metadata = _dict(own.get("metadata")) | ({"title": info.title} if info.title else {})
    about = {
        "session_id": info.id,
        "created_at": _ms(info.created_at),
        "updated_at": _ms(info.updated_at),
        "system_prompt": info.system,
        "model": info.model,
        "config_json": _compactly(own.get("config") or {}),
        "status": "active" if info.status == "active" else "archived",
        "kind": "root" if info.parent is None else "subagent",
        "parent_session_id": info.parent,
        "spawn_tool_call_id": info.call_id,
        "spawn_depth": info.depth,
        "lifecycle": info.lifecycle or own.get("lifecycle") or "linked",
        "metadata_json": _compactly(metadata),
    }
    yield "sessions", mask.value(about)
    rows, folds = _rows(session)
    for row in rows:
        yield "messages", mask.value({"session_id": info.id, **row})
    for fold in folds:
        yield "compactions", {"session_id": info.id, **fold}
    for number, request in enumerate(session.requests()):
        yield "usage_rounds", {"session_id": info.id, **_round(number, request)}
    state = {"next_seq": len(rows) + 1, "last_compact_seq": len(folds), "pending_json": _pending(session, rows)}
    yield "session_state", {"session_id": info.id, **state}


def _rows(session: Session) -> tuple[list[Row], list[Row]]:
    """What is shown no more first, then what is shown: so that the order of seq is that of the view, in every version.
    A compaction is a note with the range that it names, and a row in the table of compactions."""
    shown = [entry for entry in session.view().entries if entry.message is not None]
    seen = {entry.seq for entry in shown}
    rows: list[Row] = []
    folds: list[Row] = []
    places: dict[int, int] = {}
    for entry in session.entries(kinds=("message", "compaction")):
        if entry.seq not in seen and entry.kind == "message":
            places[entry.seq] = len(rows) + 1
            rows += _said(entry, len(rows) + 1, "compacted_out")
    for entry in shown:
        if entry.kind != "compaction":
            rows += _said(entry, len(rows) + 1, "active")
            continue
        covered = [places[seq] for seq in _covered(session, entry.seq) if seq in places] or [len(rows) + 1]
        span = {"from_seq": min(covered), "to_seq": max(covered)}
        rows.append(_note(entry, len(rows) + 1, span))
        folds.append({"compact_seq": len(folds) + 1, "note_seq": len(rows), **span, "created_at": _ms(entry.at)})
    return rows, folds


def _covered(session: Session, seq: int) -> list[int]:
    """The messages that a compaction stands for, through all that it stands for itself."""
    found: list[int] = []
    left = [seq]
    while left:
        for entry in session.originals(left.pop()):
            (left if entry.kind == "compaction" else found).append(entry.seq)
    return found


def _said(entry: Entry, seq: int, state: str) -> list[Row]:
    """A message may be several rows: one for each result."""
    assert entry.message is not None
    if entry.message.meta.get("hidden"):
        state = "compacted_out"
    parts = [replace(entry.message, parts=(part,)) for part in entry.message.results]
    messages = parts if len(parts) > 1 and len(parts) == len(entry.message.parts) else [entry.message]
    at = {"state": state, "created_at": _ms(entry.at)}
    return [row_of(message) | {"seq": seq + i, **at} for i, message in enumerate(messages)]


def _note(entry: Entry, seq: int, span: Row) -> Row:
    assert entry.message is not None
    return {
        "seq": seq,
        "role": "system",
        "name": NOTE,
        "content": entry.message.text,
        "state": "active",
        "meta_json": _compactly(span | {"ord": seq}),
        "created_at": _ms(entry.at),
    }


def _round(number: int, request: Request) -> Row:
    prompt = request.input + request.cache_read + request.cache_write
    return {
        "round_index": number,
        "prompt_tokens": prompt,
        "completion_tokens": request.output,
        "total_tokens": prompt + request.output,
        "model": request.model,
        "created_at": _ms(request.at),
    }


def _pending(session: Session, rows: list[Row]) -> str | None:
    """The open calls of the last assistant, as power-loop resumes them."""
    open_ids = [pending.call.id for pending in session.pending]
    for row in reversed(rows):
        calls = _json(row.get("tool_calls_json"))
        if row.get("state") == "active" and isinstance(calls, list):
            left = [call for call in calls if isinstance(call, dict) and call.get("id") in open_ids]
            told = {"assistant_seq": row["seq"], "round_index": row.get("round_index") or 0}
            return _compactly(told | {"tool_call_ids": [c["id"] for c in left], "tool_calls": left}) if left else None
    return None


def _insert(connection: apsw.Connection, table: str, row: Row) -> None:
    names = ", ".join(row)
    connection.execute(
        f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", tuple(map(_cell, row.values()))
    )


def _cell(value: Any) -> str | int | float | None:
    """What a column can hold: SQLite has no lists, and no lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value if isinstance(value, int | float | None) else _compactly(value)


def _ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


# -- messages ------------------------------------------------------------------------------------------


def message_of(row: Row) -> Message:
    """A message of ours, read as OpenAI's. What is power-loop's own stays in its meta; the state does not: it is told
    by the compaction that changed it."""
    raw: Row = {"role": str(row.get("role") or "user"), "content": _content(row)}
    calls = _json(row.get("tool_calls_json"))
    if isinstance(calls, list) and calls:
        raw["tool_calls"] = [_call(call) for call in calls]
    if isinstance(row.get("tool_call_id"), str):
        raw["tool_call_id"] = row["tool_call_id"]
    if raw["role"] == "tool" and isinstance(row.get("name"), str):
        raw["name"] = row["name"]
    message = formats.read([raw], "openai")[0]
    return replace(message, meta=message.meta | {NAME: _own(row)})


def row_of(message: Message) -> Row:
    """The columns of a message as power-loop stores it; its seq, session and time are the writer's to say."""
    own = _dict(message.meta.get(NAME))
    meta = {name: value for name, value in message.meta.items() if name == "openai"}
    raw = dicts_of(replace(message, meta=meta))[0]
    content, calls = raw.get("content"), raw.get("tool_calls")
    return {
        "role": raw["role"],
        "name": raw.get("name") or own.get("name"),
        "content": content if isinstance(content, str | None) else own.get("content") or _dumps(content),
        "tool_calls_json": _compactly(calls) if calls else None,
        "tool_call_id": raw.get("tool_call_id"),
        "round_index": own.get("round_index"),
        "meta_json": _compactly(own.get("meta") or {}),
    }


def _own(row: Row) -> Row:
    """What is power-loop's own of a row."""
    own = {
        name: _kept(row[name])
        for name in ("seq", "name", "round_index", "send_index")
        if row.get(name) is not None and not (name == "name" and row.get("role") == "tool")
    }
    meta = _json(row.get("meta_json"))
    return own | ({"meta": meta} if meta else {})


def _content(row: Row) -> Any:
    """Text, or the blocks that were stored as their JSON, without any mark that they were."""
    content = row.get("content")
    if isinstance(content, bytes):
        return content.decode("utf-8", "replace")
    if isinstance(content, str) and content.startswith("[") and row.get("role") in ("user", "assistant", "tool"):
        blocks = _json(content)
        if isinstance(blocks, list) and blocks and all(isinstance(b, dict) and "type" in b for b in blocks):
            return blocks
    return content if content is None or isinstance(content, str) else str(content)


def _call(call: Any) -> Any:
    """A call as OpenAI has it; some versions store it flat."""
    if not isinstance(call, dict) or "function" in call or "name" not in call:
        return call
    given = call.get("arguments", call.get("input", {}))
    arguments = given if isinstance(given, str) else _dumps(given)
    return {"id": call.get("id"), "type": "function", "function": {"name": call["name"], "arguments": arguments}}


# -- the tables ----------------------------------------------------------------------------------------


class Database:
    """The tables of a SQLite file, opened to be read only. What is wrong with a row is remarked."""

    def __init__(self, connection: apsw.Connection, prefix: str, remark: Callable[[str], None]) -> None:
        self._connection = connection
        self._prefix = prefix
        self._remark = remark
        self._columns = {table: _columns(connection, prefix + table) for table in _tables(connection, prefix)}
        self.version = self._version()

    def sessions(self) -> list[Row]:
        return list(self._rows("sessions", "", ()))

    def of(self, table: str, session_id: str, order: str = "") -> Iterator[Row]:
        columns = self._columns.get(table, [])
        if "session_id" not in columns:
            return iter(())
        by = f' ORDER BY "{order}"' if order in columns else ""
        return self._rows(table, f'WHERE "session_id" = ?{by}', (session_id,))

    def _rows(self, table: str, where: str, bound: tuple[Any, ...]) -> Iterator[Row]:
        columns = self._columns[table]
        names = ", ".join(f'"{name}"' for name in columns)
        query = f'SELECT {names} FROM "{self._prefix}{table}" {where} LIMIT -1 OFFSET ?'
        done, whole = 0, False
        while not whole:
            try:
                for row in self._connection.execute(query, (*bound, done)):
                    done += 1
                    yield dict(zip(columns, row, strict=True))
                whole = True
            except UnicodeDecodeError as error:  # one damaged row hides no other
                done += 1
                self._remark(f"row {done} of {table} was left out: its text is damaged: {error}")

    def _version(self) -> int | None:
        if "schema_migrations" not in self._columns:
            return None
        found = [row.get("version") for row in self._rows("schema_migrations", "", ())]
        return max((version for version in found if isinstance(version, int)), default=None)


class Exported:
    """The tables of one session, as power-loop exports it."""

    def __init__(self, export: Row) -> None:
        tables = _dict(export.get("tables"))
        self._rows = {name: [row for row in rows if isinstance(row, dict)] for name, rows in tables.items() if rows}
        version = export.get("schema_version")
        self.version = version if isinstance(version, int) else None

    def sessions(self) -> list[Row]:
        return self._rows.get("sessions", [])

    def of(self, table: str, session_id: str, order: str = "") -> Iterator[Row]:
        rows = [row for row in self._rows.get(table, []) if row.get("session_id") == session_id]
        return iter(sorted(rows, key=lambda row: _int(row, order)) if order else rows)


@contextmanager
def _opened(path: Path) -> Iterator[apsw.Connection]:
    """A connection that changes nothing, in one read transaction, while others may write.

    A database in WAL mode that nobody has open is read as it is: opening it otherwise would make files beside it. One
    that a crash left with its log, or with a journal to roll back, is copied, and the copy opened."""
    beside = {end: path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")}
    there = {end for end, file in beside.items() if is_regular(file)}
    if "-wal" in there and "-shm" in there:
        with _connected(path, "mode=ro") as connection:
            yield connection
    elif "-journal" in there or ("-wal" in there and beside["-wal"].stat().st_size):
        with tempfile.TemporaryDirectory(prefix="threadline-import-") as folder:
            for file in (path, *(beside[end] for end in there if end != "-shm")):
                shutil.copyfile(file, Path(folder) / file.name, follow_symlinks=False)
            with _connected(Path(folder) / path.name, "mode=rw") as connection:
                yield connection
    else:
        with _connected(path, "immutable=1" if _is_wal(path) else "mode=ro") as connection:
            yield connection


@contextmanager
def _connected(path: Path, how: str) -> Iterator[apsw.Connection]:
    flags = apsw.SQLITE_OPEN_URI | (apsw.SQLITE_OPEN_READWRITE if how == "mode=rw" else apsw.SQLITE_OPEN_READONLY)
    connection = apsw.Connection(f"file:{quote(str(path.absolute()))}?{how}", flags=flags)
    try:
        connection.set_busy_timeout(5_000)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, CELL_MAX)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()


def _is_wal(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"


def _prefixes(connection: apsw.Connection) -> list[str]:
    """What stands before the names of the tables of each store in the file."""
    names = _names(connection)
    ends = [name.removesuffix("session_state") for name in names if name.endswith("session_state")]
    return [prefix for prefix in ends if all(prefix + table in names for table in NEEDED)]


def _tables(connection: apsw.Connection, prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in _names(connection) if name.startswith(prefix)]


def _names(connection: apsw.Connection) -> list[str]:
    """The plain tables: a view of a stranger is not asked."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    return [str(name) for (name,) in found if '"' not in str(name)]


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return [str(name) for (name,) in found if '"' not in str(name)]


# -- values --------------------------------------------------------------------------------------------


def _json(value: Any) -> Any:
    """What a column of JSON says; the text itself where it is none."""
    if not isinstance(value, str) or not value:
        return None if value == "" else value
    try:
        return decode(value.encode("utf-8", "surrogatepass"))
    except ValueError:
        return value


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _compactly(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _kept(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _int(row: Row, name: str) -> int:
    value = row.get(name)
    return value if type(value) is int else 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _dict(value: Any) -> Row:
    return value if isinstance(value, dict) else {}
