"""mycode: a folder per session with `messages.jsonl`, mostly a `meta.json`, and outputs of tools beside them.

Four generations share the container. Up to version 6 of the format, a compaction is applied before rewinds, and
`rewind_to` counts the two messages that stand for it; from version 7 on, and without a version, rewinds are applied
first, and a compaction counts as one. Told in order, both are the same course: only the counting differs."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from threadline import (
    InvalidMessage,
    Media,
    Message,
    Other,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from threadline.transcripts.course import Course, Shown, kept
from threadline.transcripts.desk import Desk, Origin
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
        _output(timeline, source, path, iso(about.get("updated_at")))


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


def _output(timeline: Timeline, source: Source, path: Path, at: datetime | None) -> None:
    """The whole output of a tool, of which a result shows the end: kept as a note, once."""
    raw = source.text(path)
    if raw is None:
        return
    digest = blake2b(raw, digest_size=16).hexdigest()
    data = {"file": path.name, "call_id": path.stem.partition("-")[2], **kept(raw)}
    timeline.settle(
        "output", [path.name, digest], lambda session, key: session.note(data, "tool_output", key=key, at=at)
    )


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
