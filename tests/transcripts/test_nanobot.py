"""nanobot: what stands beside the messages becomes entries of ours."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from threadline import InvalidMessage, Media, Session, Store, transcripts
from threadline.transcripts import nanobot
from transcripts.folders import jsonl

BEGAN = "2026-05-16T01:14:11.123456"


def head(metadata: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    named = {"_type": "metadata", "key": "telegram:1", "created_at": BEGAN, "updated_at": "2026-05-16T02:14:11"}
    return named | {"metadata": metadata or {}, "last_consolidated": 0} | more


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": "2026-05-16T01:14:12.000001", **more}


@pytest.mark.parametrize(
    "raw",
    [
        said("user", "hello"),
        said("user", ""),
        said("user", "hello", name="ann"),
        said("user", "hello", tool_call_id="c"),
        said("user", "hello", media=["a.png"]),
        said("user", "hello", _command=True),
        said("assistant", "hello", _channel_delivery=True),
        said("assistant", "hello"),
        said("assistant", None),
        said("assistant", "", tool_calls=[]),
        said("system", "be brief"),
        said("developer", "be brief"),
        said("tool", "out", tool_call_id="c", name="exec"),
        said("tool", "", tool_call_id="c"),
        said("tool", "out"),
        said("tool", "out", tool_call_id=7),
        said("tool", [{"type": "text", "text": "out"}], tool_call_id="c"),
        said("somebody", "hello"),
        {"role": "user", "content": "hello"},
    ],
)
def test_the_quick_way_to_read_a_line_gives_what_the_long_one_does(raw: dict[str, Any]) -> None:
    try:
        slowly = nanobot._any_message(raw)
    except InvalidMessage:
        slowly = None

    assert nanobot._plain_message(raw) in (None, slowly)
    if slowly is not None:
        assert json.dumps(to_builtins(nanobot.message_of(raw))) == json.dumps(to_builtins(slowly))


def test_plain_lines_are_read_the_quick_way() -> None:
    plain = [said("user", "hello"), said("assistant", "hi"), said("tool", "out", tool_call_id="c", name="exec")]

    assert all(map(nanobot._plain_message, plain))


def call(id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "exec", "arguments": "{}"}}


TURNS = [said("user", "one"), said("assistant", "1"), said("user", "two"), said("assistant", "2")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ws" / "sessions" / "telegram_1.jsonl"


@pytest.fixture
def session(store: Store) -> Session:
    return store.session("telegram:1")


def texts(session: Session) -> list[str]:
    return [message.text for message in session.messages()]


def test_the_goal_and_its_end_are_entries(store: Store, session: Session, file: Path) -> None:
    goal = {"status": "active", "objective": "ship", "ui_summary": "s", "started_at": BEGAN}
    jsonl(file, [head({"goal_state": goal}), *TURNS])
    transcripts.read(file, store=store)
    active = session.goal
    done = goal | {"status": "completed", "completed_at": "2026-05-16T03:00:00", "recap": "shipped"}
    jsonl(file, [head({"goal_state": json.dumps(done)}), *TURNS])
    transcripts.read(file, store=store)

    assert active is not None
    assert (active.objective, active.summary, active.status) == ("ship", "s", "active")
    assert session.goal is not None
    assert (session.goal.status, session.goal.recap) == ("completed", "shipped")


def test_a_cursor_that_moves_folds_again_and_forks_nothing(store: Store, session: Session, file: Path) -> None:
    jsonl(file, [head({"_last_summary": {"text": "S1"}}, last_consolidated=2), *TURNS])
    transcripts.read(file, store=store)
    first = texts(session)
    jsonl(file, [head({"_last_summary": {"text": "S2"}}, last_consolidated=4), *TURNS, said("user", "three")])
    report = transcripts.read(file, store=store)

    assert first == ["S1", "two", "2"]
    assert texts(session) == ["S2", "three"]
    assert report.forked == 0
    assert [m.message.text for m in session.entries(kinds=["message"]) if m.message] == [
        "one",
        "1",
        "two",
        "2",
        "three",
    ]


def test_a_cursor_beyond_the_end_hides_nothing(store: Store, session: Session, file: Path) -> None:
    jsonl(file, [head(last_consolidated=99), *TURNS])
    report = transcripts.read(file, store=store)

    assert texts(session) == ["one", "1", "two", "2"]
    assert "last_consolidated is 99 of 4" in report.problems[0].what


def test_a_turn_under_way_is_pending_until_the_source_tells_how_it_went_on(
    store: Store, session: Session, file: Path
) -> None:
    spoke = said("assistant", "", tool_calls=[call("a"), call("b")])
    done = said("tool", "A", tool_call_id="a", name="exec")
    checkpoint = {"assistant_message": spoke, "completed_tool_results": [done], "pending_tool_calls": [call("b")]}
    jsonl(file, [head({"runtime_checkpoint": checkpoint}), TURNS[0]])
    transcripts.read(file, store=store)
    pending = [open.call.id for open in session.pending]
    went_on = [TURNS[0], spoke, done, said("tool", "B", tool_call_id="b", name="exec"), said("assistant", "end")]
    jsonl(file, [head(), *went_on])
    report = transcripts.read(file, store=store)

    assert pending == ["b"]
    assert texts(session) == ["one", "", "A", "B", "end"]
    assert (session.pending, report.forked) == ([], 0)
    assert transcripts.read(file, store=store).added == 0


def sidecar(file: Path, **more: Any) -> None:
    checkpoint = {"assistant_message": said("assistant", "", tool_calls=[call("a")]), "completed_tool_results": []}
    payload = {"version": 1, "session_key": "telegram:1", "base_updated_at": "2026-05-16T02:14:11"}
    path = file.with_name(file.stem + ".checkpoint.json")
    path.write_text(json.dumps(payload | {"base_message_count": 1, "checkpoint": checkpoint} | more))
    os.utime(file, (1, 1))


def test_the_newer_layout_has_names_in_base64_a_sidecar_and_the_state_of_a_provider(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "sessions" / ("ab" * 16)
    name = urlsafe_b64encode(b"telegram:1").decode().rstrip("=")
    state = {"_type": "provider_state", "state": {"kind": "responses", "payload": {"x": 1}}}
    anonymous = {name: value for name, value in head(last_archived=0).items() if name != "key"}
    file = jsonl(folder / f"{name}.jsonl", [anonymous, state, TURNS[0]])
    sidecar(file)
    report = transcripts.read(tmp_path, store=store)
    session = store.session("telegram:1")

    assert [open.call.id for open in session.pending] == ["a"]
    assert [e.data for e in session.entries(kinds=["nanobot"])] == [{"provider_state": state}]
    assert session.info.meta["import"]["name"] == f"{folder.name}/telegram:1"
    assert report.bytes_read == sum(f.stat().st_size for f in folder.iterdir())


def test_a_sidecar_of_another_state_is_not_believed(store: Store, session: Session, file: Path) -> None:
    jsonl(file, [head(), TURNS[0]])
    sidecar(file, base_updated_at="2020-01-01T00:00:00")
    report = transcripts.read(file, store=store)

    assert session.pending == []
    assert "another state" in report.problems[0].what


def test_media_are_named_and_never_read(store: Store, session: Session, file: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"SECRET")
    jsonl(file, [head(), said("user", "look", media=[str(tmp_path / "secret.png")])])
    transcripts.read(file, store=store)
    (message,) = session.messages()

    assert [(p.mime, p.uri, p.data) for p in message.parts if isinstance(p, Media)] == [
        ("image/png", str(tmp_path / "secret.png"), None)
    ]


def test_a_provider_is_sent_no_field_of_nanobot(store: Store, session: Session, file: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}, "_meta": {"path": "/x"}}
    jsonl(file, [head(), said("user", [{"type": "text", "text": "x"}, image], media=["/a.png"], sender_id="7")])
    transcripts.read(file, store=store)

    (sent,) = session.context(format="openai").messages
    assert sent.keys() == {"role", "content"}
    assert "_meta" not in json.dumps(sent)


def test_commands_are_kept_and_not_sent(store: Store, session: Session, file: Path) -> None:
    jsonl(file, [head(), TURNS[0], said("user", "/status", _command=True), TURNS[1]])
    transcripts.read(file, store=store)

    assert [m.text for m in session.context().messages] == ["one", "1"]
    assert [e.message.text for e in session.entries(kinds=["message"]) if e.message] == ["one", "/status", "1"]


def test_archived_history_and_the_web_transcript_are_sessions_of_their_own(store: Store, tmp_path: Path) -> None:
    (tmp_path / "ws" / "sessions").mkdir(parents=True)
    jsonl(
        tmp_path / "ws" / "memory" / "history.jsonl", [{"cursor": 1, "timestamp": "2026-05-16 01:14", "content": "old"}]
    )
    events = [{"event": "user", "text": "hi"}, {"event": "delta", "text": "h"}, {"event": "message", "text": "hello"}]
    jsonl(tmp_path / "webui" / "websocket_1.jsonl", events)
    transcripts.read(tmp_path, store=store)

    (history,) = store.sessions(tag="history").items
    (web,) = store.sessions(tag="webui").items
    assert [m.text for m in store.get(history.id).messages()] == ["old"]
    assert [m.text for m in store.get(web.id).messages()] == ["hi", "hello"]
    assert store.get(web.id).info.head == 4


def test_what_is_known_becomes_working_memory_once(store: Store, tmp_path: Path) -> None:
    workspace = tmp_path / "home-ws"
    (workspace / "sessions").mkdir(parents=True)
    (workspace / "memory").mkdir()
    page = "# Facts\n\nThe server is in Bern.\n\n- deploys on Friday\n- uses SQLite\n  in WAL mode\n"
    (workspace / "memory" / "MEMORY.md").write_text(page)
    (workspace / "USER.md").write_text("Likes tea.\n")
    first = transcripts.read(workspace, store=store)
    memory = store.memory("home-ws")
    known = memory.active(domain="memory")
    memory.supersede(known[0].addr, "The server is in Basel.")
    (workspace / "memory" / "MEMORY.md").write_text(page + "\nNew fact.\n")
    second = transcripts.read(workspace, store=store)

    assert [node.content for node in known] == [
        "The server is in Bern.",
        "- deploys on Friday",
        "- uses SQLite\n  in WAL mode",
    ]
    assert known[0].meta["heading"] == "Facts"
    assert [node.content for node in memory.active(domain="user")] == ["Likes tea."]
    assert "The server is in Bern." not in {node.content for node in memory.active()}
    assert "New fact." in {node.content for node in memory.active()}
    assert (first.added, second.added) == (6, 2)


def test_one_odd_session_never_breaks_the_listing(store: Store, file: Path, tmp_path: Path) -> None:
    jsonl(file, [head(updated_at=None, created_at=17), *TURNS])
    jsonl(file.with_name("telegram_2.jsonl"), [head(key="telegram:2"), *TURNS])
    transcripts.read(tmp_path, store=store)

    assert {info.key for info in store.sessions()} == {"telegram:1", "telegram:2"}


def test_a_torn_first_line_never_hides_the_messages(store: Store, session: Session, file: Path) -> None:
    jsonl(file, [b'{"_type": "metadata", "key": "tele\n', *TURNS])
    report = transcripts.read(file, store=store)

    assert texts(session) == ["one", "1", "two", "2"]
    assert report.problems[0].offset == 0


def test_outputs_that_were_too_large_for_the_file_are_kept(store: Store, session: Session, file: Path) -> None:
    jsonl(file, [head(), *TURNS])
    spilled = file.parent.parent / ".nanobot" / "tool-results" / "telegram_1"
    spilled.mkdir(parents=True)
    (spilled / "c1.txt").write_text("all of it")
    (spilled / "c2.txt").symlink_to("/etc/hostname")
    report = transcripts.read(file.parent.parent, store=store)

    (note,) = session.entries(kinds=["tool_output"])
    assert note.data == {"file": "c1.txt", "call_id": "c1", "text": "all of it"}
    assert ["symbolic link" in problem.what for problem in report.problems] == [True]
