"""nanobot: a JSONL file per session, whose first line says what is known of it, and the files of its workspace.

A file is rewritten whole whenever it is saved: its messages are the course, and what the first line says (how far they
were consolidated, the goal, a turn under way) is settled after it. From 0.3 on names are base64url of the key, a second
line may hold the provider's state, a sidecar the turn under way, and hidden messages mark where a summary took over."""

from __future__ import annotations

import json
import mimetypes
import os
import re
from array import array
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from threadline import Entry, InvalidMessage, Media, Message, Reasoning, Session, Text, ToolResult, formats
from threadline.transcripts.chat import dicts_of
from threadline.transcripts.course import Course, keep_output, splits_no_pair, standing
from threadline.transcripts.desk import Desk, Origin
from threadline.transcripts.masking import Mask
from threadline.transcripts.output import write_pieces
from threadline.transcripts.sources import Damage, Line, Source, decode, is_folder, is_regular
from threadline.transcripts.timeline import OPEN, Timeline
from threadline.transcripts.times import iso

NAME = "nanobot"
MEMORIES = ("MEMORY.md", "USER.md", "SOUL.md")
SIDECAR = ".checkpoint.json"
SIDECAR_VERSION = 1
BOUNDARY = "Continue the active task from the working-memory checkpoint above."
WORKSPACE = re.compile(r"[0-9a-f]{32}")
# The fields of a message that a model is sent; all others are nanobot's own.
SENT = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content"})
PLAIN = frozenset({"role", "content", "tool_call_id", "name", "timestamp"})
HEAD = frozenset({"_type", "key", "created_at", "updated_at", "metadata", "last_consolidated", "last_archived"})
SAME = ("role", "content", "tool_call_id", "name", "tool_calls", "reasoning_content", "thinking_blocks")


# -- reading -------------------------------------------------------------------------------------------


def claims(source: Source) -> bool:
    if source.is_folder:
        return False
    if source.path.name in MEMORIES:
        return _workspace_of(source.path) is not None
    return source.path.suffix == ".jsonl" and _kind(source) is not None


def bring(source: Source, desk: Desk) -> None:
    if source.path.name in MEMORIES:
        _bring_memory(source, desk)
        return
    kind = _kind(source)
    if kind == "session":
        _bring_session(source, desk)
    elif kind is not None:
        _bring_record(source, desk, kind)


def _kind(source: Source) -> str | None:
    """What sort of file it is, by its first lines."""
    for line in source.first(source.path):
        if line.get("_type") == "metadata":
            return "session"
        if isinstance(line.get("role"), str) and ("timestamp" in line or source.path.parent.name == "sessions"):
            return "session"
        if "cursor" in line and "timestamp" in line and "content" in line:
            return "history"
        if isinstance(line.get("event"), str) and source.path.parent.name == "webui":
            return "webui"
    return None


def _bring_session(source: Source, desk: Desk) -> None:
    about = next((line for line in source.first(source.path, 2) if line.get("_type") == "metadata"), {})
    metadata = _dict(about.get("metadata"))
    key, workspace = _key(source.path, about), source.path.parent.name
    title = metadata.get("title")
    private = ("runtime_checkpoint",)
    origin = Origin(
        format=NAME,
        name=f"{workspace}/{key}" if WORKSPACE.fullmatch(workspace) else key,
        key=key if 0 < len(key) <= 512 else None,
        title=title if isinstance(title, str) and title else None,
        auto_title=not metadata.get("title_user_edited"),
        agent=NAME,
        meta={NAME: {name: value for name, value in metadata.items() if name not in private}} if metadata else {},
        at=iso(about.get("created_at")),
        updated_at=iso(about.get("updated_at")),
    )
    checkpoint = _checkpoint(source, about, key, desk)
    desk.bring(origin, source.path, lambda timeline: _Reader(source, timeline, desk, about, checkpoint).tell())


