"""power-loop: its files are read as they are, in use or after a crash, and nothing is made beside them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from threadline import Media, Store, transcripts
from threadline.transcripts.power_loop import SCHEMA

CALL = '[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}]'


@contextmanager
def database(path: Path, *, prefix: str = "", wal: bool = False) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    if wal:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(SCHEMA.replace("{p}", prefix))
    yield connection
    connection.close()


def add_session(db: apsw.Connection, id: str = "s", prefix: str = "", **more: Any) -> None:
    row = {"session_id": id, "created_at": 1_700_000_000_000, "updated_at": 1_700_000_001_000, **more}
    _insert(db, f"{prefix}sessions", row)


def add(
    db: apsw.Connection, seq: int, role: str, content: str | None, id: str = "s", prefix: str = "", **more: Any
) -> None:
    row = {"session_id": id, "seq": seq, "role": role, "content": content, "created_at": 1_700_000_000_000 + seq}
    _insert(db, f"{prefix}messages", row | more)


def _insert(db: apsw.Connection, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def texts(store: Store, id: str = "s") -> list[str]:
    return [message.text for message in store.get(id).messages()]


def beside(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_note_stands_where_its_originals_stood(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db") as db:
        add_session(db)
        for seq in range(1, 5):
            add(db, seq, "user" if seq % 2 else "assistant", f"m{seq}", state="compacted_out" if seq < 3 else "active")
        add(db, 5, "system", "NOTE", name="compact_note", meta_json='{"from_seq":1,"to_seq":2}')
        add(db, 6, "user", "m6")
    transcripts.read(tmp_path / "pl.db", store=store)

    assert texts(store) == ["NOTE", "m3", "m4", "m6"]
    (fold,) = store.get("s").entries(kinds=["compaction"])
    assert [entry.message.text for entry in store.get("s").originals(fold.seq) if entry.message] == ["m1", "m2"]


def test_an_inverted_range_hides_nothing(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db") as db:
        add_session(db)
        add(db, 1, "user", "m1")
        add(db, 2, "system", "NOTE", name="compact_note", meta_json='{"from_seq":9,"to_seq":8}')
    transcripts.read(tmp_path / "pl.db", store=store)

    assert texts(store) == ["m1", "NOTE"]


def test_what_a_fold_left_standing_in_the_middle_stays(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db", prefix="pl_") as db:
        add_session(db, prefix="pl_")
        for seq, state in enumerate(["compacted_out", "active", "compacted_out", "active"], 1):
            add(db, seq, "user", f"m{seq}", prefix="pl_", state=state)
        add(db, 5, "system", "NOTE", prefix="pl_", name="compact_note", meta_json='{"from_seq":1,"to_seq":3,"ord":1}')
    transcripts.read(tmp_path / "pl.db", store=store)

    assert texts(store) == ["NOTE", "m2", "m4"]
    assert transcripts.read(tmp_path / "pl.db", store=store).added == 0


def test_a_row_that_was_dropped_later_leaves_the_view_and_not_the_log(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db") as db:
        add_session(db)
        for seq in range(1, 4):
            add(db, seq, "user", f"m{seq}")
    transcripts.read(tmp_path / "pl.db", store=store)
    with apsw.Connection(str(tmp_path / "pl.db")) as db:
        db.execute("UPDATE messages SET state = 'dropped' WHERE seq = 2")
        add(db, 4, "user", "m4")
    report = transcripts.read(tmp_path / "pl.db", store=store)

    assert texts(store) == ["m1", "m3", "m4"]
    assert (report.forked, len([e for e in store.get("s").entries() if e.message])) == (0, 4)


def test_many_parts_come_back_as_parts(store: Store, tmp_path: Path) -> None:
    blocks = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    with database(tmp_path / "pl.db") as db:
        add_session(db)
        add(db, 1, "user", json.dumps(blocks))
        add(db, 2, "user", "[1, 2] is a list")
    transcripts.read(tmp_path / "pl.db", store=store)
    first, second = store.get("s").messages()

    assert [type(part) for part in first.parts][1] is Media
    assert second.text == "[1, 2] is a list"


def test_open_calls_are_pending_and_the_state_is_kept(store: Store, tmp_path: Path) -> None:
    pending = '{"assistant_seq":1,"tool_call_ids":["c1"]}'
    with database(tmp_path / "pl.db") as db:
        add_session(db)
        add(db, 1, "assistant", None, tool_calls_json=CALL)
        _insert(db, "session_state", {"session_id": "s", "pending_json": pending})
    transcripts.read(tmp_path / "pl.db", store=store)
    session = store.get("s")

    assert [open.call.name for open in session.pending] == ["bash"]
    (note,) = session.entries(kinds=["power-loop"])
    assert note.data is not None
    assert note.data["session_state"]["pending_json"] == pending


def test_a_child_whose_parent_is_gone_is_a_root_and_said_so(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db") as db:
        add_session(db, "kid", parent_session_id="gone", spawn_depth=1, kind="subagent", lifecycle="future")
        add(db, 1, "user", "x", id="kid")
    report = transcripts.read(tmp_path / "pl.db", store=store)

    assert store.get("kid").info.parent is None
    assert "its parent gone is gone" in report.problems[0].what


def test_two_children_of_one_call_stay_two(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db") as db:
        add_session(db, "top")
        for n, id in enumerate(("one", "two")):
            add_session(db, id, parent_session_id="top", spawn_tool_call_id="c1", spawn_depth=1, created_at=n + 1)
            add(db, 1, "user", id, id=id)
    transcripts.read(tmp_path / "pl.db", store=store)

    assert (texts(store, "one"), texts(store, "two")) == (["one"], ["two"])
    assert [child.id for child in store.get("top").children()] == ["one", "two"]


def test_text_that_is_no_json_where_json_should_be_is_kept(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db") as db:
        add_session(db, metadata_json="{torn")
        add(db, 1, "user", "x", meta_json="{torn", tool_calls_json="also torn")
    report = transcripts.read(tmp_path / "pl.db", store=store)

    assert texts(store) == ["x"]
    assert store.get("s").messages()[0].meta["power-loop"]["meta"] == "{torn"
    assert report.problems == []


def test_a_row_of_damaged_text_is_reported_and_hides_no_other(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db") as db:
        add_session(db)
        for seq, said in enumerate(("one", "two", "three"), 1):
            add(db, seq, "user", said)
        db.execute("UPDATE messages SET content = CAST(x'c084' AS TEXT) WHERE content = 'two'")
    report = transcripts.read(tmp_path / "pl.db", store=store)

    assert texts(store) == ["one", "three"]
    assert "row 2 of messages was left out" in report.problems[0].what


def test_its_own_export_is_read_too(store: Store, tmp_path: Path) -> None:
    export = {
        "schema_version": 9,
        "session_id": "s",
        "tables": {
            "sessions": [{"session_id": "s", "created_at": 1, "updated_at": 2, "status": "active"}],
            "messages": [
                {"session_id": "s", "seq": 2, "role": "assistant", "content": "b", "created_at": 2},
                {"session_id": "s", "seq": 1, "role": "user", "content": "a", "created_at": 1},
            ],
        },
    }
    (tmp_path / "export.json").write_text(json.dumps(export))
    transcripts.read(tmp_path, store=store)

    assert texts(store) == ["a", "b"]


def test_a_newer_schema_is_read_and_said(store: Store, tmp_path: Path) -> None:
    with database(tmp_path / "pl.db", prefix="pl_") as db:
        db.execute("CREATE TABLE pl_schema_migrations (id INTEGER PRIMARY KEY, version INTEGER)")
        db.execute("INSERT INTO pl_schema_migrations VALUES (1, 99)")
        add_session(db, prefix="pl_")
    report = transcripts.read(tmp_path / "pl.db", store=store)

    assert "schema 99 is newer than we know" in report.problems[0].what


# -- the file itself -----------------------------------------------------------------------------------

WRITER = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
for seq in range(2, 100_000):
    db.execute("INSERT INTO messages (session_id, seq, role, created_at) VALUES ('s', ?, 'user', 1)", (seq,))
    time.sleep(0.002)
    if seq == 20:
        print("writing", flush=True)
"""


