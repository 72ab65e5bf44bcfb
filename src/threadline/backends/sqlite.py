"""Sessions in one SQLite file.

Every write is one transaction: BEGIN IMMEDIATE, read the head row, run the ops, move the head row, COMMIT. Readers take
any idle connection, read a page and give it back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import apsw
import msgspec

from threadline.backends import sql
from threadline.backends.backend import (
    STATUSES,
    NewSession,
    Piece,
    Problem,
    Query,
    Record,
    Ref,
    Target,
    Written,
)
from threadline.backends.connections import CHECKPOINT_PAGES, DURABILITY, Pool, connect
from threadline.backends.writers import FileLock, Job, Writers, wake
from threadline.core import codec
from threadline.core.about import About, Change, changed, inherited, opening_words
from threadline.core.digest import seal
from threadline.core.entries import ASSISTANT, USER, Draft, Entry, Row, stored, text, text_or_none
from threadline.core.fold import State, after, start, state_at
from threadline.core.ops import Op
from threadline.errors import (
    Closed,
    Conflict,
    Damaged,
    KeyReused,
    NotActive,
    NotFound,
    NotThreadline,
    ReadOnly,
    Stale,
    StoreBusy,
    StoreFailed,
    StoreFull,
    ThreadlineError,
    TooNew,
    Uncertain,
)

APPLICATION_ID = 0x74686C6E  # "thln": other programs' files are never touched
SCHEMA_VERSION = 1
ENDLESS = 2**62  # the end of a log that still grows
PAGE = 256  # rows read at once: enough to be quick, few enough that no reader holds up a checkpoint
FEW = 1_000  # up to so many sessions of a folder, agent or tag are sorted rather than walked to

SQL = sql.queries("sqlite")


class SqliteBackend:
    """See `Backend` for what each method promises."""

    def __init__(
        self, path: str, *, durability: str = "full", read_only: bool = False, vfs: str | None = None
    ) -> None:
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
        with _our_errors():
            self._prepare()

    # -- opening and closing ---------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self._read_only:
            self._pool.give(_checked(self._pool.take(), self._path, self._pool.drop))
            return
        if not self._memory:
            _make_file(self._path)
        self._start_writers()
        with _held(self._lock):  # many processes may open a new file at once: one makes the schema
            connection = self._pool.take()
            try:
                _upgrade(connection, self._path, memory=self._memory)
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
            raise _translated(error) from error
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    # -- writing ---------------------------------------------------------------------------------------

    def write(
        self, target: Target, ops: Sequence[Op], *, expect: int | None = None, change: Change | None = None
    ) -> Written:
        keyed = change is None and all(op.key is not None for op in ops)
        run = partial(_write, target=target, ops=ops, expect=expect, change=change)
        written: Written = self._submit(run, tries=3 if keyed else 1)
        return written

    def new(self, session: NewSession) -> Ref:
        ref: Ref = self._submit(partial(_create, new=session))
        return ref

    def change(self, ref: Ref, change: Change) -> None:
        self._submit(partial(_change, ref=ref, change=change))

    def fork(self, ref: Ref, at: int | None, new: NewSession) -> Ref:
        fork: Ref = self._submit(partial(_fork, origin=ref, at=at, new=new))
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
            job.fail(_translated(error) if isinstance(error, apsw.Error) else error)
            if not isinstance(error, Exception):
                raise
            return connection
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            # It may be on disk all the same, so nothing that this connection remembers counts any more.
            failed = _CommitFailed(answer, _translated(error))
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
            connection.set_busy_timeout(30_000)

    # -- reading ---------------------------------------------------------------------------------------

    def find(self, namespace: str, *, id: str | None = None, key: str | None = None) -> Ref | None:
        with self._reading() as connection:
            return _find(connection, namespace, id=id, key=key)

    def forks(self, ref: Ref) -> list[Ref]:
        with self._reading() as connection:
            return [_ref(connection, *found) for found in connection.execute(SQL["forks"], (ref.number,)).fetchall()]

    def state(self, ref: Ref) -> State:
        with self._reading() as connection:
            return State(*_head(connection, ref)[5:])

    def record(self, ref: Ref) -> Record:
        with self._reading() as connection:
            found = connection.execute(SQL["record"], (ref.number,)).fetchone()
            if found is None:
                raise NotFound("session", ref.id)
            return _record(connection, found)

    def records(self, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
        with self._reading() as connection:
            return _records(connection, query)

    def keyed(self, ref: Ref, key: bytes) -> range:
        with self._reading() as connection:
            found = connection.execute(SQL["find_key"], (key, ref.number)).fetchone()
            return range(0) if found is None else range(found[0], found[0] + found[1])

    def log(self, ref: Ref) -> SqliteLog:
        return SqliteLog(ref, self._select)

    def _select(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        connection = self._pool.take()
        try:
            yield connection
        except apsw.Error as error:
            raise _translated(error) from error
        finally:
            self._pool.give(connection)

    # -- care ------------------------------------------------------------------------------------------

    def verify(self) -> tuple[list[Problem], dict[str, int]]:
        from threadline.backends.sqlite_verify import verify

        with self._reading() as connection:
            return verify(connection)

    def backup(self, path: str) -> None:
        """A consistent copy, however much is written meanwhile: one read transaction, so no step is ever repeated."""
        target = os.fspath(path)
        if os.path.exists(target):
            raise Conflict(f"{target} exists already: a backup never overwrites, choose a new path")
        unfinished = target + ".partial"
        with self._reading() as connection, _our_errors():
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
            connection.execute("VACUUM INTO ?", (unfinished,))
            os.chmod(unfinished, 0o600)
            _sync(unfinished)
            os.rename(unfinished, target)
            _sync(os.path.dirname(os.path.abspath(target)))

    def stats(self) -> dict[str, Any]:
        with self._reading() as connection:
            counts = connection.execute(
                "SELECT (SELECT count(*) FROM session), (SELECT count(*) FROM log), (SELECT count(*) FROM entry)"
            ).fetchone()
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
                "wal_bytes": _size(self._path + "-wal"),
            }


class SqliteLog:
    """A session's log, put together from the pieces of its lineage."""

    def __init__(self, ref: Ref, select: Callable[[str, tuple[Any, ...]], list[Any]]) -> None:
        self._ref = ref
        self._select = select

    def row(self, seq: int) -> Row:
        for log, first, last in reversed(self._ref.lineage):
            if first <= seq <= last and (found := self._read("row", (log, seq))):
                return Row._make(found[0])
        raise Damaged(self._ref.id, seq, "the entry is missing")

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = PAGE
    ) -> Iterator[Row]:
        lineage = self._ref.lineage
        for log, low, high in reversed(lineage) if reverse else lineage:
            low, high = max(low, first), min(high, last)
            while low <= high:
                rows = self._page(log, low, high, page, reverse)
                seen = [row for row in rows if row.voice] if shown else rows
                yield from seen
                if len(rows) < page:
                    break
                edge = rows[-1].seq
                if not seen:  # a long silence: jump over it
                    edge = self._silent_until(log, low if reverse else high, rows[-1], reverse)
                low, high = (low, edge - 1) if reverse else (edge + 1, high)

    def _page(self, log: int, low: int, high: int, page: int, reverse: bool) -> list[Row]:
        query = "rows_reverse" if reverse else "rows"
        try:
            return list(map(Row._make, self._select(SQL[query], (log, low, high, page))))
        except Damaged:  # one bad page of the file must not hide the rest
            some = range(high, max(low, high - page + 1) - 1, -1) if reverse else range(low, min(high, low + page - 1) + 1)
            return [Row._make(found) for seq in some for found in self._readable(log, seq)]

    def _readable(self, log: int, seq: int) -> list[Any]:
        with suppress(Damaged):
            return self._read("row", (log, seq))
        return []

    def _silent_until(self, log: int, limit: int, row: Row, reverse: bool) -> int:
        """The last entry of the silence that `row` stands in, seen in the direction of reading, found by halving."""
        near, far = row.seq, limit
        while near != far:
            middle = (near + far) // 2 if reverse else (near + far + 1) // 2
            found = self._read("shown", (log, middle))
            if found and found[0][0] == row.shown:
                near = middle
            else:
                far = middle + 1 if reverse else middle - 1
        return near + 1 if reverse else near  # downwards, the halving ends at the visible entry itself

    def _read(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        return self._select(SQL[query], values)


# -- inside a transaction ------------------------------------------------------------------------------


def _write(
    connection: apsw.Connection,
    *,
    target: Target,
    ops: Sequence[Op],
    expect: int | None,
    change: Change | None,
) -> Written:
    ref = target.ref or _find_or_create(connection, target.new)
    namespace, log_number, status, opened, updated_at, *fold = _head(connection, ref)
    begin = state = State(*fold)
    log = SqliteLog(ref, partial(_select_with, connection))
    entries: list[list[Entry]] = []
    for op in ops:
        if (known := _known(connection, ref, op)) is not None:
            entries.append([row.entry(ref.id) for row in log.rows(known[0], known[-1])])
            continue
        if status:
            raise NotActive(ref.id, STATUSES[status])
        if expect is not None and begin.head != expect:
            raise Stale(expect, begin.head)
        if standing := op.standing(state, log):
            entries.append([log.row(standing).entry(ref.id)])
            continue
        first = state.head + 1
        drafts = op.drafts(state, log)
        for draft in drafts:
            state, row = after(state, draft, log)
            connection.execute(SQL["insert_entry"], (log_number, *row))
            if opened < 2 and draft.voice:
                opened = _open(connection, ref, draft, state.head, opened)
        if op.key is not None and drafts:
            key_row = (log_number, op.key, first, len(drafts), op.identity)
            connection.execute(SQL["insert_key"], (*key_row, seal(*key_row)))
        entries.append([draft.entry(ref.id, seq) for seq, draft in enumerate(drafts, first)])
    if state is not begin:
        updated_at = max(max(op.at for op in ops), updated_at + 1)
        _move_head(connection, ref, namespace, (log_number, status, opened, updated_at, *state))
    if change is not None:
        _change(connection, ref=ref, change=change)
    return Written(ref, entries)


def _known(connection: apsw.Connection, ref: Ref, op: Op) -> range | None:
    """The entries that an earlier call of the same key wrote. Raises KeyReused if it was another call."""
    if op.key is None:
        return None
    found = connection.execute(SQL["find_key"], (op.key, ref.number)).fetchone()
    if found is None:
        return None
    seq, count, identity = found
    if identity != op.identity:
        raise KeyReused(text(op.key), seq)
    return range(seq, seq + count)


def _head(connection: apsw.Connection, ref: Ref) -> tuple[Any, ...]:
    """namespace, log, status, opened, updated_at, and the fold at the head."""
    found = connection.execute(SQL["head"], (ref.number,)).fetchone()
    if found is None:
        raise NotFound("session", ref.id)
    return found


def _move_head(connection: apsw.Connection, ref: Ref, namespace: bytes, row: tuple[Any, ...]) -> None:
    connection.execute(SQL["move_head"], (*row[2:], seal(ref.number, namespace, *row), ref.number))


def _open(connection: apsw.Connection, ref: Ref, draft: Draft, seq: int, opened: int) -> int:
    """Let the opening words be the session's title and preview: the user's, or the assistant's until there are some."""
    by = {USER: 2, ASSISTANT: 1}.get(draft.voice, 0)
    if by <= opened or draft.message is None or not (words := opening_words(draft.message)):
        return opened
    about = _about(connection, ref)
    _set_about(
        connection,
        ref,
        msgspec.structs.replace(about, preview=words, preview_seq=seq, preview_role=draft.message.role),
    )
    return by


def _find_or_create(connection: apsw.Connection, new: NewSession | None) -> Ref:
    assert new is not None
    found = _find(connection, new.namespace, key=new.key) if new.key is not None else None
    return found or _create(connection, new=new)


def _create(connection: apsw.Connection, *, new: NewSession) -> Ref:
    connection.execute(SQL["insert_log"], (new.salt,))
    log_number = connection.last_insert_rowid()
    number = _insert_session(connection, new, origin=None)
    lineage = (Piece(log_number, 1, ENDLESS),)
    _insert_head(connection, number, new, lineage, (log_number, 0, 0, new.at, *start(new.salt)))
    return Ref(number, new.id, new.key, lineage)


def _fork(connection: apsw.Connection, *, origin: Ref, at: int | None, new: NewSession) -> Ref:
    state = State(*_head(connection, origin)[5:])
    at = state.head if at is None else at
    if not 0 <= at <= state.head:
        raise NotFound("entry", at, f"the log ends at {state.head}")
    log = SqliteLog(origin, partial(_select_with, connection))
    salt = connection.execute(SQL["salt"], (origin.lineage[0].log,)).fetchone()[0]
    state = state_at(log, at, salt)
    about = inherited(_about(connection, origin), new.about, origin.id, at)
    new = msgspec.structs.replace(new, about=about)
    connection.execute(SQL["insert_log"], (salt,))
    log_number = connection.last_insert_rowid()
    number = _insert_session(connection, new, origin=origin.number)
    shared = (Piece(piece.log, piece.first, min(piece.last, at)) for piece in origin.lineage if piece.first <= at)
    lineage = (*shared, Piece(log_number, at + 1, ENDLESS))
    opened = {"user": 2, "assistant": 1}.get(about.preview_role or "", 0)
    _insert_head(connection, number, new, lineage, (log_number, 0, opened, new.at, *state))
    return Ref(number, new.id, new.key, lineage)


def _insert_session(connection: apsw.Connection, new: NewSession, *, origin: int | None) -> int:
    about = new.about
    row = (
        stored(new.namespace),
        stored(new.id),
        None if new.key is None else stored(new.key),
        new.at,
        None if about.cwd is None else stored(about.cwd),
        None if about.agent is None else stored(about.agent),
        origin,
        codec.encode(about),
    )
    try:
        connection.execute(SQL["insert_session"], (*row, seal(*row)))
    except apsw.ConstraintError as error:
        taken = _find(connection, new.namespace, id=new.id)
        name = f"id {new.id!r}" if taken else f"key {new.key!r}"
        raise Conflict(f"a session with {name} exists already: get it with store.get() or store.session()") from error
    number = connection.last_insert_rowid()
    for tag in about.tags:
        connection.execute(SQL["insert_tag"], (row[0], stored(tag), number))
    return number


def _insert_head(
    connection: apsw.Connection, number: int, new: NewSession, lineage: tuple[Piece, ...], row: tuple[Any, ...]
) -> None:
    for piece in lineage:
        share = (number, piece.first, piece.last, piece.log)
        connection.execute(SQL["insert_share"], (*share, seal(*share)))
    namespace = stored(new.namespace)
    connection.execute(SQL["insert_head"], (number, namespace, *row, seal(number, namespace, *row)))


def _change(connection: apsw.Connection, *, ref: Ref, change: Change) -> None:
    namespace, log_number, status, opened, updated_at, *fold = _head(connection, ref)
    if change.status is not None:
        status = STATUSES.index(change.status)
    elif status:
        raise NotActive(ref.id, STATUSES[status])
    about = _about(connection, ref)
    new = changed(about, change)
    if new != about:
        _set_about(connection, ref, new)
    updated_at = max(change.at, updated_at + 1)
    row = (log_number, status, opened, updated_at, *fold)
    mark = seal(ref.number, namespace, *row)
    connection.execute(SQL["set_status"], (status, updated_at, mark, ref.number))


def _about(connection: apsw.Connection, ref: Ref) -> About:
    return _decoded_about(_session_row(connection, ref)[5])


def _session_row(connection: apsw.Connection, ref: Ref) -> tuple[Any, ...]:
    found = connection.execute(SQL["about"], (ref.number,)).fetchone()
    if found is None:
        raise NotFound("session", ref.id)
    return found


def _set_about(connection: apsw.Connection, ref: Ref, about: About) -> None:
    namespace, id, key, created_at, origin, before = _session_row(connection, ref)
    cwd = None if about.cwd is None else stored(about.cwd)
    agent = None if about.agent is None else stored(about.agent)
    body = codec.encode(about)
    mark = seal(namespace, id, key, created_at, cwd, agent, origin, body)
    connection.execute(SQL["set_about"], (cwd, agent, body, mark, ref.number))
    old, new = set(_decoded_about(before).tags), set(about.tags)
    for tag in old - new:
        connection.execute(SQL["delete_tag"], (namespace, stored(tag), ref.number))
    for tag in new - old:
        connection.execute(SQL["insert_tag"], (namespace, stored(tag), ref.number))


# -- finding and listing -------------------------------------------------------------------------------


def _find(
    connection: apsw.Connection, namespace: str, *, id: str | None = None, key: str | None = None
) -> Ref | None:
    name, value = ("by_id", id) if id is not None else ("by_key", key)
    found = connection.execute(SQL[name], (stored(namespace), stored(value or ""))).fetchone()
    return None if found is None else _ref(connection, *found)


def _ref(connection: apsw.Connection, number: int, id: bytes, key: bytes | None) -> Ref:
    pieces = connection.execute(SQL["lineage"], (number,)).fetchall()
    return Ref(number, text(id), text_or_none(key), tuple(Piece(*piece) for piece in pieces))


def _record(connection: apsw.Connection, found: tuple[Any, ...]) -> Record:
    number, id, key, about, status, created_at, updated_at, *fold = found
    ref = Ref(number, text(id), text_or_none(key), ())
    return Record(ref, _decoded_about(about), STATUSES[status], State(*fold), created_at, updated_at)


def _records(connection: apsw.Connection, query: Query) -> tuple[list[Record], tuple[int, int] | None]:
    values = _bindings(query)
    name = f"list_by_{query.order}"
    if (few := _few(connection, query, values)) is not None:
        name, values["numbers"] = "list_few", codec.encode(few).decode()
    found = connection.execute(SQL[name], values).fetchall()
    records = [_record(connection, row) for row in found[: query.limit]]
    if len(found) <= query.limit:
        return records, None
    last = records[-1]
    return records, (last.created_at if query.order == "created" else last.updated_at, last.ref.number)


def _bindings(query: Query) -> dict[str, Any]:
    prefix = None if query.key_prefix is None else stored(query.key_prefix)
    at, number = query.cursor or (ENDLESS, ENDLESS)
    return {
        "namespace": stored(query.namespace),
        "status": None if query.status is None else STATUSES.index(query.status),
        "waiting": query.waiting,
        "before": query.updated_before,
        "cwd": None if query.cwd is None else stored(query.cwd),
        "agent": None if query.agent is None else stored(query.agent),
        "tag": None if query.tag is None else stored(query.tag),
        "prefix": prefix,
        "prefix_end": None if prefix is None else prefix + b"\xff" * 8,  # no UTF-8 sorts after that
        "order": query.order,
        "at": at,
        "number": number,
        "limit": query.limit + 1,  # one more tells whether there is a next page
        "few": FEW + 1,
    }


def _few(connection: apsw.Connection, query: Query, values: dict[str, Any]) -> list[int] | None:
    """The sessions of a folder, agent, tag or key prefix, where they are few enough to sort: a walk in the order of
    change might pass a hundred thousand others on its way to them."""
    for name in ("prefix", "tag", "cwd", "agent"):
        if values[name] is not None:
            found = connection.execute(SQL[f"few_by_{name}"], values).fetchall()
            if len(found) <= FEW:
                return [number for (number,) in found]
    return None


def _decoded_about(body: bytes) -> About:
    return msgspec.convert(codec.decode(body), About)


def _select_with(connection: apsw.Connection, query: str, values: tuple[Any, ...]) -> list[Any]:
    return connection.execute(query, values).fetchall()


# -- commits -------------------------------------------------------------------------------------------


class _CommitFailed(Exception):
    """COMMIT reported an error: the transaction may be stored or not."""

    def __init__(self, answer: Any, error: ThreadlineError) -> None:
        self.answer = answer
        self.error = error

    def as_ours(self) -> ThreadlineError:
        """For what was not keyed: nobody knows. What was keyed failed several times in a row, and may be called again."""
        if isinstance(self.answer, Written) and not all(e.key for es in self.answer.entries for e in es):
            written = [entry.seq for entries in self.answer.entries for entry in entries]
            return Uncertain(self.answer.ref.id, min(written, default=1) - 1)
        return self.error


def _run_together(connection: apsw.Connection, group: list[Job]) -> bool:
    """Run all jobs in one transaction, a savepoint each, and answer only after the shared commit.

    A refusal is an answer, too: it may rest on what another job of the group wrote. False if the transaction failed; then
    it is void, because the next one overwrites it in the WAL, and each job may run again."""
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


# -- files and versions --------------------------------------------------------------------------------


def _make_file(path: str) -> None:
    """An empty file that only its owner reads, its name on disk. An existing one is left as it is."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not os.path.exists(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        _sync(folder)


def _upgrade(connection: apsw.Connection, path: str, *, memory: bool) -> None:
    """Bring a new or older file to our schema, all or nothing. Raises NotThreadline or TooNew, touching nothing."""
    version = _version(connection, path)
    if version == 0:
        connection.pragma("auto_vacuum", "INCREMENTAL")  # erased pages can be given back
    if not memory and connection.pragma("journal_mode") != "wal":  # new, or restored from a backup
        connection.pragma("journal_mode", "WAL")
    if version == SCHEMA_VERSION:
        return
    steps = {SCHEMA_VERSION: sql.schema("sqlite")} if version == 0 else sql.migrations("sqlite")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in sorted(steps):
            if step > version:
                connection.execute(steps[step])
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA_VERSION)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: apsw.Connection, path: str) -> int:
    try:
        owner, version = connection.pragma("application_id"), connection.pragma("user_version")
        empty = not connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except apsw.NotADBError as error:
        raise NotThreadline(path, "it is not a SQLite database") from error
    if owner != APPLICATION_ID:
        if owner or version or not empty:
            raise NotThreadline(path, "it is another application's database")
        return 0
    if version > SCHEMA_VERSION:
        raise TooNew(path, version, SCHEMA_VERSION)
    return int(version)


def _checked(connection: apsw.Connection, path: str, drop: Callable[[apsw.Connection], None]) -> apsw.Connection:
    """A read-only connection to a store of ours, whatever its version is up to ours."""
    try:
        if _version(connection, path) == 0:
            raise NotThreadline(path, "it is empty")
    except BaseException:
        drop(connection)
        raise
    return connection


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


@contextmanager
def _held(lock: FileLock | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    with lock:
        yield


# -- errors --------------------------------------------------------------------------------------------


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise _translated(error) from error
    except OSError as error:
        raise StoreFailed(f"the operating system refused: {error}") from error


def _translated(error: apsw.Error) -> ThreadlineError:
    """Foreign errors become ours, at the edge."""
    if isinstance(error, apsw.FullError):
        return StoreFull(f"no space left ({error}): nothing was written; free some space and call again")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(f"another program holds the database ({error}): nothing was written, try again")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Damaged(None, None, str(error))
    if isinstance(error, apsw.ReadOnlyError):
        return ReadOnly()
    return StoreFailed(f"the database could not do it ({type(error).__name__}: {error}): nothing was written")