class _Reader:
    """Tells one file to a timeline."""

    def __init__(
        self, source: Source, timeline: Timeline, desk: Desk, about: dict[str, Any], checkpoint: dict[str, Any] | None
    ) -> None:
        self.source = source
        self.desk = desk
        self.course = Course(timeline, listed=False)
        self.timeline = timeline
        self.at = iso(about.get("updated_at"))
        self.key = _key(source.path, about)
        self.checkpoint = checkpoint
        self.lines = array("q")  # the place of each line that nanobot counts; -1 for a boundary
        self.tail: deque[dict[str, Any]] = deque(maxlen=64)  # to tell what of a checkpoint is among the messages
        self.boundaries: list[dict[str, Any]] = []
        self.heads: list[dict[str, Any]] = []
        self.provider_state: dict[str, Any] = {}
        self.offset = 0

    def tell(self) -> None:
        for line in self.source.lines(self.source.path):
            if isinstance(line, Damage):
                self.course.aside(self.source.path.name, line)
                continue
            try:
                self._line(line)
            except InvalidMessage as error:
                self.source.report(self.source.path, line.offset, line.length, f"cannot be kept exactly: {error}")
        self._settle()

    def _line(self, line: Line) -> None:
        raw, self.offset = line.value, line.offset
        match raw.get("_type"):
            case "metadata":
                self.heads.append(raw)
            case "provider_state":
                self.provider_state = raw
            case _ if is_boundary(raw):
                self.boundaries.append({"before": len(self.lines), "message": raw})
                self.lines.append(-1)
            case _:
                self.lines.append(self._message(raw))
                self.tail.append(raw)

    def _message(self, raw: dict[str, Any]) -> int:
        at = iso(raw.get("timestamp"))
        if not isinstance(raw.get("role"), str) or not raw["role"]:
            return self.course.note({"line": raw}, NAME, at=at, shown=True)
        try:
            message = message_of(raw)
        except InvalidMessage as error:  # nanobot keeps what no provider takes, and so do we
            self.source.report(self.source.path, self.offset, 0, f"kept as a note, not as a message: {error}")
            return self.course.note({"line": raw}, NAME, at=at, shown=True)
        return self.course.append(message, at=at)

    # -- what the first line says ------------------------------------------------------------------

    def _settle(self) -> None:
        """The last head counts, as it does for nanobot itself."""
        head = self.heads[-1] if self.heads else {}
        metadata = _dict(head.get("metadata"))
        self._note("head", {name: value for name, value in head.items() if name not in HEAD})
        self._note("provider_state", self.provider_state)  # private to the provider: never in a view
        for boundary in self.boundaries:
            self._note("boundary", boundary)
        self._outputs()
        self._consolidated(head, metadata)
        self._goal(metadata)
        if self.checkpoint is not None:
            self._open(self.checkpoint)

    def _outputs(self) -> None:
        """The outputs that were too large for the file, beside the sessions of the same workspace."""
        folder = self.source.path.parent.parent / ".nanobot" / "tool-results"
        if self.source.path.parent.name == "sessions" and is_folder(folder.parent) and is_folder(folder):
            for path in self.source.listed(folder / _safe(self.key)):
                keep_output(self.timeline, self.source, path, path.stem, self.at)

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        if data:
            self.timeline.settle(kind, data, lambda session, key: session.note({kind: data}, NAME, key=key, at=self.at))

    def _consolidated(self, head: dict[str, Any], metadata: dict[str, Any]) -> None:
        """The messages before the cursor are not shown any more; the last summary stands for them if there is one."""
        cursor = archive_offset(head)
        if not cursor:
            return
        if not 0 < cursor <= len(self.lines):  # it would hide all of the history, or none
            self.desk.remark(self.source.path, f"last_consolidated is {cursor} of {len(self.lines)} messages: ignored")
            return
        places = [place for place in self.lines[:cursor] if place >= 0]
        summary = _dict(metadata.get("_last_summary")).get("text")
        text = summary if isinstance(summary, str) and summary else None
        if places:
            upto = places[-1]
            self.timeline.settle(
                "consolidated",
                [cursor, text],
                lambda session, key: fold(session, self.timeline.seq(upto), text, key, self.at),
            )

    def _goal(self, metadata: dict[str, Any]) -> None:
        goal = _goal_of(metadata)
        objective, summary = goal.get("objective"), goal.get("ui_summary")
        if not isinstance(objective, str) or not objective.strip():
            return
        text = summary if isinstance(summary, str) else None
        began, ended = iso(goal.get("started_at")) or self.at, iso(goal.get("completed_at")) or self.at
        self.timeline.settle(
            "goal",
            [objective, text, goal.get("started_at")],
            lambda session, key: session.set_goal(objective, text, key=key, at=began),
        )
        if goal.get("status") == "completed":
            recap = goal.get("recap") if isinstance(goal.get("recap"), str) else None
            self.timeline.settle(
                "goal completed",
                [objective, recap, goal.get("completed_at")],
                lambda session, key: session.complete_goal(recap, key=key, at=ended),
            )

    def _open(self, checkpoint: dict[str, Any]) -> None:
        """A turn under way: what it has said so far, as far as that is not among the messages already."""
        said = [checkpoint.get("assistant_message"), *_list(checkpoint.get("completed_tool_results"))]
        restored = [raw for raw in said if isinstance(raw, dict) and isinstance(raw.get("role"), str)]
        new = restored[_overlap([*self.tail], restored) :]
        try:
            messages = [message_of(raw) for raw in new]
        except InvalidMessage as error:
            self.desk.remark(self.source.path, f"the checkpoint of a turn under way is left out: {error}")
            return
        if messages:
            self.timeline.open(messages, at=self.at)


