"""Sessions in one SQLite file.

Every write is one transaction: BEGIN IMMEDIATE, read the head row, run the ops, move the head row, COMMIT. Readers take
any idle connection, read a page and give it back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
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
from threadline.backends.lazily import Lazily
from threadline.backends.log import PiecedLog
from threadline.backends.sqlite import (
    changes,
    files,
    inbox,
    leases,
    sessions,
    streams,
    transactions,
    usage,
)
from threadline.backends.sqlite.changes import Bell
from threadline.backends.sqlite.claims import Claim
from threadline.backends.sqlite.connections import BUSY_TIMEOUT_MS, CHECKPOINT_PAGES, DURABILITY, Pool, connect, no_fork
from threadline.backends.sqlite.recent import RecentLog, Recents
from threadline.backends.sqlite.reserve import Reserve
from threadline.backends.sqlite.rows import (
    MISTYPED,
    NOT_YET,
    Connection,
    caused,
    many,
    one,
    our_errors,
    translated,
)
from threadline.backends.sqlite.wiping import Wiping, wipe
from threadline.backends.sqlite.writers import FileLock, Job, Writers, wake
from threadline.core.about import About, Change
from threadline.core.entries import Row, moment, stored
from threadline.core.fold import State, state_of
from threadline.core.holds import Hold
from threadline.core.inbox import Letter
from threadline.core.ops import Op
from threadline.core.receipts import Pending, Receipt
from threadline.core.searching import Answer, Indexing, Search
from threadline.core.spending import Charge, Sum
from threadline.core.streams import Chunk, NewStream, Settling, Stream
from threadline.errors import Damaged, NotFound, ReadOnly, StoreFull, ThreadlineError, Uncertain

T = TypeVar("T")

if TYPE_CHECKING:
    from threadline.backends.sqlite import erasing, memory, search, trees
    from threadline.memory.rows import Deed, Place
else:
    erasing = Lazily("threadline.backends.sqlite.erasing")
    memory = Lazily("threadline.backends.sqlite.memory")
    search = Lazily("threadline.backends.sqlite.search")
    trees = Lazily("threadline.backends.sqlite.trees")

LOGS_AT_ONCE = 10_000  # whose entries are counted in one go
READERS_WAIT_MS = 250  # a reader holds its page for a few milliseconds
Afterwards = Callable[[Any], Any]

RETRIES = 2  # of a keyed write whose commit fails; a disk that fails more often needs a person


# What only adds to a log: whatever else is committed, the connection forgets what it read.
ONLY_ADD = frozenset({transactions.write, transactions.create, inbox.take, streams.begin, streams.grow, streams.settle})


class SqliteBackend:
    """See `Backend` for what each method promises."""

    def __init__(self, path: str, *, durability: str = "full", read_only: bool = False, vfs: str | None = None) -> None:
        self._memory = path == ":memory:"
        # Whatever name it is opened by: writers through a link queue at the same lock, as SQLite finds the same WAL.
        self._path = path = path if self._memory else os.path.realpath(path)
        self._synchronous = DURABILITY[durability]
        self._read_only = read_only
        self._vfs = vfs
        self._flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        self._wal_pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self._lock: FileLock | None = None
        self._reserve = Reserve(None if self._memory or read_only else path)
        self._wiping = Wiping(self._wipe)
        self._recents = Recents()
        self._bell = Bell(self._reading, alone=self._memory)
        self._claim = Claim(None if self._memory else path)
        # Last of what a forked child renews: from here on a fork in another thread may find this store.
        self._pool = Pool(self._connect, single=self._memory, in_child=self._start_writers)
        self._writers = Writers(None, self._commit)
        try:
            with our_errors():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return self._path

    # -- opening and closing ---------------------------------------------------------------------------

    def _prepare(self) -> None:
        if not self._memory:
            with no_fork():
                files.look(self._path, must_exist=self._read_only)
        if self._read_only:
            with files.readable(self._path), self._reading() as connection:
                files.check(connection, self._path)
            return
        if not self._memory:
            files.make(self._path)
        self._start_writers()
        with _held(self._lock):  # many processes may open a new file at once: one makes the schema
            connection = self._pool.take()
            try:
                files.upgrade(connection, self._path, memory=self._memory)
                owed = one(connection, "owed") is not None
            except BaseException:
                self._pool.drop(connection)
                raise
            self._pool.give(connection)
            if owed and not self._memory:
                self._wiping.attempt()
        self._reserve.keep()

    def _start_writers(self) -> None:
        """Also in a forked child, which lets go of the lock and of the claim that it inherited."""
        self._claim.forget()
        self._bell.renew()
        if self._lock is not None:
            self._lock.close()
        if not self._memory and not self._read_only:
            self._lock = FileLock(self._path + ".lock")
        self._writers = Writers(self._lock, self._commit)

    def _connect(self) -> Connection:
        flags = self._flags | (apsw.SQLITE_OPEN_CREATE if self._memory else 0)
        with our_errors():
            connection = connect(self._path, flags, self._vfs, self._synchronous)
        connection.set_wal_hook(self._note_wal_size)
        return connection

    def close(self) -> None:
        self._writers.close()
        self._bell.ring()
        with our_errors(), ExitStack() as rest:  # whatever fails, nothing stays open
            rest.callback(self._claim.close)
            rest.callback(self._drop_lock)
            rest.callback(self._drop_connections)
            with _held(self._lock):  # before the connections: a fork waits for those that are out
                if self._wiping.owed:
                    self._wiping.attempt()
                self._drop_connections(tidily=True)

    def _drop_connections(self, tidily: bool = False) -> None:
        with ExitStack() as rest:
            connections = self._pool.close()
            for connection in connections:
                rest.callback(self._pool.drop, connection)
            for connection in connections[:1] if tidily else ():  # the last one out tidies up
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)

    def _drop_lock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    # -- writing ---------------------------------------------------------------------------------------

    def write(
        self,
        target: Target,
        ops: Sequence[Op],
        expect: int | None = None,
        change: Change | None = None,
        lease: int | None = None,
    ) -> Written:
        keyed = change is None and None not in [op.key for op in ops]
        submit = self._submit_keyed if keyed else self._submit
        written: Written = submit(transactions.write, target, ops, expect, change, lease)
        return written

    def new(self, session: NewSession) -> Ref:
        ref: Ref = self._submit(transactions.create, session)
        return ref

    def change(self, ref: Ref, change: Change) -> None:
        self._submit(transactions.change_about, ref, change)

    def fork(self, ref: Ref, at: int | None, new: NewSession) -> Ref:
        fork: Ref = self._submit(transactions.fork, ref, at, new)
        return fork

    def spawn(self, parent: Ref, new: NewSession, birth: Birth) -> Ref:
        child: Ref = self._submit(trees.spawn, parent, new, birth)
        return child

    def delete(self, ref: Ref, cascade: bool, expect: int | None) -> int:
        count: int = self._make_room(trees.delete, ref, cascade, expect)
        return count

    def erase(self, ref: Ref, cascade: bool, at: int) -> Receipt:
        removed, pending = self._make_room(erasing.erase, ref, cascade, at, afterwards=self._wiped)
        return Receipt(moment(at), removed.sessions, removed.entries, pending, removed.kept)

    def redact(self, ref: Ref, seq: int, reason: str, at: int) -> Receipt:
        removed, pending = self._make_room(erasing.redact, ref, seq, reason, at, afterwards=self._wiped)
        return Receipt(moment(at), removed.sessions, removed.entries, pending, removed.kept)

    def bury(self, ref: Ref, rows: Sequence[Row], at: int) -> None:
        self._submit(erasing.bury_all, ref, rows, at, afterwards=self._wiped)

    def prune(self, namespace: str, before: int, at: int | None) -> list[str]:
        if at is None:
            with self._reading() as connection:
                return [ref.id for ref in trees.idle_roots(connection, namespace, before)]
        pruned: list[str] = self._make_room(trees.prune, namespace, before, at)
        return pruned

    def take_lease(self, ref: Ref, holder: str, ttl_us: int) -> Hold:
        hold: Hold = self._submit(leases.take, ref, holder, ttl_us)
        return hold

    def renew_lease(self, ref: Ref, token: int, ttl_us: int) -> Hold:
        hold: Hold = self._submit(leases.renew, ref, token, ttl_us)
        return hold

    def release_lease(self, ref: Ref, token: int) -> None:
        self._submit(leases.release, ref, token)

    def enqueue(self, target: Target, letter: Letter) -> tuple[Ref, Letter]:
        submit = self._submit if letter.key is None else self._submit_keyed
        found: tuple[Ref, Letter] = submit(inbox.enqueue, target, letter)
        return found

    def take(self, ref: Ref, at: int, expect: int | None = None, lease: int | None = None) -> Written:
        written: Written = self._submit(inbox.take, ref, at, expect, lease)
        return written

    def begin_stream(self, target: Target, new: NewStream, lease: int | None = None) -> Ref:
        with our_errors():
            self._claim.name()
        ref: Ref = self._submit(streams.begin, self._claim, target, new, lease)
        return ref

    def grow_streams(self, chunks: Sequence[Chunk]) -> set[int]:
        gone: set[int] = self._submit(streams.grow, self._claim, chunks)
        return gone

    def let_go(self, last: Chunk) -> None:
        self._submit(streams.let_go, self._claim, last)

    def settle(self, ref: Ref, settling: Settling, expect: int | None = None, lease: int | None = None) -> Written:
        written: Written = self._submit(streams.settle, self._claim, ref, settling, expect, lease)
        return written

    def _make_room(self, operation: Callable[..., Any], *arguments: Any, afterwards: Afterwards | None = None) -> Any:
        """Submit what removes something. On a full disk the reserve goes first."""
        try:
            return self._submit(operation, *arguments, afterwards=afterwards)
        except StoreFull:
            if not self._reserve.spend():
                raise
        return self._submit(_sparing, operation, *arguments, afterwards=afterwards or self._restarted)

    def _restarted(self, answer: Any) -> Any:
        """Let the WAL begin anew, so that what follows needs no more room than there is."""
        self._wal_pages = max(self._wal_pages, 4 * CHECKPOINT_PAGES)
        with self._fresh() as connection:
            self._checkpoint(connection)
        return answer

    def _wiped(self, answer: Any) -> tuple[Any, list[Pending]]:
        return answer, [] if self._memory else self._wiping.attempt(patient=True)

    def _wipe(self, wait_ms: int) -> None:
        with self._fresh() as connection:
            connection.set_busy_timeout(wait_ms)
            wipe(connection, self._path, self._vfs)

    @contextmanager
    def _fresh(self) -> Iterator[Connection]:
        """A connection that has read nothing yet. The pool counts it, so that nobody forks meanwhile."""
        self._pool.join()
        try:
            connection = self._connect()
        except BaseException:
            self._pool.drop(None)
            raise
        try:
            yield connection
        finally:
            self._pool.drop(connection)

    def _submit(self, operation: Callable[..., Any], *arguments: Any, afterwards: Afterwards | None = None) -> Any:
        """Run an operation in a write transaction, alone or together with those of other threads."""
        if self._read_only:
            raise ReadOnly
        return self._writers.submit(Job(operation, arguments, afterwards))

    def _submit_keyed(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        """The same, once more when its commit fails: what is stored is found then, what is not is written."""
        retries = RETRIES
        while True:
            try:
                return self._submit(operation, *arguments)
            except Uncertain:
                if not retries:
                    raise
                retries -= 1

    def _commit(self, group: list[Job]) -> None:
        """Run the jobs of a group in one transaction; alone, each in its own, if that fails."""
        connection = self._pool.take()
        try:
            if len(group) == 1 or not _run_together(connection, group):
                for job in group:
                    connection = self._run_alone(connection, job)
            for job in group:
                if job.afterwards is not None and job.done and job.error is None:
                    job.answer = job.afterwards(job.answer)
            if self._bell.heard:
                self._bell.ring()
            if self._wal_pages >= self._checkpoint_at or self._wiping.owed:
                for job in group:
                    wake(job)  # the checkpoint is no part of their answer
                self._tidy(connection)
        finally:
            for job in group:
                if job.operation not in ONLY_ADD:
                    self._recents.pop(connection, None)  # its own commits do not tell it of a change
            self._pool.give(connection)

    def _run_alone(self, connection: Connection, job: Job) -> Connection:
        appends = job.operation is transactions.write
        if not appends:  # it may change the head row and write then: it is to read what it changed
            connection.head_at = NOT_YET
        try:
            connection.kept.execute("BEGIN IMMEDIATE")
            answer = job.operation(connection, *job.arguments)
        except BaseException as error:
            connection = self._rolled_back(connection)
            job.fail(_ours(error))
            if not isinstance(error, Exception):
                raise
            return connection
        try:
            connection.kept.execute("COMMIT")
        except apsw.FullError as error:
            # Only writing to the WAL can say so, and the frame that commits is the last one written: nothing is stored.
            connection = self._rolled_back(connection)
            job.fail(caused(translated(error), error))
            return connection
        except apsw.Error as error:
            # It may be on disk all the same, so nothing that this connection remembers counts any more.
            job.fail(caused(_uncertain(answer, job.arguments), error))
            return self._renewed(connection)
        if appends:
            connection.head_at = connection.data_version()
        job.answer, job.done = answer, True
        return connection

    def _rolled_back(self, connection: Connection) -> Connection:
        if not connection.in_transaction:  # SQLite rolls back by itself where it must
            return connection
        try:
            connection.execute("ROLLBACK")
        except apsw.Error:
            return self._renewed(connection)
        return connection

    def _renewed(self, connection: Connection) -> Connection:
        """Another in its place, open before this one closes: the last to close would take the index of the WAL along,
        and the next to open would find the failed commit in the WAL and believe it, though no sync wrote it.

        On a disk that fails at everything there is no other. Then this one forgets: what it wrote beyond the last
        commit that the index of the WAL knows is overwritten by the next."""
        if self._memory:
            return connection
        try:
            fresh = self._connect()
        except ThreadlineError:
            _forget(connection)
            return connection
        connection.close(True)
        return fresh

    def _note_wal_size(self, connection: apsw.Connection, name: str, pages: int) -> int:
        if pages < self._wal_pages:  # the WAL began anew
            self._checkpoint_at = CHECKPOINT_PAGES
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _tidy(self, connection: Connection) -> None:
        if self._wal_pages >= self._checkpoint_at:
            self._checkpoint(connection)
            self._reserve.keep()
        if self._wiping.is_due():
            self._wiping.attempt()

    def _checkpoint(self, connection: Connection) -> None:
        """Move the WAL into the file. What readers hold back is tried again later; when they, always one of them at
        work, have held it back too often, it waits for them a moment, in which they all come to the end of a page."""
        patient = self._wal_pages >= 4 * CHECKPOINT_PAGES
        self._checkpoint_at = self._wal_pages + CHECKPOINT_PAGES
        connection.set_busy_timeout(READERS_WAIT_MS if patient else 0)
        try:
            connection.wal_checkpoint(
                mode=apsw.SQLITE_CHECKPOINT_RESTART if patient else apsw.SQLITE_CHECKPOINT_PASSIVE
            )
        except (apsw.BusyError, apsw.IOError, apsw.FullError):
            return  # the answers are on disk in the WAL; the next checkpoint takes them along
        finally:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)

    # -- reading ---------------------------------------------------------------------------------------

    def find(self, namespace: str, *, id: str | None = None, key: str | None = None) -> Ref | None:
        with self._reading() as connection:
            return sessions.find(connection, namespace, id=id, key=key)

    def forks(self, ref: Ref) -> list[Ref]:
        with self._reading() as connection:
            transactions.head_of(connection, ref)
            return [sessions.ref_of(connection, *found) for found in many(connection, "forks", (ref.number,))]

    def parent(self, ref: Ref) -> Ref | None:
        with self._reading() as connection:
            transactions.head_of(connection, ref)  # raises NotFound
            return trees.parent(connection, ref)

    def children(self, ref: Ref) -> list[Ref]:
        with self._reading() as connection:
            transactions.head_of(connection, ref)
            return trees.children(connection, ref)

    def below(self, ref: Ref) -> list[Record]:
        with self._reading() as connection:
            return trees.below(connection, ref)

    def spent(self, ref: Ref, below: bool) -> list[Sum]:
        with self._reading() as connection:
            transactions.head_of(connection, ref)  # raises NotFound
            return usage.spent(connection, ref, below)

    def spent_by(self, query: SpentQuery) -> list[Sum]:
        with self._reading() as connection:
            return usage.spent_by(connection, query)

    def charges(self, ref: Ref, after: tuple[int, int], limit: int) -> list[tuple[int, Charge]]:
        with self._reading() as connection:
            transactions.head_of(connection, ref)
            return usage.charges(connection, ref, after, limit)

    def state(self, ref: Ref) -> State:
        with self._reading() as connection:
            return state_of(transactions.head_of(connection, ref)[transactions.FOLD :])

    def about(self, ref: Ref) -> About:
        with self._reading() as connection:
            return transactions.about_now(connection, ref)

    def record(self, ref: Ref, *, spent: bool = True) -> Record:
        with self._reading() as connection:
            found = one(connection, "record", (ref.number,))
            if found is None:
                raise NotFound("session", ref.id)
            return sessions.records_of(connection, [found])[0] if spent else sessions.record_of(found)

    def records(self, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
        with self._reading() as connection:
            return sessions.records(connection, query)

    def keyed(self, ref: Ref, key: bytes) -> range:
        with self._reading() as connection:
            found = transactions.find_key(connection, ref, key)
            return range(0) if found is None else range(found[0], found[0] + found[1])

    def inbox(self, ref: Ref) -> list[Letter]:
        with self._reading() as connection:
            return inbox.inbox(connection, ref)

    def streams(self, ref: Ref) -> list[Stream]:
        with self._reading() as connection, _snapshot(connection):
            return streams.streams(connection, self._claim, ref)

    def log(self, ref: Ref) -> PiecedLog:
        return RecentLog(ref, self._reading, self._recents)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        connection = self._pool.take()
        try:
            yield connection
        except apsw.Error as error:
            raise translated(error) from error
        except MISTYPED as error:
            raise Damaged(None, None, f"a row cannot be read: {error}") from error
        finally:
            self._pool.give(connection)

    # -- memory ----------------------------------------------------------------------------------------

    def remember(self, place: Place, deed: Deed[T]) -> T:
        answer: T = self._submit_keyed(memory.act, place, deed)
        return answer

    def consult(self, place: Place, deed: Deed[T], *, by_words: bool = False) -> T:
        if by_words and not self._read_only:
            self._index_words()
        with self._reading() as connection, _snapshot(connection):
            return deed(memory.shelf(connection, place))[1]

    def _index_words(self) -> None:
        with self._reading() as connection:
            lags = memory.lags(connection)
        while lags:
            lags = self._submit(memory.catch_up)

    def memories(self) -> Iterator[Place]:
        last = b""
        while found := self._page_of_memories(last):
            yield from found
            last = found[-1].tree

    def _page_of_memories(self, after: bytes) -> list[Place]:
        with self._reading() as connection:
            return memory.places(connection, after)

    def forget(self, namespace: str, session: str) -> int:
        count: int = self._submit(memory.forget, stored(namespace), stored(session))
        return count

    # -- following -------------------------------------------------------------------------------------

    def await_change(self, timeout_s: float) -> bool:
        return self._bell.wait(timeout_s)

    def stop_awaiting(self) -> None:
        self._bell.heard = False

    def heads(self, refs: list[Ref]) -> list[int | None]:
        with self._reading() as connection:
            return changes.heads(connection, refs)

    def changed(self, namespace: str, mark: Any, now: int) -> tuple[list[Record], Any]:
        with self._reading() as connection, _snapshot(connection):
            return changes.changed(connection, namespace, mark, now)

    # -- searching -------------------------------------------------------------------------------------

    def search(self, search: Search) -> list[tuple[Record, Answer]]:
        from threadline.backends.sqlite.search import search as answered

        with self._reading() as connection, _snapshot(connection):
            return answered(connection, replace(search, unindexed=self._read_only))

    def index_lag(self, namespace: str) -> Indexing:
        with self._reading() as connection, _snapshot(connection):
            return search.lag(connection)

    def index_step(self, namespace: str) -> Indexing:
        if self._read_only:
            done = self.index_lag(namespace).total
            return Indexing(done, done)
        indexing: Indexing = self._submit(search.step)
        return indexing

    def merge_index(self) -> bool:
        more: bool = self._submit(search.merge)
        return more

    def drop_index(self, namespace: str) -> None:
        self._submit(search.drop)

    # -- care ------------------------------------------------------------------------------------------

    def originals(self) -> Iterator[Original]:
        last = 0
        while page := self._page_of_originals(last):
            yield from page
            last = page[-1].ref.number

    def _page_of_originals(self, after: int) -> list[Original]:
        with self._reading() as connection:
            return sessions.originals(connection, after)

    def trees(self, after: bytes) -> list[bytes]:
        with self._reading() as connection:
            return sessions.trees(connection, after)

    def family(self, tree: bytes) -> list[Original]:
        with self._reading() as connection, _snapshot(connection):
            return sessions.family(connection, tree)

    def calls_named(self, ref: Ref, keys: Sequence[bytes]) -> list[KeyRow]:
        with self._reading() as connection:
            return sessions.calls_named(connection, ref, keys)

    def keys(self, ref: Ref, after: int) -> list[KeyRow]:
        with self._reading() as connection:
            return sessions.keys(connection, ref, after)

    def adopt(self, original: Original, lineage: tuple[Piece, ...], kin: Kin, base: State) -> Ref:
        ref: Ref = self._submit(transactions.adopt, original, lineage, kin, base)
        return ref

    def receive(self, ref: Ref, portion: Portion) -> None:
        self._submit(transactions.receive, ref, portion)

    def tombstones(self, ref: Ref) -> list[Row]:
        with self._reading() as connection:
            return erasing.tombstones(connection, ref)

    def account(self, ref: Ref, charges: Sequence[Charge]) -> None:
        self._submit(transactions.account, ref, charges)

    def verify(self, progress: OnProgress | None = None) -> tuple[list[Problem], dict[str, int]]:
        from threadline.backends.sqlite.verify import verify

        with self._reading() as connection:
            return verify(connection, progress)

    def backup(self, path: str, progress: OnProgress | None = None) -> None:
        with self._reading() as connection, our_errors():
            files.backup(connection, path, progress)

    def stats(self, progress: OnProgress | None = None) -> dict[str, Any]:
        entries = self._count_entries(progress)
        with self._reading() as connection:
            sessions, logs, blobs, owed = one(connection, "counts")
            pages, size = connection.pragma("page_count"), connection.pragma("page_size")
            return {
                "path": self._path,
                "engine": f"SQLite {apsw.sqlite_lib_version()}",
                "schema_version": connection.pragma("user_version"),
                "sessions": sessions,
                "logs": logs,
                "entries": entries,
                "blobs": blobs,
                "size_bytes": pages * size,
                "free_bytes": connection.pragma("freelist_count") * size,
                "wal_bytes": files.size(self._path + "-wal"),
                "reserve_bytes": self._reserve.size_bytes,
                "pending_erasures": owed,
            }

    def _count_entries(self, progress: OnProgress | None) -> int:
        """In steps: a reader that looks at one moment for long keeps the WAL from being emptied."""
        with self._reading() as connection:
            most, logs = one(connection, "extent")
        found = 0
        for first in range(0, logs, LOGS_AT_ONCE):
            with self._reading() as connection:
                found += one(connection, "entries_of_logs", (first, first + LOGS_AT_ONCE))[0]
            if progress is not None:
                progress(Progress(found, max(found, most), "entry"))
        return found


# -- commits -------------------------------------------------------------------------------------------


def _ours(error: BaseException) -> BaseException:
    if isinstance(error, apsw.Error):
        return caused(translated(error), error)
    if isinstance(error, MISTYPED):
        return caused(Damaged(None, None, f"a row cannot be read: {error}"), error)
    return error


def _uncertain(answer: Any, arguments: tuple[Any, ...]) -> Uncertain:
    """COMMIT reported an error after an operation with these arguments, which would have given this answer."""
    if isinstance(answer, Written):
        seqs = [entry.seq for entries in answer.entries for entry in entries]
        return Uncertain(answer.ref.id, min(seqs, default=1) - 1)
    named = [ref.id for ref in (answer, *arguments) if isinstance(ref, Ref)]
    return Uncertain(named[0] if named else None, 0)


def _run_together(connection: Connection, group: list[Job]) -> bool:
    """Run all jobs in one transaction, a savepoint each, and answer only after the shared commit.

    A refusal is an answer, too: it may rest on what another job of the group wrote. False if the transaction failed;
    then it is void, because the next one overwrites it in the WAL, and each job may run again."""
    outcomes: list[tuple[Any, Exception | None]] = []
    connection.head_at = NOT_YET
    try:
        connection.kept.execute("BEGIN IMMEDIATE")
        for job in group:
            connection.execute("SAVEPOINT job")
            try:
                outcomes.append((job.run(connection), None))
            except ThreadlineError as refusal:
                connection.execute("ROLLBACK TO job")
                outcomes.append((None, refusal))
            connection.execute("RELEASE job")
        connection.kept.execute("COMMIT")
    except BaseException as error:
        _forget(connection)
        if isinstance(error, Exception):
            return False
        raise
    for job, (answer, refused) in zip(group, outcomes, strict=True):
        job.answer, job.error, job.done = answer, refused, True
    return True


def _sparing(connection: Connection, operation: Callable[..., Any], *arguments: Any) -> Any:
    """Run an operation without overwriting the pages that it frees: each of them would need room in the WAL."""
    connection.pragma("secure_delete", "fast")
    try:
        return operation(connection, *arguments)
    finally:
        connection.pragma("secure_delete", 1)


def _forget(connection: Connection) -> None:
    """Leave a transaction that failed. Where even that fails the next one is refused, and leaves it first."""
    if connection.in_transaction:
        with suppress(apsw.Error):
            connection.execute("ROLLBACK")


@contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    """Several statements that see one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


@contextmanager
def _held(lock: FileLock | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    with lock:
        yield
