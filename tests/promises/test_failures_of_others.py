"""What befell the seeds must not befall us. Each test is named after what must not happen: docs/failures.md."""

from __future__ import annotations

import re
import stat
from datetime import timedelta
from pathlib import Path

import pytest

import threadline
from threadline import (
    Conflict,
    InvalidMessage,
    LeaseHeld,
    Media,
    Message,
    NotActive,
    NotFound,
    NothingToCompact,
    Reasoning,
    Session,
    Store,
    Text,
    ToolCall,
    should_compact,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "failures.md"


def calls(*ids: str) -> Message:
    return Message.assistant(None, *(ToolCall(id, "bash", {}) for id in ids))


def texts(session: Session) -> list[str]:
    return [message.text for message in session.messages()]


# -- what mycode taught --------------------------------------------------------------------------------


def test_looking_at_a_live_session_never_answers_its_open_calls(session: Session) -> None:
    session.extend(["go", calls("c1")])
    assert session.context().repairs
    assert [open.call.id for open in session.pending] == ["c1"]
    _ = (session.view(), session.info, session.unanswered)

    assert session.head == 2
    session.append(Message.tool("c1", "the real one"))
    assert session.context().messages[-1].results[0].output == "the real one"


def test_mending_never_leaves_an_earlier_hole(session: Session) -> None:
    session.extend(["go", calls("c1"), "never mind", calls("c2"), Message.tool("c2", "ok")])
    sent = session.context(format="anthropic").messages
    session.repair()

    made = [block["id"] for m in sent for block in m["content"] if type(block) is dict and block["type"] == "tool_use"]
    after = dict(enumerate(sent))
    for i, message in after.items():
        uses = [b["id"] for b in message["content"] if type(b) is dict and b["type"] == "tool_use"]
        if uses:
            answers = [b["tool_use_id"] for b in after[i + 1]["content"] if b["type"] == "tool_result"]
            assert answers == uses
    assert made == ["c1", "c2"]
    assert session.pending == []


def test_an_id_never_becomes_a_path(store: Store, session: Session) -> None:
    session.append("stays")
    for id in ("", ".", "..", "/", "../..", "a/../../b"):
        with pytest.raises(NotFound):
            store.delete(id)

    assert texts(session) == ["stays"]


def test_a_rewind_across_a_compaction_never_loses_what_was_said(session: Session) -> None:
    for n in range(10):
        session.extend([f"u{n}", Message.assistant(f"a{n}")])
    session.compact("SUM", keep_turns=2)
    session.rewind(0)
    assert texts(session) == []
    session.rewind(8)

    assert texts(session) == ["u0", "a0", "u1", "a1", "u2", "a2", "u3", "a3"]


def test_cached_tokens_never_hide_a_full_window() -> None:
    full = {"input_tokens": 5_000, "cache_read_input_tokens": 180_000, "cache_creation_input_tokens": 10_000}

    assert should_compact(full, 200_000)


def test_making_a_session_again_never_resets_it(store: Store) -> None:
    made = store.new(id="x", title="mine")
    made.append("said")
    with pytest.raises(Conflict):
        store.new(id="x")

    assert (store.get("x").info.title, texts(store.get("x"))) == ("mine", ["said"])


# -- what nanobot taught -------------------------------------------------------------------------------


def test_a_value_that_is_no_json_never_leaves_half_of_a_write(session: Session) -> None:
    good = [Message.user(f"m{n}") for n in range(10)]
    with pytest.raises(InvalidMessage):
        session.extend([*good, Message.user("bad", meta={"x": object()}), *good])

    assert session.head == 0


def test_the_time_of_the_last_change_is_never_lost_on_loading(path: Path) -> None:
    with threadline.open(path) as store:
        before = store.session("k")
        before.append("x")
        at = before.info.updated_at
    with threadline.open(path) as store:
        assert store.session("k").info.updated_at == at


def test_a_window_never_begins_with_a_result(session: Session) -> None:
    for n in range(20):
        session.extend([calls(f"c{n}"), Message.tool(f"c{n}", "out")])

    assert session.context(max_messages=5).messages[0].role == "user"


def test_one_orphan_result_never_hides_the_history(session: Session) -> None:
    for n in range(50):
        session.extend([f"u{n}", Message.assistant(f"a{n}")])
    session.extend([Message.tool("nobody asked", "orphan"), "last"])

    assert len(session.context().messages) >= 101


def test_a_budget_of_tokens_is_never_exceeded_to_reach_a_user_turn(session: Session) -> None:
    session.append("please")
    for n in range(30):
        session.extend([calls(f"c{n}"), Message.tool(f"c{n}", "word " * 2_000)])

    assert session.context(max_tokens=4_000).tokens <= 4_000


def test_closing_an_idle_store_never_takes_back_what_others_wrote(path: Path) -> None:
    with threadline.open(path) as idle:
        idle.session("k").append("one")
        with threadline.open(path) as busy:
            busy.session("k").extend(["two", "three"])
    with threadline.open(path) as store:
        assert texts(store.session("k")) == ["one", "two", "three"]


def test_content_of_null_never_poisons_a_session(session: Session) -> None:
    session.append("hi")
    session.append({"role": "assistant", "content": None}, format="openai")
    session.append("and?")

    assert all(message["content"] for message in session.context(format="openai").messages)


def test_a_deleted_session_never_comes_back_with_its_key(store: Store) -> None:
    store.session("k").append("gone")
    store.delete(store.session("k"))

    assert texts(store.session("k")) == []


def test_the_file_is_never_readable_by_others(path: Path) -> None:
    with threadline.open(path) as store:
        store.new().append("private")
        modes = [stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob("store.db*")]

    assert modes
    assert all(mode & 0o077 == 0 for mode in modes)


# -- what power-loop taught ----------------------------------------------------------------------------


def test_a_compaction_that_fails_never_leaves_a_half(session: Session) -> None:
    session.extend(["u0", Message.assistant("a0")])
    before = texts(session)

    def fails(run: list[Message]) -> str:
        raise RuntimeError("the model is down")

    with pytest.raises(RuntimeError):
        session.compact(fails, keep_turns=0)
    with pytest.raises(NothingToCompact):
        session.compact("S", upto=1, since=2)

    assert (texts(session), session.append("goes on").seq) == (before, 3)


def test_a_summary_never_stands_behind_what_it_sums_up(session: Session) -> None:
    for n in range(6):
        session.extend([f"u{n}", Message.assistant(f"a{n}")])
    session.compact("FIRST", keep_turns=2)
    session.compact("SECOND", keep_turns=1)

    assert texts(session) == ["SECOND", "u5", "a5"]


def test_a_half_answered_round_never_loses_its_open_calls(path: Path) -> None:
    with threadline.open(path) as store:
        store.session("k").extend(["go", calls("c1", "c2"), Message.tool("c1", "done")])
    with threadline.open(path) as store:
        session = store.session("k")
        assert [(open.call.id, open.call.name) for open in session.pending] == [("c2", "bash")]
        session.repair()
        assert session.pending == []


def test_usage_of_an_earlier_request_is_never_overwritten(session: Session) -> None:
    for _ in range(3):
        session.append(Message.assistant("x"), usage={"input": 10, "output": 1})

    assert session.usage().input == 30


def test_parts_and_signatures_never_come_back_as_something_else(session: Session) -> None:
    message = Message.assistant("t", Reasoning("hm", signature="sig"), Media("image/png", b"\x89PNG"), Text("end"))
    session.append(message)

    assert session.messages() == [message]


def test_a_session_that_was_put_away_is_never_written_to(store: Store, session: Session) -> None:
    session.append("x")
    store.archive(session)
    with pytest.raises(NotActive):
        session.append("y")


def test_a_deleted_parent_never_leaves_a_child_that_hangs(store: Store, session: Session) -> None:
    child = session.spawn("a", lifecycle="detached")
    below = child.spawn("b")
    store.delete(session)

    assert (child.info.parent, child.info.depth) == (None, 0)
    assert (below.info.parent, below.info.depth) == (child.id, 1)


def test_large_outputs_of_two_sessions_never_stand_for_each_other(store: Store) -> None:
    one, other = store.new(), store.new()
    one.extend(["go", calls("c"), Message.tool("c", "A" * 300_000)])
    other.extend(["go", calls("c"), Message.tool("c", "B" * 300_000)])

    assert (one.read(3, length=3), other.read(3, length=3)) == ("AAA", "BBB")


def test_a_write_without_the_lease_is_never_let_through(session: Session) -> None:
    with session.lease("worker", ttl=30) as lease:
        with pytest.raises(LeaseHeld):
            session.append("mine, too")
        session.append("with it", lease=lease)

    assert texts(session) == ["with it"]


# -- what mnemo taught ---------------------------------------------------------------------------------


def test_preliminary_work_is_never_lost_with_its_session(store: Store, session: Session) -> None:
    memory = store.memory("p")
    memory.claim("found it", preliminary=True, chain="plan", session=session)
    memory.claim("without a chain", preliminary=True, session=session)
    memory.end(session)
    memory.gc(older_than=timedelta(0))

    assert {node.content for node in memory.active()} >= {"found it", "without a chain"}


def test_the_name_of_an_agent_never_becomes_a_path(store: Store, session: Session, tmp_path: Path) -> None:
    memory = store.memory("p", root=tmp_path)
    for agent in ("nodes", "index", "../../x", "/etc"):
        memory.claim(f"by {agent}", preliminary=True, session=session, agent=agent)

    assert list(tmp_path.glob("**/x")) == []
    assert [n.content for n in memory.active(session=session, agent="index")] == ["by index"]


# -- the page ------------------------------------------------------------------------------------------


def test_every_row_of_the_page_names_tests_that_exist() -> None:
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src/threadline/testing").rglob("*.py")]
    known = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))}
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d+ ", line)]
    named = {line.split("|")[1].strip(): re.findall(r"`(test_\w+)`", line) for line in rows}

    assert list(map(int, named)) == list(range(1, 38))
    assert [number for number, tests in named.items() if not tests] == []
    assert sorted({test for tests in named.values() for test in tests} - known) == []
