"""Messages that are still streaming, as a backend keeps them until they are entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from threadline.core.ops import Op


class NewStream(NamedTuple):
    """A stream to be opened. `number` is drawn at random, so that none ever comes back as another one."""

    number: int
    at: int
    role: str
    key: str | None


class Stream(NamedTuple):
    """A stream as far as it is on disk. `live` while the process that writes it has its store open."""

    number: int
    at: int
    role: str
    key: str | None
    text: str
    live: bool


class Chunk(NamedTuple):
    """The next piece of a stream; numbers count from 1. The same number again takes the place of the first.

    `tree` is that of the session, for backends that keep a tree in one place."""

    tree: bytes
    stream: int
    number: int
    text: str


class Settling(NamedTuple):
    """Which streams end and what is written for them: those of `numbers`, or every one whose writer is gone (None).

    `own`: the caller is the writer. Nobody else may end a stream while its writer lives."""

    numbers: tuple[int, ...] | None
    ops: Callable[[Sequence[Stream]], Sequence[Op]]
    own: bool = False
