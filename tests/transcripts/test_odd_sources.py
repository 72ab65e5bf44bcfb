"""Sources with anything in any place: never a traceback, every byte accounted for, and the same the second time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import threadline
from threadline import Store, transcripts
from threadline.testing import scaled, seed
from transcripts.folders import MyCode, compact, jsonl, rewind
from transcripts.test_power_loop import _insert, add_session, database

ODD: list[Any] = [None, 1, "x", [], {}, "[]", True, ["a"], {"a": 1}, -1, 3.5, "2026-01-01T00:00:00", ""]
CALL = {"id": "c1", "type": "function", "function": {"name": "e", "arguments": "{}"}}
FIELDS = ("tool_calls", "tool_call_id", "name", "media", "thinking_blocks", "reasoning_content", "_command", "_type")


def mycode_log(dice: random.Random) -> list[Any]:
    def line() -> Any:
        call = {"type": "tool_use", "id": f"t{dice.randint(0, 3)}", "name": "b", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{dice.randint(0, 3)}", "output": "o", "is_error": False}
        return dice.choice(
            [
                {"role": "user", "content": [{"type": "text", "text": "u"}]},
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]},
                {"role": "weird", "content": dice.choice(ODD)},
                compact("S"),
                rewind(dice.randint(-3, 12)),
                {"nothing": 1},
                b"null\n",
            ]
        )

    return [line() for _ in range(dice.randint(0, 25))]


def nanobot_message(dice: random.Random) -> dict[str, Any]:
    raw = {"role": dice.choice(["user", "assistant", "tool", "weird", None]), "content": dice.choice([*ODD, "hi"])}
    raw |= {name: dice.choice([*ODD, [CALL]]) for name in FIELDS if dice.random() < 0.2}
    return raw | {"timestamp": dice.choice(ODD)}


def nanobot_head(dice: random.Random, key: str) -> dict[str, Any]:
    under_way = {"assistant_message": nanobot_message(dice), "completed_tool_results": [nanobot_message(dice), 5]}
    metadata = {
        "title": dice.choice(ODD),
        "goal_state": dice.choice([*ODD, {"objective": "o", "status": dice.choice(["active", "completed", 5])}]),
        "_last_summary": dice.choice([*ODD, {"text": "S"}]),
        "runtime_checkpoint": dice.choice([*ODD, under_way]),
    }
    head = {"_type": "metadata", "key": key, "created_at": dice.choice(ODD), "updated_at": dice.choice(ODD)}
    cursor = dice.choice([0, 1, 2, 99, -1, None, "x", True])
    return head | {"metadata": dice.choice([metadata, 5, None]), "last_consolidated": cursor}


def power_loop_rows(dice: random.Random, id: str, db: Any) -> None:
    for seq in range(1, dice.randint(1, 12)):
        row = {
            "session_id": id,
            "seq": seq,
            "role": dice.choice(["user", "assistant", "tool", "system", "odd"]),
            "name": dice.choice([None, None, "x", "compact_note"]),
            "content": dice.choice([None, "hi", "[", "[1]", '[{"type":"text","text":"q"}]', b"\xff"]),
            "tool_calls_json": dice.choice([None, None, "[]", "x", "[5]", '[{"id":"c1","name":"e","input":{}}]']),
            "tool_call_id": dice.choice([None, "c1"]),
            "state": dice.choice(["active", "active", "compacted_out", "dropped", "odd"]),
            "meta_json": dice.choice([None, "x", '{"from_seq":1,"to_seq":4,"ord":1}', '{"from_seq":5,"to_seq":2}']),
            "created_at": dice.choice([1, 1_700_000_000_000, -5]),
        }
        _insert(db, "messages", row)


def furnish(home: Path, dice: random.Random) -> None:
    for n in range(scaled(10)):
        MyCode(home, f"s{n}", dice.choice([5, 6, 7, None])).write(mycode_log(dice))
        messages = [nanobot_message(dice) for _ in range(dice.randint(0, 12))]
        jsonl(home / "ws" / "sessions" / f"t_{n}.jsonl", [nanobot_head(dice, f"t:{n}"), *messages])
    with database(home / "pl.db") as db, db:
        for n in range(scaled(10)):
            odd = {"parent_session_id": dice.choice([None, "p0"]), "spawn_depth": dice.randint(0, 5)}
            odd |= {name: dice.choice([None, 1, "x", "[]"]) for name in ("model", "config_json", "metadata_json")}
            add_session(db, f"p{n}", **odd, lifecycle=dice.choice(["linked", "future"]))
            power_loop_rows(dice, f"p{n}", db)


def test_whatever_stands_in_a_source_it_is_imported_or_reported(store: Store, tmp_path: Path) -> None:
    furnish(tmp_path / "home", random.Random(seed()))
    report = transcripts.read(tmp_path / "home", store=store)
    again = transcripts.read(tmp_path / "home", store=store)

    assert report.bytes_read == report.bytes_imported + report.bytes_reported
    assert [problem for problem in report.problems if "not imported whole" in problem.what] == []
    assert (again.added, again.forked, again.unchanged) == (0, 0, report.entries)
    assert store.verify().ok


def test_whatever_was_imported_can_be_sent_and_taken_back(tmp_path: Path) -> None:
    furnish(tmp_path / "home", random.Random(f"{seed()} back"))
    with threadline.open(":memory:") as store:
        for id in transcripts.read(tmp_path / "home", store=store).sessions:
            session = store.get(id)
            session.context(format="anthropic")
            session.context(format="openai")
            for format in ("mycode", "nanobot", "power-loop"):
                transcripts.write(session, tmp_path / "back" / format / id, format)
                assert list((tmp_path / "back" / format).iterdir())
