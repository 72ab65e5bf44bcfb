"""Messages are values: a role and parts, without identity, time or storage.

Equal content is equal. What we do not model is kept: unknown fields of a part in its `extra`, unknown
parts whole in `Other`, unknown roles as they are.

Values hold no cycles, so they are none of the garbage collector's business (`gc=False`): a context of 120 messages
is a thousand of them, and would set it going twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, to_builtins
from msgspec.structs import force_setattr

from threadline.errors import InvalidMessage


class Text(Struct, frozen=True, tag="text", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What was said, as text."""

    text: str
    extra: dict[str, Any] = {}


class Reasoning(Struct, frozen=True, tag="reasoning", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What the model thought. A signed or encrypted one is understood by its own provider only."""

    text: str = ""
    signature: str | None = None
    encrypted: str | None = None
    extra: dict[str, Any] = {}


class ToolCall(Struct, frozen=True, tag="call", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The model asks for a tool. `args` is an object, or the raw string where it did not parse as one."""

    id: str
    name: str
    args: dict[str, Any] | str = {}
    extra: dict[str, Any] = {}


class ToolResult(Struct, frozen=True, tag="result", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The answer to one call. `display` is what a person sees where it differs from `output`."""

    call_id: str
    output: str | Sequence[Part] = ""
    error: bool = False
    display: str | None = None
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not isinstance(self.output, str | tuple):
            force_setattr(self, "output", _parts(self.output, "output"))


class Media(Struct, frozen=True, tag="media", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """An image, document or sound: its bytes in `data`, or where it lies in `uri`."""

    mime: str
    data: bytes | None = None
    uri: str | None = None
    name: str | None = None
    extra: dict[str, Any] = {}


class Other(Struct, frozen=True, tag="other", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A part of a kind that we do not know, kept whole."""

    raw: dict[str, Any]
    extra: dict[str, Any] = {}


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Media | Other


class Message(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What one speaker said: a role (`system`, `user`, `assistant`, `tool`) and parts.

    `meta` travels with it: `meta["hidden"]` is kept and shown to people but never sent,
    `meta["proactive"]` marks a delivery that the next user turn may answer."""

    role: str
    parts: tuple[Part, ...] = ()
    meta: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if type(self.parts) is not tuple:
            force_setattr(self, "parts", _parts(self.parts, "parts"))

    @classmethod
    def user(cls, text: str | None = None, *parts: Part, meta: dict[str, Any] | None = None) -> Message:
        return cls("user", _said(text, parts), meta or {})

    @classmethod
    def assistant(cls, text: str | None = None, *parts: Part, meta: dict[str, Any] | None = None) -> Message:
        return cls("assistant", _said(text, parts), meta or {})

    @classmethod
    def system(cls, text: str, *parts: Part, meta: dict[str, Any] | None = None) -> Message:
        return cls("system", _said(text, parts), meta or {})

    @classmethod
    def tool(
        cls,
        call_id: str,
        output: str | Sequence[Part],
        error: bool = False,
        *,
        display: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Message:
        return cls("tool", (ToolResult(call_id, output, error, display),), meta or {})

    @property
    def text(self) -> str:
        """Its readable text: what was said and what tools returned, without reasoning and calls."""
        return "\n".join(filter(None, map(_readable, self.parts)))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if type(part) is ToolCall)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if type(part) is ToolResult)


def content_of(part: Part) -> str | bytes:
    """All that a part holds: its text, the bytes of its media, or else its JSON."""
    match part:
        case Text(text) | Reasoning(text):
            return text
        case Media(_, data) if data is not None:
            return data
        case ToolResult():
            return _readable(part)
        case ToolCall(_, _, args) if isinstance(args, str):
            return args
    import json  # few processes ever need it

    return json.dumps(to_builtins(part), ensure_ascii=False)


def _said(text: str | None, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return (Text(text), *parts) if text else parts


def _parts(given: str | Iterable[Part | str], place: str) -> tuple[Part, ...]:
    if isinstance(given, str):
        return (Text(given),)
    if isinstance(given, Mapping | bytes | bytearray) or not isinstance(given, Iterable):
        hint = "put it into a list" if isinstance(given, Struct) else "json.dumps() makes text of data"
        raise InvalidMessage(place, f"must be text or a list of parts, not {type(given).__name__}: {hint}")
    return tuple(Text(part) if isinstance(part, str) else part for part in given)


def _readable(part: Part) -> str:
    if type(part) is Text:
        return part.text
    if type(part) is ToolResult:
        return part.output if isinstance(part.output, str) else "\n".join(filter(None, map(_readable, part.output)))
    return ""
