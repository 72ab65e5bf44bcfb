"""What a backend promises.

A backend keeps sessions and their logs. It runs ops (`core/ops.py`) without knowing which, one call in one transaction,
and hands rows back exactly as they were given. Errors of its engine become ours at its edge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from threadline.core.about import About, Change
from threadline.core.entries import Entry, Row
from threadline.core.fold import State
from threadline.core.holds import Hold
from threadline.core.inbox import Letter
from threadline.core.ops import Op
from threadline.core.receipts import Receipt
from threadline.core.searching import Answer, Indexing, Search
from threadline.core.spending import Charge, Sum
from threadline.core.streams import Chunk, NewStream, Settling, Stream
from threadline.core.view import Log

if TYPE_CHECKING:
    from threadline.memory.rows import Deed, Place

T = TypeVar("T")

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


class Birth(NamedTuple):
    """How a sub-agent's session comes about: how long it lives, the call that it answers, how deep it may be."""

    lifecycle: str
    call_id: str | None
    max_depth: int


class Target(Struct, frozen=True):
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
    queued: int
    holder: str | None
    spent: tuple[Sum, ...] = ()


class Written(Struct, frozen=True):
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
    id_prefix: str | None = None
    updated_before: int | None = None
    order: str = "updated"
    limit: int = 50
    cursor: tuple[int, int] | None = None
    root: bool = True  # without sub-agents
    parent: Ref | None = None  # only the children of that one, whatever `root` says


class SpentQuery(Struct, frozen=True):
    """What to add up: requests from `since` on and before `until`, grouped by some of session, day, model, agent."""

    namespace: str
    by: tuple[str, ...]
    since: int | None = None
    until: int | None = None
    agent: str | None = None
    tag: str | None = None
    cwd: str | None = None


class Problem(Struct, frozen=True):
    """One thing that `verify` found wrong. `session` and `seq` are None where it is not about one entry."""

    session: str | None
    seq: int | None
    what: str


class Progress(Struct, frozen=True):
    """How far a long operation has come: so much of `total`, which may grow meanwhile. `unit` is "entry" or "byte"."""

    done: int
    total: int
    unit: str


OnProgress: TypeAlias = Callable[[Progress], object]


class Counts(dict[str, int]):
    """What was counted so far. Every so many entries `progress` is told."""

    EVERY = 500

    def __init__(self, names: Iterable[str], progress: OnProgress | None, entries: Callable[[], int]) -> None:
        super().__init__(dict.fromkeys(names, 0))
        self._progress = progress
        self._total = entries() if progress is not None else 0

    def __setitem__(self, name: str, count: int) -> None:
        super().__setitem__(name, count)
        if self._progress is not None and name == "entries" and count % self.EVERY == 0:
            self._progress(Progress(count, self._total, "entry"))


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
    parent: int | None = None  # and of the one that spawned it


