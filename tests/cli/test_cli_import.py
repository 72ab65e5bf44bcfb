"""`threadline import`: one line of report, one line for each problem, and never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

from threadline import Store
from transcripts.folders import MyCode, assistant, jsonl, user


def test_several_paths_at_once_and_a_report(run, store: Store, tmp_path: Path) -> None:
    MyCode(tmp_path / "a", "one").write([user("u"), assistant("a")])
    MyCode(tmp_path / "b", "two").write([user("v")])
    done = run("import", str(tmp_path / "a"), str(tmp_path / "b"))

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("2 sessions: 3 entries added, 0 unchanged; ")
    assert [message.text for message in store.get("one").messages()] == ["u", "a"]


def test_the_report_for_machines_names_every_problem(run, tmp_path: Path) -> None:
    MyCode(tmp_path, "one").write([user("u"), b"null\n"])
    done = run("import", str(tmp_path), "--json")
    report = json.loads(done.stdout)

    assert (report["sessions"], report["added"], report["bytes_reported"]) == (["one"], 2, 5)
    assert report["bytes_read"] == report["bytes_imported"] + report["bytes_reported"]
    assert report["problems"][0]["path"].endswith("messages.jsonl")


def test_a_problem_is_one_line_with_its_place(run, tmp_path: Path) -> None:
    folder = MyCode(tmp_path, "one").write([user("u"), b"null\n"])
    done = run("import", str(tmp_path))

    size = (folder / "messages.jsonl").stat().st_size
    assert done.stderr == f"{folder}/messages.jsonl at byte {size - 5} (5 bytes): not an object, but null\n"
    assert "5 B set aside" in done.stdout


def test_one_path_that_fails_keeps_no_other_out(run, store: Store, tmp_path: Path) -> None:
    MyCode(tmp_path / "a", "one").write([user("u")])
    done = run("import", str(tmp_path / "nothing"), str(tmp_path / "a"))

    assert done.exit_code == 1
    assert done.stderr.startswith("not imported: no file or folder")
    assert store.get("one").head


def test_a_path_that_is_not_there_makes_no_store(run, path: Path, tmp_path: Path) -> None:
    done = run("import", str(tmp_path / "nothing"))

    assert done.exit_code == 1
    assert done.stderr.startswith("not imported: no file or folder")
    assert not path.exists()


def test_a_dry_run_makes_no_store(run, path: Path, tmp_path: Path) -> None:
    MyCode(tmp_path / "a", "one").write([user("u")])
    done = run("import", "--dry-run", str(tmp_path / "a"))

    assert done.stdout.startswith("1 session: 1 entry would be added")
    assert not path.exists()


def test_a_dry_run_knows_what_is_there(run, store: Store, tmp_path: Path) -> None:
    MyCode(tmp_path / "a", "one").write([user("u")])
    run("import", str(tmp_path / "a"))
    done = run("import", "--dry-run", str(tmp_path / "a"))

    assert done.stdout.startswith("1 session: 0 entries would be added, 1 unchanged")


def test_the_format_can_be_said(run, tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", [{"x": 1}])
    wrong = run("import", "--from", "docx", str(tmp_path))
    other = run("import", "--from", "mycode", str(tmp_path))

    assert (wrong.exit_code, other.exit_code) == (1, 1)
    assert wrong.stderr.startswith("not imported: no format 'docx'")
    assert "nothing here that we can read as mycode" in other.stderr


def test_without_a_path_it_says_how_it_is_used(run) -> None:
    assert run("import").exit_code == 2


def test_names_in_a_source_cannot_speak_to_the_terminal(run, tmp_path: Path) -> None:
    jsonl(tmp_path / "a\x1b[31mred.jsonl", [{"x": 1}])
    done = run("import", str(tmp_path))

    assert "\x1b" not in done.stderr
