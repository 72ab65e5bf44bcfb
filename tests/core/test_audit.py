"""One damaged entry is found, named, and the only one that is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fold import lived

from threadline import Message, ToolCall
from threadline.core.audit import NAMED_MAX, Audit, Finding
from threadline.core.entries import OTHER, Row, data_draft
from threadline.core.fold import draft_of, start
from threadline.testing import scaled, strategies
from threadline.testing.memory import SALT, MemoryLog
from threadline.testing.strategies import Step

many = settings(max_examples=scaled(150))


def findings(log: MemoryLog) -> list[Finding]:
    return list(Audit(log, start(SALT), log.head))


def life() -> MemoryLog:
    """A log with every kind of entry, calls that stay open, and something said after all of it."""
    log = MemoryLog()
    log.do("append", message=Message.user("question"), key="k", usage={"input": 3})
    log.do("append", message=Message.assistant("calling", ToolCall("a", "tool"), ToolCall("b", "tool")))
    log.do("start_call", call_id="a")
    log.do("append", message=Message.tool("a", "done"))
    log.do("note", data={"n": 1})
    log.do("append", message=Message.user("hidden", meta={"hidden": True}))
    log.do("append", message=Message.user("more"))
    log.do("append", message=Message.assistant("answer"))
    (fold,) = log.do("compact", summary="both", since=7, upto=8)
    log.do("replace", messages=[Message.user("instead")], since=1, upto=1)
    log.do("append", message=Message.tool("b", "done"))
    log.do("expand", seq=fold.seq)
    log.do("rewind", to=4)
    log.do("append", message=Message.assistant(None, ToolCall("c", "tool")))
    log.do("clear")
    log.do("rewind", to=14)
    log.do("append", message=Message.tool("c", "done"))
    log.do("set_state", values={"n": 1, "text": "x" * 1_100})
    log.do("set_state", values={"n": 2}, remove=["text"])
    log.do("set_goal", objective="win")
    log.do("complete_goal")
    log.do("rewind", to=18, state=True)
    log.do("append", message=Message.user("last"))
    return log


ENTRIES = range(1, 27)


def other(name: str, value: Any) -> Any:
    """Another value of the same type: what a flipped bit leaves."""
    match value:
        case None:
            return b'[1,[[1,"a",0]],0]' if name == "calls" else b"{}"
        case int():
            return value + 1
        case str():
            return value + "x"
        case _:
            return value[:-1] + bytes([value[-1] ^ 1])


@many
@given(strategies.histories())
def test_nothing_is_found_in_an_untouched_log(history: list[Step]) -> None:
    log, _ = lived(history)
    counts = {"entries": 0}
    audit = Audit(log, start(SALT), log.head, counts)

    assert list(audit) == []
    assert (audit.state, counts["entries"]) == (log.state, log.head)


def test_the_log_of_these_tests_is_whole() -> None:
    log = life()

    assert (log.head, findings(log)) == (len(ENTRIES), [])


# All but seq, which is where a row lies: a row with another one is missing from its place.
COLUMNS = Row._fields[1:]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("seq", ENTRIES)
def test_any_changed_column_of_any_entry_is_found_and_no_other_entry_is_blamed(seq: int, name: str) -> None:
    log = life()
    row = log.row(seq)
    log.kept[seq - 1] = row._replace(**{name: other(name, getattr(row, name))})

    named = {seq for seq, _ in findings(log)}

    assert named == {seq}


@pytest.mark.parametrize("seq", ENTRIES)
def test_a_missing_entry_is_found_and_no_other_entry_is_blamed(seq: int) -> None:
    log = life()
    log.kept[seq - 1] = None

    assert findings(log) == [(seq, "the entry is missing")]


@many
@given(strategies.histories(), st.data())
def test_damage_anywhere_in_any_history_is_found(history: list[Step], data: st.DataObject) -> None:
    log, _ = lived(history)
    if not log.head:
        return
    seq = data.draw(st.integers(1, log.head))
    name = data.draw(st.sampled_from(COLUMNS))
    row = log.row(seq)
    log.kept[seq - 1] = row._replace(**{name: other(name, getattr(row, name))})

    assert seq in {seq for seq, _ in findings(log)}


swaps: list[tuple[str, Callable[[list[Any]], None]]] = [
    ("two entries changed places", lambda kept: kept.__setitem__(slice(3, 5), kept[3:5][::-1])),
    ("an entry stands twice", lambda kept: kept.__setitem__(4, kept[3])),
    ("the last entries are gone", lambda kept: kept.__delitem__(slice(-2, None))),
]


@pytest.mark.parametrize("swap", [swap for _, swap in swaps], ids=[name for name, _ in swaps])
def test_rows_that_are_whole_but_not_in_their_place_are_found(swap: Callable[[list[Any]], None]) -> None:
    log = life()
    swap(log.kept)

    assert findings(log) != []


def test_of_very_many_missing_entries_the_first_are_named_and_the_rest_counted() -> None:
    log = MemoryLog()
    log.do("extend", messages=[Message.user(str(n)) for n in range(NAMED_MAX + 7)])
    log.kept[1:-1] = [None] * (NAMED_MAX + 5)
    found = findings(log)

    assert [seq for seq, _ in found] == list(range(2, NAMED_MAX + 3))
    assert found[-2:] == [
        (NAMED_MAX + 1, "the entry is missing"),
        (NAMED_MAX + 2, "the entry is missing, and so are the next 4"),
    ]


def test_a_stored_view_that_does_not_follow_from_the_log_is_found() -> None:
    log = MemoryLog()
    log.do("extend", messages=[Message.user("a"), Message.user("b"), Message.user("c")])
    (fold,) = log.do("compact", summary="both", since=1, upto=2)
    forged = data_draft(
        "compaction", {"summary": "both", "covers": ((1, 2),), "view": ((4, 4),)}, at=fold.at, voice=OTHER
    )
    anew = MemoryLog()
    anew.add([*(draft_of(log.row(seq)) for seq in (1, 2, 3)), forged])

    assert (4, "the stored view is not the fold of the log") in findings(anew)
