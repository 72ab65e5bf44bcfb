"""Every error of threadline, in one tree.

ThreadlineError
├── NotFound            no such session, key or entry
├── Conflict            somebody else was first
│   ├── Stale           the head is not the one you expected
│   └── KeyReused       an idempotency key came back with other content
├── Uncertain           the disk or the server failed at commit: stored or not, nobody knows yet
├── Closed              the store was closed
├── ReadOnly            the store was opened with read_only=True
├── NotActive           the session is archived or in the trash
├── InvalidArgument     an argument that cannot be right (also a ValueError)
│   └── InvalidMessage  a message that cannot be stored exactly as it is
├── LeaseHeld           somebody else holds the lease of the session
├── LeaseLost           the lease expired, or was given back
├── DepthExceeded       a sub-agent below the deepest that is allowed
├── NotVisible          a seq that the view does not hold
├── NothingToCompact    no entry could be folded
├── BudgetTooSmall      not even the newest turn fits
├── Damaged             stored bytes are not those that were written
├── NotThreadline       a file that belongs to somebody else
├── TooNew              a file written by a newer threadline
├── StoreBusy           a foreign program holds the database, or the server is busy
├── StoreFull           no space left
└── StoreFailed         the disk, the operating system or the server refused

Each carries its facts as attributes and says what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


PLACE_CHARS = 200  # of a place in a message: deeper ones are shown by both their ends


class ThreadlineError(Exception):
    """The root of all errors that threadline raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel: a pool of processes breaks down over one that cannot be made again from its message."""
        return _again, (type(self), self.args, self.__dict__)


class NotFound(ThreadlineError):
    """There is no such thing. `what` is its kind, `name` what was asked for."""

    def __init__(self, what: str, name: Any, hint: str = "") -> None:
        super().__init__(f"no {what} {name!r} here{'; ' + hint if hint else ''}")
        self.what = what
        self.name = name


class Conflict(ThreadlineError):
    """Somebody else was first, the name is taken, or others hold what is to go. Nothing was written.

    `sessions` are the ids of those that are in the way, where it is about sessions."""

    def __init__(self, message: str, sessions: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.sessions = tuple(sessions)


class Stale(Conflict):
    """Another writer moved the head. Read on from `found`, decide again, and write with the new head."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"expected head {expected}, found {found}: read what came since, then write with expect={found}"
        )
        self.expected = expected
        self.found = found


class KeyReused(Conflict):
    """The idempotency key already names a call with other content. Use a new key for new content."""

    def __init__(self, key: str, seq: int) -> None:
        call = f"the call that wrote entry {seq}" if seq else "a message that waits in the inbox"
        super().__init__(f"key {key!r} already names {call}, with other content: use a new key")
        self.key = key
        self.seq = seq


class Uncertain(ThreadlineError):
    """The store failed while committing, so the write may or may not be there.

    `head` is the head before the write. Reopen, compare, and write again only what is missing; with an
    idempotency key simply call again."""

    def __init__(self, session: str | None, head: int) -> None:
        what = f"what was to follow entry {head} of session {session!r}" if head else f"a change of session {session!r}"
        super().__init__(
            f"the disk or the server failed while {what} was committed: it may or may not be stored. "
            "Look before writing it again, or give writes a key= so that repeating them is safe"
        )
        self.session = session
        self.head = head


class Closed(ThreadlineError):
    """The store was closed. Open it again with threadline.open()."""

    def __init__(self) -> None:
        super().__init__("this store was closed: open it again with threadline.open()")


class ReadOnly(ThreadlineError):
    """The store was opened with read_only=True, so nothing can be written through it."""

    def __init__(self) -> None:
        super().__init__("this store is read-only: open it without read_only=True to write")


class NotActive(ThreadlineError):
    """The session is archived or in the trash, or has ended in a memory. Bring it back before writing."""

    def __init__(self, session: str, status: str, hint: str = "") -> None:
        hint = hint or f"store.restore({session!r}) makes it writable again"
        super().__init__(f"session {session!r} is {status}: {hint}")
        self.session = session
        self.status = status


