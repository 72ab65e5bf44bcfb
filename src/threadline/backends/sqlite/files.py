"""The file: made, recognised, brought to our schema, copied."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import apsw

from threadline.backends import sql
from threadline.backends.backend import OnProgress, Progress
from threadline.errors import Conflict, InvalidArgument, NotFound, NotThreadline, ReadOnly, StoreFailed, TooNew

APPLICATION_ID = 0x74686C6E  # "thln": other programs' files are never touched
SCHEMA_VERSION = 1
STEPS = 2_000  # of SQLite's machine between two looks at how far a copy is: some hundred a second
READ_BY_URI = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def look(path: str, *, must_exist: bool) -> None:
    """Refuse what the file itself tells, before anything is made beside it.

    A database of ours that was never checkpointed has its name in the WAL only; that is told when it is opened."""
    if os.path.isdir(path):
        raise InvalidArgument(f"{path} is a folder: a store is a file in it, such as {os.path.join(path, 'agents.db')}")
    if must_exist and not os.path.exists(path):
        raise NotFound("store", path, "without read_only=True it would be made")
    if size(path) == 0:
        return
    if size(path) == 1 and not size(path + "-wal"):  # SQLite takes one byte for none, and would begin anew
        raise NotThreadline(path, "only one byte is left of it: restore it from a backup")
    owner, version, tables = _name_in(path)
    in_the_making = owner == version == tables == 0  # a new file of ours has one empty page before it has our name
    if owner != APPLICATION_ID and not in_the_making:
        raise NotThreadline(path, "it is another application's database")
    if owner == APPLICATION_ID and version > SCHEMA_VERSION:
        raise TooNew(path, version, SCHEMA_VERSION)


def _name_in(path: str) -> tuple[int, int, int]:
    """Whose file it is, of which version, and how many tables a file of nobody's has, without its WAL.

    Read by SQLite and not by ourselves: closing a file of our own would drop the locks that this process may hold on it
    through another store. `immutable` makes nothing and locks nothing."""
    uri = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        with closing(apsw.Connection(f"file:{uri}?immutable=1", flags=READ_BY_URI)) as connection:
            owner, version = connection.pragma("application_id"), connection.pragma("user_version")
            tables = 0 if owner or version else connection.execute("SELECT count(*) FROM sqlite_schema").get
            return int(owner), int(version), int(tables)
    except apsw.CorruptError:
        return 0, 0, 0  # in the middle of a checkpoint, live or cut short: only together with its WAL the file is whole
    except apsw.NotADBError as error:
        if size(path + "-wal") or size(path + "-journal"):
            return 0, 0, 0
        raise NotThreadline(path, "it is not a SQLite database") from error


def make(path: str) -> None:
    """An empty file that only its owner reads, its name on disk. An existing one is left as it is."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with suppress(FileExistsError):  # never opened if it exists: see above
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        sync(folder)


def upgrade(connection: apsw.Connection, path: str, *, memory: bool) -> None:
    """Bring a new or older file to our schema, all or nothing. Raises NotThreadline or TooNew, touching nothing."""
    version = version_of(connection, path)
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


def version_of(connection: apsw.Connection, path: str) -> int:
    try:
        owner, version = connection.pragma("application_id"), connection.pragma("user_version")
        empty = not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except apsw.NotADBError as error:
        raise NotThreadline(path, "it is not a SQLite database") from error
    if owner != APPLICATION_ID:
        if owner or version or not empty:
            raise NotThreadline(path, "it is another application's database")
        return 0
    if version > SCHEMA_VERSION:
        raise TooNew(path, version, SCHEMA_VERSION)
    return int(version)


def check(connection: apsw.Connection, path: str) -> None:
    """Raise unless this is a store of ours that we can read. For read-only stores, which nobody upgrades."""
    if version_of(connection, path) == 0:
        raise NotThreadline(path, "it is empty")


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Say what reading needs: SQLite makes a file beside the database, in which readers and writers meet."""
    try:
        yield
    except (ReadOnly, apsw.ReadOnlyError, apsw.CantOpenError) as error:
        raise StoreFailed(
            f"{path} cannot be read here ({error}): reading makes {os.path.basename(path)}-shm beside it. "
            "Let this user write to the folder, or open a copy of the file"
        ) from error


def backup(connection: apsw.Connection, target: str, progress: OnProgress | None = None) -> None:
    """A consistent copy, however much is written meanwhile: one read transaction, no step of which is ever repeated."""
    with unfinished(target) as path:
        told = None if progress is None else _growing(connection, path, progress)
        connection.set_progress_handler(told, STEPS)
        try:
            connection.execute("VACUUM INTO ?", (path,))
        finally:
            connection.set_progress_handler(None)


def _growing(connection: apsw.Connection, path: str, progress: OnProgress) -> Callable[[], bool]:
    """Tells how large the copy is by now, each time that SQLite asks whether to go on."""
    pages = connection.pragma("page_count") - connection.pragma("freelist_count")
    total = pages * connection.pragma("page_size")

    def told() -> bool:
        progress(Progress(size(path), total, "byte"))
        return False

    return told


@contextmanager
def unfinished(target: str) -> Iterator[str]:
    """A path to write a new file to; at the end of the block it is whole, on disk, and has its name."""
    if os.path.exists(target):
        raise Conflict(f"{target} exists already: a backup never overwrites, choose a new path")
    path = target + ".partial"
    _remove(path, path + "-wal", path + "-shm", path + ".reserve")
    yield path
    _remove(path + ".lock", path + ".reserve")
    os.chmod(path, 0o600)
    sync(path)
    os.rename(path, target)
    sync(os.path.dirname(os.path.abspath(target)))


def _remove(*paths: str) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0
