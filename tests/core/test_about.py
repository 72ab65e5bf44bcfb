"""What is said of a session, as it is stored."""

from __future__ import annotations

import pytest

from threadline.core.about import DAMAGED, About, decode, unopened
from threadline.core.codec import encode

WHOLE = About(title="t", titled_by="person", cwd="/tmp/\ud800", preview="words", preview_seq=3, preview_role="user")


def test_it_comes_back_as_it_was_also_with_half_a_character() -> None:
    assert decode(encode(WHOLE)) == WHOLE


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"depth": "x"}', b"\xff"], ids=repr)
def test_what_cannot_be_read_says_so_and_raises_nothing(body: bytes) -> None:
    assert decode(body) == DAMAGED


def test_without_its_opening_words_all_else_is_kept() -> None:
    assert unopened(WHOLE) == About(title="t", titled_by="person", cwd="/tmp/\ud800")
