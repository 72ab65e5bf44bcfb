"""Nothing is lost, nothing is changed: damaged lines are reported with their place and set aside, the rest is there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from threadline import InvalidArgument, NotFound, Store, transcripts
from threadline.transcripts import ImportReport, sources
from transcripts.folders import MyCode, assistant, jsonl, user

HEAD = {"_type": "metadata", "key": "cli:direct", "created_at": "2026-05-16T01:14:11", "metadata": {}}
GOOD = b'{"role": "user", "content": "one", "timestamp": "2026-05-16T01:14:12"}\n'
LAST = b'{"role": "assistant", "content": "two", "timestamp": "2026-05-16T01:14:13"}\n'

DAMAGE = {
    "torn": (b'{"role": "user", "content": "th\n', "not JSON"),
    "invalid UTF-8": (b'{"role": "user", "content": "\xff\xfe"}\n', "invalid UTF-8"),
    "null": (b"null\n", "null"),
    "a list": (b"[1, 2]\n", "not an object"),
    "NUL bytes": (b"\0" * 512 + b"\n", "NUL"),
    "NUL bytes, then a line": (b"\0" * 64 + GOOD, "not JSON"),
    "glued": (GOOD[:-1] + LAST, "glued"),
    "NaN": (b'{"role": "user", "content": "x", "n": NaN}\n', "NaN"),
    "nested without end": (b'{"a": ' * 3000 + b"1" + b"}" * 3000 + b"\n", ""),
}


def session_file(folder: Path, *lines: bytes) -> Path:
    return jsonl(folder / "sessions" / "cli_direct.jsonl", [HEAD, *lines])


def texts(store: Store, key: str = "cli:direct") -> list[str]:
    return [message.text for message in store.session(key).messages()]


def balanced(report: ImportReport, *files: Path) -> None:
    assert report.bytes_read == report.bytes_imported + report.bytes_reported
    assert report.bytes_read == sum(file.stat().st_size for file in files)
    assert report.bytes_reported == sum(problem.length for problem in report.problems)


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_line_is_named_with_its_place_and_the_rest_is_imported(
    kind: str, store: Store, tmp_path: Path
) -> None:
    raw, what = DAMAGE[kind]
    file = session_file(tmp_path, GOOD, raw, LAST)
    before = file.read_bytes()
    report = transcripts.read(tmp_path, store=store)

    assert texts(store) == ["one", "two"]
    (problem,) = report.problems
    assert (problem.path, problem.offset, problem.length) == (str(file), before.index(raw, 1), len(raw))
    assert what in problem.what
    balanced(report, file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_line_is_kept_as_it_was(kind: str, store: Store, tmp_path: Path) -> None:
    raw, _ = DAMAGE[kind]
    session_file(tmp_path, GOOD, raw, LAST)
    transcripts.read(tmp_path, store=store)
    (note,) = store.session("cli:direct").entries(kinds=["damaged_line"])

    assert note.data is not None
    kept = note.data["text"].encode() if "text" in note.data else bytes.fromhex(_hex(note.data["base64"]))
    assert kept == raw


def _hex(base64: str) -> str:
    from base64 import b64decode

    return b64decode(base64).hex()


def test_a_torn_last_line_never_swallows_the_next_message(store: Store, tmp_path: Path) -> None:
    """It is not taken for damage for ever: once it is whole, it is imported."""
    whole = b'{"role": "user", "content": "three", "timestamp": "2026-05-16T01:14:14"}\n'
    session_file(tmp_path, GOOD, LAST, whole[:30])
    first = transcripts.read(tmp_path, store=store)
    session_file(tmp_path, GOOD, LAST, whole)
    second = transcripts.read(tmp_path, store=store)

    assert "torn" in first.problems[0].what
    assert texts(store) == ["one", "two", "three"]
    assert (second.problems, second.forked, second.added) == ([], 0, 1)


def test_a_line_of_64_megabytes_is_set_aside_without_being_held(store: Store, tmp_path: Path) -> None:
    long = b'{"role": "user", "content": "' + b"x" * (64 * 2**20) + b'"}\n'
    file = session_file(tmp_path, GOOD, long, LAST)
    report = transcripts.read(tmp_path, store=store)

    assert texts(store) == ["one", "two"]
    (problem,) = report.problems
    assert (problem.length, problem.what.startswith("a line of more than")) == (len(long), True)
    balanced(report, file)


def test_unknown_lines_and_fields_are_kept(store: Store, tmp_path: Path) -> None:
    strange = {"future": {"deep": [1, None]}, "n": 12345678901234567890}
    line = user("u") | {"new": 1, "meta": {"also": "new"}}
    line["content"] = [*line["content"], {"type": "hologram", "x": 1}]
    MyCode(tmp_path, version=None).write([strange, line])
    transcripts.read(tmp_path, store=store)
    entries = list(store.get("ab12").entries())

    assert entries[0].data == {"line": strange}
    message = entries[1].message
    assert message is not None
    assert message.meta["mycode"] == {"new": 1, "meta": {"also": "new"}}
    assert message.parts[1].raw == {"type": "hologram", "x": 1}  # type: ignore[union-attr]


def test_a_message_that_cannot_be_kept_exactly_is_reported(store: Store, tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    file = MyCode(tmp_path, version=None).write([user("u"), user("v") | {"deep": deep}, user("w")]) / "messages.jsonl"
    report = transcripts.read(tmp_path, store=store)

    assert [message.text for message in store.get("ab12").messages()] == ["u", "w"]
    assert "cannot be kept exactly" in report.problems[0].what
    balanced(report, file, file.with_name("meta.json"))
    assert transcripts.read(tmp_path, store=store).added == 0


def test_a_torn_meta_file_hides_no_message(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path).write([user("u"), assistant("a")])
    (folder / "meta.json").write_text('{"id": "ab12", "ti')
    report = transcripts.read(tmp_path, store=store)

    assert [message.text for message in store.get("ab12").messages()] == ["u", "a"]
    assert "not JSON" in report.problems[0].what


# -- nothing leads outside -----------------------------------------------------------------------------


def test_no_link_is_followed(store: Store, tmp_path: Path) -> None:
    secret = jsonl(tmp_path / "outside" / "cli_secret.jsonl", [HEAD | {"key": "cli:secret"}, GOOD])
    inside = session_file(tmp_path / "home", GOOD)
    (inside.parent / "link.jsonl").symlink_to(secret)
    (inside.parent / "folder").symlink_to(secret.parent)
    code = MyCode(tmp_path / "home" / "mycode", version=None)
    code.write([user("u")])
    (code.folder / "tool-output" / "bash-x.log").symlink_to(secret)
    (code.folder / "meta.json").unlink()
    (code.folder / "meta.json").symlink_to(secret)
    report = transcripts.read(tmp_path / "home", store=store)

    assert store.find("cli:secret") is None
    linked = {Path(problem.path).name for problem in report.problems if "symbolic link" in problem.what}
    assert linked == {"link.jsonl", "folder", "bash-x.log", "meta.json"}
    assert all("password" not in json.dumps(entry.data) for entry in store.get("ab12").entries() if entry.data)
    assert report.bytes_read == inside.stat().st_size + (code.folder / "messages.jsonl").stat().st_size


def test_a_folder_named_by_a_link_is_read_because_somebody_named_it(store: Store, tmp_path: Path) -> None:
    session_file(tmp_path / "real", GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    transcripts.read(tmp_path / "link", store=store)

    assert texts(store) == ["one"]


def test_an_id_that_is_a_path_is_only_an_id(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path / "home", "x")
    folder.about["id"] = "../../../etc/passwd"
    folder.write([user("u")])
    report = transcripts.read(tmp_path / "home", store=store)

    assert [message.text for message in store.get(report.sessions[0]).messages()] == ["u"]


def test_a_pipe_is_not_waited_for(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path).write([user("u")])
    (folder / "messages.jsonl").unlink()
    os.mkfifo(folder / "messages.jsonl")
    report = transcripts.read(tmp_path, store=store)

    assert report.sessions == []


# -- bad input: one clear line each --------------------------------------------------------------------


def test_a_path_that_is_not_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file or folder"):
        transcripts.read(tmp_path / "nothing", store=store)


def test_a_folder_with_nothing_in_it(store: Store, tmp_path: Path) -> None:
    report = transcripts.read(tmp_path, store=store)

    assert [problem.what for problem in report.problems] == ["nothing here that we can read"]


def test_an_unknown_format(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no format 'docx': there are"):
        transcripts.read(tmp_path, "docx", store=store)


def test_a_file_in_no_known_format(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(InvalidArgument, match="in no format that we read"):
        transcripts.read(tmp_path / "a.txt", store=store)


def test_a_log_of_somebody_else_in_a_folder_is_reported_whole(store: Store, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "other.jsonl", [{"type": "session", "v": 9}])
    report = transcripts.read(tmp_path, store=store)

    assert report.problems[0].what == "in no format that we read: set aside"
    balanced(report, file)


def test_a_version_that_we_do_not_know_is_read_and_said(store: Store, tmp_path: Path) -> None:
    MyCode(tmp_path, version=99).write([user("u")])
    report = transcripts.read(tmp_path, store=store)

    assert "message_format_version 99 is newer than we know" in report.problems[0].what
    assert [message.text for message in store.get("ab12").messages()] == ["u"]


def test_no_permission_is_a_report_line(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For root, too, who may read everything: the operating system is made to say no."""
    file = session_file(tmp_path, GOOD)
    given = os.open

    def refusing(path: Any, *arguments: Any) -> int:
        if Path(path) == file:
            raise PermissionError(13, "Permission denied")
        return given(path, *arguments)

    monkeypatch.setattr(sources.os, "open", refusing)
    report = transcripts.read(tmp_path, store=store)

    assert any("permission denied" in problem.what for problem in report.problems)
