"""The inbox of a session: messages that wait to enter its log."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from threadline.core import codec
from threadline.core.digest import identity
from threadline.core.entries import message_draft, moment, text_or_none
from threadline.core.ops import Append
from threadline.messages import Message


class Queued(Struct, frozen=True):
    """A message in the inbox, and when it came."""

    message: Message
    key: str | None
    at: datetime

    @property
    def text(self) -> str:
        return self.message.text


class Letter(NamedTuple):
    """A message in the inbox as a backend keeps it. With a `key` it enters the log once, ever."""

    at: int
    tokens: int
    key: bytes | None
    body: bytes

    def queued(self) -> Queued:
        return Queued(codec.decode_message(self.body), text_or_none(self.key), moment(self.at))

    def append(self, at: int) -> Append:
        """The op that takes it into the log at `at`. Its entry keeps the time when the message came, and its key: an
        append of the same message with the same key is the same call."""
        message = codec.decode_message(self.body)
        draft = message_draft(message, self.at, self.tokens, self.key)
        return Append(at=at, key=self.key, identity=self.identity(message), entries=(draft,))

    def identity(self, message: Message | None = None) -> bytes:
        return identity(b"append", codec.canonical(message or codec.decode_message(self.body)))


def letter(op: Append) -> Letter:
    """What `Pen.append` made of one message, to be taken later."""
    (draft,) = op.entries
    return Letter(draft.at, draft.tokens, draft.key, draft.body)
