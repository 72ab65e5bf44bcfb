"""Digests that tell whether what is read is what was written.

An entry's digest covers its own content and nothing of its surroundings, so that a copy in another store
has the same one. The chain covers all that came before, in order. Both are the first 16 bytes of a SHA-256:
enough against chance and against anyone who cannot find a second preimage of 128 bits."""

from __future__ import annotations

from hashlib import sha256

SIZE = 16


def entry_digest(kind: str, at: int, key: bytes | None, tokens: int, usage: bytes | None, body: bytes) -> bytes:
    """The digest of one entry's content. Lengths are written out, so that no two contents read alike."""
    head = b"%b|%d|%d|%d|%d|%d|" % (
        kind.encode(),
        at,
        tokens,
        -1 if key is None else len(key),
        -1 if usage is None else len(usage),
        len(body),
    )
    return sha256(b"".join((head, key or b"", usage or b"", body))).digest()[:SIZE]


def link(chain: bytes, seq: int, digest: bytes) -> bytes:
    """The chain after entry `seq`."""
    return sha256(b"%b%d|%b" % (chain, seq, digest)).digest()[:SIZE]


def seal(*values: object) -> bytes:
    """A short digest over the columns of one row, stored beside them."""
    return sha256(repr(values).encode()).digest()[:8]


def identity(*parts: bytes) -> bytes:
    """What an idempotency key stands for: the content of the call, without its time."""
    return sha256(b"\0".join(b"%d:%b" % (len(part), part) for part in parts)).digest()[:SIZE]
