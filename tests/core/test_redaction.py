"""A redacted entry: its words are gone, and all that follows from the log is as it was."""

from __future__ import annotations

import pytest

from threadline import Message, ToolCall
from threadline.core.audit import Audit
from threadline.core.fold import start
from threadline.core.redaction import _Changed, echoes, key_is_hidden, redacted
from threadline.core.session_state import state_at
from threadline.messages import Reasoning, Text, ToolResult
from threadline.testing.memory import SALT, MemoryLog

MESSAGES = {
    "a user": Message.user("words"),
    "a user who says nothing": Message("user", ()),
    "a user with a result": Message("user", (ToolResult("c", "words"), Text("words"))),
    "a user with results only": Message("user", (ToolResult("c", "words"),)),
    "an assistant": Message.assistant("words"),
    "an assistant that says nothing": Message("assistant", ()),
    "a call": Message.assistant("words", ToolCall("c", "words", {"words": 1}), Reasoning("words")),
    "a result": Message.tool("c", "words"),
    "a system": Message.system("words"),
    "a hidden one": Message("user", (Text("words"),), {"hidden": True}),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_a_redacted_message_leaves_no_word_and_the_fold_as_it_was(message: Message) -> None:
    log = MemoryLog()
    log.do("extend", messages=[Message.user("before"), message, Message.assistant("after")])
    (buried,) = redacted(log, log.row(2), [], "a secret", 1)
    log.kept[1] = buried

    assert list(Audit(log, start(SALT), log.head)) == []
    assert b"words" not in buried.body


def test_a_key_goes_when_all_entries_of_its_call_are_redacted() -> None:
    log = MemoryLog()
    log.do("extend", messages=[Message.user("one"), Message.user("two")], key="key")
    call = [log.row(1), log.row(2)]
    (first,) = redacted(log, call[0], call, "a secret", 1)
    last, also = redacted(log, call[1], [first, call[1]], "a secret", 2)

    assert (key_is_hidden(call[0]), key_is_hidden(first), first.key) == (False, False, b"key")
    assert (key_is_hidden(last), key_is_hidden(also), last.key) == (True, True, also.key)
    assert [row.entry("s").key for row in (first, last, also)] == ["key", None, None]


def test_a_redacted_state_is_told_by_no_later_one() -> None:
    log = MemoryLog()
    log.do("set_state", values={"name": "words"})
    log.do("set_state", values={"n": 1})
    log.do("append", message=Message.user("between"))
    log.do("set_goal", objective="words")
    log.do("set_goal", objective="else")
    for seq in (1, 4):
        (buried,) = redacted(log, log.row(seq), [], "a secret", 1)
        for row in (buried, *echoes(log, log.head, log.row(seq), buried)):
            log.kept[row.seq - 1] = row

    assert all(b"words" not in log.row(seq).body for seq in range(1, log.head + 1))
    assert state_at(log, log.head) == {"n": 1}
    assert list(Audit(log, start(SALT), log.head)) == []


def test_the_log_as_it_will_be_is_the_log_but_for_what_changes() -> None:
    log = MemoryLog()
    log.do("set_state", values={"name": "words"})
    log.do("append", message=Message.user("after"))
    (buried,) = redacted(log, log.row(1), [], "a secret", 1)
    later = _Changed(log, buried)

    assert (later.row(1), later.row(2)) == (buried, log.row(2))
    assert [row.seq for row in later.rows(1, 2)] == [1, 2]
    assert later.last("state", 2) == 1
