"""The algebra of spans, and windows over long silences."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import threadline
from threadline import Damaged, Message
from threadline.core.digest import entry_digest
from threadline.core.reading import read_view
from threadline.core.redaction import redacted
from threadline.core.view import Spans, between, holds, replaced, spans_at, stored_spans, tidy
from threadline.testing import scaled
from threadline.testing.memory import MemoryLog


@st.composite
def views(draw: st.DrawFn) -> Spans:
    """Spans without a common entry, in any order, as every view has them."""
    cuts = draw(st.lists(st.integers(1, 60), unique=True, max_size=10).map(sorted))
    spans = [(first, last - 1) for first, last in pairwise(cuts)]
    kept = draw(st.lists(st.sampled_from(spans), unique=True)) if spans else []
    return tuple(kept)


def entries(spans: Spans) -> list[int]:
    return [seq for first, last in spans for seq in range(first, last + 1)]


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20))))
def test_tidy_keeps_the_entries_and_their_order(spans: list[tuple[int, int]]) -> None:
    assert entries(tidy(spans)) == entries(tuple(spans))


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20))))
def test_tidy_leaves_nothing_to_tidy(spans: list[tuple[int, int]]) -> None:
    once = tidy(spans)

    assert tidy(once) == once
    assert all(first <= last for first, last in once)
    assert all(a[1] + 1 != b[0] for a, b in pairwise(once))


@given(views(), st.integers(1, 61))
def test_a_view_holds_what_it_lists(view: Spans, seq: int) -> None:
    assert holds(view, seq) == (seq in entries(view))


@given(views(), st.integers(1, 61), st.integers(1, 61))
def test_between_is_the_slice_in_reading_order(view: Spans, since: int, upto: int) -> None:
    seqs = entries(view)
    both = since in seqs and upto in seqs
    expected = seqs[seqs.index(since) : seqs.index(upto) + 1] if both else []

    assert entries(between(view, since, upto)) == expected


@given(views().filter(bool), st.data())
def test_replacing_a_run_leaves_what_stands_before_and_after_it(view: Spans, data: st.DataObject) -> None:
    seqs = entries(view)
    i = data.draw(st.integers(0, len(seqs) - 1))
    j = data.draw(st.integers(i, len(seqs) - 1))
    run = between(view, seqs[i], seqs[j])

    new = replaced(view, run, ((100, 102),))

    assert new is not None
    assert entries(new) == [*seqs[:i], 100, 101, 102, *seqs[j + 1 :]]
    assert replaced(new, ((100, 102),), run) == tidy(view)


@given(views(), views().filter(bool))
def test_only_a_run_that_stands_unbroken_can_be_replaced(view: Spans, run: Spans) -> None:
    seqs, wanted = entries(view), entries(run)
    stands = any(seqs[i : i + len(wanted)] == wanted for i in range(len(seqs)))

    assert (replaced(view, run, ()) is not None) == stands


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 45))
def test_a_window_is_the_end_of_the_view(spoken: list[bool], last: int) -> None:
    log = MemoryLog()
    for speaks in spoken:
        if speaks:
            log.do("append", message="hello")
        else:
            log.do("note", data={})
    spans = spans_at(log, log.head)

    whole = read_view(log, spans, log.head, "s")
    window = read_view(log, spans, log.head, "s", last)

    assert window.entries == whole.entries[max(0, len(whole.entries) - last) :]
    assert window.damaged == ()


@pytest.mark.parametrize("silence", [15, 16, 17, 255, 256, 257, 513, scaled(3_000)])
def test_a_window_finds_its_entries_across_a_long_silence(store: threadline.Store, silence: int) -> None:
    """The reader jumps over silences by halving, so their edges are where it would go wrong."""
    session = store.new()
    for said in ("one", "two"):
        session.append(said)
        with session.batch() as b:
            for n in range(silence):
                b.note({"n": n})
    fork = session.fork()
    fork.append("three")
    with fork.batch() as b:
        for n in range(silence):
            b.note({"n": n})

    for last in range(5):
        texts = [message.text for message in fork.view(last=last).messages]
        assert texts == ["one", "two", "three"][max(0, 3 - last) :]
    assert [message.text for message in fork.messages()] == ["one", "two", "three"]
    assert [message.text for message in fork.messages(at=fork.head - 1)] == ["one", "two", "three"]
    assert fork.view(last=3).damaged == ()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 30), st.data())
def test_any_rhythm_of_speech_and_silence_reads_the_same_in_every_window(
    silences: list[int], page: int, data: st.DataObject
) -> None:
    with threadline.open(":memory:") as store:
        session = store.new()
        for n, silence in enumerate(silences):
            with session.batch() as b:
                b.append(str(n))
                for _ in range(silence):
                    b.note({})
        at = data.draw(st.integers(0, session.head))
        assert session._ref is not None
        log = store._backend.log(session._ref)
        shown = [row.seq for row in log.rows(1, at) if row.voice]

        assert [row.seq for row in log.rows(1, at, shown=True, page=page)] == shown
        assert [row.seq for row in log.rows(1, at, shown=True, reverse=True, page=page)] == shown[::-1]


def test_a_redacted_compaction_stands_where_it_stood() -> None:
    log = MemoryLog()
    log.do("extend", messages=[Message.user("one"), Message.user("two"), Message.user("three")])
    (fold,) = log.do("compact", summary="a secret", upto=2)
    before = spans_at(log, log.head)
    log.kept[fold.seq - 1] = redacted(log, fold, [], "it was a secret", fold.at)[0]

    assert spans_at(log, log.head) == before
    assert stored_spans(log.row(fold.seq), "covers") == ((1, 2),)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"view": 3}', b'{"view": [[1]]}'])
def test_an_entry_without_spans_is_damage_where_some_are_looked_for(body: bytes) -> None:
    log = MemoryLog()
    (row,) = log.do("note", data={})
    row = row._replace(body=body, digest=entry_digest(row.kind, row.at, row.key, row.tokens, row.usage, body))

    with pytest.raises(Damaged, match="holds no view"):
        stored_spans(row, "view")


def test_no_run_stands_nowhere() -> None:
    assert replaced(((1, 3),), (), ((4, 4),)) is None
