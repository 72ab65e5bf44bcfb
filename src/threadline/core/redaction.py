"""Redaction: one entry loses its content, and everything that follows from the log stays as it was.

A tombstone keeps what the fold needs and nobody wrote as text: the role, the ids of calls and results, the spans of a
compaction. What an entry of kind state or goal says is told again by later ones; those lose it, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from threadline.core import session_state
from threadline.core.about import About
from threadline.core.entries import STRUCTURAL, USER, Row, calls_and_results, content, voice_of
from threadline.core.tombstones import HIDDEN, MARK, WORDS, Tombstone, hidden
from threadline.core.view import Log
from threadline.messages import Message, Part, Text, ToolCall, ToolResult

KEPT = STRUCTURAL - {"compaction"} | {"call_started"}  # kinds whose data are numbers and ids
NAME = "redacted"  # of a tool
TIMES = ("status", "started_at", "completed_at", "back", "of")  # what stays of a goal


def is_redacted(row: Row) -> bool:
    return row.body[:1] == MARK


def redacted(log: Log, row: Row, call: Sequence[Row], reason: str, at: int) -> list[Row]:
    """The rows that change when an entry is redacted: its own first. `call` are the rows of its idempotency key, which
    goes when the last of them does: the others still carry it."""
    message, data = content(row)
    said = None if message is None or row.kind == "compaction" else _stand_in(message)
    stone = Tombstone(reason, at, said, _data(log, row, data))
    own = row._replace(usage=None).buried(stone)
    if row.key is None or not all(is_redacted(each) for each in call if each.seq != row.seq):
        return [own]
    return [_unnamed(own), *(_unnamed(each) for each in call if each.seq != row.seq)]


def _unnamed(row: Row) -> Row:
    assert row.key is not None
    stone = row.tombstone()
    return row._replace(key=hidden(row.key)).buried(stone)


def key_is_hidden(row: Row) -> bool:
    return row.key is not None and row.key.startswith(HIDDEN)


def _stand_in(message: Message) -> Message:
    """Who spoke and which calls it made or answered, so that the conversation stays legal, and no word of it."""
    parts: list[Part] = [_part(part) for part in calls_and_results(message)]
    if message.parts and (not parts or voice_of(replace(message, meta={})) == USER):  # who said nothing does not speak
        parts.append(Text(WORDS))
    flags = {name: True for name in ("hidden", "proactive") if message.meta.get(name)}
    return Message(message.role, tuple(parts), flags)


def _part(part: ToolCall | ToolResult) -> Part:
    return ToolCall(part.id, NAME, {}) if isinstance(part, ToolCall) else ToolResult(part.call_id, WORDS)


def _data(log: Log, row: Row, data: dict[str, Any] | None) -> dict[str, Any] | None:
    if data is None or row.kind in KEPT:
        return data
    match row.kind:
        case "compaction":
            return {"summary": WORDS, "covers": data["covers"], "view": data["view"]}
        case "state" if "of" not in data:
            return {"before": data["before"], "whole": session_state.told(log, data["before"])}
        case "state":
            return data
        case "goal":
            return {name: data[name] for name in TIMES if name in data} | {"objective": WORDS}
    return {}


# -- what tells it again -------------------------------------------------------------------------------


def echoes(log: Log, head: int, original: Row, buried: Row) -> Iterator[Row]:
    """The later entries of a log, up to `head`, that repeat a redacted state or goal, without it."""
    if original.kind not in session_state.KINDS or original.seq > head:
        return
    _, said = content(original)
    changed = _Changed(log, buried)
    for seq in reversed([*_later(log, original.kind, original.seq, head)]):
        row = log.row(seq)
        data = content(row)[1] or {}
        new = _without(changed, row, data, said or {})
        if new != data:
            stone = buried.tombstone()
            changed.amended[seq] = row.buried(replace(stone, message=None, data=new))
            yield changed.amended[seq]


def _later(log: Log, kind: str, after: int, head: int) -> Iterator[int]:
    """The entries of a kind after one, the latest first."""
    while (head := log.last(kind, head)) > after:
        yield head
        head -= 1


def _without(log: Log, row: Row, data: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    if row.kind == "state":
        return data | {"whole": session_state.applied(log, data)} if "whole" in data else data
    same = all(data.get(name) == said.get(name) for name in ("objective", "started_at")) and "of" not in data
    if not same:
        return data
    told = {name: value for name, value in data.items() if name not in ("summary", "recap")} | {"objective": WORDS}
    return told | ({"recap": data["recap"]} if "recap" in data and data["recap"] != said.get("recap") else {})


class _Changed:
    """The log as it will be, as far as single rows are asked for."""

    def __init__(self, log: Log, buried: Row) -> None:
        self.amended = {buried.seq: buried}
        self._log = log

    def row(self, seq: int) -> Row:
        return self.amended.get(seq) or self._log.row(seq)

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = 256
    ) -> Iterator[Row]:
        return self._log.rows(first, last, shown=shown, reverse=reverse, page=page)

    def last(self, kind: str, upto: int) -> int:
        return self._log.last(kind, upto)


def retold(about: About, original: Row) -> About:
    """What is said of a session, without what was taken from that entry of its: opening words, the system prompt."""
    if about.preview_seq == original.seq and about.preview:
        about = replace(about, preview=WORDS)
    _, data = content(original)
    if original.kind == "system" and data is not None and about.system == data.get("system"):
        about = replace(about, system=None)
    return about
