"""Sessions in one SQLite file.

Every write is one transaction: BEGIN IMMEDIATE, read the head row, run the ops, move the head row, COMMIT. Readers take
any idle connection, read a page and give it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from threadline.backends.backend import (
    KeyRow,
    NewSession,
    Original,
    Piece,
    Portion,
    Problem,
    Query,
    Record,
    Ref,
    Target,
    Written,
)
from threadline.backends.log import PiecedLog
from threadline.backends.sqlite import files, sessions, transactions
from threadline.backends.sqlite.connections import (
    BUSY_TIMEOUT_MS,
    CHECKPOINT_PAGES,
    DURABILITY,
    Pool,
    connect,
    no_fork,
)
from threadline.backends.sqlite.rows import NUMBERS_AND_BYTES, caused, many, one, our_errors, translated
from threadline.backends.sqlite.writers import FileLock, Job, Writers, wake
from threadline.core.about import Change
from threadline.core.fold import State
from threadline.core.ops import Op
from threadline.errors import Damaged, NotFound, ReadOnly, ThreadlineError, Uncertain

READERS_WAIT_MS = 250  # a reader holds its page for a few milliseconds
MISTYPED = (UnicodeDecodeError, TypeError, AttributeError)  # text or types that nobody wrote so: damage
RETRIES = 2  # of a keyed write whose commit fails; a disk that fails more often needs a person


class SqliteBackend:
    """See `Backend` for what each method promises."""

    def __init__(self, path: str, *, durability: str = "full", read_only: bool = False, vfs: str | None = None) -> None:
        self._path = path
        self._memory = path == ":memory:"
        self._synchronous = DURABILITY[durability]
        self._read_only = read_only
        self._vfs = vfs
        self._flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        self._wal_pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self._pool = Pool(self._connect, single=self._memory, in_child=self._start_writers)
        self._lock: FileLock | None = None
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
            with self._reading() as connection:
                files.check(connection, self._path)
            return
        if not self._memory:
            files.make(self._path)
        self._start_writers()
        with _held(self._lock):  # many processes may open a new file at once: one makes the schema
            connection = self._pool.take()
            try:
                files.upgrade(connection, self._path, memory=self._memory)
            except BaseException:
                self._pool.drop(connection)
                raise
            self._pool.give(connection)

    def _start_writers(self) -> None:
        """Also in a forked child, which lets go of the lock that it inherited."""
        if self._lock is not None:
            self._lock.close()
        if not self._memory and not self._read_only:
            self._lock = FileLock(self._path + ".lock")
        self._writers = Writers(self._lock, self._commit)

    def _connect(self) -> apsw.Connection:
        flags = self._flags | (apsw.SQLITE_OPEN_CREATE if self._memory else 0)
        connection = connect(self._path, flags, self._vfs, self._synchronous)
        connection.set_wal_hook(self._note_wal_size)
        return connection

    def close(self) -> None:
        self._writers.close()
        with our_errors(), _held(self._lock):  # before the connections: a fork waits for those that are out
            connections = self._pool.close()
            for connection in connections[1:]:
                self._pool.drop(connection)
            for connection in connections[:1]:  # the last one out tidies up
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
                self._pool.drop(connection)
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    # -- writing ---------------------------------------------------------------------------------------

    def write(
        self, target: Target, ops: Sequence[Op], expect: int | None = None, change: Change | None = None
    ) -> Written:
        retries = RETRIES
        while True:
            try:
                written: Written = self._submit(transactions.write, target, ops, expect, change)
                return written
            except Uncertain:  # if every op is keyed: what is stored will be found, what is not will be written
                if not retries or change is not None or not all(op.key for op in ops):
                    raise
                retries -= 1

    def new(self, session: NewSession) -> Ref:
        ref: Ref = self._submit(transactions.create, session)
        return ref

    def change(self, ref: Ref, change: Change) -> None:
        self._submit(transactions.change_about, ref, change)

    def fork(self, ref: Ref, at: int | None, new: NewSession) -> Ref:
        fork: Ref = self._submit(transactions.fork, ref, at, new)
        return fork

    def _submit(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        """Run an operation in a write transaction, alone or together with those of other threads."""
        if self._read_only:
            raise ReadOnly
        return self._writers.submit(Job(operation, arguments))

    def _commit(self, group: list[Job]) -> None:
        """Run the jobs of a group in one transaction; alone, each in its own, if that fails."""
        connection = self._pool.take()
        try:
            if len(group) == 1 or not _run_together(connection, group):
                for job in group:
                    connection = self._run_alone(connection, job)
            if self._wal_pages >= self._checkpoint_at:
                for job in group:
                    wake(job)  # the checkpoint is no part of their answer
                self._checkpoint(connection)
        finally:
            self._pool.give(connection)

    def _run_alone(self, connection: apsw.Connection, job: Job) -> apsw.Connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            answer = job.run(connection)
        except BaseException as error:
            connection = self._rolled_back(connection)
            job.fail(_ours(error))
            if not isinstance(error, Exception):
                raise
            return connection
        try:
            connection.execute("COMMIT")
        except apsw.FullError as error:
            # Only writing to the WAL can say so, and the frame that commits is the last one written: nothing is stored.
            connection = self._rolled_back(connection)
            job.fail(caused(translated(error), error))
            return connection
        except apsw.Error as error:
            # It may be on disk all the same, so nothing that this connection remembers counts any more.
            job.fail(caused(_uncertain(answer), error))
            return self._renewed(connection)
        job.answer, job.done = answer, True
        return connection

    def _rolled_back(self, connection: apsw.Connection) -> apsw.Connection:
        if not connection.in_transaction:  # SQLite rolls back by itself where it must
            return connection
        try:
            connection.execute("ROLLBACK")
        except apsw.Error:
            return self._renewed(connection)
        return connection

    def _renewed(self, connection: apsw.Connection) -> apsw.Connection:
        """Another in its place, open before this one closes: the last to close would take the index of the WAL along,
        and the next to open would find the failed commit in the WAL and believe it, though no sync wrote it."""
        if self._memory:
            return connection
        fresh = self._connect()
        connection.close(True)
        return fresh

    def _note_wal_size(self, connection: apsw.Connection, name: str, pages: int) -> int:
        if pages < self._wal_pages:  # the WAL began anew
            self._checkpoint_at = CHECKPOINT_PAGES
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, connection: apsw.Connection) -> None:
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
            return [sessions.ref_of(connection, *found) for found in many(connection, "forks", (ref.number,))]

    def state(self, ref: Ref) -> State:
        with self._reading() as connection:
            found = transactions.head_of(connection, ref)[5:]
            if not {*map(type, found)} <= NUMBERS_AND_BYTES:
                raise Damaged(ref.id, None, "its head row is not what it was")
            return State._make(found)

    def record(self, ref: Ref) -> Record:
        with self._reading() as connection:
            found = one(connection, "record", (ref.number,))
            if found is None:
                raise NotFound("session", ref.id)
            return sessions.record_of(found)

    def records(self, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
        with self._reading() as connection:
            return sessions.records(connection, query)

    def keyed(self, ref: Ref, key: bytes) -> range:
        with self._reading() as connection:
            found = one(connection, "find_key", (key, ref.number))
            return range(0) if found is None else range(found[0], found[0] + found[1])

    def log(self, ref: Ref) -> PiecedLog:
        return PiecedLog(ref, self._select)

    def _select(self, name: str, values: tuple[Any, ...]) -> list[Any]:
        with self._reading() as connection:
            return many(connection, name, values)

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        connection = self._pool.take()
        try:
            yield connection
        except apsw.Error as error:
            raise translated(error) from error
        except MISTYPED as error:
            raise Damaged(None, None, f"a row cannot be read: {error}") from error
        finally:
            self._pool.give(connection)

    # -- care ------------------------------------------------------------------------------------------

    def originals(self) -> Iterator[Original]:
        last = 0
        while page := self._page_of_originals(last):
            yield from page
            last = page[-1].ref.number

    def _page_of_originals(self, after: int) -> list[Original]:
        with self._reading() as connection:
            return sessions.originals(connection, after)

    def keys(self, ref: Ref, after: int) -> list[KeyRow]:
        with self._reading() as connection:
            return sessions.keys(connection, ref, after)

    def adopt(self, original: Original, lineage: tuple[Piece, ...], origin: Ref | None, base: State) -> Ref:
        ref: Ref = self._submit(transactions.adopt, original, lineage, origin, base)
        return ref

    def receive(self, ref: Ref, portion: Portion) -> None:
        self._submit(transactions.receive, ref, portion)

    def verify(self) -> tuple[list[Problem], dict[str, int]]:
        from threadline.backends.sqlite.verify import verify

        with self._reading() as connection:
            return verify(connection)

    def backup(self, path: str) -> None:
        with self._reading() as connection, our_errors():
            files.backup(connection, path)

    def stats(self) -> dict[str, Any]:
        with self._reading() as connection:
            counts = one(connection, "counts")
            pages, size = connection.pragma("page_count"), connection.pragma("page_size")
            return {
                "path": self._path,
                "engine": f"SQLite {apsw.sqlite_lib_version()}",
                "schema_version": connection.pragma("user_version"),
                "sessions": counts[0],
                "logs": counts[1],
                "entries": counts[2],
                "size_bytes": pages * size,
                "free_bytes": connection.pragma("freelist_count") * size,
                "wal_bytes": files.size(self._path + "-wal"),
            }


# -- commits -------------------------------------------------------------------------------------------


def _ours(error: BaseException) -> BaseException:
    if isinstance(error, apsw.Error):
        return caused(translated(error), error)
    if isinstance(error, MISTYPED):
        return caused(Damaged(None, None, f"a row cannot be read: {error}"), error)
    return error


def _uncertain(answer: Any) -> Uncertain:
    """COMMIT reported an error after an operation that would have given this answer."""
    if isinstance(answer, Written):
        seqs = [entry.seq for entries in answer.entries for entry in entries]
        return Uncertain(answer.ref.id, min(seqs, default=1) - 1)
    return Uncertain(answer.id if isinstance(answer, Ref) else None, 0)


def _run_together(connection: apsw.Connection, group: list[Job]) -> bool:
    """Run all jobs in one transaction, a savepoint each, and answer only after the shared commit.

    A refusal is an answer, too: it may rest on what another job of the group wrote. False if the transaction failed;
    then it is void, because the next one overwrites it in the WAL, and each job may run again."""
    outcomes: list[tuple[Any, Exception | None]] = []
    try:
        connection.execute("BEGIN IMMEDIATE")
        for job in group:
            connection.execute("SAVEPOINT job")
            try:
                outcomes.append((job.run(connection), None))
            except ThreadlineError as refusal:
                connection.execute("ROLLBACK TO job")
                outcomes.append((None, refusal))
            connection.execute("RELEASE job")
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, Exception):
            return False
        raise
    for job, (answer, refused) in zip(group, outcomes, strict=True):
        job.answer, job.error, job.done = answer, refused, True
    return True


@contextmanager
def _held(lock: FileLock | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    with lock:
        yield
