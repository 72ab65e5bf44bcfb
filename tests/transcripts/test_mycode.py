"""mycode: the same log means different things to different generations; what stands in it is kept."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from threadline import Media, Reasoning, Store, ToolResult, transcripts
from transcripts.folders import BEGAN, ENDED, MyCode, assistant, compact, rewind, user

LOG: list[Any] = [
    *(user("u0"), assistant("a0"), user("u1"), assistant("a1"), compact("SUM")),
    *(user("u3"), assistant("a3"), user("u4"), assistant("a4"), rewind(4), user("u4 edited")),
]


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        (5, ["SUM", "u3", "a3", "u4 edited"]),
        (6, ["SUM", "u3", "a3", "u4 edited"]),
        (7, ["u0", "a0", "u1", "a1", "u4 edited"]),
        (None, ["u0", "a0", "u1", "a1", "u4 edited"]),
    ],
)
def test_each_generation_is_replayed_in_its_own_order(
    version: int | None, shown: list[str], store: Store, tmp_path: Path
) -> None:
    MyCode(tmp_path, version=version).write(LOG)
    transcripts.read(tmp_path, store=store)

    assert [message.text for message in store.get("ab12").messages()] == shown
    assert sum(entry.kind == "message" for entry in store.get("ab12").entries()) == 9


def test_the_generation_is_told_by_the_messages_where_the_meta_file_is_gone(store: Store, tmp_path: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "model_text": "m", "display_text": "d", "is_error": False}
    call = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}
    tools = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    folder = MyCode(tmp_path).write([*tools, *LOG])
    (folder / "meta.json").unlink()
    transcripts.read(tmp_path, store=store)

    assert [message.text for message in store.get("ab12").messages()] == ["SUM", "u3", "a3", "u4 edited"]


def test_what_is_said_of_a_session_comes_along(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path, api_base="http://x").write([user("u")])
    (folder / "tool-output" / "bash-t1.log").write_bytes(b"line\n" * 3)
    (folder / "tool-output" / "bash-t2.log").write_bytes(b"\xff\xfe")
    transcripts.read(folder, store=store)
    session = store.get("ab12")
    info = session.info

    assert (info.title, info.cwd, info.provider, info.model) == ("Fix bug", "/w", "anthropic", "claude-x")
    assert info.created_at == datetime.fromisoformat(BEGAN)
    assert abs((info.updated_at - datetime.fromisoformat(ENDED)).total_seconds()) < 1
    assert info.meta["mycode"]["message_format_version"] == 5
    outputs = [entry.data for entry in session.entries(kinds=["tool_output"])]
    assert outputs[0] == {"file": "bash-t1.log", "call_id": "t1", "text": "line\nline\nline\n"}
    assert outputs[1] == {"file": "bash-t2.log", "call_id": "t2", "base64": "//4="}


def test_parts_keep_their_meaning(store: Store, tmp_path: Path) -> None:
    thinking = {"type": "thinking", "text": "hm", "meta": {"native": {"signature": "sig"}}}
    call = {"type": "tool_use", "id": "t", "name": "bash", "input": {"x": 1}}
    result = {"type": "tool_result", "tool_use_id": "t", "model_text": "m", "display_text": "seen", "is_error": True}
    image = {"type": "image", "data": "AAAA", "mime_type": "image/png", "name": "a.png"}
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
    meta = {"usage": usage, "model": "m1", "provider_message_id": "msg_1"}
    lines = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
        {"role": "assistant", "content": [thinking, call], "meta": meta},
        {"role": "user", "content": [result]},
    ]
    MyCode(tmp_path).write(lines)
    transcripts.read(tmp_path, store=store)
    session = store.get("ab12")
    asked, thought, answered = session.messages()

    assert [type(part) for part in asked.parts][1] is Media
    assert asked.parts[1].data == b"\0\0\0"  # type: ignore[union-attr]
    assert thought.parts[0] == Reasoning("hm", "sig", extra={"meta": thinking["meta"]})
    assert answered.role == "tool"
    (found,) = answered.parts
    assert isinstance(found, ToolResult)
    assert (found.output, found.display, found.error) == ("m", "seen", True)
    spent = session.usage()
    assert (spent.input, spent.cache_read, spent.output, spent.requests) == (10, 90, 5, 1)
    assert session.requests()[0].model == "m1"


def test_usage_of_newer_versions_counts_the_cache_within_the_prompt(store: Store, tmp_path: Path) -> None:
    usage = {"total_tokens": 110, "input_tokens": 100, "cache_read_tokens": 90, "output_tokens": 10}
    MyCode(tmp_path, version=None).write([assistant("a", usage=usage, cost={"total": 0.5}, created_at=ENDED)])
    transcripts.read(tmp_path, store=store)
    session = store.get("ab12")

    assert (session.usage().input, session.usage().cache_read, session.usage().cost) == (10, 90, 0.5)
    assert session.entry(1).at == datetime.fromisoformat(ENDED).astimezone(UTC)


def test_a_usage_in_no_known_shape_is_kept_and_not_counted(store: Store, tmp_path: Path) -> None:
    MyCode(tmp_path).write([assistant("a", usage={"wonders": 7})])
    transcripts.read(tmp_path, store=store)
    session = store.get("ab12")

    assert session.usage().requests == 0
    assert session.messages()[0].meta["mycode"]["meta"]["usage"] == {"wonders": 7}


def test_a_renamed_source_is_renamed_unless_a_person_named_it_here(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path)
    folder.write([user("u")])
    transcripts.read(tmp_path, store=store)
    folder.about["title"] = "Second name"
    folder.write([user("u")])
    transcripts.read(tmp_path, store=store)
    second = store.get("ab12").info.title
    store.get("ab12").rename("mine")
    folder.about["title"] = "Third name"
    folder.write([user("u")])
    transcripts.read(tmp_path, store=store)

    assert (second, store.get("ab12").info.title) == ("Second name", "mine")


def test_a_single_file_is_enough(store: Store, tmp_path: Path) -> None:
    folder = MyCode(tmp_path).write([user("u")])
    report = transcripts.read(folder / "messages.jsonl", store=store)

    assert report.sessions == ["ab12"]
