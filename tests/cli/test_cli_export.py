"""`threadline export`: to a file, a folder or a pipe, and back with `threadline import`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import threadline
from threadline import Message, Store
from threadline.cli.export import file_name

KEY = "sk-ant-" + "a1B2" * 8


def furnish(store: Store) -> None:
    session = store.new(id="one", key="chat", title="a title")
    session.append(f"my key is {KEY}")
    session.append(Message.assistant("hello"))
    session.spawn("helper").append("child")
    session.fork(1, id="two").append("another way")
    store.within("acme").new(id="theirs").append("hi")


def test_a_whole_store_goes_out_and_comes_back(run, store: Store, tmp_path: Path) -> None:
    furnish(store)
    out = run("export", "--all", "--raw", "-o", str(tmp_path / "all.jsonl"))
    back = run("import", str(tmp_path / "all.jsonl"), "--store", str(tmp_path / "new.db"))
    again = run("export", "--all", "--raw", "-o", str(tmp_path / "again.jsonl"), "--store", str(tmp_path / "new.db"))

    assert [done.exit_code for done in (out, back, again)] == [0, 0, 0], back.output
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()
    with threadline.open(tmp_path / "new.db") as new:
        assert [m.text for m in new.session("chat").messages()] == [f"my key is {KEY}", "hello"]
        assert new.verify().ok


def test_secrets_are_masked_and_counted(run, store: Store, tmp_path: Path) -> None:
    furnish(store)
    done = run("export", "chat", "-o", str(tmp_path / "a.jsonl"), "--json")

    assert KEY not in (tmp_path / "a.jsonl").read_text()
    assert done.stderr == "2 secrets masked: Anthropic key (2); --raw keeps them\n"  # in the preview, too
    assert json.loads(done.stdout) == {
        "output": str(tmp_path / "a.jsonl"),
        "masked": {"Anthropic key": 2},
        "raw": False,
    }


@pytest.mark.parametrize("format", ["markdown", "html", "openai", "anthropic", "jsonl"])
def test_one_session_goes_to_a_pipe(run, store: Store, format: str) -> None:
    furnish(store)
    done = run("export", "chat", "--format", format)

    assert done.exit_code == 0
    assert "hello" in done.stdout


@pytest.mark.parametrize("ids", [["one", "two"], ["--all"]])
def test_several_go_to_a_folder_one_file_each(run, store: Store, tmp_path: Path, ids: list[str]) -> None:
    furnish(store)
    done = run("export", *ids, "--format", "markdown", "-o", str(tmp_path / "notes") + "/")

    assert done.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "notes").iterdir()) == ["one.md", "two.md"]


@pytest.mark.parametrize("id", ["../../etc/passwd", "..", ".hidden", "a/b\0c", "x" * 512, "\ud800", "con", "ü ñ"])
def test_no_id_is_a_way_out_of_the_folder(tmp_path: Path, id: str) -> None:
    name = file_name(id, "html")

    assert (tmp_path / name).resolve().parent == tmp_path.resolve()
    assert not name.startswith(".")
    assert len(name.encode()) < 200
    assert "/" not in name


WRONG = {
    "nothing named": ([], 2, "name the sessions"),
    "both": (["one", "--all"], 2, "name the sessions"),
    "an unknown format": (["one", "--format", "docx"], 2, "docx"),
    "no such session": (["nowhere"], 1, "no session"),
    "several in one file": (["one", "two", "--format", "html"], 2, "-o"),
    "no such folder": (["one", "-o", "/nowhere/at/all.jsonl"], 1, "no folder"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_one_clear_line(run, store: Store, name: str) -> None:
    furnish(store)
    arguments, code, said = WRONG[name]
    done = run("export", *arguments)

    assert done.exit_code == code
    assert said in done.stderr
    assert "Traceback" not in done.output


def test_an_export_is_not_for_a_terminal(run, store: Store) -> None:
    furnish(store)

    assert run("export", "one", width=80).exit_code == 2
