"""A tombstone is bound to its place: none is forged by a flipped bit, none is moved."""

from __future__ import annotations

import pytest

from threadline.core.tombstones import MARK, SEAL, Tombstone, decipher, engrave, hidden
from threadline.errors import Damaged
from threadline.messages import Message

FACTS = (3, b"message", 7, 0, None, None, b"digest")
STONE = Tombstone("a secret", 9, Message.user("[redacted]"), {"n": 1})


@pytest.mark.parametrize("stone", [STONE, Tombstone("why", 1)])
def test_it_says_what_was_engraved(stone: Tombstone) -> None:
    body = engrave(FACTS, stone)

    assert body.startswith(MARK)
    assert decipher(FACTS, body) == stone


def test_every_flipped_bit_is_damage() -> None:
    body = engrave(FACTS, STONE)
    for bit in range(8, len(body) * 8):
        other = bytearray(body)
        other[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged, match="seal"):
            decipher(FACTS, bytes(other))


def test_at_another_entry_it_is_damage() -> None:
    body = engrave(FACTS, STONE)
    for n in range(len(FACTS)):
        with pytest.raises(Damaged, match="seal"):
            decipher((*FACTS[:n], b"else", *FACTS[n + 1 :]), body)


def test_a_hidden_key_is_known_again_and_not_read() -> None:
    assert hidden(b"key") == hidden(b"key") != hidden(b"other")
    assert b"key" not in hidden(b"key")
    assert len(hidden(b"k" * 500)) == 17
    assert SEAL == 8  # a stored tombstone is read by it
