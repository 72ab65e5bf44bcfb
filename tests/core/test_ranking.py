"""Whether a text has what a question asks for."""

from __future__ import annotations

import pytest

from threadline.core.questions import Unit
from threadline.core.ranking import has

TERMS = ["the", "quick", "brown", "fox", "and", "the", "slow", "brown", "bear"]


@pytest.mark.parametrize(
    ("unit", "there"),
    [
        (Unit(("fox",)), True),
        (Unit(("cat",)), False),
        (Unit(("quick", "brown", "fox")), True),
        (Unit(("brown", "quick")), False),
        (Unit(("slow", "fox")), False),
        (Unit(("bro",)), False),
        (Unit(("bro",), begins=True), True),
        (Unit(("quick", "bro"), begins=True), True),
        (Unit(("fox", "bro"), begins=True), False),
    ],
    ids=repr,
)
def test_a_unit_is_there_where_its_terms_stand_side_by_side(unit: Unit, there: bool) -> None:
    assert has(unit, TERMS) is there
