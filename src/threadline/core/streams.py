"""Messages that are still streaming, as a backend keeps them until they are entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from threadline.core.ops import Op
from threadline.errors import Conflict, NotFound


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

    def chosen(self, streams: Sequence[Stream]) -> list[Stream]:
        """Those of a session's streams that end. Raises NotFound if one is not there, Conflict if its writer lives."""
        if self.numbers is None:
            return [stream for stream in streams if not stream.live]
        found = {stream.number: stream for stream in streams}
        return [self._ending(found.get(number)) for number in self.numbers]

    def _ending(self, stream: Stream | None) -> Stream:
        if stream is None:
            raise NotFound(
                "draft", "any more", "it was kept or dropped meanwhile: session.drafts lists those that are left"
            )
        if stream.live and not self.own:
            raise Conflict("this draft is still being written: only its writer may end it while it lives")
        return stream
