"""An upgrade is all or nothing, a newer file is refused politely, and what is not ours is never touched."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from processes import at_once, exit_code, fork

import threadline
from threadline import Message, Session, Store, StoreFailed, ToolCall
from threadline.backends import sql
from threadline.backends.sqlite import files
from threadline.testing import scaled, seed


def folder_of(path: Path) -> dict[str, bytes]:
    """All that lies in the folder of a file, byte for byte. Only while this process has no store open there: to close
    any file is to lose the locks that the process holds on it."""
    return {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)}


def stored_in(path: Path) -> dict[str, bytes]:
    """All of it but what SQLite needs to read: an index of the WAL, shared by its readers, and a WAL if it is empty."""
    return {name: content for name, content in folder_of(path).items() if not name.endswith("-shm") and content}


# -- what is not ours ----------------------------------------------------------------------------------------------


def write_foreign(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def foreign_table(path: Path) -> None:
    write_foreign(path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")


def foreign_owner(path: Path) -> None:
    write_foreign(path, "PRAGMA application_id = 1234")


def foreign_version(path: Path) -> None:
    write_foreign(path, "PRAGMA user_version = 7")


def foreign_view(path: Path) -> None:
    """A database of a single page."""
    write_foreign(path, "CREATE VIEW theirs AS SELECT 1")


def foreign_wal(path: Path) -> None:
    write_foreign(path, "PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)")


def text_file(path: Path) -> None:
    path.write_text("Dear diary, this is no database. " * 200)


def short_file(path: Path) -> None:
    path.write_bytes(b"SQLite")


def one_byte(path: Path) -> None:
    path.write_bytes(b"S")  # SQLite itself takes it for an empty file


def damaged_header(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(range(84)) * 60)


FOREIGN = [
    foreign_table,
    foreign_owner,
    foreign_version,
    foreign_view,
    foreign_wal,
    text_file,
    short_file,
    one_byte,
    damaged_header,
]


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])
@pytest.mark.parametrize("make", FOREIGN, ids=lambda make: make.__name__)
def test_what_is_not_ours_is_refused_and_not_touched(make: Callable[[Path], None], read_only: bool, path: Path) -> None:
    make(path)
    before = folder_of(path)

    with pytest.raises(threadline.NotThreadline, match="was not touched"):
        threadline.open(path, read_only=read_only)
    assert folder_of(path) == before


def test_a_foreign_database_that_is_in_use_is_not_touched(path: Path) -> None:
    in_use, use = os.pipe()
    theirs = fork(lambda: _use_foreign(path, use))
    os.read(in_use, 1)
    before = stored_in(path)

    with pytest.raises(threadline.NotThreadline):
        threadline.open(path)
    assert stored_in(path) == before
    os.kill(theirs, signal.SIGKILL)
    os.waitpid(theirs, 0)


def _use_foreign(path: Path, use: int) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "WAL")
    connection.execute("CREATE TABLE theirs (x)")  # in the WAL only
    os.write(use, b"!")
    signal.pause()


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])
def test_a_newer_file_is_refused_and_not_touched(read_only: bool, path: Path) -> None:
    threadline.open(path).close()
    write_foreign(path, f"PRAGMA user_version = {files.SCHEMA_VERSION + 1}")
    before = folder_of(path)

    with pytest.raises(threadline.TooNew, match="upgrade with pip") as refused:
        threadline.open(path, read_only=read_only)
    assert (refused.value.found, refused.value.known) == (files.SCHEMA_VERSION + 1, files.SCHEMA_VERSION)
    assert folder_of(path) == before


def test_a_refused_file_is_let_go_of(path: Path) -> None:
    text_file(path)
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(threadline.NotThreadline):
            threadline.open(path)

    assert len(os.listdir("/proc/self/fd")) == open_before


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with threadline.open(path) as store:
        store.session("s").append("one")

        assert store.verify().ok


# -- migrations ----------------------------------------------------------------------------------------------------


def schema_of(connection: apsw.Connection) -> list[Any]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()


def test_migrations_are_numbered_without_gaps_up_to_the_schema() -> None:
    assert list(sql.migrations("sqlite")) == list(range(1, files.SCHEMA_VERSION + 1))


def test_all_migrations_from_nothing_make_exactly_the_schema() -> None:
    migrated, fresh = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    for step in sql.migrations("sqlite").values():
        migrated.execute(step)
    fresh.execute(sql.schema("sqlite"))

    assert schema_of(migrated) == schema_of(fresh)


EXTRA = "CREATE TABLE extra (x INTEGER) STRICT;"
FILL = "INSERT INTO extra WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 50000) SELECT x FROM n;"


class Next:
    """The next version of the schema, for the length of a test: one table more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.now = files.SCHEMA_VERSION

    def release(self, migration: str = EXTRA, *, steps: dict[int, str] | None = None) -> None:
        migrations = steps or sql.migrations("sqlite") | {self.now + 1: migration}
        schema = sql.schema("sqlite") + EXTRA
        self._monkeypatch.setattr(files, "SCHEMA_VERSION", self.now + 1)
        self._monkeypatch.setattr(sql, "migrations", lambda engine: migrations)
        self._monkeypatch.setattr(sql, "schema", lambda engine: schema)

    def withdraw(self) -> None:
        self._monkeypatch.undo()


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> Next:
    return Next(monkeypatch)


