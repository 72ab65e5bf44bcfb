"""A page of sessions is checked all at once, and finds what a look at each row finds."""

from __future__ import annotations

from typing import Any

import pytest

from threadline.backends.sqlite.sessions import HEAD_TYPES, _record, _well_typed, record_of
from threadline.errors import Damaged

ROW = (1, b"x1", None, b"{}", 0, 10, 20, 0, None, 5, b"chain", *range(8))
COLUMNS = [*range(5, 8), *range(9, len(ROW))]


@pytest.mark.parametrize("wrong", [1.0, "1", b"1", None, 7], ids=repr)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_of_another_type_is_noticed(column: int, wrong: Any) -> None:
    row = (*ROW[:column], wrong, *ROW[column + 1 :])
    as_it_was = type(wrong) is type(ROW[column])

    assert _well_typed([ROW, row, ROW]) == as_it_was
    assert len(COLUMNS) == len(HEAD_TYPES)
    if not as_it_was:
        with pytest.raises(Damaged, match="head row"):
            record_of(row)


def test_what_is_well_typed_is_the_same_record() -> None:
    assert _record(ROW, ()) == record_of(ROW)
