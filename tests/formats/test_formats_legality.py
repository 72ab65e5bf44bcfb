"""Any conversation that one provider accepts comes out of its format as it is, and legal for every other."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from provider_fixtures import PROVIDERS
from provider_strategies import CONVERSATIONS

from threadline import formats
from threadline.core import codec
from threadline.testing import scaled

thoroughly = settings(max_examples=scaled(40), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("format", PROVIDERS)
@thoroughly
@given(data=st.data())
def test_a_legal_conversation_goes_through_every_format(format: str, data: st.DataObject) -> None:
    given = data.draw(CONVERSATIONS[format]())
    assert formats.problems(given, format) == []
    messages = formats.read(given, format)
    stored = [codec.decode_message(codec.encode(message)) for message in messages]

    assert stored == messages
    assert formats.write(stored, format) == given
    for target in PROVIDERS:
        written = formats.write(messages, target)
        assert formats.problems(written, target) == [], target
        assert formats.write(formats.read(written, target), target) == written, target


@pytest.mark.parametrize("format", PROVIDERS)
@thoroughly
@given(data=st.data())
def test_calls_stay_paired_and_no_words_are_lost(format: str, data: st.DataObject) -> None:
    messages = formats.read(data.draw(CONVERSATIONS[format]()), format)
    words = sorted(part.text for m in messages if m.role == "user" for part in m.parts if hasattr(part, "text"))
    calls = sum(len(message.calls) for message in messages)
    for target in PROVIDERS:
        again = formats.read(formats.write(messages, target), target)
        said = [part.text for m in again if m.role == "user" for part in m.parts if hasattr(part, "text")]

        assert sum(len(message.calls) for message in again) == calls
        assert sum(len(message.results) for message in again) == calls
        assert not [word for word in set(words) if said.count(word) < words.count(word)], target


@pytest.mark.parametrize("format", PROVIDERS)
@thoroughly
@given(data=st.data())
def test_a_longer_conversation_begins_with_the_same_dicts(format: str, data: st.DataObject) -> None:
    """Or the provider's prompt cache would not hold."""
    messages = formats.read(data.draw(CONVERSATIONS[format]()), format)
    ends = [n for n, message in enumerate(messages) if message.role == "user" and not message.results]
    cut = data.draw(st.sampled_from(ends))
    answered = {result.call_id for message in messages[:cut] for result in message.results}
    if any(call.id not in answered for message in messages[:cut] for call in message.calls):
        return
    if all(message.role == "assistant" for message in messages[:cut]):  # nobody answered yet: no conversation
        return
    for target in PROVIDERS:
        short, long = formats.write(messages[:cut], target), formats.write(messages, target)

        if target != "anthropic":  # a system message there stands by what comes behind it
            assert long[: len(short)] == short
