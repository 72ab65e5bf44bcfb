"""`threadline copy`: moving house from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

import threadline
from threadline.cli import main


def furnished(path: Path) -> None:
    with threadline.open(path) as store:
        store.session("k").extend(["one", "two"])
        store.within("acme").new(id="x").append("three")


def test_a_file_moves_to_a_server_and_back(tmp_path: Path, postgres_url: str) -> None:
    furnished(tmp_path / "a.db")
    there = CliRunner().invoke(main, ["copy", str(tmp_path / "a.db"), postgres_url])
    back = CliRunner().invoke(main, ["copy", postgres_url, str(tmp_path / "b.db")])

    assert there.output == back.output == "2 sessions, 2 of them new; 3 entries copied\n"
    with threadline.open(tmp_path / "b.db", read_only=True) as store:
        assert [m.text for m in store.session("k").messages()] == ["one", "two"]
        assert [m.text for m in store.within("acme").get("x").messages()] == ["three"]


def test_the_report_for_machines(tmp_path: Path) -> None:
    furnished(tmp_path / "a.db")
    done = CliRunner().invoke(main, ["copy", "--json", str(tmp_path / "a.db"), str(tmp_path / "b.db")])

    assert json.loads(done.output) == {"sessions": 2, "made": 2, "entries": 3, "problems": [], "nodes": 0}


def test_what_cannot_be_copied_is_told_by_name_and_exit_code(tmp_path: Path) -> None:
    furnished(tmp_path / "a.db")
    with threadline.open(tmp_path / "b.db") as store:
        store.within("acme").new(id="x").append("theirs")
    done = CliRunner().invoke(main, ["copy", str(tmp_path / "a.db"), str(tmp_path / "b.db")])

    assert done.exit_code == 1
    assert "not copied whole: x: another session" in done.output


def test_a_source_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["copy", str(tmp_path / "nothing.db"), str(tmp_path / "b.db")])

    assert done.exit_code == 1
    assert done.output.startswith("Error: no store at")
    assert done.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
