"""The stack that never forgets is a plain list of open calls, at any moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from threadline import Message, Session, ToolCall, ToolResult
from threadline.core import calls
from threadline.core.calls import Node, OpenCall
from threadline.testing import strategies

Said = list[ToolCall | ToolResult]
Open = list[tuple[int, str, int]]

ids = st.sampled_from(["a", "b", "c"]) | strategies.texts(2)
parts = st.lists(ids.map(lambda id: ToolCall(id, "tool")) | ids.map(ToolResult), max_size=4)
doings = st.lists(st.tuples(st.sampled_from(["say", "say", "say", "start", "back"]), parts, ids, st.integers(0, 30)))


def say(open_calls: Open, seq: int, said: Said) -> Open:
    for part in said:
        if isinstance(part, ToolCall):
            open_calls = [*open_calls, (seq, part.id, 0)]
        else:
            open_calls = changed(open_calls, part.call_id, None)
    return open_calls


def changed(open_calls: Open, call_id: str, started: int | None) -> Open:
    """The latest call of that id closed, or marked as started."""
    for i in reversed(range(len(open_calls))):
        seq, id, _ = open_calls[i]
        if id == call_id:
            return [*open_calls[:i], *([] if started is None else [(seq, id, started)]), *open_calls[i + 1 :]]
    return open_calls


@given(doings)
def test_the_stack_is_a_list_of_open_calls_at_every_moment(doings: list[tuple[str, Said, str, int]]) -> None:
    """`back` goes on from the stack of an earlier entry, as a rewind does."""
    nodes: dict[int, Node] = {}
    tops, lists, pending = [0], [list[tuple[int, str, int]]()], [0]
    for seq, (verb, said, id, n) in enumerate(doings, 1):
        if verb == "back":
            tops.append(tops[n % seq])
            lists.append(lists[n % seq])
            pending.append(pending[n % seq])
            continue
        if verb == "say":
            top = calls.after(tops[-1], seq, said, nodes.__getitem__)
            lists.append(say(lists[-1], seq, said))
        else:
            top = calls.started(tops[-1], seq, id, nodes.__getitem__)
            lists.append(changed(lists[-1], id, seq))
        if top.node is not None:
            nodes[seq] = calls.decode(calls.encode(top.node))
        tops.append(top.open)
        pending.append(top.pending)

    for top_seq, expected, count in zip(tops, lists, pending, strict=True):
        walked = [(call.seq, call.id, call.started) for call in calls.walk(top_seq, nodes.__getitem__)]
        assert walked == expected[::-1]
        assert count == len(expected)


@given(st.lists(parts, max_size=8), st.dictionaries(st.tuples(st.integers(1, 8), ids), st.integers(1, 9), max_size=3))
def test_a_stack_read_anew_is_the_one_that_grew(said: list[Said], marks: dict[tuple[int, str], int]) -> None:
    grown: Open = []
    for seq, told in enumerate(said, 1):
        grown = say(grown, seq, told)

    flat = [(seq, part) for seq, told in enumerate(said, 1) for part in told]
    top = calls.anew(99, flat, marks)

    found = [] if top.node is None else [(call.seq, call.id, call.started) for call in top.node.calls]
    assert found == [(seq, id, marks.get((seq, id), 0)) for seq, id, _ in grown]
    assert top.pending == len(grown)
    assert top.open == (99 if grown else 0)


@given(st.lists(st.builds(OpenCall, st.integers(0, 2**40), ids, st.integers(0, 2**40))), st.integers(0, 9))
def test_a_node_is_stored_exactly(open_calls: list[OpenCall], below: int) -> None:
    node = Node(len(open_calls) + below, tuple(open_calls), below)

    assert calls.decode(calls.encode(node)) == node


@given(st.lists(ids, max_size=5), ids)
def test_an_entry_that_changes_no_call_stores_no_node(open_ids: list[str], unknown: str) -> None:
    nodes: dict[int, Node] = {}
    top = calls.after(0, 1, [ToolCall(id, "tool") for id in open_ids if id != unknown], nodes.__getitem__)
    if top.node is not None:
        nodes[1] = top.node

    again = calls.after(top.open, 2, [ToolResult(unknown)], nodes.__getitem__)

    assert again == (top.open, None, top.pending)


def test_two_calls_of_one_id_in_one_message_are_two_pending_calls(session: Session) -> None:
    first, second = ToolCall("a", "read", {"n": 1}), ToolCall("a", "read", {"n": 2})
    session.append(Message.assistant(None, first, second))

    assert [pending.call for pending in session.pending] == [first, second]
    session.append(Message.tool("a", "of the second"))
    assert [pending.call for pending in session.pending] == [first]
    session.append(Message.tool("a", "of the first"))
    assert session.pending == []


def test_a_call_that_its_own_message_answers_is_not_its_twin_that_waits(session: Session) -> None:
    answered, waiting = ToolCall("a", "read", {"n": 1}), ToolCall("a", "read", {"n": 2})
    session.append(Message.assistant(None, answered, ToolResult("a"), waiting))

    assert [pending.call for pending in session.pending] == [waiting]
