"""The fold of any log equals the model, and what is stored with an entry is the fold at that entry."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from threadline import Message, ToolCall
from threadline.core.calls import walk
from threadline.core.fold import draft_of, measure, nodes, state_at
from threadline.core.reading import read_view
from threadline.core.view import spans_at
from threadline.errors import ThreadlineError
from threadline.testing import scaled, strategies
from threadline.testing.memory import SALT, MemoryLog
from threadline.testing.model import Model
from threadline.testing.strategies import Step

many = settings(max_examples=scaled(150))


def count_tokens(message: Message) -> int:
    return 1 + len(message.text)


def lived(history: list[Step]) -> tuple[MemoryLog, Model]:
    """A log in memory and its model after a history without keys."""
    log, model = MemoryLog(), Model(count_tokens)
    for step in history:
        verb, options = step.resolved(model)
        options.pop("key", None)
        try:
            getattr(model, verb)(**options)
        except ThreadlineError:
            continue
        log.do(verb, **options)
    return log, model


@many
@given(strategies.histories())
def test_the_fold_of_any_history_is_what_the_model_says_at_every_entry(history: list[Step]) -> None:
    log, model = lived(history)

    assert log.head == model.head
    for n, state in enumerate(log.states):
        shown = model.visible(n)
        assert [e.seq for e in read_view(log, spans_at(log, n), n, "s").entries] == [line.seq for line in shown]
        assert (state.messages, state.tokens) == (len(shown), model.tokens(n))
        assert state.asked == model.unanswered(n)
        open_calls = [(call.seq, call.id, call.started) for call in walk(state.open, nodes(log))][::-1]
        assert open_calls == [(w.seq, w.call.id, w.started) for w in model.pending(n)]
        assert state.pending == len(open_calls)


@many
@given(strategies.histories())
def test_the_state_at_any_entry_is_the_state_while_folding(history: list[Step]) -> None:
    log, _ = lived(history)

    assert [state_at(log, n, SALT) for n in range(log.head + 1)] == log.states


@many
@given(strategies.histories())
def test_a_log_folded_anew_from_its_bare_entries_gives_the_same_rows(history: list[Step]) -> None:
    log, _ = lived(history)
    anew = MemoryLog()

    anew.add([draft_of(row) for row in log.rows(1, log.head)])

    assert anew.kept == log.kept


@many
@given(strategies.histories(), st.data())
def test_rewinding_restores_the_state_of_any_entry_but_for_the_counts_of_the_whole_log(
    history: list[Step], data: st.DataObject
) -> None:
    log, _ = lived(history)
    to = data.draw(st.integers(0, log.head))
    then = log.states[to]

    log.do("rewind", to=to)

    now = log.state
    assert (now.open, now.asked, now.pending, now.messages, now.tokens) == then[5:]
    assert spans_at(log, log.head) == spans_at(log, to)


@given(st.lists(st.integers(0, 5)))
def test_counting_a_view_by_its_edges_is_counting_its_entries(sizes: list[int]) -> None:
    log = MemoryLog()
    for size in sizes:
        log.do("append", message=Message.user("x" * size))
        log.do("note", data={})
    spans = tuple((seq, min(seq + 2, log.head)) for seq in range(1, log.head + 1, 3))

    rows = [row for first, last in spans for row in log.rows(first, last) if row.voice]
    assert measure(log, spans) == (len(rows), sum(row.tokens for row in rows))


def test_expanding_a_compaction_lets_its_results_answer_the_calls_that_now_stand_before_it() -> None:
    log = MemoryLog()
    log.do("append", message=Message.user("first"))
    log.do("append", message=Message.tool("a", "an answer to nothing"))
    (fold,) = log.do("compact", summary="nothing", since=2, upto=2)
    log.do("replace", messages=[Message.assistant(None, ToolCall("a", "tool"))], since=1, upto=1)
    assert log.state.pending == 1

    log.do("expand", seq=fold.seq)

    assert log.state.pending == 0


def test_a_start_that_was_folded_away_and_put_back_is_known_again() -> None:
    log = MemoryLog()
    log.do("append", message=Message.assistant(None, ToolCall("a", "tool")))
    log.do("append", message=Message.user("while it runs"))
    log.do("start_call", call_id="a")
    log.do("append", message=Message.user("still"))
    (fold,) = log.do("compact", summary="waiting", since=2, upto=4)
    (replacement,) = log.do("replace", messages=[], since=1, upto=1)
    log.do("expand", seq=replacement.seq)

    log.do("expand", seq=fold.seq)

    assert [call.started for call in walk(log.state.open, nodes(log))] == [3]


def test_a_start_stays_known_when_its_entry_is_folded_away() -> None:
    log = MemoryLog()
    log.do("append", message=Message.assistant(None, ToolCall("a", "tool")))
    log.do("append", message=Message.user("while it runs"))
    log.do("start_call", call_id="a")
    log.do("append", message=Message.user("still"))
    (fold,) = log.do("compact", summary="waiting", since=2, upto=4)

    log.do("replace", messages=[], since=fold.seq, upto=fold.seq)

    assert [call.started for call in walk(log.state.open, nodes(log))] == [3]