def fold(session: Session, upto: int, summary: str | None, key: str, at: datetime | None) -> Entry:
    """Fold, or take away where there is no summary, what the view shows up to an entry."""
    run: list[Entry] = []
    for entry in session.view().entries:
        if entry.kind == "message" and entry.seq > upto and not (entry.key or "").startswith("threadline:import:"):
            break
        run.append(entry)
    if not run:
        return session.note({"consolidated": upto}, NAME, key=key, at=at)
    since, last = run[0].seq, run[-1].seq
    messages = [entry.message for entry in run if entry.message is not None]
    if summary is None:
        return session.replace([], since=since, upto=last, key=key, at=at)
    if splits_no_pair(messages):
        return session.compact(summary, since=since, upto=last, key=key, at=at)
    return session.replace([standing(summary)], since=since, upto=last, key=key, at=at)


# -- writing -------------------------------------------------------------------------------------------


def write(session: Session, path: Path, mask: Mask) -> None:
    """A file that nanobot reads, or one in the `sessions` of a workspace, if `path` is a folder.

    In a folder it has the name that 0.3 gives it, unless the files there have names of the older kind."""
    key = session.key or session.id or ""
    file = path if path.suffix == ".jsonl" else path / "sessions" / f"{_stem(path / 'sessions', key)}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    head, messages = _Writer(session).told()
    write_pieces(file, (_line(mask.value(raw)) for raw in (head | {"key": key}, *messages)))


