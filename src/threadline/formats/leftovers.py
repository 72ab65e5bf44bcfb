"""Leftovers: what a provider's dict holds beyond what we model, kept so that it comes out again exactly.

A part keeps them in `extra`, under `extra["provider"]`, the format that they belong to; a message in
`meta[provider]`. Only that format writes them again. Where even that would not give the same dict, the message
keeps the dict itself, in `meta[provider]["raw"]`; it is written as long as it still says what the message says."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

from msgspec.structs import replace

from threadline.core.gists import is_silent
from threadline.errors import InvalidMessage
from threadline.messages import Message, Other, Part, Reasoning, Text, ToolResult

Dict = dict[str, Any]
Reader = Callable[[Dict, str], Message]
_Part = TypeVar("_Part", bound=Part)

# Notes of our own beside the leftovers, never written themselves: what sort of thing it was, in which field of the
# message it stood, how its arguments were spelt, how its summary was cut.
_NOTES = frozenset({"provider", "kind", "field", "arguments", "summary"})


def unmodelled(raw: Dict, plain: Dict) -> Dict:
    """The fields of `raw` that `plain` does not have, dicts inside dicts included."""
    found: Dict = {}
    for name, value in raw.items():
        if name not in plain:
            found[name] = value
        elif type(value) is dict and value is not plain[name] and type(plain[name]) is dict:
            inner = unmodelled(value, plain[name])
            if inner:
                found[name] = inner
    return found


def kept(part: _Part, raw: Dict, plain: Dict | None, provider: str) -> _Part:
    """The part with its leftovers: what `raw` holds beyond `plain`, the dict that the part alone would give."""
    rest = {} if plain is None else unmodelled(raw, plain)
    rest.pop("provider", None)  # a field of that name would hide ours: the message then keeps its raw dict
    if not rest:
        return part
    extra = {"provider": provider, **rest, **part.extra}
    return replace(part, extra=extra)


def with_leftovers(plain: Dict, extra: Dict, provider: str) -> Dict:
    """`plain` with the leftovers of that provider; what we model wins where both have a field."""
    if extra.get("provider") != provider:
        return plain
    for name, value in extra.items():
        if name in _NOTES:
            continue
        if name not in plain:
            plain[name] = value
        elif type(value) is dict and type(plain[name]) is dict:
            plain[name] = {**value, **plain[name]}
    return plain


def owned(part: Part, provider: str) -> bool:
    return part.extra.get("provider") == provider


def noted(part: Part, provider: str, note: str) -> Any:
    """A note of ours on a part of this provider, else None."""
    extra = part.extra
    return extra.get(note) if extra and extra.get("provider") == provider else None


def kind_of(part: Part, provider: str) -> str | None:
    """What sort of thing a part of this provider was, where we noted it."""
    kind = noted(part, provider, "kind")
    return kind if isinstance(kind, str) else None


def of_message(message: Message, provider: str) -> Dict:
    """The leftovers and shape notes of a message for a provider."""
    own = message.meta.get(provider) if message.meta else None
    return own if type(own) is dict else {}


def exact(message: Message, raw: Dict, written: list[Dict], provider: str) -> Message:
    """The message itself where writing it gives `raw` again, else with `raw` beside it."""
    if len(written) == 1 and written[0] == raw:
        return message
    return replace(message, meta={**message.meta, provider: {**of_message(message, provider), "raw": raw}})


def raw_again(message: Message, provider: str, read: Reader) -> Dict | None:
    """The dict that a message was read from, if it was kept and the message has not been changed since."""
    raw = of_message(message, provider).get("raw")
    if type(raw) is not dict:
        return None
    try:
        again = read(raw, "message")
    except InvalidMessage:
        return None
    return deepcopy(raw) if (again.role, again.parts) == (message.role, message.parts) else None


def without_foreign(message: Message, provider: str) -> tuple[Message, list[str]]:
    """The message with only what this provider understands, and what was left out, in words.

    Reasoning and parts of unknown kind are for the provider that they came from; everything else is for all. Where
    nothing but results is left of what somebody but the assistant said, a word for it stays."""
    if not any(type(part) in _GUARDED for part in message.parts):
        return message, []
    said: list[str] = []
    parts = tuple(part for part in map(_inside(provider, said), message.parts) if _understood(part, provider, said))
    if not said:
        return message, said
    if message.role != "assistant" and all(type(part) is ToolResult or is_silent(part) for part in parts):
        lost = (part for part in message.parts if type(part) in (Reasoning, Other))
        parts += tuple(Text(f"[left out: {_called(part)}]") for part in lost)
    return replace(message, parts=parts), said


_GUARDED = frozenset({Reasoning, Other, ToolResult})


def _understood(part: Part, provider: str, said: list[str]) -> bool:
    if type(part) not in (Reasoning, Other) or owned(part, provider):
        return True
    said.append(f"{_called(part)} of {part.extra.get('provider', 'an unnamed provider')} left out")
    return False


def _inside(provider: str, said: list[str]) -> Callable[[Part], Part]:
    def cleaned(part: Part) -> Part:
        if type(part) is not ToolResult or isinstance(part.output, str):
            return part
        before = len(said)
        inner = tuple(p for p in map(cleaned, part.output) if _understood(p, provider, said))
        return part if len(said) == before else replace(part, output=inner)

    return cleaned


def _called(part: Part) -> str:
    if type(part) is Reasoning:
        sealed = "encrypted " if part.encrypted is not None else "signed " if part.signature is not None else ""
        return f"{sealed}reasoning"
    assert type(part) is Other
    return str(part.raw.get("type") or part.extra.get("field") or next(iter(part.raw), "a part"))