def test_a_file_in_use_is_read_while_others_write_and_nobody_is_disturbed(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "in" / "pl.db"
    path.parent.mkdir()
    with database(path, wal=True) as db:
        add_session(db)
        add(db, 1, "user", "first")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        heads = []
        for _ in range(3):
            transcripts.read(path, store=store)
            heads.append(len(texts(store)))
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()

    assert heads == sorted(heads)
    assert heads[0] >= 20
    assert store.verify().ok


def test_nothing_is_made_beside_a_file_that_nobody_uses(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "in" / "pl.db"
    path.parent.mkdir()
    with database(path, wal=True) as db:
        add_session(db)
        add(db, 1, "user", "first")
    before = path.read_bytes()
    path.parent.chmod(0o500)
    try:
        transcripts.read(path, store=store)
    finally:
        path.parent.chmod(0o700)

    assert texts(store) == ["first"]
    assert (beside(path.parent), path.read_bytes()) == ({"pl.db"}, before)


def test_what_a_crash_left_in_the_wal_is_read_and_left_there(store: Store, tmp_path: Path) -> None:
    live, dead = tmp_path / "live", tmp_path / "dead"
    live.mkdir()
    dead.mkdir()
    with database(live / "pl.db", wal=True) as db:
        add_session(db)
        add(db, 1, "user", "in the wal")
        for name in ("pl.db", "pl.db-wal"):
            shutil.copyfile(live / name, dead / name)
    before = {name: (dead / name).read_bytes() for name in beside(dead)}
    transcripts.read(dead / "pl.db", store=store)

    assert texts(store) == ["in the wal"]
    assert {name: (dead / name).read_bytes() for name in beside(dead)} == before


def test_a_damaged_database_is_one_report_line(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "pl.db"
    with database(path) as db:
        add_session(db)
        with db:
            for seq in range(1, 400):
                add(db, seq, "user", "x" * 300)
    raw = bytearray(path.read_bytes())
    raw[20_000:60_000] = os.urandom(40_000)
    path.write_bytes(raw)
    report = transcripts.read(path, store=store)

    assert any("cannot be read" in problem.what or "not imported whole" in problem.what for problem in report.problems)


def test_a_damaged_database_in_a_folder_is_reported_with_all_its_bytes(store: Store, tmp_path: Path) -> None:
    (tmp_path / "pl.db").write_bytes(b"SQLite format 3\0" + b"\0" * 5_000)
    report = transcripts.read(tmp_path, store=store)

    assert ["cannot be read" in problem.what for problem in report.problems] == [True]
    assert (report.bytes_read, report.bytes_reported, report.bytes_imported) == (5_016, 5_016, 0)


def test_a_database_of_somebody_else_is_not_ours_to_read(store: Store, tmp_path: Path) -> None:
    with apsw.Connection(str(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE messages (x); CREATE VIEW session_state AS SELECT 1; CREATE TABLE sessions (y)")
    report = transcripts.read(tmp_path, store=store)

    assert report.sessions == []
    with pytest.raises(Exception, match="in no format that we read"):
        transcripts.read(tmp_path / "other.db", store=store)
