"""Moving in with everything at once, into any store, and out again without the secrets."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import threadline
from threadline import InvalidArgument, Message, Session, Store, ToolCall, transcripts
from threadline.testing import seed
from transcripts.folders import MyCode, jsonl, user
from transcripts.test_mycode_published import random_log
from transcripts.test_nanobot import TURNS, head
from transcripts.test_power_loop import add, add_session, database

SECRET = "sk-ant-api03-" + "a1B2c3D4e5" * 5


def furnish(home: Path) -> None:
    dice = random.Random(seed())
    for n in range(3):
        MyCode(home / ".mycode", f"s{n}", (5, 6, None)[n]).write(random_log(dice, (5, 6, None)[n]))
    jsonl(home / "ws" / "sessions" / "telegram_1.jsonl", [head(), *TURNS])
    with database(home / "pl.db") as db:
        add_session(db)
        add(db, 1, "user", "x")


def test_a_whole_home_is_one_import(store: Store, tmp_path: Path) -> None:
    furnish(tmp_path / "home")
    report = transcripts.read(tmp_path / "home", store=store)
    formats = {info.meta["import"]["format"] for info in store.sessions(root=False, status=None)}

    assert len(report.sessions) == 5
    assert formats == {"mycode", "nanobot", "power-loop"}
    assert report.bytes_read == report.bytes_imported
    assert transcripts.read(tmp_path / "home", store=store).added == 0
    assert store.verify().ok


def test_a_server_takes_them_in_as_well(tmp_path: Path, postgres_url: str) -> None:
    furnish(tmp_path / "home")
    with threadline.open(postgres_url) as there, threadline.open(":memory:") as here:
        report = transcripts.read(tmp_path / "home", store=there)
        transcripts.read(tmp_path / "home", store=here)

        assert report.problems == []
        for id in report.sessions:
            assert there.get(id).messages() == here.get(id).messages()
        assert transcripts.read(tmp_path / "home", store=there).added == 0


def test_a_namespace_takes_in_its_own(store: Store, tmp_path: Path) -> None:
    furnish(tmp_path / "home")
    transcripts.read(tmp_path / "home", store=store.within("acme"))

    assert list(store.sessions(root=False, status=None)) == []


@pytest.fixture
def secretive(store: Store) -> Session:
    session = store.session("telegram:9", title="t")
    session.extend([f"my key is {SECRET}", Message.assistant("thanks", ToolCall("c", "bash", {"env": SECRET}))])
    session.append(Message.tool("c", f"exported {SECRET}"))
    return session


@pytest.mark.parametrize("format", ["mycode", "nanobot", "power-loop"])
def test_secrets_are_masked_unless_raw(format: str, secretive: Session, tmp_path: Path) -> None:
    report = transcripts.write(secretive, tmp_path / "masked", format)
    transcripts.write(secretive, tmp_path / "raw", format, raw=True)

    def all_of(top: Path) -> bytes:
        return b"".join(file.read_bytes() for file in [top, *top.rglob("*")] if file.is_file())

    assert SECRET.encode() not in all_of(tmp_path / "masked")
    assert all_of(tmp_path / "raw").count(SECRET.encode()) >= 3
    assert sum(report.masked.values()) >= 3


@pytest.mark.parametrize("format", ["mycode", "nanobot", "power-loop"])
def test_what_we_write_is_what_we_read(format: str, secretive: Session, store: Store, tmp_path: Path) -> None:
    secretive.compact("SUM", upto=3)
    secretive.extend(["more", Message.assistant("yes")])
    transcripts.write(secretive, tmp_path / "out" / "x", format)
    with threadline.open(":memory:") as other:
        report = transcripts.read(tmp_path / "out" / "x", store=other)
        (id,) = report.sessions

        assert report.problems == []
        assert [message.text for message in other.get(id).messages()] == ["SUM", "more", "yes"]


def test_a_folder_of_somebody_else_is_not_written_over(secretive: Session, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")

    with pytest.raises(threadline.Conflict, match="choose another folder"):
        transcripts.write(secretive, tmp_path / "mine", "mycode")
    with pytest.raises(InvalidArgument, match="can only be written"):
        transcripts.read(tmp_path, "html", store=secretive._store)


def test_a_grown_import_keeps_its_history_in_order(store: Store, tmp_path: Path) -> None:
    """A person goes on here, the tool goes on there, again and again: both are kept, and nothing is told twice."""
    folder = MyCode(tmp_path, version=None)
    lines = [user("u0")]
    folder.write(lines)
    transcripts.read(tmp_path, store=store)
    for n in range(1, 4):
        store.get("ab12").append(f"here {n}")
        lines.append(user(f"u{n}"))
        folder.write(lines)
        report = transcripts.read(tmp_path, store=store)

    assert [m.text for m in store.get("ab12").messages()] == ["u0", "here 1", "here 2", "here 3"]
    assert [m.text for m in store.get(report.sessions[0]).messages()] == ["u0", "u1", "u2", "u3"]
    assert len(store.get("ab12").forks()) == 1