class LeaseHeld(ThreadlineError):
    """Somebody else holds the lease of the session, until `until` unless it is renewed. Nothing was written."""

    def __init__(self, holder: str, until: datetime) -> None:
        super().__init__(
            f"{holder!r} holds the lease until {until:%H:%M:%S.%f} UTC: wait for it with lease(…, wait=seconds), "
            "write with lease= if it is yours, or put the message into the inbox with enqueue()"
        )
        self.holder = holder
        self.until = until


class LeaseLost(ThreadlineError):
    """The lease is over: it expired, or was given back. `holder` has it now, if anybody has. Nothing was written."""

    def __init__(self, session: str, holder: str | None) -> None:
        now = f"{holder!r} has it now" if holder else "nobody has it now"
        super().__init__(
            f"this lease on session {session!r} is over and {now}: take a new one, read what happened since, go on"
        )
        self.session = session
        self.holder = holder


class InvalidArgument(ThreadlineError, ValueError):
    """An argument that cannot be right. Nothing was written."""


class InvalidMessage(InvalidArgument):
    """The message cannot be stored and returned exactly. `place` names the part that is in the way."""

    def __init__(self, place: str, why: str) -> None:
        shown = place if len(place) <= PLACE_CHARS else f"{place[: PLACE_CHARS // 2]}…{place[-PLACE_CHARS // 2 :]}"
        super().__init__(f"{shown}: {why}")
        self.place = place
        self.why = why


class DepthExceeded(ThreadlineError):
    """A sub-agent would be deeper than the store allows. Nothing was made."""

    def __init__(self, depth: int, max_depth: int) -> None:
        super().__init__(
            f"a sub-agent at depth {depth} is below the {max_depth} that are allowed: let its parent do the work, "
            "or open the store with a larger max_depth="
        )
        self.depth = depth
        self.max_depth = max_depth


class NotVisible(ThreadlineError):
    """The entry is not in the view (rewound, folded, or never shown to the model)."""

    def __init__(self, seq: int, why: str = "is not in the view") -> None:
        super().__init__(f"entry {seq} {why}: choose a seq from view().entries")
        self.seq = seq


class NothingToCompact(ThreadlineError):
    """No entry of the asked run may be folded: it is empty, too recent, or holds only open tool calls."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nothing to compact: {why}")


class BudgetTooSmall(ThreadlineError):
    """Not even the newest turn fits, its tool results shortened. `needed` is the smallest budget that would do."""

    def __init__(self, needed: int, given: int) -> None:
        super().__init__(
            f"the newest turn needs {needed} tokens, its tool results shortened, and max_tokens is {given}: "
            f"give max_tokens={needed} or more, or compact() what the turn holds"
        )
        self.needed = needed
        self.given = given


class Damaged(ThreadlineError):
    """Stored bytes are not those that were written. The rest of the log does not suffer."""

    def __init__(self, session: str | None, seq: int | None, what: str) -> None:
        place = f"entry {seq} of session {session!r}" if seq is not None else "the store"
        super().__init__(f"{place} is damaged ({what}): store.verify() lists all damage, a backup has the original")
        self.session = session
        self.seq = seq
        self.what = what


class NotThreadline(ThreadlineError):
    """The file is not one of ours. It was not touched."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} is not a threadline store ({why}); it was not touched: choose another path")
        self.path = path


class TooNew(ThreadlineError):
    """A newer threadline wrote the file. It was not touched."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, this threadline knows up to {known}; it was not touched: "
            "upgrade with pip install -U threadline"
        )
        self.path = path
        self.found = found
        self.known = known


class StoreBusy(ThreadlineError):
    """Another program held the database for too long, or the server is too busy. Nothing was written; try again."""


class StoreFull(ThreadlineError):
    """No space is left on the device. Nothing was written.

    Free some space, or remove sessions: `delete`, `erase`, `redact` and `prune` still work, out of a reserve that a
    store in a file keeps beside it."""


class StoreFailed(ThreadlineError):
    """The disk, the operating system or the server refused. Nothing was written."""


def _again(kind: type[ThreadlineError], said: tuple[Any, ...], facts: dict[str, Any]) -> ThreadlineError:
    """The same error in another process: what it says and its facts, without asking how they were found."""
    error = kind.__new__(kind, *said)
    error.__dict__.update(facts)
    return error
