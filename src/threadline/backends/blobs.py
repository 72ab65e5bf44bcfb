"""Large content out of line: long strings are cut out of an entry's body, kept once per tree, and put back on reading.

A body is JSON. A string in it that is longer than a few KiB (a tool's output, a picture in base64) becomes a *blob*,
named by its digest; what stays is the body without it, and a list that says where each one belongs. Put together they
are the body again, byte for byte, so nothing above the backends knows of it: digests are those of the whole."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from threadline.errors import Damaged

LARGE_BYTES = 4_096  # shorter strings stay where they are: a row of their own would cost more than it saves

MARK = b"\x01"  # begins what is stored of a packed body; JSON begins otherwise
SQUEEZED = b"\x03"  # begins a body that is compressed where it stands
MARKS = frozenset({MARK, SQUEEZED})


class Packed(Struct, frozen=True, array_like=True):
    """A body without its large strings, and where each of them belongs: behind so many bytes of it, by its name."""

    rest: bytes
    cuts: tuple[tuple[int, bytes], ...]

    @property
    def names(self) -> tuple[bytes, ...]:
        return tuple(name for _, name in self.cuts)


def pack(body: bytes, large_bytes: int = LARGE_BYTES) -> tuple[bytes, dict[bytes, bytes]]:
    """The body as it is stored, and its large strings by name. Most bodies are small, and stay as they are."""
    if len(body) < large_bytes:
        return body, {}
    rest: list[bytes] = []
    cuts: list[tuple[int, bytes]] = []
    blobs: dict[bytes, bytes] = {}
    done = left = 0
    for first, last in _large_strings(body, large_bytes):
        content = body[first:last]
        name = name_of(content)
        blobs[name] = content
        rest.append(body[done:first])
        left, done = left + first - done, last
        cuts.append((left, name))
    if not cuts:
        return body, {}
    return MARK + msgspec.msgpack.encode(Packed(b"".join((*rest, body[done:])), tuple(cuts))), blobs


def _large_strings(body: bytes, large_bytes: int) -> Iterator[tuple[int, int]]:
    """Where each large string of some JSON begins and ends.

    With its escapes blanked out, every quote begins or ends a string: ten times as fast as a walk through them."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    pieces = body.split(b'"')  # outside, inside, outside, inside a string, and so on
    if max(map(len, pieces)) < large_bytes:
        return
    end = -1
    for i, piece in enumerate(pieces):
        begin, end = end + 1, end + 1 + len(piece)
        if i % 2 and len(piece) >= large_bytes:
            yield begin, end


def name_of(content: bytes) -> bytes:
    return sha256(content).digest()


def packed(stored: bytes) -> Packed:
    """What is left of a body that begins with the mark. Raises Damaged for what we never wrote."""
    try:
        return msgspec.msgpack.decode(stored[1:], type=Packed)
    except msgspec.DecodeError as error:
        raise Damaged(None, None, f"its large parts cannot be found: {error}") from error


def unpack(packed: Packed, blobs: Mapping[bytes, bytes]) -> bytes:
    """The whole body again. Raises Damaged where a blob is missing."""
    parts: list[bytes] = []
    done = 0
    for at, name in packed.cuts:
        if name not in blobs:
            raise Damaged(None, None, "a large part of it is missing")
        parts += (packed.rest[done:at], blobs[name])
        done = at
    return b"".join((*parts, packed.rest[done:]))


def whole(stored: bytes, blob: Callable[[bytes], bytes]) -> bytes:
    """The body that was stored as bytes which begin with one of `MARKS`; `blob` gives the content of a name.

    Raises Damaged."""
    if stored[:1] == SQUEEZED:
        return unsqueeze(stored)
    cut = packed(stored)
    return unpack(cut, {name: blob(name) for name in cut.names})


@cache
def _zstd() -> Any:
    """Loaded when the first large string comes by: most processes start without any."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


_idle: list[Any] = []  # compressors that nobody uses now: making one takes as long as compressing 2 KiB


def compress(content: bytes) -> bytes:
    try:
        compressor = _idle.pop()
    except IndexError:
        compressor = _zstd().ZstdCompressor()
    compressed: bytes = compressor.compress(content, compressor.FLUSH_FRAME)
    _idle.append(compressor)  # after an error it is not: it may be in the middle of something
    return compressed


def squeeze(body: bytes) -> bytes:
    """A small body, compressed where it stands; the same one where that saves little.

    With zlib, because it unpacks a kilobyte in a third of the time that zstd takes to get ready for it."""
    squeezed = SQUEEZED + zlib.compress(body, 1, -15)
    return squeezed if len(squeezed) < len(body) * 7 // 8 else body


def unsqueeze(stored: bytes) -> bytes:
    """Raises Damaged for bytes that are not those that `squeeze` made."""
    try:
        return zlib.decompress(stored[1:], -15)
    except zlib.error as error:
        raise Damaged(None, None, f"it cannot be unpacked: {error}") from error


def decompress(stored: bytes) -> bytes:
    """Raises Damaged for bytes that are not those that `compress` made."""
    try:
        content: bytes = _zstd().decompress(stored)
        return content
    except (_zstd().ZstdError, EOFError, TypeError, ValueError) as error:
        raise Damaged(None, None, f"a large part of it cannot be unpacked: {error}") from error