def make_old(path: Path) -> None:
    with threadline.open(path) as store:
        store.session("s").extend([f"{n}" for n in range(20)], key="k")


def check_old_data(store: Store) -> None:
    assert [message.text for message in store.session("s").messages()] == [f"{n}" for n in range(20)]
    assert store.verify().ok


def tables(path: Path) -> tuple[int, bool]:
    """The version of a file, and whether it has the table of the next one."""
    connection = apsw.Connection(str(path))
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'extra'").fetchone()
    version = connection.pragma("user_version")
    connection.close()
    return version, found is not None


def test_an_older_file_is_upgraded_and_keeps_its_data(path: Path, next_version: Next) -> None:
    make_old(path)
    next_version.release()
    with threadline.open(path) as store:
        check_old_data(store)
    assert tables(path) == (next_version.now + 1, True)


def test_a_new_file_of_the_next_version_is_no_different(path: Path, next_version: Next) -> None:
    next_version.release()
    with threadline.open(path) as store:
        assert store.verify().ok
    assert tables(path) == (next_version.now + 1, True)


def test_an_upgrade_that_fails_leaves_the_old_version_whole(path: Path, next_version: Next) -> None:
    make_old(path)
    next_version.release(EXTRA + FILL + "INSERT INTO nowhere VALUES (1);")
    with pytest.raises(threadline.ThreadlineError):
        threadline.open(path)
    next_version.withdraw()

    assert tables(path) == (next_version.now, False)
    with threadline.open(path) as store:
        check_old_data(store)


class KillsAt(dict[int, str]):
    """Migrations, one of which is never reached: the process is killed before it."""

    def __init__(self, steps: dict[int, str], deadly: int) -> None:
        super().__init__(steps)
        self._deadly = deadly

    def __getitem__(self, step: int) -> str:
        if step == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(step)


def test_an_upgrade_killed_between_two_steps_leaves_the_old_version_whole(path: Path, next_version: Next) -> None:
    make_old(path)
    now = next_version.now
    steps = sql.migrations("sqlite") | {now + 1: EXTRA + FILL, now + 2: ""}
    next_version.release(steps=KillsAt(steps, deadly=now + 2))

    assert exit_code(fork(lambda: threadline.open(path))) == -signal.SIGKILL
    next_version.withdraw()
    assert tables(path) == (now, False)
    with threadline.open(path) as store:
        check_old_data(store)


def test_an_upgrade_killed_at_any_moment_is_all_or_nothing(tmp_path: Path, next_version: Next) -> None:
    rng = random.Random(seed())
    outcomes = []
    for n in range(scaled(40)):
        path = tmp_path / f"{n}.db"
        make_old(path)
        next_version.release(EXTRA + FILL)
        pid = fork(lambda path=path: (threadline.open(path), signal.pause()))
        time.sleep(rng.uniform(0, 0.06))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        outcomes.append(tables(path))
        with threadline.open(path) as store:
            check_old_data(store)
        next_version.withdraw()

    print(f"seed {seed()}: {outcomes.count((next_version.now, False))} of {len(outcomes)} not upgraded")
    assert set(outcomes) <= {(next_version.now, False), (next_version.now + 1, True)}


def test_processes_that_upgrade_at_once_upgrade_once(path: Path, next_version: Next) -> None:
    make_old(path)
    next_version.release(EXTRA + FILL)

    def work() -> int:
        with threadline.open(path) as store:
            return store.session("s").append("new").seq

    assert sorted(at_once(*[work] * 8)) == list(range(21, 29))


# -- read-only -----------------------------------------------------------------------------------------------------