class Kin(NamedTuple):
    """Whom a copied session comes from, as this store knows them."""

    origin: Ref | None = None
    parent: Ref | None = None


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
        self,
        target: Target,
        ops: Sequence[Op],
        expect: int | None = None,
        change: Change | None = None,
        lease: int | None = None,
    ) -> Written:
        """Run ops in one transaction, in order; consecutive numbers, no holes.

        An op whose key is known returns what that key wrote and writes nothing, whatever `expect` and `lease` say; with
        another identity, KeyReused. Any other op may be refused, in this order: by the status (NotActive), by the lease
        (`core.holds.check` with `lease`, a token, and the clock of the place of the data), by `expect` (Stale), by
        itself. Then nothing is written at all. Without any op the session is made if it is not there yet. Raises
        Uncertain where the commit failed and not every op has a key; those that have are run again.

        What an op spent (`op.spent`) is charged to the session in the same transaction, if the op runs; a request of
        an id that the tree knows already only grows (`core.spending.grown`), where it stands."""

    def take_lease(self, ref: Ref, holder: str, ttl_us: int) -> Hold:
        """A new lease, its token one higher than the last. Raises LeaseHeld while one lives, NotActive.

        Moves neither the head nor `updated_at`; nor do the next two."""

    def renew_lease(self, ref: Ref, token: int, ttl_us: int) -> Hold:
        """The same lease for so long from now on. Raises LeaseLost if it is not that of the token, or over."""

    def release_lease(self, ref: Ref, token: int) -> None:
        """End the lease of that token. Any other is left alone."""

    def enqueue(self, target: Target, letter: Letter) -> tuple[Ref, Letter]:
        """Put a message into the inbox of a session, which is made if it is not there yet. `updated_at` moves on.

        A key that is known in the log or in the inbox: what it named first, and nothing happens. Raises KeyReused if
        that was another message, NotActive. No lease keeps anybody out."""

    def inbox(self, ref: Ref) -> list[Letter]:
        """The messages that wait, in order. Raises NotFound if the session is gone."""

    def take(self, ref: Ref, at: int, expect: int | None = None, lease: int | None = None) -> Written:
        """Append the first message of the inbox (`Letter.append`) and remove it, in one transaction; nothing if it is
        empty. One whose key has entered meanwhile is removed, and the next one taken."""

    def begin_stream(self, target: Target, new: NewStream, lease: int | None = None) -> Ref:
        """Open a stream on a session, which is made if it is not there yet. Raises NotActive, LeaseHeld, LeaseLost.

        It is this backend's: `live` until it is closed, or its process dies, however it dies."""

    def grow_streams(self, chunks: Sequence[Chunk]) -> set[int]:
        """Add chunks to streams of this backend, in one transaction; the numbers of streams that are not there."""

    def let_go(self, last: Chunk) -> None:
        """Add the last chunk, if it has text, and let the stream be nobody's: it is not live any more."""

    def streams(self, ref: Ref) -> list[Stream]:
        """The streams of a session as far as they are stored, the oldest first. Raises NotFound if it is gone."""

    def settle(self, ref: Ref, settling: Settling, expect: int | None = None, lease: int | None = None) -> Written:
        """End streams: write what `settling.ops` makes of them, as `write` does, and remove them, in one transaction.

        Raises NotFound if one is not there, Conflict if one is live and not `own`, and what `write` raises."""

    def change(self, ref: Ref, change: Change) -> None:
        """Change what is said of a session. `updated_at` moves on; the log does not."""

    def fork(self, ref: Ref, at: int | None, new: NewSession) -> Ref:
        """Make a session that shares the log of `ref` up to `at` (default: its head), copying nothing."""

    def forks(self, ref: Ref) -> list[Ref]:
        """The sessions that were forked from this one, oldest first."""

    def spawn(self, parent: Ref, new: NewSession, birth: Birth) -> Ref:
        """Make a child of `parent`, in its tree; or find the one that its key or its call made before, also when
        two come at once. Raises NotActive, DepthExceeded, or Conflict if the key is somebody else's."""

    def parent(self, ref: Ref) -> Ref | None:
        """The session that spawned it, as long as that is there."""

    def children(self, ref: Ref) -> list[Ref]:
        """The sessions that it spawned, oldest first."""

    def below(self, ref: Ref) -> list[Record]:
        """The session and all below it, each after its parent; siblings oldest first. Costs those, not the store."""

    def delete(self, ref: Ref, cascade: bool, expect: int | None) -> int:
        """Remove a session, and with `cascade` its ephemeral and linked descendants; the other children become roots.

        What others share of its log stays; nothing else of it does, and its number is never given again. Its parent,
        if it has one, is charged for what all of them spent. Raises Stale if the head is not the expected one."""

    def erase(self, ref: Ref, cascade: bool, at: int) -> Receipt:
        """Remove a session so that no byte of it is left, or say in the receipt which, why and until when.

        Forks, children and whoever else reads its own log hold parts of it: with `cascade` they go along, and those
        that hold parts of them; without, Conflict names them. What it shares of others' logs is theirs. Its parent, if
        it has one, is charged for what all below it spent, and for nothing that tells whose it was."""

    def redact(self, ref: Ref, seq: int, reason: str, at: int) -> Receipt:
        """Put a tombstone in the place of an entry's content (`core.redaction.redacted`), for all who read it, and
        take what was taken from it out of later entries (`echoes`) and out of what is said of sessions (`retold`).

        No byte of it is left, or the receipt says which. Digest, chain and fold stay. `updated_at` moves on; neither
        status nor lease is in the way. One that is redacted already stays as it is. Raises NotFound, Damaged."""

    def tombstones(self, ref: Ref) -> list[Row]:
        """The redacted entries of the session's own log. Costs nothing where there is none."""

    def bury(self, ref: Ref, rows: Sequence[Row], at: int) -> None:
        """Put tombstones into the session's own log that another store has there."""

    def prune(self, namespace: str, before: int, at: int | None) -> list[str]:
        """The ids of active roots that were not changed since `before`, nor anything below them, oldest first.

        Unless `at` is None, all of them are put into the trash, at that time, in the same transaction."""

    def spent(self, ref: Ref, below: bool) -> list[Sum]:
        """What the session took, all below it included if asked for, by model. Reads sums, never requests."""

    def spent_by(self, query: SpentQuery) -> list[Sum]:
        """What a namespace took. A group holds the values of `query.by`, in that order; a session by its id, a day by
        its number since 1970. One group may come in several parts."""

    def charges(self, ref: Ref, after: tuple[int, int], limit: int) -> list[tuple[int, Charge]]:
        """A page of what the session is charged for, oldest first, each with its number: those after (time, number)."""

    def state(self, ref: Ref) -> State:
        """The fold at the head. Raises NotFound if the session is gone."""

    def about(self, ref: Ref) -> About:
        """What is said of the session, and nothing else: every call that brings usage asks. Raises NotFound."""

    def record(self, ref: Ref, *, spent: bool = True) -> Record:
        """The session as it is now; what it spent may be left out, if nobody asks for it. Raises NotFound if it is
        gone."""

    def records(self, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
        """One page of sessions and the cursor of the next; None at the end. Costs the page, not the store."""

    def log(self, ref: Ref) -> Log:
        """The session's log, lineage resolved. Reads take no lock and hold no transaction between pages."""

    def keyed(self, ref: Ref, key: bytes) -> range:
        """The seqs that the call of that key wrote; empty where the key is unknown."""

    def search(self, search: Search) -> list[tuple[Record, Answer]]:
        """What answers a question, best first, by what the index knows now. Where it may not be caught up, because the
        store is read-only, what it lacks is read."""

    def index_lag(self, namespace: str) -> Indexing:
        """How far the index is, for this namespace at least. Makes nothing."""

    def index_step(self, namespace: str) -> Indexing:
        """Index some more, in one short transaction, and make the index if there is none. Any number of processes
        may do so at once: each goes on where the last one ended. A read-only store changes nothing."""

    def merge_index(self) -> bool:
        """Do some of the work that makes looking up quick, in one short transaction; False when there is none left."""

    def drop_index(self, namespace: str) -> None:
        """Remove the index, that of this namespace at least. The next step makes it anew."""

    def await_change(self, timeout_s: float) -> bool:
        """Wait until something may have been committed, by whomever, since the last call returned; False if nothing was
        for so long. Asked by one thread at a time. This process's own commits end the wait at once."""

    def stop_awaiting(self) -> None:
        """Nobody waits any more: let go of what waiting took. Never while somebody asks."""

    def heads(self, refs: list[Ref]) -> list[int | None]:
        """The head of each session; None where it is gone. One look for all of them."""

    def changed(self, namespace: str, mark: Any, now: int) -> tuple[list[Record], Any]:
        """The sessions of a namespace that changed since `mark`, each once, and the mark of now, by the clock of the
        store; from None only a mark. None that changed in between is missed."""

    def originals(self) -> Iterator[Original]:
        """Every session of every namespace, each after the one that it was forked from and the one that spawned it."""

    def trees(self, after: bytes) -> list[bytes]:
        """A page of the names of trees, in their order, after that one; empty at the end."""

    def family(self, tree: bytes) -> list[Original]:
        """The sessions of a tree; forks of one session stand in the order they were made, and so do its children."""

    def calls_named(self, ref: Ref, keys: Sequence[bytes]) -> list[KeyRow]:
        """What those of the keys stand for that the session knows, in the same order."""

    def keys(self, ref: Ref, after: int) -> list[KeyRow]:
        """The idempotency keys of the session's own log, of entries after `after`."""

    def adopt(self, original: Original, lineage: tuple[Piece, ...], kin: Kin, base: State) -> Ref:
        """Make a session as another store holds it, in the same tree, with nothing of its own log yet.

        `lineage` is what it shares, in the logs of this store; `base` is its state there."""

    def receive(self, ref: Ref, portion: Portion) -> None:
        """Store rows that follow the session's head, exactly as they are, and what is said of it then.

        Raises Stale if they do not follow: somebody else writes there."""

    def account(self, ref: Ref, charges: Sequence[Charge]) -> None:
        """Charge a session for requests exactly as another store holds them.

        One of an id that the tree knows takes the place of what was known, where that stands, unless it counts less."""

    def remember(self, place: Place, deed: Deed[T]) -> T:
        """Run a deed on a memory, which begins with it if it is not there, and write what it changes, in one
        transaction. Those of one memory come one after the other. A deed may be run again if its commit fails."""

    def consult(self, place: Place, deed: Deed[T], *, by_words: bool = False) -> T:
        """Run a deed that changes nothing, on one moment of a memory; with `by_words` after bringing the index of words
        up to date, where this store may write."""

    def memories(self) -> Iterator[Place]:
        """Every memory of every namespace."""

    def forget(self, namespace: str, session: str) -> int:
        """Remove the working memory of a session from all memories of its namespace, as `delete` does; how many."""

    def verify(self, progress: OnProgress | None = None) -> tuple[list[Problem], dict[str, int]]:
        """All damage there is, and how much was looked at. `progress` is told now and then, in the same thread."""

    def backup(self, path: str, progress: OnProgress | None = None) -> None:
        """Copy the store to a new file, consistent, while others write. `progress` likewise."""

    def stats(self, progress: OnProgress | None = None) -> dict[str, Any]:
        """Sizes and counts. `progress` likewise."""

    def close(self) -> None:
        """Let go of everything. Later calls raise Closed."""
