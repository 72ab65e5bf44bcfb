"""Drafts: messages that are durable while they stream.

What is written gathers in memory for a moment and is then added to the store as a chunk: when 4 KiB have gathered, or
after a fifth of a second, whichever comes first. A thread of the store sees to the second, so that a stream that
stalls is stored, too; it flushes all drafts of the store in one transaction. `finish` makes one entry of it all."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING, Literal

from threadline.core.entries import Entry, moment
from threadline.core.ops import Op
from threadline.core.streams import Chunk, NewStream, Settling, Stream
from threadline.core.usage import UsageLike
from threadline.errors import Closed, Conflict, InvalidArgument, ThreadlineError
from threadline.messages import Message, Text
from threadline.pen import MessageLike, check_name

if TYPE_CHECKING:
    from threadline.backends.backend import Backend, Ref
    from threadline.leases import Holding
    from threadline.session import Session

BEHIND_BYTES = 4 * 1024  # what a crash may take away
FLUSH_S = 0.2  # a quarter of a second is promised: this leaves time for the sync
IDLE_S = 5.0  # the thread ends when nothing streamed for so long


class DraftWriter:
    """A message while it streams. Made by `Session.draft`; `id` is that of the draft in `Session.drafts`.

    The end of a `with` block finishes it, if `finish` did not. An exception leaves it as an interrupted draft."""

    def __init__(self, session: Session, role: str, key: str | None, lease: Holding | None) -> None:
        if not isinstance(role, str) or not role:
            raise InvalidArgument(f"a role is a non-empty string, not {role!r}")
        self._session = session
        self._role = role
        self._key = None if key is None else check_name(key, "key")
        self._lease = lease
        self._flusher = session._store._flusher
        self._mutex = threading.Lock()  # over what gathers; never held while anything is stored
        self._turn = threading.Lock()  # over storing: chunks come to the disk in their order
        self._texts: list[str] = []  # all that was written
        self._stored = 0  # how many of them are in chunks
        self._chunks = 0
        self._behind = 0
        self._error: ThreadlineError | None = None
        self._over = ""
        self._pid = os.getpid()
        self.id = int.from_bytes(urandom(7), "big") + 1
        new = NewStream(self.id, session._pen.now(), role, self._key)
        self._ref: Ref = session._begin_stream(new, lease)

    def __repr__(self) -> str:
        return f"<DraftWriter of {sum(map(len, self._texts))} characters{', ' + self._over if self._over else ''}>"

    @property
    def text(self) -> str:
        """All that was written so far."""
        return "".join(self._texts)

    def write(self, text: str) -> None:
        """Add to the message. It is on disk a quarter of a second later at the latest.

        Raises what kept an earlier piece from being stored; then nothing is added."""
        if self.add(text):
            self.flush()

    def add(self, text: str) -> bool:
        """Add to the message, storing nothing yet; whether so much has gathered that it must be flushed now."""
        if not isinstance(text, str):
            raise InvalidArgument(f"a draft is written in text, not {type(text).__name__}")
        self._must_be_open()
        with self._mutex:
            if self._error is not None:
                raise self._error
            first = not self._behind
            self._texts.append(text)
            self._behind += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            full = self._behind >= BEHIND_BYTES
        if first and text and not full:
            self._flusher.soon(self)
        return full

    def flush(self) -> None:
        """Store what has gathered, now."""
        self._flusher.flush((self,), wait=True)
        if self._error is not None:
            raise self._error

    def finish(self, message: MessageLike | None = None, usage: UsageLike | None = None) -> Entry:
        """Make it one entry: the given message, complete with calls and reasoning, or else the text as it was written.

        With the `key` of the draft the same message is an entry once, as for `append`."""
        self._must_be_open()
        said = Message(self._role, (Text(self.text),) if self.text else ()) if message is None else message
        (op,) = self._session._charged([self._session._pen.append((said,), self._key, usage)])
        with self._turn:
            written = self._session._settle(
                self._ref, Settling((self.id,), lambda _: (op,), own=True), lease=self._lease
            )
            self._over = "finished"
        return written[0][0]

    def drop(self) -> None:
        """Give it up: nothing of it is kept."""
        self._must_be_open()
        with self._turn:
            self._session._settle(self._ref, Settling((self.id,), lambda _: (), own=True))
            self._over = "dropped"

    def let_go(self) -> None:
        """Store what was written and leave it as an interrupted draft, for `keep` or `drop`."""
        self._must_be_open()
        with self._turn:
            self._flusher.backend.let_go(self._gathered()[0])
            self._over = "interrupted"

    def __enter__(self) -> DraftWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> Literal[False]:
        if not self._over and self._pid == os.getpid():  # in a forked child the block ends, too: it is not its own
            if kind is not None:
                with suppress(Closed):  # then the store has seen to it
                    self.let_go()
            elif self._texts:
                self.finish()
            else:
                self.drop()
        return False

    def _must_be_open(self) -> None:
        if self._over:
            raise Conflict(f"this draft is {self._over}: session.draft() begins another one")
        if self._pid != os.getpid():
            raise Conflict("this draft belongs to the process that began it: begin another one with session.draft()")

    # -- what the flusher does with it -----------------------------------------------------------------

    def _gathered(self) -> tuple[Chunk, int, int]:
        """What has gathered since the last chunk, up to which piece, and how many bytes. The caller has the turn."""
        with self._mutex:
            pieces = self._texts[self._stored :]
            return Chunk(self._ref.tree, self.id, self._chunks + 1, "".join(pieces)), len(self._texts), self._behind

    def _is_stored(self, upto: int, size: int) -> None:
        with self._mutex:
            self._chunks += 1
            self._stored = upto
            self._behind -= size
            self._error = None
            more = self._behind > 0
        if more:
            self._flusher.soon(self)

    def _is_not_stored(self, error: ThreadlineError) -> None:
        with self._mutex:
            self._error = error


class Draft:
    """A message that streams, or streamed until its writer was gone; not in the view until it is kept."""

    def __init__(self, session: Session, ref: Ref, stream: Stream) -> None:
        self._session = session
        self._ref = ref
        self.id = stream.number
        self.role = stream.role
        self.key = stream.key
        self.at: datetime = moment(stream.at)
        self.text = stream.text
        self.interrupted = not stream.live

    def __repr__(self) -> str:
        return f"<Draft of {len(self.text)} characters{', interrupted' if self.interrupted else ''}>"

    def keep(self, *, expect: int | None = None, at: datetime | None = None, lease: Holding | None = None) -> Entry:
        """Make an entry of the text as far as it came, with `meta["interrupted"]`. Raises Conflict if its writer lives.

        The key of the draft stays free: the call that it names never came to its end."""

        def ops(streams: Sequence[Stream]) -> Sequence[Op]:
            return [self._session._pen.append((kept_message(stream),), at=at) for stream in streams]

        return self._session._settle(self._ref, Settling((self.id,), ops), expect, lease)[0][0]

    def drop(self) -> None:
        """Remove it. Raises Conflict if its writer lives."""
        self._session._settle(self._ref, Settling((self.id,), lambda streams: ()))


def kept_message(stream: Stream) -> Message:
    return Message(stream.role, (Text(stream.text),) if stream.text else (), {"interrupted": True})


class Flusher:
    """Sees to it that no draft of a store stays behind. Its thread runs only while something streams."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._awake = threading.Condition()
        self._due: dict[DraftWriter, float] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def soon(self, writer: DraftWriter) -> None:
        """Flush that draft in a fifth of a second."""
        if self._pid != os.getpid():  # threads do not survive a fork
            self._renew()
        with self._awake:
            self._due.setdefault(writer, monotonic() + FLUSH_S)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="threadline-drafts", daemon=True)
                self._thread.start()
            self._awake.notify()

    def flush(self, writers: Sequence[DraftWriter], *, wait: bool) -> None:
        """Store what has gathered, all in one transaction. A draft that is being stored is left out, or waited for.

        What went wrong is told to the next `write` of each, and the text stays where it is."""
        mine = [writer for writer in writers if writer._turn.acquire(blocking=wait)]
        try:
            gathered = [(writer, *writer._gathered()) for writer in mine if not writer._over]
            behind = [(writer, chunk, upto, size) for writer, chunk, upto, size in gathered if chunk.text]
            gone = self.backend.grow_streams([chunk for _, chunk, _, _ in behind]) if behind else set()
            for writer, _, upto, size in behind:
                if writer.id in gone:
                    writer._is_not_stored(Conflict("this draft is gone: its session was deleted, or it was ended"))
                else:
                    writer._is_stored(upto, size)
        except ThreadlineError as error:
            for writer in mine:
                writer._is_not_stored(error)
        finally:
            for writer in mine:
                writer._turn.release()

    def close(self) -> None:
        """Store what has gathered, and stop."""
        if self._pid != os.getpid():
            return
        with self._awake:
            due, self._due, self._closed = list(self._due), {}, True
            self._awake.notify()
        self.flush(due, wait=True)

    def _run(self) -> None:
        while due := self._wait():
            self.flush(due, wait=False)
            for writer in due:
                if writer._behind and not writer._over and not isinstance(writer._error, Closed | Conflict):
                    self.soon(writer)  # it was busy, or the disk failed: once more

    def _wait(self) -> list[DraftWriter]:
        """The drafts to flush, as soon as one of them is due; none when the thread is to end."""
        with self._awake:
            while not self._closed:
                left = min(self._due.values()) - monotonic() if self._due else IDLE_S
                if left <= 0:
                    due, self._due = list(self._due), {}  # all of them: they share the sync
                    return due
                if not self._awake.wait(left) and not self._due:
                    break
            self._thread = None
            return []
