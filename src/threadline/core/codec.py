"""Messages and data as JSON bytes, and back, exactly; or a refusal that names the place.

The quick way is msgspec with our own types. Two things need the slow way: lone surrogates, which UTF-8 proper cannot
carry (they are written in its generalised form, where they never join into a pair), and fields or parts of a kind
that this version does not know."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec

from threadline.errors import InvalidMessage
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult

DEPTH_MAX = 200  # deeper JSON is an attack or an accident, and readers in other languages give up sooner
DIGITS_MAX = 4_000  # Python itself refuses to print integers beyond 4,300 digits

# What msgspec cannot read: generalised UTF-8, and fields or parts that we do not know. The slow way reads both.
NOT_QUICKLY = (msgspec.DecodeError, UnicodeDecodeError)


def _plain(value: Any) -> Any:
    """A subclass of str, as the string that it equals."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_encode_sorted = msgspec.json.Encoder(enc_hook=_plain, order="deterministic").encode
_decode = msgspec.json.Decoder().decode
_decode_message = msgspec.json.Decoder(Message).decode


def encode(value: Any) -> bytes:
    """JSON bytes of a checked message or of checked data."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return _encode_slowly(value, sort_keys=False)


def canonical(value: Any) -> bytes:
    """JSON bytes that are the same for equal values, whatever the order of their keys."""
    try:
        return _encode_sorted(value)
    except UnicodeEncodeError:
        return _encode_slowly(value, sort_keys=True)


def _encode_slowly(value: Any, *, sort_keys: bool) -> bytes:
    import json  # here and below: few processes ever need it

    plain = msgspec.to_builtins(value, enc_hook=_plain)
    text = json.dumps(plain, separators=(",", ":"), sort_keys=sort_keys, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def decode(body: bytes) -> Any:
    try:
        return _decode(body)
    except NOT_QUICKLY:
        import json

        return json.loads(body.decode("utf-8", "surrogatepass"))


def decode_message(body: bytes) -> Message:
    try:
        return _decode_message(body)
    except NOT_QUICKLY:
        return message_of(decode(body))


# -- from plain dicts in our own form ------------------------------------------------------------------


def message_of(raw: Any, place: str = "message") -> Message:
    """A message from a dict in our neutral form. What we do not model is kept in `extra` or `Other`."""
    if not isinstance(raw, dict) or not isinstance(raw.get("role"), str):
        raise InvalidMessage(place, "a message is a dict with a role and parts, or a role and content")
    fields = dict(raw)
    role, parts, meta = fields.pop("role"), fields.pop("parts", ()), fields.pop("meta", {})
    if fields:
        raise InvalidMessage(f"{place}.{next(iter(fields))}", "not a field of a message: put it into meta")
    if isinstance(parts, str):
        return Message(role, (Text(parts),), meta)
    if not isinstance(parts, list | tuple):
        raise InvalidMessage(f"{place}.parts", f"must be a list of parts, not {type(parts).__name__}")
    return Message(role, tuple(part_of(p, f"{place}.parts[{i}]") for i, p in enumerate(parts)), meta)


def part_of(raw: Any, place: str) -> Part:
    if isinstance(raw, str):
        return Text(raw)
    if not isinstance(raw, dict):
        raise InvalidMessage(place, f"a part is a dict, not {type(raw).__name__}")
    tag = raw.get("type")
    kind = _KINDS.get(tag) if isinstance(tag, str) else None
    if kind is None:
        return Other(raw)
    fields = {name: raw[name] for name in kind.__struct_fields__ if name in raw}
    unknown = {name: value for name, value in raw.items() if name not in fields and name != "type"}
    if kind is ToolResult and isinstance(fields.get("output"), list | tuple):
        fields["output"] = tuple(part_of(p, f"{place}.output[{i}]") for i, p in enumerate(fields["output"]))
    try:
        if unknown:
            fields["extra"] = {**fields.get("extra", {}), **unknown}
        if kind is Media and isinstance(fields.get("data"), str):
            fields["data"] = b64decode(fields["data"], validate=True)
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise InvalidMessage(place, str(error)) from error


_KINDS: dict[str, type[Part]] = {
    str(kind.__struct_config__.tag): kind for kind in (Text, Reasoning, ToolCall, ToolResult, Media, Other)
}


# -- what can be stored exactly ------------------------------------------------------------------------


def check_message(message: Message, place: str = "message") -> None:
    """Raise InvalidMessage, naming the place, unless the message comes back exactly as it is."""
    if not isinstance(message.role, str) or not message.role:
        raise InvalidMessage(f"{place}.role", "must be a non-empty string")
    for i, part in enumerate(message.parts):
        if not (type(part) is Text and type(part.text) is str and part.extra == {}) and not _is_plain_result(part):
            _check_part(part, f"{place}.parts[{i}]", 0)
    if message.meta or type(message.meta) is not dict:
        check_object(message.meta, f"{place}.meta")


def _is_plain_result(part: Any) -> bool:
    """Whether it is a text that a tool gave, as most results are: nothing in it needs a closer look."""
    return (
        type(part) is ToolResult
        and type(part.output) is type(part.call_id) is str
        and type(part.error) is bool
        and part.display is None
        and part.extra == {}
    )


def check_object(value: Any, place: str) -> None:
    """Raise InvalidMessage unless `value` is a dict that JSON carries exactly."""
    _must(isinstance(value, dict), place, "a dict")
    _check_json(value, place, 0)


def _check_part(part: Part, place: str, depth: int) -> None:
    check = _CHECKS.get(type(part))
    if check is None:
        raise InvalidMessage(place, f"{type(part).__name__} is not a part of a message: use Text(…) and its kin")
    _must(depth < DEPTH_MAX, place, f"nested less than {DEPTH_MAX} deep")
    check(part, place, depth)
    _must(isinstance(part.extra, dict), f"{place}.extra", "a dict")
    if part.extra:
        _check_json(part.extra, f"{place}.extra", depth)


def _check_text(part: Text, place: str, depth: int) -> None:
    _must(isinstance(part.text, str), f"{place}.text", "a string")


def _check_reasoning(part: Reasoning, place: str, depth: int) -> None:
    _must(isinstance(part.text, str), f"{place}.text", "a string")
    _must(_optional_str(part.signature), f"{place}.signature", "a string or None")
    _must(_optional_str(part.encrypted), f"{place}.encrypted", "a string or None")


def _check_call(part: ToolCall, place: str, depth: int) -> None:
    _must(isinstance(part.id, str), f"{place}.id", "a string")
    _must(isinstance(part.name, str), f"{place}.name", "a string")
    if not isinstance(part.args, str):
        _must(isinstance(part.args, dict), f"{place}.args", "a dict, or the raw string")
        _check_json(part.args, f"{place}.args", depth)


def _check_result(part: ToolResult, place: str, depth: int) -> None:
    _must(isinstance(part.call_id, str), f"{place}.call_id", "a string")
    _must(type(part.error) is bool, f"{place}.error", "a bool")
    _must(_optional_str(part.display), f"{place}.display", "a string or None")
    if not isinstance(part.output, str):
        _must(isinstance(part.output, tuple), f"{place}.output", "a string or parts")
        for i, inner in enumerate(part.output):
            _check_part(inner, f"{place}.output[{i}]", depth + 1)


def _check_media(part: Media, place: str, depth: int) -> None:
    _must(isinstance(part.mime, str), f"{place}.mime", "a string")
    _must(part.data is None or type(part.data) is bytes, f"{place}.data", "bytes or None")
    _must(_optional_str(part.uri), f"{place}.uri", "a string or None")
    _must(_optional_str(part.name), f"{place}.name", "a string or None")


def _check_other(part: Other, place: str, depth: int) -> None:
    _must(isinstance(part.raw, dict), f"{place}.raw", "a dict")
    _check_json(part.raw, f"{place}.raw", depth)


_CHECKS: dict[type[Part], Callable[[Any, str, int], None]] = {
    Text: _check_text,
    Reasoning: _check_reasoning,
    ToolCall: _check_call,
    ToolResult: _check_result,
    Media: _check_media,
    Other: _check_other,
}


_PLAIN = frozenset({str, bool, type(None)})


def _check_json(value: Any, place: str, depth: int) -> None:
    """JSON without surprises: what msgspec would silently turn into something else is refused here."""
    if type(value) in _PLAIN or isinstance(value, str):
        return
    _must(depth < DEPTH_MAX, place, f"nested less than {DEPTH_MAX} deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            if type(key) is str and type(inner) in _PLAIN:  # nearly all
                continue
            _must(isinstance(key, str), f"{place}[{key!r}]", "under a string key (JSON has no others)")
            _check_json(inner, f"{place}.{key}", depth + 1)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _check_json(inner, f"{place}[{i}]", depth + 1)
    elif isinstance(value, int):
        _must(value.bit_length() < DIGITS_MAX * 3.3, place, f"an integer of fewer than {DIGITS_MAX} digits")
    elif isinstance(value, float):
        _must(isfinite(value), place, "a finite number (JSON has no NaN and no infinity)")
    else:
        raise InvalidMessage(
            place, f"JSON has no {type(value).__name__}: use dict, list, str, int, float, bool or None"
        )


def _optional_str(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _must(holds: bool, place: str, what: str) -> None:
    if not holds:
        raise InvalidMessage(place, f"must be {what}")
