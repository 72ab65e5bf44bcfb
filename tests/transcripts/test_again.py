"""Again and again: importing adds only what is new, and never takes anything away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import threadline
from threadline import Message, Store, transcripts
from transcripts.folders import MyCode, assistant, compact, rewind, user

COURSE: list[Any] = [user("u0"), assistant("a0"), user("u1"), assistant("a1"), compact("SUM"), user("u2"), rewind(4)]


def said(store: Store, id: str) -> list[str]:
    return [message.text for message in store.get(id).messages()]


def test_importing_twice_adds_nothing(store: Store, tmp_path: Path) -> None:
    MyCode(tmp_path).write(COURSE)
    first = transcripts.read(tmp_path, store=store)
    head = store.get("ab12").head
    again = transcripts.read(tmp_path, store=store)

    assert (first.added, first.unchanged) == (first.entries, 0)
    assert (again.added, again.unchanged, again.forked, again.problems) == (0, first.entries, 0, [])
    assert store.get("ab12").head == head


def test_a_source_that_grew_is_continued(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path, version=None)
    folder.write(COURSE)
    transcripts.read(tmp_path, store=store)
    folder.write([*COURSE, user("u3"), rewind(2), user("u4")])
    report = transcripts.read(tmp_path, store=store)

    assert (report.sessions, report.forked) == (["ab12"], 0)
    assert said(store, "ab12") == ["u0", "a0", "u4"]


def test_a_rewritten_source_becomes_a_fork_and_is_said_so(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path)
    folder.write(COURSE)
    transcripts.read(tmp_path, store=store)
    before = said(store, "ab12")
    folder.write([*COURSE[:2], user("changed"), *COURSE[3:], user("u3")])
    report = transcripts.read(tmp_path, store=store)

    assert report.forked == 1
    assert store.get(report.sessions[0]).info.origin == ("ab12", 2)
    assert said(store, report.sessions[0]) == ["SUM", "u2", "u3"]
    assert "fork" in report.problems[0].what
    assert said(store, "ab12") == before
    assert transcripts.read(tmp_path, store=store).forked == 0


def test_a_source_that_vanished_or_shrank_takes_nothing_away(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path)
    folder.write(COURSE)
    transcripts.read(tmp_path, store=store)
    before = said(store, "ab12")
    folder.write(COURSE[:1])
    report = transcripts.read(tmp_path, store=store)

    assert (report.added, report.forked) == (0, 0)
    assert "shorter" in report.problems[0].what
    assert said(store, "ab12") == before


def test_what_is_written_here_is_never_mixed_with_what_the_source_tells_later(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path)
    folder.write([user("u0")])
    transcripts.read(tmp_path, store=store)
    store.get("ab12").append(Message.assistant("here"))
    folder.write([user("u0"), assistant("there")])
    report = transcripts.read(tmp_path, store=store)

    assert said(store, "ab12") == ["u0", "here"]
    assert said(store, report.sessions[0]) == ["u0", "there"]
    assert report.forked == 1


def test_a_session_of_somebody_else_with_the_same_id_is_left_alone(store: Store, tmp_path: Path) -> None:
    store.new(id="ab12").append("mine")
    MyCode(tmp_path).write([user("theirs")])
    report = transcripts.read(tmp_path, store=store)

    assert said(store, "ab12") == ["mine"]
    assert said(store, report.sessions[0]) == ["theirs"]
    assert transcripts.read(tmp_path, store=store).sessions == report.sessions


def test_a_dry_run_tells_the_same_and_writes_nothing(path: Path, tmp_path: Path) -> None:
    MyCode(tmp_path / "home").write(COURSE)
    with threadline.open(path) as store:
        told = transcripts.read(tmp_path / "home", store=store, dry_run=True)
        assert list(store.sessions(status=None, root=False)) == []
        done = transcripts.read(tmp_path / "home", store=store)

    assert (told.sessions, told.entries, told.added) == (done.sessions, done.entries, done.added)


def test_a_large_source_is_read_in_portions_that_survive_an_interruption(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.transcripts.timeline.PORTION", 4)
    lines = [user(f"u{i}") if i % 2 == 0 else assistant(f"a{i}") for i in range(20)]
    folder = MyCode(tmp_path, version=None)
    folder.write([*lines[:9], b'{"role": "user", "content": [{"type": "te'])
    first = transcripts.read(tmp_path, store=store)
    folder.write([*lines, rewind(6), user("end")])
    report = transcripts.read(tmp_path, store=store)

    assert first.problems[0].what.startswith("a torn last line")
    assert said(store, "ab12") == [*[line["content"][0]["text"] for line in lines[:6]], "end"]
    assert report.unchanged == 9
    assert store.verify().ok
