"""A tombstone stands in the place of content that was taken away: what stays of it, why, and when.

The row keeps its digest and its place in the chain, so that nothing after it changes; its content does not match that
digest any more. A tombstone says so by its first byte, and has a seal of its own, bound to its place and to the digest
of what stood there: no flipped bit passes for one, and none is moved to another entry."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeAlias

from msgspec import Struct

from threadline.core import codec
from threadline.core.digest import seal
from threadline.errors import Damaged
from threadline.messages import Message

MARK = b"\x02"  # begins the body of a redacted entry; JSON begins otherwise
WORDS = "[redacted]"  # what people and models read where text was
SEAL = 8

HIDDEN = b"\xff"  # begins an idempotency key of which only the digest is left; no text has that byte


class Tombstone(Struct, frozen=True, omit_defaults=True):
    """What stays of an entry: the message or data that stands in for it, with nothing of what was said."""

    reason: str
    at: int
    message: Message | None = None
    data: dict[str, Any] | None = None


Facts: TypeAlias = tuple[int | bytes | None, ...]  # the other columns that a digest covers, the digest, and the seq


def engrave(facts: Facts, stone: Tombstone) -> bytes:
    """A tombstone as the body of the entry with those facts."""
    told = codec.encode(stone)
    return MARK + seal(*facts, told) + told


def decipher(facts: Facts, body: bytes) -> Tombstone:
    """The tombstone of an entry. Raises Damaged for what we never wrote."""
    mark, told = body[1 : 1 + SEAL], body[1 + SEAL :]
    if seal(*facts, told) != mark:
        raise Damaged(None, None, "its tombstone does not match its seal")
    found = codec.decode(told)
    message = None if found.get("message") is None else codec.message_of(found["message"])
    return Tombstone(found["reason"], found["at"], message, found.get("data"))


def hidden(key: bytes) -> bytes:
    """What is left of an idempotency key: enough to know it when it comes again, too little to read it."""
    return HIDDEN + sha256(key).digest()[:16]
