"""mycode: a folder per session with `messages.jsonl`, mostly a `meta.json`, and outputs of tools beside them.

Four generations share the container. Up to version 6 of the format, a compaction is applied before rewinds, and
`rewind_to` counts the two messages that stand for it; from version 7 on, and without a version, rewinds are applied
first, and a compaction counts as one. Told in order, both are the same course: only the counting differs."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from threadline import (
    Conflict,
    Entry,
    InvalidMessage,
    Media,
    Message,
    Other,
    Part,
    Reasoning,
    Session,
    Text,
    ToolCall,
    ToolResult,
)
from threadline.transcripts.course import Course, Shown, keep_output
from threadline.transcripts.desk import Desk, Origin
from threadline.transcripts.masking import Mask
from threadline.transcripts.output import write_pieces
from threadline.transcripts.sources import Damage, Line, Source, is_regular
from threadline.transcripts.timeline import Timeline
from threadline.transcripts.times import iso

NAME = "mycode"
LOG, ABOUT, OUTPUTS = "messages.jsonl", "meta.json", "tool-output"
COMPACT_FIRST = (5, 6)  # versions whose rewinds count the summary and its acknowledgement
NEWEST = 7  # from then on no version is written
DEFAULT_TITLE = "New chat"


# -- reading -------------------------------------------------------------------------------------------


def claims(source: Source) -> bool:
    folder = source.path if source.is_folder else source.path.parent
    if not (source.is_folder or source.path.name == LOG) or not is_regular(folder / LOG):
        return False
    found = source.first(folder / LOG)
    said = any(_is_message(line) for line in found)
    return said or (not found and is_regular(folder / ABOUT))


def bring(source: Source, desk: Desk) -> None:
    folder = source.path if source.is_folder else source.path.parent
    about = source.object(folder / ABOUT) or {}
    log = folder / LOG
    compact_first = _compact_first(source, about, log, desk)
    name = str(about.get("id") or folder.name)
    origin = Origin(
        format=NAME,
        name=name,
        id=name,
        title=_title(about),
        agent=NAME,
        model=_text(about, "model"),
        provider=_text(about, "provider"),
        cwd=_text(about, "cwd"),
        meta={NAME: about} if about else {},
        at=iso(about.get("created_at")),
        updated_at=iso(about.get("updated_at")),
    )
    desk.bring(origin, folder, lambda timeline: _tell(timeline, source, log, about, compact_first))


def _tell(timeline: Timeline, source: Source, log: Path, about: dict[str, Any], compact_first: bool) -> None:
    reader = _Reader(Course(timeline), compact_first, iso(about.get("created_at")))
    for line in source.lines(log):
        if isinstance(line, Damage):
            reader.course.aside(LOG, line)
            continue
        try:
            reader.step(line)
        except InvalidMessage as error:
            source.report(log, line.offset, line.length, f"cannot be kept exactly: {error}")
    for path in source.listed(log.parent / OUTPUTS):
        keep_output(timeline, source, path, path.stem.partition("-")[2], iso(about.get("updated_at")))


class _Reader:
    def __init__(self, course: Course, compact_first: bool, began: datetime | None) -> None:
        self.course = course
        self._compact_first = compact_first
        self._began = began
        self._summaries: set[int] = set()

    def step(self, line: Line) -> None:
        raw = line.value
        meta = _dict(raw.get("meta"))
        at = iso(meta.get("created_at")) or self._began
        match raw.get("role"):
            case "compact":
                self._compact(raw, meta, at)
            case "rewind":
                if type(to := meta.get("rewind_to", 0)) is int:
                    self.course.cut(to, at=at)
                self.course.note({"rewind": raw}, NAME, at=at)
            case str() as role if role:
                self.course.append(message_of(raw, role), at=at, usage=_usage(meta), raw=line.raw)
            case _:
                self.course.note({"line": raw}, NAME, at=at, shown=True)

    def _compact(self, raw: dict[str, Any], meta: dict[str, Any], at: datetime | None) -> None:
        course = self.course
        summary = course.fold(_summary(raw), self._since_last_summary(), at=at, usage=_usage(meta))
        self._summaries.add(summary.place)
        # Up to version 6 the summary and an acknowledgement stand alone; later it stands behind what it hides.
        course.shown = [summary, summary] if self._compact_first else [*course.shown, summary]
        course.note({"compact": raw}, NAME, at=at)

    def _since_last_summary(self) -> list[Shown]:
        """What the model is shown: nothing before the last summary."""
        shown = self.course.shown
        for i in range(len(shown) - 1, -1, -1):
            if shown[i].place in self._summaries:
                return shown[i:]
        return shown


def message_of(raw: dict[str, Any], role: str) -> Message:
    """A message of ours; what we do not model stays in its meta, so that it is written back as it was."""
    content = raw.get("content")
    blocks = content if isinstance(content, list) else [content] if isinstance(content, str) else []
    parts = tuple(_part(block) for block in blocks)
    rest = {name: value for name, value in raw.items() if name not in ("role", "content")}
    if not isinstance(content, list):
        rest["content"] = content
    if role == "user" and parts and all(type(part) is ToolResult for part in parts):
        role = "tool"
    return Message(role, parts, {NAME: rest} if rest else {})


def _part(block: Any) -> Part:
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, dict):
        return Other({"value": block}, {NAME: "bare"})
    read = _PARTS.get(str(block.get("type")))
    part = None if read is None else read(block)
    return Other(block) if part is None else part


def _text_part(block: dict[str, Any]) -> Part | None:
    text = block.get("text")
    if not isinstance(text, str):
        return None
    rest = _rest(block, "text")
    if _dict(block.get("meta")).get("attachment"):
        rest["attachment"] = True  # a file that was put in, not something that somebody said
    return Text(text, rest)


def _thinking_part(block: dict[str, Any]) -> Part | None:
    text = block.get("text")
    signature = _dict(_dict(block.get("meta")).get("native")).get("signature")
    signed = signature if isinstance(signature, str) else None
    return Reasoning(text, signed, extra=_rest(block, "text")) if isinstance(text, str) else None


def _media_part(block: dict[str, Any]) -> Part | None:
    mime, name, data = block.get("mime_type"), block.get("name"), _bytes(block.get("data"))
    if not isinstance(mime, str) or data is None or not isinstance(name, str | None):
        return None
    rest = _rest(block, "data", "mime_type", "name")
    return Media(mime, data, name=name, extra=rest | ({"type": "document"} if block["type"] == "document" else {}))


def _call_part(block: dict[str, Any]) -> Part | None:
    id, name, args = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(id, str) or not isinstance(name, str) or not isinstance(args, dict):
        return None
    return ToolCall(id, name, args, _rest(block, "id", "name", "input"))


def _result_part(block: dict[str, Any]) -> Part | None:
    """What the model reads is `model_text` up to version 5, `output` later; `content` says more than either."""
    id, error, content = block.get("tool_use_id"), block.get("is_error", False), block.get("content")
    field = "model_text" if "model_text" in block else "output"
    output, display = block.get(field), block.get("display_text")
    if not isinstance(id, str) or type(error) is not bool or not isinstance(output, str):
        return None
    if not isinstance(display, str | None) or not isinstance(content, list | None):
        return None
    rest = _rest(block, "tool_use_id", "is_error", "display_text", "content", field)
    rest |= {"version": 5} if field == "model_text" else {}
    rest |= {"is_error": None} if "is_error" not in block else {}
    if content is None:
        return ToolResult(id, output, error, display, rest)
    return ToolResult(id, tuple(map(_part, content)), error, display, rest | {"output": output})


_PARTS = {
    "text": _text_part,
    "thinking": _thinking_part,
    "image": _media_part,
    "document": _media_part,
    "tool_use": _call_part,
    "tool_result": _result_part,
}


# -- writing -------------------------------------------------------------------------------------------


def write(session: Session, path: Path, mask: Mask) -> None:
    """A folder that mycode reads: of the generation that the session came from, else of the newest."""
    if path.exists() and not (path.is_dir() and ((path / LOG).exists() or not any(path.iterdir()))):
        raise Conflict(f"{path} is there already, and no session of {NAME}: choose another folder")
    about = _dict(session.info.meta.get(NAME))
    version = about.get("message_format_version")
    writer = _Writer(session, version if version in (*COMPACT_FIRST, NEWEST) else None)
    (path / OUTPUTS).mkdir(parents=True, exist_ok=True)
    lines = (_line(mask.value(line)) for line in writer.lines())
    write_pieces(path / LOG, lines)
    write_pieces(path / ABOUT, [json.dumps(mask.value(_about(session, about, version)), indent=2).encode()])
    for name, content in writer.outputs.items():
        write_pieces(path / OUTPUTS / Path(name).name, [mask.text(content).encode("utf-8", "surrogatepass")])


class _Writer:
    """Tells the log in mycode's words: lines are added, a rewind cuts the list that it shows, a compaction hides all
    before it. What has no word there, such as a fold in the middle, is told as a rewind and what is shown since."""

    def __init__(self, session: Session, version: int | None) -> None:
        self.session = session
        self.version = version
        self.outputs: dict[str, str] = {}
        self.shown: list[int] = []  # the seqs that mycode shows
        self._summaries: set[int] = set()
        self._native = _dict(session.info.meta.get("import")).get("format") != NAME

    def lines(self) -> Iterator[dict[str, Any]]:
        for entry, following in pairwise([*self._entries(), None]):
            assert entry is not None
            told = _dict((following.data or {}) if following is not None and following.kind == NAME else {})
            if entry.kind == "message" and entry.message is not None:
                if not _is_summary(entry):
                    yield from self._message(entry, entry.message)
                elif following is None or following.kind != "replacement":  # which would put it in its place
                    yield from self._until(entry, [entry], told)
            elif entry.kind in ("compaction", "replacement", "expansion", "rewind", "clear"):
                yield from self._changed(entry, told)
            elif entry.kind == NAME and entry.data is not None:
                yield from self._kept(entry.data)
            elif entry.kind == "tool_output" and entry.data is not None and "text" in entry.data:
                self.outputs[str(entry.data.get("file"))] = entry.data["text"]

    def _entries(self) -> Iterator[Entry]:
        return self.session.entries(kinds=(*SHAPES, "message", "tool_output", NAME))

    def _message(self, entry: Entry, message: Message) -> Iterator[dict[str, Any]]:
        if message.role == "system" or message.meta.get("hidden"):
            return  # mycode keeps no such messages, and would send them
        self.shown.append(entry.seq)
        yield raw_of(message, self.version, self._dated(entry))

    def _dated(self, entry: Entry) -> Entry | None:
        """The entry, if its time is to be told: not of one that mycode told us without."""
        return entry if self._native else None

    def _kept(self, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """A line that is no message of ours, as it was."""
        if isinstance(line := data.get("line"), dict):
            self.shown.append(0)
            yield line
        elif isinstance(line := data.get("rewind"), dict) and type(_dict(line.get("meta")).get("rewind_to")) is not int:
            yield line

    def _changed(self, entry: Entry, told: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if entry.kind == "rewind" and isinstance(line := told.get("rewind"), dict):
            self.shown = self.shown[: _dict(line.get("meta")).get("rewind_to", 0)]
            yield line
            return
        wanted = [found for found in self.session.view(entry.seq).entries if self._can_show(found)]
        yield from self._until(entry, wanted, told)

    def _until(self, entry: Entry, wanted: list[Entry], told: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What brings the list from what is shown to what is wanted."""
        folded = bool(wanted) and _is_summary(wanted[0])
        summary = wanted[0].seq if folded else 0
        if folded and summary not in self.shown:
            yield _compaction(wanted[0], told if entry.seq - summary in (0, 1) else {})
            self._summaries.add(summary)
            self.shown = [summary, summary] if self._compact_first else [*self.shown, summary]
        base = self.shown.index(summary) if folded else 0
        head = [summary] * (2 if self._compact_first else 1) if folded else []
        asked = [*self.shown[:base], *head, *(found.seq for found in wanted[1 if folded else 0 :])]
        kept = _common(self.shown, asked)
        if not folded and not self._compact_first:  # a summary in the list would hide what stands before it
            kept = min(kept, min((self.shown.index(s) for s in self._summaries if s in self.shown), default=kept))
        if kept < len(self.shown):
            yield {"role": "rewind", "meta": {"rewind_to": kept, "created_at": entry.at.isoformat()}}
        self.shown = self.shown[:kept]
        for found in [found for found in wanted if found.seq in asked[kept:]]:
            self.shown.append(found.seq)
            assert found.message is not None
            yield raw_of(found.message, self.version, self._dated(found))

    @property
    def _compact_first(self) -> bool:
        return self.version in COMPACT_FIRST

    def _can_show(self, entry: Entry) -> bool:
        return entry.message is not None and entry.message.role != "system" and not entry.message.meta.get("hidden")


