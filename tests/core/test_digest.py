"""Digests: different content never reads alike, and equal calls are equal whatever the order of their keys."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from threadline import Message
from threadline.core.codec import encode
from threadline.core.digest import SIZE, entry_digest, identity, link, seal
from threadline.pen import Pen
from threadline.testing import scaled, strategies

many = settings(max_examples=scaled(300))

# Few pieces, with the digests' own punctuation among them: what could be mistaken for something else comes often.
bits = st.lists(st.sampled_from([b"", b"0", b"1", b"|", b":", b"-", b"1:0", b"|||"]), max_size=4).map(b"".join)
kinds = st.sampled_from(["note", "message", "note|1", "1|1", "|", "note|1|1||"])
objects = st.dictionaries(st.sampled_from(["a", "|1|1|||{", '"']), st.sampled_from(["", "|", {}, 1]), max_size=2)
contents = st.tuples(
    kinds, st.integers(0, 2), st.none() | bits, st.integers(0, 2), st.none() | bits, objects.map(encode)
)


@many
@given(contents, contents)
def test_entries_of_different_content_have_different_digests(a: tuple[Any, ...], b: tuple[Any, ...]) -> None:
    assert (entry_digest(*a) == entry_digest(*b)) == (a == b)


@many
@given(contents, st.data())
def test_changing_any_one_thing_changes_the_digest(content: tuple[Any, ...], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(contents)[i]

    changed = (*content[:i], other, *content[i + 1 :])

    assert (entry_digest(*changed) == entry_digest(*content)) == (other == content[i])


@given(st.binary(min_size=SIZE, max_size=SIZE), st.integers(1, 2**40), st.binary(min_size=SIZE, max_size=SIZE))
def test_the_chain_depends_on_what_came_before_on_the_place_and_on_the_entry(
    chain: bytes, seq: int, digest: bytes
) -> None:
    here = link(chain, seq, digest)
    other = bytes(SIZE - 1) + b"\1"

    assert len(here) == SIZE
    assert len({here, link(other, seq, digest), link(chain, seq + 1, digest), link(chain, seq, other)}) >= 3


rows = st.lists(st.none() | st.integers(-1, 12) | bits, max_size=4)


@many
@given(rows, rows)
def test_rows_of_different_columns_have_different_seals(a: list[Any], b: list[Any]) -> None:
    assert (seal(*a) == seal(*b)) == (a == b)


calls = st.lists(bits, max_size=4)


@many
@given(calls, calls)
def test_calls_of_different_content_have_different_identities(a: list[bytes], b: list[bytes]) -> None:
    assert (identity(*a) == identity(*b)) == (a == b)


@given(strategies.json_objects())
def test_a_call_is_the_same_whatever_the_order_of_its_keys(meta: dict[str, Any]) -> None:
    pen = Pen()
    backwards = dict(reversed(meta.items()))

    assert pen.note(meta, key="k").identity == pen.note(backwards, key="k").identity
    said, same = Message("user", (), meta), Message("user", (), backwards)
    assert pen.append((said,), key="k").identity == pen.append((same,), key="k").identity


@given(strategies.messages(), strategies.messages())
def test_an_append_is_told_from_another_by_its_messages_and_their_order(a: Message, b: Message) -> None:
    pen = Pen()

    assert (pen.append((a, b), key="k").identity == pen.append((b, a), key="k").identity) == (encode(a) == encode(b))
    assert pen.append((a, b), key="k").identity != pen.append((a,), key="k").identity


def test_what_earlier_versions_stored_is_still_what_was_written() -> None:
    """These stand in stores that exist: another way to compute them finds damage in every one."""
    plain = entry_digest("message", 1_767_225_600_000_000, None, 7, None, b"{}")
    full = entry_digest("note", 5, b"key", 0, b"{}", b"[]")

    assert plain.hex() == "02196c5f51cffa0d58b06c17552fa532181b6321"
    assert full.hex() == "89a3e6fa2e43e873ab34f63f3934e1cc805d7a36"
    assert link(bytes(16), 3, plain).hex() == "702d870413775c47c8427b7c5d89e42b"
    assert seal(1, None, b"name").hex() == "a7391523a37f2e65"
    assert identity(b"one", b"").hex() == "3a0e25629280d3a89131932de39b5b41"
