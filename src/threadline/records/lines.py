"""A record as a line of JSON, and back, byte for byte.

A line ends with the CRC-32 of all that stands before it. It is UTF-8; a lone surrogate, which UTF-8 cannot carry, is
written as its escape. Stored JSON never has such an escape, so the way back is exact."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Raw

from threadline.core import codec
from threadline.records.shapes import Record

MARK = b',"crc":"'
TAIL = len(MARK) + len(b'01234567"}')

_SURROGATES = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_ESCAPES = re.compile(rb"\\(?:ud([89a-f][0-9a-f]{2})|.)", re.DOTALL)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_KINDS: dict[str, Any] = {str(kind.__struct_config__.tag): kind for kind in Record.__args__}


def encode(record: Record) -> bytes:
    """The line of a record, its end included."""
    try:
        line = _encode(record)
    except UnicodeEncodeError:
        line = _encode_slowly(record)
    if b"\xed" in line:
        line = _SURROGATES.sub(_escaped, line)
    said = line[:-1]
    return b'%b,"crc":"%08x"}\n' % (said, crc32(said))


def decode(line: bytes) -> Record:
    """The record of a line. Raises ValueError, which says why, where it is not one that we wrote."""
    line = line.rstrip(b"\r\n")
    said, tail = line[:-TAIL], line[-TAIL:]
    if not tail.startswith(MARK) or not line.startswith(b"{"):
        raise ValueError("not a line of ours: it does not end with its checksum")
    if tail != b'%b%08x"}' % (MARK, crc32(said)):
        raise ValueError("it is not what was written: its checksum is another one")
    if b"\\ud" in said:
        said = _ESCAPES.sub(_unescaped, said)
    try:
        record: Record = _decode(said + b"}")
    except codec.NOT_QUICKLY:
        return _decode_slowly(said + b"}")
    return record


def _encode_slowly(record: Record) -> bytes:
    """The same for text that UTF-8 proper cannot carry."""
    parts = [b'"type":%b' % codec.encode(record.__struct_config__.tag)]
    required = len(record.__struct_fields__) - len(record.__struct_defaults__)
    defaults = dict(zip(record.__struct_fields__[required:], record.__struct_defaults__, strict=True))
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name not in defaults or value != defaults[name]:
            said = bytes(value) if isinstance(value, Raw) else codec.encode(value)
            parts.append(b"%b:%b" % (codec.encode(name), said))
    return b"{%b}" % b",".join(parts)


def _decode_slowly(line: bytes) -> Record:
    """Raises ValueError where it is no record."""
    try:
        fields = _fields(line)
        kind = _KINDS[codec.decode(bytes(fields.pop("type")))]
        raw = {name: value for name, value in fields.items() if kind.__annotations__.get(name) == "Raw"}
        plain = {name: codec.decode(bytes(value)) for name, value in fields.items() if name not in raw}
        record: Record = msgspec.convert(plain | raw | {"type": kind.__struct_config__.tag}, kind)
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not a line that this version knows: {error}") from error
    return record


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode("utf-8", "surrogatepass"))


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return found[0]
    return chr(int(b"d" + found[1], 16)).encode("utf-8", "surrogatepass")
