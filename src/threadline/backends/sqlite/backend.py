"""Sessions in one SQLite file.

Every write is one transaction: BEGIN IMMEDIATE, read the head row, run the ops, move the head row, COMMIT. Readers take
any idle connection, read a page and give it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import apsw

from threadline.backends.backend import NewSession, Problem, Query, Record, Ref, Target, Written
from threadline.backends.sqlite import files, sessions, transactions
from threadline.backends.sqlite.connections import BUSY_TIMEOUT_MS, CHECKPOINT_PAGES, DURABILITY, Pool, connect
from threadline.backends.sqlite.log import SqliteLog
from threadline.backends.sqlite.rows import many, one, our_errors, translated
from threadline.backends.sqlite.writers import FileLock, Job, Writers, wake
from threadline.core.about import Change
from threadline.core.fold import State
from threadline.core.ops import Op
from threadline.errors import NotFound, ReadOnly, ThreadlineError, Uncertain


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
        with our_errors():
            self._prepare()

    # -- opening and closing ---------------------------------------------------------------------------

    def _prepare(self) -> None:
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
        try:
            connections = self._pool.close()
            with _held(self._lock):
                for connection in connections[1:]:
                    connection.close()
                for connection in connections[:1]:
                    with suppress(apsw.Error):  # a reader elsewhere: the WAL simply stays
                        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
                    connection.close()
        except apsw.Error as error:
            raise translated(error) from error
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    # -- writing ---------------------------------------------------------------------------------------

    def write(
        self, target: Target, ops: Sequence[Op], *, expect: int | None = None, change: Change | None = None
    ) -> Written:
        keyed = change is None and all(op.key is not None for op in ops)
        run = partial(transactions.write, target=target, ops=ops, expect=expect, change=change)
        written: Written = self._submit(run, tries=3 if keyed else 1)
        return written

    def new(self, session: NewSession) -> Ref:
        ref: Ref = self._submit(partial(transactions.create, new=session))
        return ref

    def change(self, ref: Ref, change: Change) -> None:
        self._submit(partial(transactions.change_about, ref=ref, change=change))

    def fork(self, ref: Ref, at: int | None, new: NewSession) -> Ref:
        fork: Ref = self._submit(partial(transactions.fork, origin=ref, at=at, new=new))
        return fork

    def _submit(self, run: Callable[[apsw.Connection], Any], tries: int = 1) -> Any:
        """Run a function in a write transaction. What a key makes safe to repeat is repeated after a failed commit."""
        if self._read_only:
            raise ReadOnly
        while True:
            tries -= 1
            try:
                return self._writers.submit(Job(run))
            except _CommitFailed as failed:
                if not tries:
                    raise failed.as_ours() from failed.__cause__

    def _commit(self, group: list[Job]) -> None:
        """Run the jobs of a group in one transaction; alone, each in its own, if that fails."""
        connection = self._pool.take()
        try:
            if len(group) == 1 or not _run_together(connection, group):
                for job in group:
                    connection = self._run_alone(connection, job)
            for job in group[1:]:
                wake(job)  # before the checkpoint: it is no part of their answer
            if self._wal_pages >= self._checkpoint_at:
                self._checkpoint(connection)
        finally:
            self._pool.give(connection)

    def _run_alone(self, connection: apsw.Connection, job: Job) -> apsw.Connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            answer = job.run(connection)
        except BaseException as error:
            connection = self._rolled_back(connection)
            job.fail(translated(error) if isinstance(error, apsw.Error) else error)
            if not isinstance(error, Exception):
                raise
            return connection
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            # It may be on disk all the same, so nothing that this connection remembers counts any more.
            failed = _CommitFailed(answer, translated(error))
            failed.__cause__ = error
            job.fail(failed)
            return self._renewed(connection)
        job.succeed(answer)
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
        if self._memory:
            return connection
        self._pool.drop(connection)
        return self._pool.take()

    def _note_wal_size(self, connection: apsw.Connection, name: str, pages: int) -> int:
        if pages < self._wal_pages:  # the WAL began anew
            self._checkpoint_at = CHECKPOINT_PAGES
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, connection: apsw.Connection) -> None:
        """Move the WAL into the file, without waiting for readers; what they hold back is tried again later."""
        self._checkpoint_at = self._wal_pages + CHECKPOINT_PAGES
        connection.set_busy_timeout(0)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
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
            return State(*transactions.head_of(connection, ref)[5:])

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

    def log(self, ref: Ref) -> SqliteLog:
        return SqliteLog(ref, self._select)

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
        finally:
            self._pool.give(connection)

    # -- care ------------------------------------------------------------------------------------------

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


class _CommitFailed(Exception):
    """COMMIT reported an error: the transaction may be stored or not."""

    def __init__(self, answer: Any, error: ThreadlineError) -> None:
        self.answer = answer
        self.error = error

    def as_ours(self) -> ThreadlineError:
        """For what was not keyed: nobody knows. What was keyed failed again and again, and may be called once more."""
        if isinstance(self.answer, Written) and not all(e.key for es in self.answer.entries for e in es):
            written = [entry.seq for entries in self.answer.entries for entry in entries]
            return Uncertain(self.answer.ref.id, min(written, default=1) - 1)
        return self.error


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
        job.succeed(answer) if refused is None else job.fail(refused)
    return True


@contextmanager
def _held(lock: FileLock | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    with lock:
        yield
