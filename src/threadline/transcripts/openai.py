"""A conversation as OpenAI's Chat Completions take it: `{"model": …, "messages": […]}` in one JSON file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from threadline import Session, Store
from threadline.transcripts import conversations
from threadline.transcripts.desk import Desk
from threadline.transcripts.masking import Mask
from threadline.transcripts.sources import Source

NAME = "openai"


def claims(source: Source) -> bool:
    return conversations.claims(source, NAME)


def bring(source: Source, desk: Desk) -> None:
    conversations.bring(source, desk, NAME)


def pieces(what: Store | Iterable[Session], mask: Mask) -> Iterator[bytes]:
    return conversations.pieces(what, mask, NAME)
