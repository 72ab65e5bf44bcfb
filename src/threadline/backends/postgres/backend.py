"""Sessions in a PostgreSQL database.

An append is one call of one function on the server. What reshapes a view is folded in Python, under a lock on the
session's head row. Writers of one session wait for each other there; nobody else waits for anybody."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import pairwise
from time import sleep
from typing import Any, TypeVar, cast

import psycopg
from msgspec.structs import replace

from threadline.backends.backend import (
    Birth,
    KeyRow,
    Kin,
    NewSession,
    OnProgress,
    Original,
    Piece,
    Portion,
    Problem,
    Progress,
    Query,
    Record,
    Ref,
    SpentQuery,
    Target,
    Written,
)
from threadline.backends.log import PiecedLog
from threadline.backends.postgres import (
    appends,
    changes,
    copies,
    erasing,
    founding,
    inbox,
    leases,
    memory,
    places,
    schema,
    search,
    sessions,
    streams,
    transactions,
    trees,
    usage,
)
from threadline.backends.postgres.appends import Charged
from threadline.backends.postgres.changes import Bell, Teller
from threadline.backends.postgres.claims import Claim
from threadline.backends.postgres.connections import LIMIT, OneMoment, Pool, without_password
from threadline.backends.postgres.places import Taken
from threadline.backends.postgres.rows import AFTER_ALL, record_of
from threadline.backends.postgres.search import search as answered
from threadline.backends.postgres.statements import UNDONE, Connection, Values, is_gone, one, our_errors, translated
from threadline.core.about import About, Change
from threadline.core.entries import Entry, Row, moment
from threadline.core.fold import State
from threadline.core.holds import Hold
from threadline.core.inbox import Letter
from threadline.core.ops import Append, Op
from threadline.core.receipts import Receipt
from threadline.core.searching import Answer, Indexing, Search
from threadline.core.spending import Charge, Sum
from threadline.core.streams import Chunk, NewStream, Settling, Stream
from threadline.errors import Conflict, Damaged, NotFound, ReadOnly, StoreBusy, StoreFailed, Uncertain
from threadline.memory.rows import Deed, Place

PAUSES_S = (0.05, 0.2, 0.8)  # between attempts, when the server went away: a restart takes about as long
UNDONE_MAX = 50  # attempts, when transactions are in each other's way: one of them succeeds each time
UNDONE_PAUSE_S = 0.005
NOTHING_SEEN = (0, 0)
REMEMBERED = 10_000  # sessions of which the last head is remembered

T = TypeVar("T")


class PostgresBackend:
    """See `Backend` for what each method promises."""

    def __init__(
        self, url: str, *, durability: str = "full", read_only: bool = False, connections: int = LIMIT
    ) -> None:
        self._where = without_password(url)
        self._durable = durability == "full"
        self._read_only = read_only
        self._pool = Pool(url, connections)
        self._source: Pool | OneMoment = self._pool  # of the connection for the next call
        self._bell = Bell(self._pool)
        self._teller = Teller(partial(self._run, changes.tell))
        self._claim = Claim(self._pool)
        self._trees: dict[int, bytes] = {}  # of the streams that are written here
        self._seen: dict[int, tuple[int, int]] = {}  # of a session: the last head and `opened` that we know of
        try:
            self._run(self._prepare)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return self._where

    def _prepare(self, connection: Connection) -> None:
        weak = schema.check_server(connection, self._where)
        if weak and self._durable:
            warnings.warn(
                f"{self._where} can lose what it acknowledged in a power cut ({', '.join(weak)}): "
                'set them on, or open the store with durability="relaxed"',
                RuntimeWarning,
                stacklevel=5,
            )
        (schema.check if self._read_only else schema.prepare)(connection, self._where)

    def close(self) -> None:
        self._teller.close()
        self._pool.close()
        self._bell.ring()
        self._claim.close()

    # -- writing ---------------------------------------------------------------------------------------

    def write(
        self,
        target: Target,
        ops: Sequence[Op],
        expect: int | None = None,
        change: Change | None = None,
        lease: int | None = None,
    ) -> Written:
        keyed = change is None and all(op.key for op in ops)
        return self._surely(partial(self._write, target, ops, expect, change, lease), keyed=keyed)

    def _surely(self, operation: Callable[[], T], *, keyed: bool) -> T:
        """What is keyed is run again when the server went away in the middle: it finds itself, or happens now."""
        try:
            return operation()
        except Uncertain as error:
            if not keyed:
                raise
            uncertain = error
        for pause in PAUSES_S:
            sleep(pause)
            try:
                return operation()
            except Uncertain as error:
                uncertain = error
            except StoreFailed:  # the server is not back yet, and what happened before is still open
                continue
        raise uncertain

    def _write(
        self, target: Target, ops: Sequence[Op], expect: int | None, change: Change | None, lease: int | None
    ) -> Written:
        ref = target.ref
        if ref is None:
            made = self._found_or_created(target.new, ops, expect, lease)
            if isinstance(made, Written):
                return made
            ref = made
        if change is None and appends.are_plain(ops):
            with suppress(Charged):
                written = self._append(ref, cast(Sequence[Append], ops), expect, lease)
                if written is not None:
                    return written
        return self._writing(transactions.write, ref, ops, expect, change, lease)

    def _append(self, ref: Ref, ops: Sequence[Append], expect: int | None, lease: int | None) -> Written | None:
        """None if the lease is in the way, or was."""
        seen = self._seen.get(ref.number, NOTHING_SEEN)
        answer = self._writing(appends.append, ref, ops, expect, lease, seen)
        if answer is None:
            return None
        _, head, opened, *places = answer
        entries = []
        for i, op in enumerate(ops):
            first, count, fresh = places[3 * i : 3 * i + 3]
            entries.append(self._said(ref, op, first, count, fresh))
            head += count * fresh
        self._remember(ref, head, opened)
        return Written(ref, entries)

    def _said(self, ref: Ref, op: Append, first: int, count: int, fresh: int) -> list[Entry]:
        """The entries that an op wrote just now, or those of an earlier call with the same key."""
        if fresh:
            return [draft.entry(ref.id, seq) for seq, draft in enumerate(op.entries, first)]
        return [row.entry(ref.id) for row in self.log(ref).rows(first, first + count - 1)]

    def _remember(self, ref: Ref, head: int, opened: int) -> None:
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        self._seen[ref.number] = (head, opened)

    def _made(self, target: Target) -> Ref:
        made = target.ref or self._found_or_created(target.new, (), None, None)
        return made.ref if isinstance(made, Written) else made

    def _found_or_created(
        self, new: NewSession | None, ops: Sequence[Op], expect: int | None, lease: int | None
    ) -> Ref | Written:
        assert new is not None
        if new.key is not None and (found := self.find(new.namespace, key=new.key)) is not None:
            return found
        try:
            return self._writing(founding.create, new, ops, expect, lease)
        except Taken as taken:  # by its key: somebody else made it meanwhile
            found = None if new.key is None else self.find(new.namespace, key=new.key)
            if found is None:
                raise _conflict(taken) from taken
            return found

    def new(self, session: NewSession) -> Ref:
        try:
            return self._writing(founding.create, session).ref
        except Taken as taken:
            raise _conflict(taken) from taken

    def change(self, ref: Ref, change: Change) -> None:
        self._writing(transactions.change_about, ref, change)

    def fork(self, ref: Ref, at: int | None, new: NewSession) -> Ref:
        try:
            return self._writing(founding.fork, ref, at, new)
        except Taken as taken:
            raise _conflict(taken) from taken

    def spawn(self, parent: Ref, new: NewSession, birth: Birth) -> Ref:
        try:
            return self._writing(trees.spawn, parent, new, birth)
        except Taken as taken:  # by its key: somebody else made it meanwhile, and spawning finds it now
            if taken.what != "key":
                raise _conflict(taken) from taken
        return self._writing(trees.spawn, parent, new, birth)

    def delete(self, ref: Ref, cascade: bool, expect: int | None) -> int:
        gone = self._writing(trees.delete, ref, cascade, expect)
        with suppress(StoreFailed, StoreBusy):  # they are free all the same
            self._writing(trees.free_names, [(member.ref, member.namespace) for member in gone])
        return len(gone)

    def erase(self, ref: Ref, cascade: bool, at: int) -> Receipt:
        removed = self._writing(erasing.erase, ref, cascade)
        pending = self._run(erasing.pending)
        try:
            self._writing(trees.free_names, removed.names)
        except (StoreFailed, StoreBusy):
            pending.append(erasing.names_pending(removed.names))
        return Receipt(moment(at), removed.sessions, removed.entries, pending, removed.kept)

    def redact(self, ref: Ref, seq: int, reason: str, at: int) -> Receipt:
        removed = self._writing(erasing.redact, ref, seq, reason, at)
        return Receipt(moment(at), removed.sessions, removed.entries, self._run(erasing.pending), removed.kept)

    def tombstones(self, ref: Ref) -> list[Row]:
        return self._run(erasing.tombstones, ref)

    def bury(self, ref: Ref, rows: Sequence[Row], at: int) -> None:
        self._writing(erasing.bury, ref, rows)

    def prune(self, namespace: str, before: int, at: int | None) -> list[str]:
        if at is None:
            return [ref.id for ref in self._run(trees.idle, namespace, before)]
        return self._writing(trees.prune, namespace, before, at)

    def _writing(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Run an operation that either commits, or leaves nothing, or raises Uncertain."""
        if self._read_only:
            raise ReadOnly
        answer = self._run(operation, self._durable, *arguments)
        self._bell.ring()
        self._teller.tell()
        return answer

    def _run(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Run an operation, and again where it certainly did nothing: after a deadlock, and when the server went away
        from a read, or before the commit."""
        gone = undone = 0
        failed: psycopg.Error
        while True:
            connection = self._source.take()
            try:
                return operation(connection, *arguments)
            except UNDONE as error:
                undone, failed, again = undone + 1, error, undone < UNDONE_MAX
            except psycopg.Error as error:
                failed, again = error, is_gone(error, connection) and gone < len(PAUSES_S)
                gone += 1
            finally:
                self._source.give(connection)
            if not again:
                raise translated(failed) from failed
            sleep(PAUSES_S[gone - 1] if gone else UNDONE_PAUSE_S)

    # -- leases, inbox, streams ------------------------------------------------------------------------

    def take_lease(self, ref: Ref, holder: str, ttl_us: int) -> Hold:
        return self._writing(leases.take, ref, holder, ttl_us)

    def renew_lease(self, ref: Ref, token: int, ttl_us: int) -> Hold:
        return self._writing(leases.renew, ref, token, ttl_us)

    def release_lease(self, ref: Ref, token: int) -> None:
        self._writing(leases.release, ref, token)

    def enqueue(self, target: Target, letter: Letter) -> tuple[Ref, Letter]:
        def queued() -> tuple[Ref, Letter]:
            ref = self._made(target)
            return ref, self._writing(inbox.enqueue, ref, letter)

        return self._surely(queued, keyed=letter.key is not None)

    def inbox(self, ref: Ref) -> list[Letter]:
        return self._run(inbox.inbox, ref)

    def take(self, ref: Ref, at: int, expect: int | None = None, lease: int | None = None) -> Written:
        return self._writing(inbox.take, ref, at, expect, lease)

    def begin_stream(self, target: Target, new: NewStream, lease: int | None = None) -> Ref:
        ref = self._made(target)
        self._writing(streams.begin, self._claimed(), ref, new, lease)
        self._trees[new.number] = ref.tree
        return ref

    def grow_streams(self, chunks: Sequence[Chunk]) -> set[int]:
        ours = [(self._trees[chunk.stream], chunk) for chunk in chunks if chunk.stream in self._trees]
        gone = self._writing(streams.grow, self._claimed(), ours) if ours else set()
        return gone | {chunk.stream for chunk in chunks if chunk.stream not in self._trees}

    def let_go(self, last: Chunk) -> None:
        if last.stream in self._trees:
            self._writing(streams.let_go, self._claimed(), self._trees[last.stream], last)
            del self._trees[last.stream]

    def streams(self, ref: Ref) -> list[Stream]:
        return self._run(streams.streams, ref)

    def settle(self, ref: Ref, settling: Settling, expect: int | None = None, lease: int | None = None) -> Written:
        written = self._writing(streams.settle, ref, settling, expect, lease)
        for number in settling.numbers or ():
            self._trees.pop(number, None)
        return written

    def _claimed(self) -> int:
        if self._read_only:
            raise ReadOnly
        with our_errors():
            return self._claim.name()

    # -- memory ----------------------------------------------------------------------------------------

    def remember(self, place: Place, deed: Deed[T]) -> T:
        answer: T = self._surely(partial(self._writing, memory.act, place, deed), keyed=True)
        return answer

    def consult(self, place: Place, deed: Deed[T], *, by_words: bool = False) -> T:
        lagging = by_words and self._run(memory.lags, place)
        if lagging and not self._read_only:
            self.remember(place, memory.change_nothing)  # whoever writes makes the words anew first
            lagging = False
        answer: T = self._run(memory.consult, place, deed, lagging)
        return answer

    def memories(self) -> Iterator[Place]:
        last = b""
        while found := self._run(memory.places, last):
            yield from found
            last = found[-1].tree

    def forget(self, namespace: str, session: str) -> int:
        return self._writing(memory.forget, namespace, session)

    # -- following -------------------------------------------------------------------------------------

    def await_change(self, timeout_s: float) -> bool:
        return self._bell.wait(timeout_s)

    def stop_awaiting(self) -> None:
        self._bell.rest()

    def heads(self, refs: list[Ref]) -> list[int | None]:
        return self._run(changes.heads, refs)

    def changed(self, namespace: str, mark: Any, now: int) -> tuple[list[Record], Any]:
        return self._run(changes.changed, namespace, mark)

    # -- searching -------------------------------------------------------------------------------------

    def search(self, search: Search) -> list[tuple[Record, Answer]]:
        return self._run(answered, replace(search, unindexed=self._read_only))

    def index_lag(self, namespace: str) -> Indexing:
        return self._run(search.lag, namespace)

    def index_step(self, namespace: str) -> Indexing:
        if self._read_only:
            done = self.index_lag(namespace).total
            return Indexing(done, done)
        return self._run(search.step, namespace)

    def merge_index(self) -> bool:
        return False  # the server does it by itself, when it vacuums

    def drop_index(self, namespace: str) -> None:
        if self._read_only:
            raise ReadOnly
        self._run(search.drop, namespace)

    # -- reading ---------------------------------------------------------------------------------------

    def find(self, namespace: str, *, id: str | None = None, key: str | None = None) -> Ref | None:
        return self._run(partial(places.find, namespace=namespace, id=id, key=key))

    def forks(self, ref: Ref) -> list[Ref]:
        return self._run(trees.relatives, "forks", ref)

    def parent(self, ref: Ref) -> Ref | None:
        return self._run(trees.parent, ref)

    def children(self, ref: Ref) -> list[Ref]:
        return self._run(trees.relatives, "children", ref)

    def below(self, ref: Ref) -> list[Record]:
        return self._run(trees.below, ref)

    def spent(self, ref: Ref, below: bool) -> list[Sum]:
        self.state(ref)  # raises NotFound
        return self._run(usage.spent, ref, below)

    def spent_by(self, query: SpentQuery) -> list[Sum]:
        return self._run(usage.spent_by, query)

    def charges(self, ref: Ref, after: tuple[int, int], limit: int) -> list[tuple[int, Charge]]:
        self.state(ref)
        return self._run(usage.charges, ref, after, limit)

    def state(self, ref: Ref) -> State:
        found = self._one("head", (ref.tree, ref.number))
        if found is None:
            raise NotFound("session", ref.id)
        return State._make(found[5:])

    def about(self, ref: Ref) -> About:
        return self._run(transactions.about_now, ref)

    def record(self, ref: Ref, *, spent: bool = True) -> Record:
        found = self._one("record", {"tree": ref.tree, "session": ref.number})
        if found is None:
            raise NotFound("session", ref.id)
        return record_of(found)

    def records(self, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
        return self._run(sessions.records, query)

    def keyed(self, ref: Ref, key: bytes) -> range:
        found = self._run(transactions.find_key, ref, key)
        return range(0) if found is None else range(found[0], found[0] + found[1])

    def log(self, ref: Ref) -> PiecedLog:
        return PiecedLog(ref, partial(self._select, ref.tree))

    def _select(self, tree: bytes, name: str, values: tuple[Any, ...]) -> list[Any]:
        return self._run(transactions.select, tree, name, values)

    def _one(self, name: str, values: Values) -> Any:
        return self._run(one, name, values)

    # -- care ------------------------------------------------------------------------------------------

    def originals(self) -> Iterator[Original]:
        last = b""
        while found := self._run(copies.trees, last):
            for last in found:
                yield from self._run(copies.originals, last)

    def trees(self, after: bytes) -> list[bytes]:
        return self._run(copies.trees, after)

    def family(self, tree: bytes) -> list[Original]:
        return self._run(copies.originals, tree)

    def calls_named(self, ref: Ref, keys: Sequence[bytes]) -> list[KeyRow]:
        return self._run(copies.calls_named, ref, keys)

    def keys(self, ref: Ref, after: int) -> list[KeyRow]:
        return self._run(copies.keys, ref, after)

    def adopt(self, original: Original, lineage: tuple[Piece, ...], kin: Kin, base: State) -> Ref:
        try:
            return self._writing(copies.adopt, original, lineage, kin, base)
        except Taken as taken:
            raise _conflict(taken) from taken

    def receive(self, ref: Ref, portion: Portion) -> None:
        self._writing(copies.receive, ref, portion)

    def account(self, ref: Ref, charges: Sequence[Charge]) -> None:
        self._writing(copies.account, ref, charges)

    def verify(self, progress: OnProgress | None = None) -> tuple[list[Problem], dict[str, int]]:
        from threadline.backends.postgres.verify import verify

        return self._run(verify, progress)

    def backup(self, path: str, progress: OnProgress | None = None) -> None:
        """A file with all sessions as they were when it began, all at the same moment. On a cluster each node has a
        moment of its own; a server's own backups hold more."""
        from threadline.backends.copying import copy_sessions
        from threadline.backends.sqlite import files
        from threadline.backends.sqlite.backend import SqliteBackend

        with files.unfinished(path) as partial_path, OneMoment(self._pool) as moment:
            then = copy(self)
            then._source = moment
            backup = SqliteBackend(partial_path, durability="relaxed")
            try:
                report = copy_sessions(then, backup, self._told(progress))
            finally:
                backup.close()
            if report.problems:
                raise Damaged(report.problems[0].session, report.problems[0].seq, report.problems[0].what)

    def _told(self, progress: OnProgress | None) -> Callable[[Any], object] | None:
        if progress is None:
            return None
        total = self.stats()["entries"]
        return lambda reached: progress(Progress(reached.entries, total, "entry"))

    def stats(self, progress: OnProgress | None = None) -> dict[str, Any]:
        entries = self._count_entries(progress)

        def read(connection: Connection) -> dict[str, Any]:
            counts, (size,), (version,) = (one(connection, name) for name in ("counts", "sizes", "version"))
            return {
                "path": self._where,
                "engine": f"PostgreSQL {connection.info.parameter_status('server_version')}",
                "schema_version": version,
                "sessions": counts[0],
                "logs": counts[1],
                "entries": entries,
                "blobs": counts[2],
                "size_bytes": size,
                "dead_rows": one(connection, "roughly")[1],
            }

        return self._run(read)

    def _count_entries(self, progress: OnProgress | None) -> int:
        """In steps, where somebody wants to know: 16 of them, by how the ids of trees begin."""
        if progress is None:
            return int(self._run(one, "entries_of_trees", (b"", AFTER_ALL))[0])
        (most, _), found = self._run(one, "roughly"), 0
        bounds = [b"", *(bytes([16 * step]) for step in range(1, 16)), AFTER_ALL]
        for first, following in pairwise(bounds):
            found += self._run(one, "entries_of_trees", (first, following))[0]
            progress(Progress(found, max(found, most), "entry"))
        return found


def _conflict(taken: Taken) -> Conflict:
    name = f"{taken.what} {taken.name!r}"
    return Conflict(f"a session with {name} exists already: get it with store.get() or store.session()")
