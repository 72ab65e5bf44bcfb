"""Digests that tell whether what is read is what was written.

An entry's digest covers its own content and nothing of its surroundings, so that a copy in another store
has the same one. The chain covers all that came before, in order. Both are the first 16 bytes of a SHA-256:
enough against chance and against anyone who cannot find a second preimage of 128 bits."""

from __future__ import annotations

from hashlib import sha256

SIZE = 16


def entry_digest(kind: str, at: int, key: bytes | None, tokens: int, usage: bytes | None, body: bytes) -> bytes:
    """The digest of one entry's content. Lengths are written out, so that no two contents read alike."""
    if key is None and usage is None:
        return sha256(b"%b|%d|%d|||%b" % (kind.encode(), at, tokens, body)).digest()[:SIZE]
    named, spent = _sized(key), _sized(usage)
    return sha256(b"%b|%d|%d|%b|%b|%b" % (kind.encode(), at, tokens, named, spent, body)).digest()[:SIZE]


def _sized(value: bytes | None) -> bytes:
    return b"" if value is None else b"%d:%b" % (len(value), value)


def link(chain: bytes, seq: int, digest: bytes) -> bytes:
    """The chain after entry `seq`."""
    return sha256(chain + seq.to_bytes(8, "big") + digest).digest()[:SIZE]


def seal(*values: int | bytes | None) -> bytes:
    """A short digest over the columns of one row, stored beside them."""
    return sha256(b"|".join(map(_column, values))).digest()[:8]


def _column(value: int | bytes | None) -> bytes:
    if value is None:
        return b"-"
    return b"%d" % value if isinstance(value, int) else b"%d:%b" % (len(value), value)


def identity(*parts: bytes) -> bytes:
    """What an idempotency key stands for: the content of the call, without its time."""
    return sha256(b"\0".join(b"%d:%b" % (len(part), part) for part in parts)).digest()[:SIZE]
