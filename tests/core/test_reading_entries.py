"""Reading a view and a log in which something is missing or damaged: the rest is read, and what is lost is named."""

from __future__ import annotations

import pytest

from threadline import Damaged, Message
from threadline.core.reading import NO_LOG, Entries, complete, read_view
from threadline.core.view import spans_at
from threadline.testing.memory import MemoryLog


def life(count: int = 6) -> MemoryLog:
    log = MemoryLog()
    for n in range(1, count + 1):
        log.do("append", message=Message.user(f"entry {n}"))
    return log


def harmed(log: MemoryLog, seq: int) -> MemoryLog:
    log.kept[seq - 1] = log.row(seq)._replace(body=b"{}")
    return log


def lost(log: MemoryLog, seq: int) -> MemoryLog:
    log.kept[seq - 1] = None
    return log


@pytest.mark.parametrize(
    ("harm", "last", "first"),
    [(harmed, None, 1), (harmed, 6, 1), (harmed, 4, 3), (lost, None, 1), (lost, 6, 1), (lost, 4, 2)],
)
def test_a_view_without_its_damaged_entry_names_it(harm: object, last: int | None, first: int) -> None:
    log = harm(life(), 4)  # type: ignore[operator]
    view = read_view(log, ((1, 6),), 6, "s", last)

    assert [entry.seq for entry in view.entries] == [seq for seq in range(first, 7) if seq != 4]
    assert view.damaged == (4,)


def test_the_last_entries_are_read_across_the_spans_of_a_view() -> None:
    log = life()
    log.do("rewind", to=2)
    log.do("append", message=Message.user("instead"))
    view = read_view(log, spans_at(log, log.head), log.head, "s", last=2)

    assert [entry.seq for entry in view.entries] == [2, 8]
    assert view.messages[-1].text == "instead"


def test_a_count_of_another_type_is_not_complete() -> None:
    log = life(3)
    rows = list(log.rows(1, 3))

    assert complete(log, rows, 1, 3)
    assert not complete(log, [rows[0], rows[1]._replace(shown="2"), rows[2]], 1, 3)
    assert not complete(log, [rows[0]._replace(shown="1"), *rows[1:]], 1, 3)
    assert not complete(lost(log, 3), rows[:2], 1, 3)


def entries(log: MemoryLog, *, reverse: bool = False, limit: int | None = None, kinds: frozenset[str] | None = None):  # type: ignore[no-untyped-def]
    return Entries(log, "s", 1, log.head, kinds=kinds, limit=limit, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("harm", [harmed, lost])
@pytest.mark.parametrize("seq", [1, 3, 6])
def test_the_log_goes_on_behind_what_is_damaged(harm: object, seq: int, reverse: bool) -> None:
    found: list[int] = []
    walk = entries(harm(life(), seq), reverse=reverse)  # type: ignore[operator]
    for _ in range(6):
        try:
            found.append(next(walk).seq)
        except Damaged as error:
            found.append(-(error.seq or 0))

    assert [abs(seq) for seq in found] == sorted(range(1, 7), reverse=reverse)
    assert [seq for seq in found if seq < 0] == [-seq]
    with pytest.raises(StopIteration):
        next(walk)


class Forgetful(MemoryLog):
    """Its pages leave out an entry that is there when it is asked for: the page was read before it was written."""

    def rows(self, first: int, last: int, **options: object):  # type: ignore[no-untyped-def, override]
        return (row for row in super().rows(first, last) if row.seq != 2)


def test_an_entry_that_a_page_leaves_out_is_never_passed_over() -> None:
    log = Forgetful()
    log.do("extend", messages=[Message.user("a"), Message.user("b"), Message.user("c")])
    walk = entries(log)
    next(walk)

    with pytest.raises(Damaged, match="missing") as caught:
        next(walk)
    assert (caught.value.seq, next(walk).seq) == (2, 3)


def test_a_limit_counts_only_what_is_asked_for() -> None:
    log = life(2)
    log.do("note", data={"n": 1})
    log.do("note", data={"n": 2})

    assert [entry.seq for entry in entries(log, kinds=frozenset({"note"}), limit=1)] == [3]


def test_a_session_that_is_not_made_yet_has_no_entries() -> None:
    assert list(Entries.none()) == []
    assert (list(NO_LOG.rows(1, 9)), NO_LOG.last("state", 9)) == ([], 0)
    with pytest.raises(Damaged, match="missing"):
        NO_LOG.row(1)
