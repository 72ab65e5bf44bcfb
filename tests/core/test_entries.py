"""Entries as they are stored: times and text."""

from __future__ import annotations

from typing import Any

import pytest

from threadline.core.entries import micros, moment
from threadline.errors import Damaged


@pytest.mark.parametrize("stored", [2**62, -(2**62), "1", b"1", None], ids=repr)
def test_a_time_that_no_clock_said_is_damage(stored: Any) -> None:
    with pytest.raises(Damaged, match="a time"):
        moment(stored)


def test_a_time_comes_back_to_the_microsecond() -> None:
    assert micros(moment(1_767_225_600_123_456)) == 1_767_225_600_123_456