SHAPES = ("compaction", "replacement", "expansion", "rewind", "clear")


def raw_of(message: Message, version: int | None, entry: Entry | None = None) -> dict[str, Any]:
    """The same message as mycode has it."""
    own = dict(_dict(message.meta.get(NAME)))
    blocks: Any = [_block(part, version) for part in message.parts]
    if "content" in own:
        blocks = own.pop("content")
    role = message.role if message.role in ("user", "assistant") or NAME in message.meta else "user"
    if role == "tool":
        role = "user"
    if entry is not None and NAME not in message.meta and version is None:
        own["meta"] = {"created_at": entry.at.isoformat()}
    if entry is not None and entry.usage and "meta" not in own:
        own["meta"] = {"usage": entry.usage}
    return {"role": role, "content": blocks, **own}


def _block(part: Part, version: int | None) -> Any:
    match part:
        case Text(text, extra):
            attached = _dict(extra.get("meta")).get("attachment")
            return {"type": "text", "text": text, **_blockly(extra, *(["attachment"] if attached else []))}
        case Reasoning(text, signature, _, extra):
            native = {"meta": {"native": {"signature": signature}}} if signature and "meta" not in extra else {}
            return {"type": "thinking", "text": text, **native, **_blockly(extra)}
        case ToolCall(id, name, args, extra):
            given = args if isinstance(args, dict) else {}
            return {"type": "tool_use", "id": id, "name": name, "input": given, **_blockly(extra)}
        case ToolResult():
            return _result_block(part, version)
        case Media(mime, data, uri, name, extra) if data is not None:
            kind = "image" if mime.startswith("image/") and extra.get("type") != "document" else "document"
            named = {"name": name} if name is not None else {}
            content = b64encode(data).decode()
            return {"type": kind, "data": content, "mime_type": mime, **named, **_blockly(extra, "type")}
        case Media(mime, _, uri, name, _):
            return {"type": "text", "text": f"[{mime.partition('/')[0]}: {name or uri}]"}
        case Other(raw, extra):
            return raw["value"] if extra.get(NAME) == "bare" else raw


