"""Whatever changes in a row of the file, `verify` finds it. The bits of `test_bit_flips` fall anywhere; here every
column of every table has its turn, and every table loses a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw
import pytest
from histories import fast_folder

import threadline
from threadline import Message, ToolCall
from threadline.backends import sql

TABLES = (
    "log",
    "session",
    "tag",
    "head",
    "share",
    "entry",
    "key",
    "inbox",
    "draft",
    "chunk",
    "blob",
    "blob_use",
    "request",
    "spent",
)
MEANINGLESS = {
    ("request", "request"),  # a number that only orders requests of the same moment; nothing refers to it
    ("head", "late"),  # it only tells followers where to look
    ("entry", "entry"),  # the number of the row; nothing refers to it
    ("draft", "writer"),  # only while its writer lives, and a closed store has none
}


ROWIDS = {("log", "log"), ("session", "session"), ("draft", "draft"), ("head", "session")}  # never of another type


def columns() -> list[tuple[str, str]]:
    connection = apsw.Connection(":memory:")
    connection.execute(sql.schema("sqlite"))
    found = [(table, name) for table in TABLES for (name,) in connection.execute(
        "SELECT name FROM pragma_table_info(?)", (table,))]  # fmt: skip
    return [column for column in found if column not in MEANINGLESS]


@pytest.fixture
def path() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder / "store.db"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """One session that uses every column, a fork of it, and one that has nothing to do with them."""
    path = tmp_path_factory.mktemp("whole") / "store.db"
    with threadline.open(path, namespace="here", durability="relaxed") as store:
        session = store.new(id="x", key="k", cwd="/src", agent="a", tags=["red"], title="t")
        calls = Message.assistant("look", ToolCall("c1", "t"), ToolCall("c2", "t"))
        session.extend(["hi", calls], key="call", usage={"input": 1, "request_id": "r", "model": "m", "cost": 1})
        session.append(Message.tool("c2", "done"))
        session.fork(2, id="fork", key="f").append("more", key="own")
        session.enqueue("waiting", key="queued")
        d = session.draft(key="drafted")
        for text in ("one ", "two"):  # the last piece could be lost as if it had not been written yet
            d.write(text)
            d.flush()
        d.let_go()
        session.lease("worker", ttl=3_600)
        session.spawn("sub", call_id="c1").append("large" * 2_000)
        store.new(id="bystander").append("fine")
        assert store.verify().ok
    return path.read_bytes()


CHANGED = (
    "CASE typeof({0}) WHEN 'integer' THEN {0} + 1000 WHEN 'text' THEN {0} || 'x' ELSE CAST({0} || 'x' AS BLOB) END"
)


def problems(path: Path, whole: bytes, statement: str) -> list[object]:
    """What verify says after somebody else's statement, which must have changed one row."""
    path.write_bytes(whole)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(statement)
        assert connection.changes() == 1
    with threadline.open(path, namespace="here") as store:
        assert [m.text for m in store.get("bystander").messages()] == ["fine"]
        return list(store.verify().problems)


def key_of(table: str) -> str:
    """The columns that name a row."""
    connection = apsw.Connection(":memory:")
    connection.execute(sql.schema("sqlite"))
    found = connection.execute("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (table,))
    return ", ".join(name for (name,) in found) or "rowid"


@pytest.mark.parametrize(("table", "column"), columns())
def test_a_changed_value_is_found(path: Path, whole: bytes, table: str, column: str) -> None:
    key, changed = key_of(table), CHANGED.format(column)
    victim = f"SELECT {key} FROM {table} WHERE {column} IS NOT NULL ORDER BY {key} LIMIT 1"

    assert problems(path, whole, f"UPDATE {table} SET {column} = {changed} WHERE ({key}) = ({victim})") != []


@pytest.mark.parametrize("table", TABLES)
def test_a_lost_row_is_found(path: Path, whole: bytes, table: str) -> None:
    key = key_of(table)
    victim = f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1"

    assert problems(path, whole, f"DELETE FROM {table} WHERE ({key}) = ({victim})") != []


@contextmanager
def lax(path: Path) -> Iterator[apsw.Connection]:
    """The file while its tables take anything, as they do when a bit flips in the header of a row."""
    with closing(apsw.Connection(str(path))) as connection:
        strict = connection.execute("SELECT rowid, sql FROM sqlite_schema WHERE sql LIKE '%) STRICT%'").fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        for rowid, text in strict:
            loose = text.replace(") STRICT, ", ") ").replace(") STRICT", ")").replace(" NOT NULL", "")
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE rowid = ?", (loose, rowid))
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
        yield connection
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany("UPDATE sqlite_schema SET sql = ? WHERE rowid = ?", [(text, at) for at, text in strict])


def questions(store: threadline.Store) -> Iterator[Callable[[], object]]:
    yield lambda: list(store.sessions(status=None, root=False))
    yield lambda: store.usage(by=("session", "day", "model", "agent"))
    yield lambda: store.verify().problems
    for id in ("x", "fork", "bystander"):
        about: list[Callable[[threadline.Session], object]] = [
            lambda s: s.info, lambda s: s.view(), lambda s: s.context(), lambda s: s.pending, lambda s: s.queued(),
            lambda s: s.drafts, lambda s: s.usage(children=True), lambda s: s.requests(), lambda s: list(s.tree()),
            lambda s: s.forks(), lambda s: s.unanswered, lambda s: dict(s.state), lambda s: s.append("more"),
        ]  # fmt: skip
        yield from (lambda ask=ask, id=id: ask(store.get(id)) for ask in about)  # type: ignore[misc]


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, c in columns() if (t, c) not in ROWIDS])
def test_a_value_of_another_type_is_damage_and_no_foreign_error(
    path: Path, whole: bytes, table: str, column: str
) -> None:
    key = key_of(table)
    victim = f"SELECT {key} FROM {table} WHERE {column} IS NOT NULL ORDER BY {key} LIMIT 1"
    changed = 0
    for value in ("x'ff00'", "'text'", "NULL", "1.5"):
        path.write_bytes(whole)
        with lax(path) as connection, suppress(apsw.ConstraintError, apsw.MismatchError):
            connection.execute(f"UPDATE {table} SET {column} = {value} WHERE ({key}) = ({victim})")
            changed += connection.changes()
        with threadline.open(path, namespace="here") as store:
            for question in questions(store):
                with suppress(threadline.ThreadlineError):
                    question()
    assert changed > 0
