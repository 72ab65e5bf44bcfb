"""What a backend promises.

A backend keeps sessions and their logs. It runs ops (`core/ops.py`) without knowing which, one call in one transaction,
and hands rows back exactly as they were given. Errors of its engine become ours at its edge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from threadline.core.about import About, Change
from threadline.core.entries import Entry, Row
from threadline.core.fold import State
from threadline.core.ops import Op
from threadline.core.view import Log

ACTIVE, ARCHIVED, TRASHED = STATUSES = ("active", "archived", "trashed")


class Piece(NamedTuple):
    """The entries `first..last` of a session lie in that log. The last piece is its own, and open-ended."""

    log: int
    first: int
    last: int


class Ref(NamedTuple):
    """A session that exists: how a backend finds it again without looking it up. Never changes."""

    number: int
    id: str
    key: str | None
    lineage: tuple[Piece, ...]
    tree: bytes


class NewSession(Struct, frozen=True):
    """A session to be made. `id`, `salt` and `at` are drawn by the store, so that a backend needs no dice.

    `salt` is where its chain begins, and the name of its tree if it is a root; a fork has those of its origin."""

    namespace: str
    id: str
    key: str | None
    salt: bytes
    at: int
    about: About


class Target(NamedTuple):
    """Which session to write to: one that exists, or the one of `new.key`, made if it does not."""

    ref: Ref | None
    new: NewSession | None = None


class Record(NamedTuple):
    """A session as it is now."""

    number: int
    id: str
    key: str | None
    about: About
    status: str
    state: State
    created_at: int
    updated_at: int


class Written(NamedTuple):
    """What a write did: the session, and for each op its entries, fresh or of an earlier call with the same key."""

    ref: Ref
    entries: list[list[Entry]]


class Query(Struct, frozen=True):
    """Which sessions to list, and from where on. `cursor` is the position after the last one listed."""

    namespace: str
    cwd: str | None = None
    agent: str | None = None
    tag: str | None = None
    status: str | None = ACTIVE
    waiting: bool | None = None
    key_prefix: str | None = None
    updated_before: int | None = None
    order: str = "updated"
    limit: int = 50
    cursor: tuple[int, int] | None = None


class Problem(Struct, frozen=True):
    """One thing that `verify` found wrong. `session` and `seq` are None where it is not about one entry."""

    session: str | None
    seq: int | None
    what: str


class KeyRow(NamedTuple):
    """What an idempotency key stands for: so many `entries` from `seq` on, whose content had that identity."""

    key: bytes
    seq: int
    entries: int
    identity: bytes


class Original(Struct, frozen=True):
    """A session as one store holds it, for another to hold it so, too: all that does not follow from its entries."""

    ref: Ref  # in the store that it comes from
    namespace: str
    salt: bytes
    created_at: int
    updated_at: int
    status: str
    about: About
    origin: int | None  # the number of the session that it was forked from, in the store that it comes from


class Portion(NamedTuple):
    """A stretch of a session's own log as it is stored, and the state and what is said of the session after it."""

    rows: Sequence[Row]
    keys: Sequence[KeyRow]
    state: State
    about: About
    status: str
    updated_at: int


class Backend(Protocol):
    """Thread-safe and fork-safe. Every write is all or nothing, and on disk when it returns."""

    def new(self, session: NewSession) -> Ref:
        """Make a session at once. Raises Conflict if its id or key is taken in its namespace."""

    def find(self, namespace: str, *, id: str | None = None, key: str | None = None) -> Ref | None:
        """The session of that id or key."""

    def write(
        self, target: Target, ops: Sequence[Op], expect: int | None = None, change: Change | None = None
    ) -> Written:
        """Run ops in one transaction, in order; consecutive numbers, no holes.

        An op whose key is known returns what that key wrote and writes nothing, whatever `expect` says. Raises
        KeyReused, NotActive, Stale or what an op raises: then nothing is written at all. Raises Uncertain where
        the commit failed and not every op has a key; those that have are run again."""

    def change(self, ref: Ref, change: Change) -> None:
        """Change what is said of a session. `updated_at` moves on; the log does not."""

    def fork(self, ref: Ref, at: int | None, new: NewSession) -> Ref:
        """Make a session that shares the log of `ref` up to `at` (default: its head), copying nothing."""

    def forks(self, ref: Ref) -> list[Ref]:
        """The sessions that were forked from this one, oldest first."""

    def state(self, ref: Ref) -> State:
        """The fold at the head. Raises NotFound if the session is gone."""

    def record(self, ref: Ref) -> Record:
        """The session as it is now. Raises NotFound if it is gone."""

    def records(self, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
        """One page of sessions and the cursor of the next; None at the end. Costs the page, not the store."""

    def log(self, ref: Ref) -> Log:
        """The session's log, lineage resolved. Reads take no lock and hold no transaction between pages."""

    def keyed(self, ref: Ref, key: bytes) -> range:
        """The seqs that the call of that key wrote; empty where the key is unknown."""

    def originals(self) -> Iterator[Original]:
        """Every session of every namespace, each after the one that it was forked from."""

    def keys(self, ref: Ref, after: int) -> list[KeyRow]:
        """The idempotency keys of the session's own log, of entries after `after`."""

    def adopt(self, original: Original, lineage: tuple[Piece, ...], origin: Ref | None, base: State) -> Ref:
        """Make a session as another store holds it, in the same tree, with nothing of its own log yet.

        `lineage` is what it shares, in the logs of this store; `base` is its state there."""

    def receive(self, ref: Ref, portion: Portion) -> None:
        """Store rows that follow the session's head, exactly as they are, and what is said of it then.

        Raises Stale if they do not follow: somebody else writes there."""

    def verify(self) -> tuple[list[Problem], dict[str, int]]:
        """All damage there is, and how much was looked at."""

    def backup(self, path: str) -> None:
        """Copy the store to a new file, consistent, while others write."""

    def stats(self) -> dict[str, Any]:
        """Sizes and counts."""

    def close(self) -> None:
        """Let go of everything. Later calls raise Closed."""