def _result_block(part: ToolResult, version: int | None) -> dict[str, Any]:
    extra = dict(part.extra)
    old = extra.pop("version", None) == 5 or version == 5
    content: dict[str, Any] = {}
    output = part.output if isinstance(part.output, str) else extra.pop("output", None)
    if not isinstance(part.output, str):
        content = {"content": [_block(inner, version) for inner in part.output]}
        output = output if isinstance(output, str) else "\n".join(p.text for p in part.output if type(p) is Text)
    said = {"model_text" if old else "output": output}
    if part.display is not None or old:
        said["display_text"] = output if part.display is None else part.display
    error = {} if "is_error" in extra and extra.pop("is_error") is None else {"is_error": part.error}
    return {"type": "tool_result", "tool_use_id": part.call_id, **said, **error, **content, **_blockly(extra)}


def _blockly(extra: dict[str, Any], *without: str) -> dict[str, Any]:
    """What a block of mycode had beside what we model; what a provider's had stays with us."""
    return {} if "provider" in extra else {name: value for name, value in extra.items() if name not in without}


def _is_summary(entry: Entry) -> bool:
    return entry.message is not None and bool(entry.message.meta.keys() & {"compaction", "summary"})


def _compaction(entry: Entry, told: dict[str, Any]) -> dict[str, Any]:
    if isinstance(line := told.get("compact"), dict):
        return line
    assert entry.message is not None
    meta = {"usage": entry.usage} if entry.usage else {}
    return {
        "role": "compact",
        "content": [{"type": "text", "text": entry.message.text}],
        "meta": meta | {"created_at": entry.at.isoformat()},
    }


