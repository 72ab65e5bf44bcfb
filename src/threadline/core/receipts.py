"""Receipts: what was removed for good, and what of it is still to go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from threadline.errors import Conflict

NAMED_MAX = 10  # in a message; the error's attribute has all


class Pending(Struct, frozen=True):
    """Bytes that are still somewhere: `what` they are in, `why` they could not go yet, and `until` when they stay."""

    what: str
    why: str
    until: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}; {self.until}"


class Receipt(Struct, frozen=True):
    """What `erase` or `redact` removed. Nothing of it can be reached any more; `pending` says where bytes of it still
    lie, and why, and until when: nothing is pending where it is empty. `kept` says what of it belongs to others.

    `sessions` are the ids of those that are gone, or of those that showed the redacted entry."""

    at: datetime
    sessions: list[str]
    entries: int
    pending: list[Pending]
    kept: list[str]

    @property
    def done(self) -> bool:
        return not self.pending


def held(session: str, others: Sequence[str]) -> Conflict:
    """The refusal to erase a session that others hold parts of."""
    named = ", ".join(map(repr, others[:NAMED_MAX])) + (" and others" if len(others) > NAMED_MAX else "")
    return Conflict(
        f"forks or sub-agents hold parts of session {session!r}: {named}. Erase them first, or with cascade=True along "
        "with it",
        others,
    )
