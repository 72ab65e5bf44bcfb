"""Our own neutral form: a role, parts by the names of their types, and meta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadline.core import codec
from threadline.errors import InvalidMessage
from threadline.formats.naming import AsGiven, Names
from threadline.messages import Message

NAME = "threadline"


def read(raw: dict[str, Any], place: str = "message") -> Message:
    """A message from our own form. Raises InvalidMessage unless it can be stored and comes back as it is."""
    try:
        message = codec.message_of(raw, place)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidMessage):
            raise
        raise InvalidMessage(place, f"is not in the form of threadline: {error}") from error
    codec.check_message(message, place)
    return message


def names() -> Names:
    return AsGiven()


def write(messages: Sequence[Message], names: Names) -> list[dict[str, Any]]:
    return [{"role": message.role, "parts": [], **codec.decode(codec.encode(message))} for message in messages]


def problems(dicts: Sequence[Any]) -> list[str]:
    """What we could not store. The conversation may be any: our log refuses nothing that can be said."""
    found = []
    for at, raw in enumerate(dicts):
        try:
            read(raw, f"messages[{at}]")
        except InvalidMessage as error:
            found.append(str(error))
    return found