class _Writer:
    """nanobot knows one list and a cursor: what stands before it is not shown, and the last summary stands for it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.info = session.info
        self.notes = [entry.data or {} for entry in session.entries(kinds=(NAME,))]

    def told(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        view = [entry for entry in self.session.view().entries if entry.message is not None]
        summary = view.pop(0) if view and _is_summary(view[0]) else None
        under_way = self._under_way(view)
        view = view[: len(view) - len(under_way)]
        past, shown = self._divided(view, {entry.seq for entry in under_way})
        hides = summary is not None or not all(map(_is_hidden, past))
        cursor = sum(len(self._raws(entry)) for entry in past) if hides else 0
        told = [raw for entry in (*past, *shown) for raw in self._raws(entry)]
        return self._with_boundaries(self._head(cursor, summary, under_way), told, cursor)

    def _divided(self, view: list[Entry], under_way: set[int]) -> tuple[list[Entry], list[Entry]]:
        """All that was said, cut where the view begins; in the order of the view, where that is another."""
        seen = {entry.seq for entry in view}
        logged = [
            entry
            for entry in self.session.entries(kinds=("message",))
            if entry.seq not in under_way and self._is_said(entry, seen)
        ]
        begins = next((i for i, entry in enumerate(logged) if view and entry.seq == view[0].seq), len(logged))
        if [entry.seq for entry in logged[begins:] if not _is_hidden(entry)] == [entry.seq for entry in view]:
            return logged[:begins], logged[begins:]
        return [entry for entry in logged if entry.seq not in seen], view

    def _is_said(self, entry: Entry, seen: set[int]) -> bool:
        """All that was said, but what was only under way, and summaries of ours."""
        key = entry.key or ""
        return (not key.startswith(OPEN) or entry.seq in seen) and not _is_summary(entry)

    def _under_way(self, view: list[Entry]) -> list[Entry]:
        """The turn at the end that has open calls: nanobot keeps it apart."""
        first = min((pending.seq for pending in self.session.pending), default=0)
        at = next((i for i, entry in enumerate(view) if entry.seq == first), None)
        return [] if at is None else view[at:]

    def _head(self, cursor: int, summary: Entry | None, under_way: list[Entry]) -> dict[str, Any]:
        info = self.info
        metadata = dict(_dict(info.meta.get(NAME)))
        metadata |= {"title": info.title} if info.title else {}
        if summary is not None and summary.message is not None:
            metadata["_last_summary"] = {"text": summary.message.text, "last_active": local(info.updated_at)}
        metadata |= self._goal()
        if under_way:
            raws = [raw for entry in under_way for raw in self._raws(entry)]
            calls = [call for call in _list(raws[0].get("tool_calls")) if isinstance(call, dict)]
            pending = [call for call in calls if call.get("id") in self._open_ids()]
            metadata["runtime_checkpoint"] = {
                "assistant_message": raws[0],
                "completed_tool_results": raws[1:],
                "pending_tool_calls": pending,
            }
        kept: dict[str, Any] = next((note["head"] for note in reversed(self.notes) if "head" in note), {})
        return {
            "_type": "metadata",
            "created_at": local(info.created_at),
            "updated_at": local(info.updated_at),
            "metadata": metadata,
            "last_archived": cursor,
            "last_consolidated": cursor,
            **kept,
        }

    def _open_ids(self) -> set[str]:
        return {pending.call.id for pending in self.session.pending}

    def _goal(self) -> dict[str, Any]:
        goal = self.session.goal
        if goal is None:
            return {}
        told = {"status": goal.status, "objective": goal.objective, "ui_summary": goal.summary, "recap": goal.recap}
        times = {"started_at": goal.started_at, "completed_at": goal.completed_at}
        told |= {name: local(at) for name, at in times.items() if at is not None}
        return {"goal_state": {name: value for name, value in told.items() if value is not None}}

    def _raws(self, entry: Entry) -> list[dict[str, Any]]:
        assert entry.message is not None
        dated = {} if NAME in entry.message.meta else {"timestamp": local(entry.at)}
        return [dated | raw for raw in raws_of(entry.message)]

    def _with_boundaries(
        self, head: dict[str, Any], told: list[dict[str, Any]], cursor: int
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The marks of earlier summaries where they stood, which the cursor counts."""
        for note in self.notes:
            boundary = _dict(note.get("boundary"))
            at, message = boundary.get("before"), boundary.get("message")
            if type(at) is int and isinstance(message, dict) and at <= len(told):
                told.insert(at, message)
                cursor += 1 if at < cursor else 0
        head["last_archived"] = head["last_consolidated"] = cursor
        states = [note["provider_state"] for note in self.notes if "provider_state" in note]
        return head, [*states[-1:], *told]


