"""Digests that tell whether what is read is what was written.

An entry's digest covers its own content and nothing of its surroundings, so that a copy in another store has the same
one. It is the first 16 bytes of a SHA-256 and a CRC-32 of the same content: every read checks the CRC, which costs next
to nothing and finds every flipped bit; `verify` checks all of it. The chain covers all that came before, in order."""

from __future__ import annotations

from hashlib import sha256
from zlib import crc32

SIZE = 16  # of a SHA-256: enough against chance, and against anyone who cannot find a second preimage of 128 bits
CRC = 4


def entry_digest(kind: str, at: int, key: bytes | None, tokens: int, usage: bytes | None, body: bytes) -> bytes:
    """The digest of one entry's content."""
    content = _head(kind, at, key, tokens, usage) + body
    return sha256(content).digest()[:SIZE] + crc32(content).to_bytes(CRC, "big")


def looks_whole(
    digest: bytes, kind: str, at: int, key: bytes | None, tokens: int, usage: bytes | None, body: bytes
) -> bool:
    """Whether the content has the CRC of the digest: no flipped bit, and no garbage but by a chance of 1 in 2^32."""
    return digest.endswith(crc32(body, crc32(_head(kind, at, key, tokens, usage))).to_bytes(CRC, "big"))


def _head(kind: str, at: int, key: bytes | None, tokens: int, usage: bytes | None) -> bytes:
    """What a digest covers before the body. Lengths are written out, so that no two contents read alike."""
    if key is None and usage is None:
        if kind == "message":  # nearly all of a log: said in one go
            return b"7:message|%d|%d|||" % (at, tokens)
        return b"%b|%d|%d|||" % (_sized(kind.encode()), at, tokens)
    return b"%b|%d|%d|%b|%b|" % (_sized(kind.encode()), at, tokens, _sized(key), _sized(usage))


def _sized(value: bytes | None) -> bytes:
    return b"" if value is None else b"%d:%b" % (len(value), value)


def link(chain: bytes, seq: int, digest: bytes) -> bytes:
    """The chain after entry `seq`."""
    return sha256(chain + seq.to_bytes(8, "big") + digest).digest()[:SIZE]


def seal(*values: int | bytes | None) -> bytes:
    """A short digest over the columns of one row, stored beside them."""
    columns = [
        b"-" if value is None else b"%d" % value if isinstance(value, int) else b"%d:%b" % (len(value), value)
        for value in values
    ]
    return sha256(b"|".join(columns)).digest()[:8]


def identity(*parts: bytes) -> bytes:
    """What an idempotency key stands for: the content of the call, without its time."""
    return sha256(b"\0".join(b"%d:%b" % (len(part), part) for part in parts)).digest()[:SIZE]