def _about(session: Session, about: dict[str, Any], version: Any) -> dict[str, Any]:
    info = session.info
    told = about | {
        "title": info.title or DEFAULT_TITLE,
        "cwd": info.cwd or about.get("cwd") or "/",
        "created_at": info.created_at.isoformat(),
        "updated_at": info.updated_at.isoformat(),
    }
    if version == 5:
        told = {"id": info.id, "provider": info.provider or "", "model": info.model or "", "api_base": None} | told
    return told


def _common(left: list[int], right: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


# -- what a folder says of itself ----------------------------------------------------------------------


def _compact_first(source: Source, about: dict[str, Any], log: Path, desk: Desk) -> bool:
    version = about.get("message_format_version")
    if version is None and not about:  # no meta.json, or a torn one: the messages tell the oldest version from others
        return any('"model_text"' in str(line).replace("'", '"') for line in source.first(log, 50))
    if isinstance(version, int) and version > NEWEST:
        desk.remark(log.parent, f"message_format_version {version} is newer than we know: read as {NEWEST}")
    return version in COMPACT_FIRST


def _is_message(line: dict[str, Any]) -> bool:
    role = line.get("role")
    return (role in ("user", "assistant", "compact") and isinstance(line.get("content"), list)) or (
        role == "rewind" and "rewind_to" in _dict(line.get("meta"))
    )


def _title(about: dict[str, Any]) -> str | None:
    title = _text(about, "title")
    return None if title == DEFAULT_TITLE else title


def _summary(raw: dict[str, Any]) -> str:
    content = raw.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [b["text"] for b in blocks if isinstance(b, dict) and b.get("type") == "text" and "text" in b]
    return "\n\n".join(str(text) for text in texts)


def _usage(meta: dict[str, Any]) -> dict[str, Any] | None:
    """What a message says it took, in the provider's words or in mycode's own of later versions."""
    usage = meta.get("usage")
    if not isinstance(usage, dict) or not usage:
        return None
    named = {"model": meta.get("model"), "request_id": meta.get("provider_message_id")}
    named = {name: value for name, value in named.items() if isinstance(value, str) and value}
    if not usage.keys() & {"cache_read_tokens", "cache_write_tokens", "total_tokens", "reasoning_tokens"}:
        return usage | named
    return _normalised(usage, _dict(meta.get("cost")).get("total")) | named


def _normalised(usage: dict[str, Any], cost: Any) -> dict[str, Any]:
    """From version 0.9 on mycode counts like us, but for the prompt, which includes what was cached."""
    read, written = _count(usage, "cache_read_tokens"), _count(usage, "cache_write_tokens")
    counted = {
        "input": max(_count(usage, "input_tokens") - read - written, 0),
        "output": _count(usage, "output_tokens"),
        "cache_read": read,
        "cache_write": written,
        "reasoning": _count(usage, "reasoning_tokens"),
    }
    return counted | ({"cost": cost} if isinstance(cost, int | float) else {})


def _count(usage: dict[str, Any], name: str) -> int:
    count = usage.get(name)
    return count if type(count) is int and count > 0 else 0


def _rest(block: dict[str, Any], *known: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "type" and name not in known}


def _bytes(data: Any) -> bytes | None:
    """Bytes from base64, if they give the same base64 again."""
    if not isinstance(data, str):
        return None
    try:
        found = b64decode(data, validate=True)
    except (NotBase64, ValueError):
        return None
    return found if b64encode(found).decode() == data else None


def _text(about: dict[str, Any], name: str) -> str | None:
    value = about.get(name)
    return value if isinstance(value, str) and value else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
