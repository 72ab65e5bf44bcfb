"""What nanobot's own code shows of a session is what we show of it: early, 0.2 and 0.3, written by that code itself."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

import threadline
from threadline import Message, Session, ToolCall, transcripts
from threadline.testing import scaled, seed
from threadline.transcripts.nanobot import BOUNDARY, raw_of
from transcripts.published import ask

VERSIONS = ["0.1.4.post3", "0.2.0", "0.3.5"]
SENT = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "thinking_blocks")
BREADCRUMB = re.compile(r"\n?\[image: [^\]]*\]")


def random_acts(dice: random.Random, version: str) -> list[Any]:
    """Turns of all sorts; then perhaps the first of them consolidated, up to the beginning of a turn."""
    acts: list[Any] = []
    turns: list[int] = []
    messages = 0

    def add(role: str, content: Any, **more: Any) -> None:
        nonlocal messages
        acts.append(["add", role, content, more])
        messages += 1

    early = version.startswith("0.1")
    for n in range(dice.randint(1, 9)):
        turns.append(messages)
        blocks = [
            {"type": "text", "text": f"u{n}"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]
        add(
            "user",
            dice.choice([f"u{n}", f"ü🎈{n}", blocks]),
            **({"media": ["/a/b.png"]} if dice.random() < 0.3 else {}),
        )
        for t in range(dice.choice([0, 0, 1, 2])):
            call = {"id": f"c{n}-{t}", "type": "function", "function": {"name": "exec", "arguments": '{"x": 1}'}}
            more = {} if early else {"reasoning_content": "hm"}
            add("assistant", dice.choice([None, "looking"]), tool_calls=[call], **more)
            add("tool", f"out {n}", tool_call_id=f"c{n}-{t}", name="exec")
        if not early and dice.random() < 0.2:
            add("user", "/status", _command=True)
            add("assistant", "fine", _command=True)
        thoughts = {"thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "s"}]} if not early else {}
        add("assistant", f"a{n}", latency_ms=5, **(thoughts if dice.random() < 0.3 else {}))
    if len(turns) > 1 and dice.random() < 0.6:
        at = dice.choice(turns[1:])
        if version == "0.3.5" and dice.random() < 0.7:
            acts.append(["summary", "what was said", at])
        else:
            acts.append(["consolidate", at, dice.choice([None, "what was said"])])
    acts.append(["meta", {"title": "T", "custom": {"x": [1]}}])
    return acts


def ours(session: Session) -> list[Any]:
    """The view without its summary, as nanobot tells messages."""
    return [_told(raw_of(m)) for m in session.messages() if "compaction" not in m.meta and "summary" not in m.meta]


def _told(raw: dict[str, Any]) -> dict[str, Any]:
    told = {name: raw[name] for name in SENT if name in raw}
    if isinstance(told.get("content"), str):
        told["content"] = BREADCRUMB.sub("", told["content"])
    return told


def theirs(shown: dict[str, Any]) -> list[Any]:
    return [_told(raw) for raw in shown["history"] if raw.get("content") != BOUNDARY]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_view_is_what_nanobot_shows(version: str, tmp_path: Path) -> None:
    dice = random.Random(f"{seed()} {version}")
    specs = [{"key": f"telegram:{n}", "acts": random_acts(dice, version)} for n in range(scaled(12))]
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    shown = ask("nanobot-ai", version, "nanobot_keeps.py", tmp_path / "home", tmp_path / "specs.json")
    with threadline.open(":memory:") as store:
        report = transcripts.read(tmp_path / "home", store=store)
        found = {key: store.session(key) for key in shown}

        assert report.problems == []
        assert {key: ours(session) for key, session in found.items()} == {
            key: theirs(value) for key, value in shown.items()
        }
        assert {
            key: [raw_of(e.message) for e in s.entries(kinds=["message"]) if e.message] for key, s in found.items()
        } == {key: [raw for raw in value["messages"] if not raw.get("_hidden_history")] for key, value in shown.items()}
        assert all(session.info.title == "T" for session in found.values())


def target(home: Path, version: str, key: str) -> Path:
    """The workspace; up to 0.2, the file with the name that it has there."""
    return home / "workspace" if version == "0.3.5" else home / "sessions" / f"{key.replace(':', '_')}.jsonl"


@pytest.mark.parametrize("version", VERSIONS)
def test_nanobot_reads_what_we_write_back(version: str, tmp_path: Path) -> None:
    dice = random.Random(f"{seed()} {version} back")
    specs = [{"key": f"telegram:{n}", "acts": random_acts(dice, version)} for n in range(scaled(8))]
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    before = ask("nanobot-ai", version, "nanobot_keeps.py", tmp_path / "home", tmp_path / "specs.json")
    with threadline.open(":memory:") as store:
        transcripts.read(tmp_path / "home", store=store)
        for key in before:
            transcripts.write(store.session(key), target(tmp_path / "back", version, key), "nanobot", raw=True)
    after = ask("nanobot-ai", version, "nanobot_keeps.py", tmp_path / "back")

    assert after.keys() == before.keys()
    for key in before:
        assert after[key]["messages"] == before[key]["messages"]
        assert after[key]["history"] == before[key]["history"]
        assert after[key]["metadata"]["title"] == "T"


@pytest.mark.parametrize("version", ["0.2.0", "0.3.5"])
def test_nanobot_goes_on_with_a_session_of_ours(version: str, tmp_path: Path) -> None:
    """Folded, rewound, with a goal and a turn under way: none of it was ever nanobot's."""
    with threadline.open(":memory:") as store:
        session = store.session("telegram:7", title="ours")
        for n in range(4):
            session.extend([f"u{n}", Message.assistant(f"a{n}")])
        session.compact("SUM", keep_turns=2)
        session.rewind(session.append("wrong turn").seq - 1)
        session.set_goal("ship it", "ship")
        session.append("and now?")
        session.append(Message.assistant(None, ToolCall("c1", "exec", {}), ToolCall("c2", "exec", {})))
        session.append(Message.tool("c1", "done"))
        transcripts.write(session, target(tmp_path / "back", version, "telegram:7"), "nanobot")
    shown = ask("nanobot-ai", version, "nanobot_keeps.py", tmp_path / "back")["telegram:7"]

    assert [raw["content"] for raw in shown["history"]] == ["u2", "a2", "u3", "a3", "and now?"]
    assert shown["metadata"]["_last_summary"]["text"] == "SUM"
    assert shown["metadata"]["goal_state"]["objective"] == "ship it"
    checkpoint = shown["metadata"]["runtime_checkpoint"]
    assert [call["id"] for call in checkpoint["pending_tool_calls"]] == ["c2"]
    assert [result["content"] for result in checkpoint["completed_tool_results"]] == ["done"]