def _stem(folder: Path, key: str) -> str:
    names = [file.stem for file in folder.glob("*.jsonl")] if folder.is_dir() else []
    if names and not any(map(_decoded, names)):
        return _safe(key)
    return urlsafe_b64encode(key.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _safe(key: str) -> str:
    """A key as the older names have it."""
    return re.sub(r'[<>:"/\\|?*]', "_", key).strip()


def _decoded(stem: str) -> str | None:
    """The key that a name of the newer kind tells."""
    try:
        key = urlsafe_b64decode(stem + "=" * (-len(stem) % 4)).decode()
    except (ValueError, NotBase64):
        return None
    same = urlsafe_b64encode(key.encode()).decode().rstrip("=") == stem
    return key if same and key.isprintable() and ":" in key else None


def local(moment: datetime) -> str:
    """A time as nanobot writes it: local, without a zone."""
    return moment.astimezone().replace(tzinfo=None).isoformat()


def _is_hidden(entry: Entry) -> bool:
    return entry.message is not None and bool(entry.message.meta.get("hidden"))


def _is_summary(entry: Entry) -> bool:
    return entry.message is not None and bool(entry.message.meta.keys() & {"compaction", "summary"})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


# -- messages ------------------------------------------------------------------------------------------


def message_of(raw: dict[str, Any]) -> Message:
    """A message of ours: what a model is sent, read as OpenAI's; what is nanobot's own, in its meta."""
    return _plain_message(raw) or _any_message(raw)


def _plain_message(raw: dict[str, Any]) -> Message | None:
    """The same for words and results in plain text, which most lines are: in a third of the time. None for others."""
    role, content = raw.get("role"), raw.get("content")
    if type(content) is not str or not PLAIN.issuperset(raw):
        return None
    own = {name: value for name, value in raw.items() if name not in SENT}
    meta: dict[str, Any] = {"openai": {"name": raw["name"]}} if "name" in raw else {}
    if own:
        meta[NAME] = own
    call_id = raw.get("tool_call_id")
    if role == "tool" and type(call_id) is str:
        return Message("tool", (ToolResult(call_id, content),), meta)
    if role in ("user", "assistant", "system") and content and "tool_call_id" not in raw:
        return Message(role, (Text(content),), meta)
    return None


def _any_message(raw: dict[str, Any]) -> Message:
    sent = {name: value for name, value in raw.items() if name in SENT}
    own = {name: value for name, value in raw.items() if name not in SENT}
    sent["content"], private = _without_private(sent.get("content"))
    if private:
        own["_blocks"] = private
    if "content" not in raw:
        own["_no_content"] = True
    message = formats.read([sent], "openai")[0]
    meta = message.meta | ({NAME: own} if own else {})
    if raw.get("_command"):
        meta["hidden"] = True  # nanobot never replays it
    if raw.get("_channel_delivery"):
        meta["proactive"] = True
    return replace(message, parts=(*_thoughts(raw), *message.parts, *_media(raw)), meta=meta)


def raw_of(message: Message) -> dict[str, Any]:
    """The same message as nanobot has it; the first dict of one that takes several."""
    return raws_of(message)[0]


def raws_of(message: Message) -> list[dict[str, Any]]:
    """The same message as nanobot has it: one dict, or one for each of its results."""
    own = dict(_dict(message.meta.get(NAME)))
    parts = tuple(part for part in message.parts if NAME not in part.extra)
    meta = {name: value for name, value in message.meta.items() if name == "openai"}
    first, *more = dicts_of(replace(message, parts=parts, meta=meta))
    for at, value in (own.pop("_blocks", None) or {}).items():
        first["content"][int(at)]["_meta"] = value
    if own.pop("_no_content", False):
        first.pop("content", None)
    own |= {"_command": True} if message.meta.get("hidden") and "_command" not in own else {}
    own |= {"_channel_delivery": True} if message.meta.get("proactive") and "_channel_delivery" not in own else {}
    media = [part.uri for part in message.parts if type(part) is Media and part.uri and NAME not in part.extra]
    own |= {"media": media} if media and "media" not in own else {}
    return [first | own, *more]


def is_boundary(raw: dict[str, Any]) -> bool:
    """A hidden message that marks where a summary took over."""
    return bool(raw.get("_hidden_history")) and raw.get("content") == BOUNDARY


def _without_private(content: Any) -> tuple[Any, dict[str, Any]]:
    """The blocks without their `_meta`, which is never sent, and that apart, by the number of its block."""
    if not isinstance(content, list):
        return content, {}
    found = {str(i): b["_meta"] for i, b in enumerate(content) if isinstance(b, dict) and "_meta" in b}
    cut = [{n: v for n, v in b.items() if n != "_meta"} if isinstance(b, dict) else b for b in content]
    return cut, found


def _media(raw: dict[str, Any]) -> list[Media]:
    """The files that a message names. They are named, and never read: a path in a file may lead anywhere."""
    paths = [path for path in _list(raw.get("media")) if isinstance(path, str) and path]
    return [
        Media(mimetypes.guess_type(path)[0] or "application/octet-stream", uri=path, name=os.path.basename(path),
              extra={NAME: "media"})
        for path in paths
    ]  # fmt: skip


def _thoughts(raw: dict[str, Any]) -> list[Reasoning]:
    """What a provider of signed thoughts said, so that it can be sent to it again."""
    found = []
    for block in _list(raw.get("thinking_blocks")):
        if isinstance(block, dict) and block.get("type") == "thinking" and isinstance(block.get("thinking"), str):
            signature = block.get("signature")
            signed = signature if isinstance(signature, str) else None
            found.append(Reasoning(block["thinking"], signed, extra={"provider": "anthropic", NAME: "thinking_blocks"}))
    return found


def _overlap(tail: list[dict[str, Any]], restored: list[dict[str, Any]]) -> int:
    """How many of the restored messages are the last ones already."""
    for size in range(min(len(tail), len(restored)), 0, -1):
        if all(_same(left, right) for left, right in zip(tail[-size:], restored[:size], strict=True)):
            return size
    return 0


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return all(left.get(name) == right.get(name) for name in SAME)


# -- what a file says of itself ------------------------------------------------------------------------


def archive_offset(head: dict[str, Any]) -> int:
    """How many messages were consolidated; the field has a new name since 0.3."""
    for name in ("last_archived", "last_consolidated"):
        if type(head.get(name)) is int:
            return int(head[name])
    return 0


def _checkpoint(source: Source, about: dict[str, Any], key: str, desk: Desk) -> dict[str, Any] | None:
    """The turn under way: in the sidecar if it belongs to the file as it is, else in the first line."""
    inner = _dict(about.get("metadata")).get("runtime_checkpoint")
    found = inner if isinstance(inner, dict) else None
    path = source.path.with_name(source.path.stem + SIDECAR)
    if not is_regular(path):
        return found
    sidecar = source.object(path)
    if sidecar is None:
        return found
    valid = (
        sidecar.get("version") == SIDECAR_VERSION
        and sidecar.get("session_key") == key
        and sidecar.get("base_updated_at") == about.get("updated_at")
        and isinstance(sidecar.get("checkpoint"), dict)
        and os.stat(source.path).st_mtime_ns <= os.stat(path).st_mtime_ns
    )
    if not valid:
        desk.remark(path, "a checkpoint of another state of the session: nanobot would ignore it, too")
        return found
    return dict(sidecar["checkpoint"])


def _key(path: Path, about: dict[str, Any]) -> str:
    """The key that the first line says, or that the name of the file tells, or may have meant."""
    if isinstance(key := about.get("key"), str) and key:
        return key
    if (decoded := _decoded(path.stem)) is not None:
        return decoded
    return path.stem.replace("_", ":", 1)


def _goal_of(metadata: dict[str, Any]) -> dict[str, Any]:
    raw = metadata.get("goal_state", metadata.get("thread_goal"))
    if isinstance(raw, str):
        try:
            raw = decode(raw.encode())
        except ValueError:
            return {}
    return _dict(raw)


# -- the files of a workspace --------------------------------------------------------------------------


def _bring_record(source: Source, desk: Desk, kind: str) -> None:
    """The archive of what was consolidated, or what the web page showed: a session of its own."""
    workspace = _workspace_of(source.path) or source.path.parent.parent
    tell: Callable[[Course, Line], object] = _history if kind == "history" else _webui
    origin = Origin(
        format=NAME,
        name=f"{kind}/{workspace.name}/{source.path.stem}",
        title=f"{workspace.name}: {'archived history' if kind == 'history' else 'web transcript ' + source.path.stem}",
        agent=NAME,
        tags=(kind,),
    )

    def told(timeline: Timeline) -> None:
        course = Course(timeline)
        for line in source.lines(source.path):
            if isinstance(line, Damage):
                course.aside(source.path.name, line)
                continue
            try:
                tell(course, line)
            except InvalidMessage as error:
                source.report(source.path, line.offset, line.length, f"cannot be kept exactly: {error}")

    desk.bring(origin, source.path, told)


def _history(course: Course, line: Line) -> int:
    raw = line.value
    content = raw.get("content")
    if not isinstance(content, str):
        return course.note({"history": raw}, NAME)
    rest = {name: value for name, value in raw.items() if name != "content"}
    return course.append(Message.assistant(content, meta={NAME: rest}), at=iso(raw.get("timestamp")))


def _webui(course: Course, line: Line) -> int:
    """An event of the web page: what was said is a message, all else a note."""
    raw = line.value
    text, event = raw.get("text"), raw.get("event")
    rest = {name: value for name, value in raw.items() if name != "text"}
    if isinstance(text, str) and event == "user":
        return course.append(Message.user(text, meta={NAME: rest}))
    if isinstance(text, str) and event == "message" and not raw.get("kind"):
        return course.append(Message.assistant(text, meta={NAME: rest}))
    return course.note({"webui": raw}, NAME)


def _bring_memory(source: Source, desk: Desk) -> None:
    """A file of what is known, into the working memory of its workspace: each paragraph, and each item, is a claim.

    What the file said each time is kept in a session of its own; only what it never said before is claimed, so that
    what was superseded here meanwhile stays so."""
    raw, workspace = source.text(source.path), _workspace_of(source.path)
    if raw is None or workspace is None:
        return
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        source.report(source.path, 0, len(raw), f"invalid UTF-8 at byte {error.start}: set aside")
        return
    name = source.path.name
    origin = Origin(
        format=NAME,
        name=f"memory/{workspace.name}/{name}",
        title=f"{workspace.name}: {name}",
        agent=NAME,
        tags=("memory",),
    )
    data = {"file": name, "text": text}
    before = _said_before(desk.known(origin))

    def tell(timeline: Timeline) -> None:
        timeline.settle(name, text, lambda session, key: session.note(data, "memory_file", key=key))

    claims = dict.fromkeys(claims_of(text))
    new = [(heading, said) for heading, said in claims if said not in before]
    if new and not desk.dry_run:
        _claim(desk, source.path, workspace, new)
    desk.count(added=len(new), unchanged=len(claims) - len(new))
    desk.bring(origin, source.path, tell)


def _claim(desk: Desk, path: Path, workspace: Path, new: list[tuple[str, str]]) -> None:
    memory = desk.store.memory(desk.project or workspace.name, root=workspace)
    domain = path.stem.lower()
    memory.claims(
        {"content": said, "domain": domain, "agent": NAME, "meta": {"file": path.name, "heading": heading}}
        for heading, said in new
    )


def _said_before(session: Session | None) -> set[str]:
    notes = () if session is None else session.entries(kinds=("memory_file",))
    return {said for note in notes if note.data for _, said in claims_of(str(note.data.get("text")))}


def claims_of(text: str) -> list[tuple[str, str]]:
    """The paragraphs and items of a page of Markdown, each with the heading that it stands under."""
    found: list[tuple[str, str]] = []
    heading, block = "", list[str]()

    def end() -> None:
        if said := "\n".join(block).strip():
            found.append((heading, said))
        block.clear()

    for line in text.splitlines():
        if line.startswith("#"):
            end()
            heading = line.lstrip("#").strip()
        elif not line.strip() or line.startswith(("- ", "* ", "+ ")) or line.strip() in ("---", "***"):
            end()
            block += [line] if line.strip() and line.strip() not in ("---", "***") else []
        else:
            block.append(line)
    end()
    return found


def _workspace_of(path: Path) -> Path | None:
    """The workspace that a file of memory belongs to, if there is one."""
    folder = path.parent.parent if path.parent.name == "memory" else path.parent
    marks = (folder / "sessions", folder / "memory", folder / ".nanobot")
    return folder if any(map(is_folder, marks)) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
