"""Entries as they are stored: times and text."""

from __future__ import annotations

from typing import Any

import pytest

from threadline.core.entries import data_draft, micros, moment, text_or_none
from threadline.core.redaction import redacted
from threadline.errors import Damaged
from threadline.messages import Message
from threadline.testing.memory import MemoryLog


@pytest.mark.parametrize("stored", [2**62, -(2**62), "1", b"1", None], ids=repr)
def test_a_time_that_no_clock_said_is_damage(stored: Any) -> None:
    with pytest.raises(Damaged, match="a time"):
        moment(stored)


def test_a_time_comes_back_to_the_microsecond() -> None:
    assert micros(moment(1_767_225_600_123_456)) == 1_767_225_600_123_456


@pytest.mark.parametrize("column", ["kind", "at", "tokens", "body"])
def test_a_column_of_another_type_is_damage(column: str) -> None:
    log = MemoryLog()
    log.do("append", message=Message.user("words"))
    row = log.row(1)._replace(**{column: None})

    assert not row.looks_whole()
    with pytest.raises(Damaged, match="a column"):
        row.check("s")
    with pytest.raises(Damaged):
        row.entry("s")


def test_a_tombstone_beside_a_column_of_another_type_is_damage() -> None:
    log = MemoryLog()
    log.do("append", message=Message.user("words"))
    (buried,) = redacted(log, log.row(1), [], "a secret", 1)

    assert buried.entry("s").redacted == "a secret"
    with pytest.raises(Damaged, match="a column"):
        buried._replace(at="then").entry("s")


def test_what_a_call_cost_is_stored_where_it_was_told_and_nothing_where_not() -> None:
    told, not_told = (data_draft("note", {"n": 1}, at=1, usage=usage) for usage in ({"input": 3}, None))

    assert (told.usage, not_told.usage) == (b'{"input":3}', None)
    assert told.digest != not_told.digest


def test_text_that_is_not_there_is_none_and_not_empty() -> None:
    assert [text_or_none(stored) for stored in (None, b"", b"words")] == [None, "", "words"]
