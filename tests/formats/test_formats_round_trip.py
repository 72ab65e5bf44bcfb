"""What is read from a format comes out of it again as it went in, also after it was stored."""

from __future__ import annotations

from copy import deepcopy

import pytest
from provider_fixtures import CASES, FIXTURES, PROVIDERS

from threadline import InvalidArgument, Message, Text, formats
from threadline.core import codec

AMBIGUOUS = ("plain text", "a whole response", "unknown things")
PROVIDER_CASES = [case for case in CASES if case[0] in PROVIDERS]


@pytest.mark.parametrize(("format", "name"), CASES)
def test_what_a_provider_accepts_comes_out_as_it_went_in(format: str, name: str) -> None:
    given = FIXTURES[format][name]

    assert formats.write(formats.read(given, format), format) == given


@pytest.mark.parametrize(("format", "name"), CASES)
def test_it_does_so_after_it_was_stored(format: str, name: str) -> None:
    given = FIXTURES[format][name]
    messages = formats.read(given, format)
    for message in messages:
        codec.check_message(message)

    stored = [codec.decode_message(codec.encode(message)) for message in messages]

    assert stored == messages
    assert formats.write(stored, format) == given


@pytest.mark.parametrize(("format", "name"), CASES)
def test_one_dict_is_one_message(format: str, name: str) -> None:
    given = FIXTURES[format][name]

    assert [formats.write([message], format) for message in formats.read(given, format)] == [
        formats.write(formats.read([raw], format), format) for raw in given
    ]


@pytest.mark.parametrize(("format", "name"), PROVIDER_CASES)
def test_the_fixtures_are_legal(format: str, name: str) -> None:
    assert formats.problems(FIXTURES[format][name], format) == []


@pytest.mark.parametrize("target", PROVIDERS)
@pytest.mark.parametrize(("format", "name"), PROVIDER_CASES)
def test_a_legal_conversation_is_legal_for_every_other_provider(format: str, name: str, target: str) -> None:
    written = formats.write(formats.read(FIXTURES[format][name], format), target)

    assert formats.problems(written, target) == []
    assert formats.write(formats.read(written, target), target) == written


@pytest.mark.parametrize(("format", "name"), [case for case in CASES if case[1] not in AMBIGUOUS])
def test_the_format_is_guessed_from_all_the_messages(format: str, name: str) -> None:
    """One dict may be several providers'; a conversation with calls, media or a role of its own is only one's."""
    given = FIXTURES[format][name]

    assert formats.write(formats.read(given), format) == given


@pytest.mark.parametrize(("format", "name"), PROVIDER_CASES)
def test_reading_and_writing_leave_what_they_are_given_alone(format: str, name: str) -> None:
    given = deepcopy(FIXTURES[format][name])
    messages = formats.read(given, format)
    before = deepcopy(messages)
    for target in formats.FORMATS:
        formats.write(messages, target)

    assert given == FIXTURES[format][name]
    assert messages == before


@pytest.mark.parametrize(("format", "name"), PROVIDER_CASES)
def test_few_messages_have_to_keep_their_raw_dict(format: str, name: str) -> None:
    """It costs the content twice; what providers commonly say must not need it."""
    messages = formats.read(FIXTURES[format][name], format)
    kept = [message for message in messages if "raw" in message.meta.get(format, {})]

    assert len(kept) <= len(messages) / 2, kept


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_messages_of_a_role_and_a_text_need_no_format(role: str) -> None:
    """They look the same in three formats, so nothing tells which one it is."""
    assert formats.read([{"role": role, "content": "hi"}]) == [Message(role, [Text("hi")])]


def test_an_unknown_format_is_refused_however_little_is_read() -> None:
    with pytest.raises(InvalidArgument, match="fax"):
        formats.read([], "fax")
