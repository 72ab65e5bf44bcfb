"""What is asked of an index, and what it answers: values that the backends and the store hand to each other."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from threadline.messages import Message

MARKS = ("**", "**")  # around the words that were asked for


class Search(Struct, frozen=True):
    """A question to a store. Times are microseconds; `session` is a number."""

    text: str
    namespace: str
    session: int | None = None
    tree: bytes | None = None  # of that session
    role: str | None = None
    agent: str | None = None
    cwd: str | None = None
    since: int | None = None
    until: int | None = None
    trashed: bool = False
    group: bool = False
    limit: int = 20
    around: int = 1
    marks: tuple[str, str] = MARKS
    unindexed: bool = False  # what the index lacks is read, because nobody may bring it up to date


class Indexing(NamedTuple):
    """How far the index is: `done` of `total` rows, and whether some titles changed that it does not know yet."""

    done: int
    total: int
    retitled: bool = False

    @property
    def left(self) -> bool:
        return self.missing > 0 or self.retitled

    @property
    def missing(self) -> int:
        return max(0, self.total - self.done)


class Answer(Struct, frozen=True):
    """An entry that answers a question, as a backend knows it; seq 0 is the title."""

    session: int
    seq: int
    at: datetime
    role: str
    snippet: str
    score: float
    matches: int
    hidden: bool
    before: tuple[Message, ...]
    after: tuple[Message, ...]
