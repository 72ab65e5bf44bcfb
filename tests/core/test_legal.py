"""Conversations made legal, as values: the context tests do the same for every provider."""

from __future__ import annotations

from threadline import Message, Text, ToolCall, ToolResult
from threadline.core.legal import Said, mend


def mended(*messages: Message) -> list[Message]:
    return [said.message for said in mend([Said(n, message) for n, message in enumerate(messages, 1)]).said]


def call(*ids: str) -> Message:
    return Message.assistant(None, *(ToolCall(id, "look") for id in ids))


def test_a_conversation_that_is_legal_stays_as_it_is() -> None:
    legal = [
        Message.user("go"),
        call("a", "b"),
        Message.tool("a", "1"),
        Message.tool("b", "2"),
        Message.assistant("so"),
    ]

    assert mended(*legal) == legal


def test_results_that_an_assistant_carries_alone_become_a_tools() -> None:
    alone = Message("assistant", (ToolResult("a", "found"),))

    assert mended(Message.user("go"), call("a"), alone) == [Message.user("go"), call("a"), Message.tool("a", "found")]


def test_who_speaks_among_results_waits_until_all_are_in() -> None:
    mixed = Message("user", (ToolResult("a", "1"), Text("and hurry")))
    told = mended(Message.user("go"), call("a", "b"), mixed, Message.tool("b", "2"))
    order = [(part.call_id if isinstance(part, ToolResult) else part.text) for m in told[2:] for part in m.parts]  # type: ignore[union-attr]

    assert order == ["a", "b", "and hurry"]


def test_an_id_that_is_used_again_and_again_gets_one_that_is_free() -> None:
    calls = [ToolCall(id, "look", {"n": n}) for n, id in enumerate(("c_2", "c", "c"))]
    results = [Message.tool(id, "x") for id in ("c_2", "c", "c")]
    told = mended(Message.user("go"), Message.assistant(None, *calls), *results)
    ids = [part.id for m in told for part in m.calls]

    assert ids == ["c_2", "c", "c_3"]
    assert sorted(part.call_id for m in told for part in m.results) == sorted(ids)


def test_who_has_a_role_that_no_provider_knows_speaks_as_a_user() -> None:
    said = (Text("words"),)

    assert mended(Message.user("go"), Message("critic", said))[1] == Message("user", said)
    assert mended(Message.user("go"), Message("tool", said))[1] == Message("user", said)
    assert mended(Message.user("go"), Message("assistant", said))[1] == Message("assistant", said)


def test_the_user_speaks_first_or_is_made_to() -> None:
    opened = mend([Said(4, Message.assistant("hello")), Said(5, Message.user("hi"))])

    assert [(said.seq, said.message.role) for said in opened.said] == [(0, "user"), (4, "assistant"), (5, "user")]
    assert [repair for repair in opened.repairs if "spoke first" in repair] == [
        "entry 4: the assistant spoke first; a user message stands before it"
    ]
    assert mend([Said(5, Message.user("hi"))]).repairs == []
