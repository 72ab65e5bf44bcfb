"""Cutting large strings out of a body and putting them back."""

from __future__ import annotations

from pathlib import Path
from random import Random

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import threadline
from threadline import Damaged, Message, ToolCall, ToolResult, transcripts
from threadline.backends.blobs import (
    LARGE_BYTES,
    MARK,
    SQUEEZED,
    compress,
    decompress,
    name_of,
    pack,
    packed,
    squeeze,
    unpack,
    unsqueeze,
)
from threadline.backends.sqlite.transactions import SQUEEZE_BYTES
from threadline.core import codec
from threadline.testing.strategies import json_values

TEXTS = st.text(max_size=12).map(lambda text: text * 700) | st.text(max_size=4)


@settings(suppress_health_check=[HealthCheck.too_slow])  # large texts, on a machine that does other things, too
@given(st.recursive(TEXTS | json_values(3), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_a_packed_body_unpacks_to_the_same_bytes(value: object) -> None:
    body = codec.encode({"value": value})
    stored, blobs = pack(body)

    assert all(len(content) >= LARGE_BYTES and name_of(content) == name for name, content in blobs.items())
    assert stored == body if not blobs else unpack(packed(stored), blobs) == body
    assert stored.startswith(MARK) == bool(blobs)
    assert all(decompress(compress(content)) == content for content in blobs.values())


def test_a_body_is_cut_only_at_whole_strings() -> None:
    text = 'a "quote" and a \\ at the end \\' * 400
    body = codec.encode([text, "short", text])
    stored, blobs = pack(body)

    assert list(blobs.values()) == [codec.encode(text)[1:-1]]
    assert packed(stored).rest == b'["","short",""]'


@given(json_values(3))
def test_a_squeezed_body_is_the_same_bytes_again(value: object) -> None:
    body = codec.encode({"value": value, "said": "again and again " * 40})

    assert squeeze(body)[:1] == SQUEEZED
    assert unsqueeze(squeeze(body)) == body


def test_what_squeezing_would_not_make_smaller_stays_as_it_is() -> None:
    body = Random(7).randbytes(600)

    assert squeeze(body) == body


def test_what_tools_say_is_squeezed_and_what_people_say_is_not(path: Path) -> None:
    said = "a line of output\n" * 50
    messages = [
        Message.user(said),
        Message.assistant("I look.", ToolCall("c", "edit", {"old": said})),
        Message.tool("c", said),
        Message.assistant(said),
        Message.tool("d", "short"),
    ]
    with threadline.open(path) as store:
        session = store.new()
        session.extend(messages)
        for message in messages:
            session.append(message)
        read = session.messages()
        problems = store.verify().problems
    marks = [body[:1] for (body,) in rows(path, "SELECT body FROM entry ORDER BY seq")]

    assert read == messages * 2
    assert marks == [b"{", SQUEEZED, SQUEEZED, b"{", b"{"] * 2
    assert problems == []


def test_a_squeezed_body_that_was_damaged_is_named_and_the_rest_is_read(path: Path) -> None:
    with threadline.open(path) as store:
        store.new(id="s").extend(["before", Message.tool("c", "the same again " * 60), "after"])
    rows(path, "UPDATE entry SET body = substr(body, 1, 30) WHERE seq = 2")
    with threadline.open(path) as store:
        view = store.get("s").view()
        problems = store.verify().problems

    assert [message.text for message in view.messages] == ["before", "after"]
    assert view.damaged == (2,)
    assert [problem.seq for problem in problems] == [2]


def test_a_large_tombstone_stays_one_when_it_moves(path: Path, tmp_path: Path) -> None:
    answers = tuple(ToolResult(f"call_{n}", "a secret") for n in range(40))
    with threadline.open(path) as store, threadline.open(tmp_path / "other.db") as other:
        session = store.new(id="s")
        session.append(Message("tool", answers))
        session.redact(1, "it was a secret")
        transcripts.write(store, tmp_path / "all.jsonl", "jsonl", raw=True)
        transcripts.read(tmp_path / "all.jsonl", store=other)

        assert len(rows(path, "SELECT body FROM entry")[0][0]) >= SQUEEZE_BYTES
        assert other.get("s").entry(1).redacted == "it was a secret"
        assert other.verify().problems == []


def rows(path: Path, statement: str) -> list[tuple[bytes]]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_what_we_never_wrote_is_damage() -> None:
    with pytest.raises(Damaged):
        packed(MARK + b"nonsense")
    with pytest.raises(Damaged):
        decompress(b"nonsense")
    with pytest.raises(Damaged):
        unsqueeze(SQUEEZED + b"nonsense")
    with pytest.raises(Damaged):
        unpack(packed(pack(codec.encode("x" * LARGE_BYTES))[0]), {})


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("UPDATE blob SET content = x'00'", "cannot be unpacked"),
        ("UPDATE blob SET size = size + 1", "does not match its name"),
        ("DELETE FROM blob", "is missing"),
        ("DELETE FROM blob_use", "no entry uses"),
        ("UPDATE blob_use SET seq = 7", "does not exist"),
    ],
)
def test_damage_of_a_blob_is_found_and_named(path: Path, damage: str, what: str) -> None:
    with threadline.open(path) as store:
        session = store.new()
        session.extend(["before", Message.tool("c", "x" * 10_000), "after"])
    connection = apsw.Connection(str(path))
    connection.execute(damage)
    connection.close()
    with threadline.open(path) as store:
        report = store.verify()

        assert any(what in problem.what for problem in report.problems)


def test_an_entry_whose_blob_is_lost_is_named_and_the_rest_is_read(path: Path) -> None:
    with threadline.open(path) as store:
        store.new(id="s").extend(["before", Message.tool("c", "x" * 10_000), "after"])
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM blob")
    connection.close()
    with threadline.open(path) as store:
        view = store.get("s").view()

        assert [message.text for message in view.messages] == ["before", "after"]
        assert view.damaged == (2,)
