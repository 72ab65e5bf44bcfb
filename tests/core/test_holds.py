"""Who may write, decided from values alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.core.holds import Hold, check, decode, encode, taken
from threadline.errors import Damaged, LeaseHeld, LeaseLost
from threadline.testing import strategies

LIVE, OVER = Hold(3, 100, "worker"), Hold(3, 50, "worker")
NOW = 50  # a lease that ends now is over


@given(st.integers(1), st.integers(0), strategies.texts())
def test_a_lease_comes_back_as_it_was_written(token: int, until: int, holder: str) -> None:
    hold = Hold(token, until, holder)

    assert decode(encode(hold)) == hold


@given(st.data())
def test_a_flipped_bit_is_found(data: st.DataObject) -> None:
    held = bytearray(encode(LIVE))
    bit = data.draw(st.integers(0, len(held) * 8 - 1))
    held[bit // 8] ^= 1 << bit % 8

    with pytest.raises(Damaged):
        decode(bytes(held))


@pytest.mark.parametrize(
    ("hold", "token", "error"),
    [
        (None, None, None),
        (OVER, None, None),
        (LIVE, 3, None),
        (LIVE, None, LeaseHeld),
        (LIVE, 2, LeaseLost),
        (LIVE, 4, LeaseLost),
        (OVER, 3, LeaseLost),
        (None, 1, LeaseLost),
    ],
)
def test_who_may_write(hold: Hold | None, token: int | None, error: type[Exception] | None) -> None:
    if error is None:
        check(hold, token, NOW, "s")
    else:
        with pytest.raises(error):
            check(hold, token, NOW, "s")


def test_a_token_is_never_given_twice() -> None:
    first = taken(None, "a", 10, 5)
    second = taken(first, "b", 15, 5)

    assert (first, second) == (Hold(1, 15, "a"), Hold(2, 20, "b"))
    with pytest.raises(LeaseHeld):
        taken(second, "a", 19, 5)
