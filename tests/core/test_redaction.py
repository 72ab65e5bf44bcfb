"""A redacted entry: its words are gone, and all that follows from the log is as it was."""

from __future__ import annotations

import pytest

from threadline import Message, ToolCall
from threadline.core.audit import Audit
from threadline.core.fold import start
from threadline.core.redaction import redacted
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