WRITES: dict[str, Callable[[Store, Session], Any]] = {
    "new": lambda store, session: store.new(),
    "append": lambda store, session: session.append("x"),
    "append to a new key": lambda store, session: store.session("new").append("x"),
    "append with a known key": lambda store, session: session.append("one", key="k"),
    "extend": lambda store, session: session.extend(["x", "y"]),
    "note": lambda store, session: session.note({"x": 1}),
    "batch": lambda store, session: (batch := session.batch(), batch.append("x"), batch.commit()),
    "compact": lambda store, session: session.compact("summary", keep_turns=1),
    "compact by function": lambda store, session: session.compact(lambda messages: "summary", keep_turns=1),
    "replace": lambda store, session: session.replace(["x"], since=1, upto=1),
    "expand": lambda store, session: session.expand(1),
    "rewind": lambda store, session: session.rewind(1),
    "clear": lambda store, session: session.clear(),
    "fork": lambda store, session: session.fork(),
    "start_call": lambda store, session: session.start_call("c"),
    "repair": lambda store, session: session.repair(),
    "rename": lambda store, session: session.rename("x"),
    "tag": lambda store, session: session.tag("x"),
    "untag": lambda store, session: session.untag("x"),
    "update": lambda store, session: session.update(model="x"),
    "update system": lambda store, session: session.update(system="x"),
    "archive": lambda store, session: store.archive(session),
    "trash": lambda store, session: store.trash(session),
    "restore": lambda store, session: store.restore(session),
}


def write_some(path: Path) -> Session:
    session = threadline.open(path).session("s")
    session.append("one", key="k")
    session.append("two")
    session.append(Message.assistant("", ToolCall("c", "tool", {})))
    return session


def read_all(store: Store) -> list[str]:
    session = store.session("s")
    list(store.sessions())
    store.stats()
    assert [call.call.id for call in session.pending] == ["c"]
    assert store.verify().ok
    return [entry.message.text for entry in session.entries() if entry.message]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_read_only_store_refuses_to(write: Callable[[Store, Session], Any], path: Path) -> None:
    write_some(path)._store.close()
    before = stored_in(path)
    with threadline.open(path, read_only=True) as store:
        session = store.session("s")
        with pytest.raises(threadline.ReadOnly):
            write(store, session)
    assert stored_in(path) == before


def test_reading_a_read_only_store_changes_nothing_on_disk(path: Path) -> None:
    write_some(path)._store.close()
    before = stored_in(path)
    with threadline.open(path, read_only=True) as store:
        assert read_all(store) == ["one", "two", ""]
    assert stored_in(path) == before


def test_a_read_only_store_reads_what_a_crash_left_in_the_wal_and_leaves_it_there(path: Path) -> None:
    os.waitpid(fork(lambda: (write_some(path), os._exit(0))), 0)
    before = stored_in(path)
    with threadline.open(path, read_only=True) as store:
        assert read_all(store) == ["one", "two", ""]
    assert stored_in(path) == before
    assert sorted(before) == ["store.db", "store.db-wal", "store.db.reserve"]


def test_a_read_only_store_sees_what_others_write(path: Path) -> None:
    session = write_some(path)
    with threadline.open(path, read_only=True) as store:
        reading = store.session("s")
        session.append("live")

        assert reading.view(last=1).messages[0].text == "live"
    session._store.close()


def test_closing_a_read_only_store_leaves_a_writer_its_wal(path: Path) -> None:
    session = write_some(path)
    at_once(lambda: threadline.open(path, read_only=True).close())
    session.append("after")
    session._store.close()
    with threadline.open(path) as store:
        assert store.session("s").head == 4


def test_a_missing_file_is_not_found_by_a_reader_and_not_made(path: Path) -> None:
    with pytest.raises(threadline.NotFound, match=r"store\.db"):
        threadline.open(path, read_only=True)
    assert folder_of(path) == {}


def test_an_empty_file_is_not_a_store_to_read(path: Path) -> None:
    path.touch()
    with pytest.raises(threadline.NotThreadline, match="empty"):
        threadline.open(path, read_only=True)
    assert folder_of(path) == {"store.db": b""}


def test_a_file_that_cannot_be_read_on_opening_is_refused_not_waited_for(path: Path) -> None:
    write_some(path)._store.close()
    with apsw.Connection(str(path)) as other:
        other.execute("DROP TABLE owed")

    with pytest.raises(threadline.ThreadlineError, match="owed"):
        threadline.open(path)


# -- where nothing may be written ----------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_to_says_what_reading_needs() -> None:
    """ReadOnly told those who asked for read_only=True to leave it out."""
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "agents.db")
        with threadline.open(path) as store:
            store.session("k").append("hi")
        os.chmod(path, 0o444)
        os.chmod(folder, 0o555)

        def look() -> None:
            if os.geteuid() == 0:
                os.setuid(65534)  # root writes everywhere
            with pytest.raises(StoreFailed, match=r"agents\.db-shm.*folder"):
                threadline.open(path, read_only=True)

        assert exit_code(fork(look)) == 0
        os.chmod(folder, 0o700)
