"""The window when something of the log cannot be read, or says what nobody understands."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from threadline import Message
from threadline.core.window import EXACT, FRONT, Limits, front_of, read_front, read_source, scale_of
from threadline.testing.memory import MemoryLog

FEW = Limits(messages=8)


def talk(turns: int) -> MemoryLog:
    log = MemoryLog()
    log.do("append", message=Message.system("be kind"))
    for n in range(turns):
        log.do("extend", messages=[Message.user(f"question {n}"), Message.assistant("answer")])
    return log


def test_a_front_that_is_damaged_is_passed_over() -> None:
    log = talk(FRONT)
    log.kept[2] = log.row(3)._replace(body=b"{}")
    entries = read_front(log, ((1, log.head),))

    assert [entry.seq for entry in entries] == [1, 2, *range(4, FRONT + 2)]


@pytest.mark.parametrize("lost", [False, True])
def test_what_is_known_of_a_front_is_forgotten_when_its_entry_is(lost: bool) -> None:
    log = talk(FRONT)
    front = read_source(log, log.state, FEW, system=None).front
    if lost:
        log.kept[0] = None
    again = read_source(log, log.state, FEW, system=None, front=front).front

    assert [line.seq for line in front.systems] == [1]
    assert [line.seq for line in again.systems] == ([] if lost else [1])
    assert (again is front) is not lost


@pytest.mark.parametrize(
    ("first", "second", "scale"),
    [
        ({"input": 1_000}, {"input": 3_000}, 2 * EXACT),
        ({"input": 1_000}, {"input": 1_001}, EXACT // 2),
        ({"input": 1_000}, {"input": 90_000}, 3 * EXACT),
        ({"input": 3_000}, {"input": 1_000}, EXACT),
        ({"input": 1_000}, None, EXACT),
    ],
)
def test_a_front_tells_how_the_provider_counts(
    first: dict[str, int], second: dict[str, int] | None, scale: int
) -> None:
    log = MemoryLog()
    log.do("append", message=Message.user("a"))
    log.do("append", message=Message.assistant("b"), usage=first)
    log.do("append", message=Message.user("x" * 997))
    log.do("append", message=Message.assistant("d"), usage=second)
    entries = read_front(log, ((1, 4),))

    assert scale_of(entries) == scale
    assert front_of(entries, Limits(calibrated=False)).scale == EXACT


def test_a_usage_in_somebodys_own_shape_is_no_help_and_no_harm() -> None:
    log = talk(1)
    log.do("append", message=Message.user("x" * 997), usage={"input": 1_000})
    entries = read_front(log, ((1, log.head),))

    assert scale_of([*entries, replace(entries[-1], usage=b'{"of our own": 3}'), entries[-1]]) == EXACT
