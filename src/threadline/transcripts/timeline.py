"""A timeline: the course of one session as its source tells it, step by step.

Steps are told from the beginning, every time. Those that were imported before are compared, by a digest of all that was
told so far; with the first new one writing begins. A step is known by its *place*, counted in entries from 0; the
timeline knows the seq of each place, between which other entries may stand: after each portion a note says how far the
source was told, and with which digest, so that the log itself knows where to go on, whatever was interrupted."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b, sha256
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import to_builtins

from threadline import Batch, Damaged, Entry, InvalidArgument, InvalidMessage, Message, NotFound, Session, Usage

PREFIX = "threadline:import:"
MARK, TAIL, OPEN = f"{PREFIX}upto:", f"{PREFIX}once:", f"{PREFIX}open:"
MARK_KIND = "imported"
PORTION = 1_000  # steps in one transaction, or
PORTION_BYTES = 4 * 2**20  # so much of the source, whichever is reached first: memory stays bounded

UsageLike = Usage | Mapping[str, Any]
Looks = Callable[[Entry], bool]
Writes = Callable[[Batch], None]

_encode = msgspec.json.Encoder(order="deterministic").encode


class Diverged(Exception):
    """The source tells something else than what was imported, or others have gone on with the session."""


class Cursor(NamedTuple):
    """How far a session was told: so many places, with that digest. `gone_on`: others have written since.

    What was under way then stands at the end of the log, from `open_from` on, with the key `open_key`."""

    places: int = 0
    digest: str = ""
    head: int = 0
    gone_on: bool = False
    open_from: int = 0
    open_key: str = ""


class Shared(NamedTuple):
    """What a session has in common with a source: so many places, the last at `seq`; `whole`: all of the source."""

    places: int
    seq: int
    whole: bool


class Makes(Protocol):
    id: str

    def __call__(self) -> Session: ...


class Scene(NamedTuple):
    """Where a timeline plays: what its marks say, a session never made, to check steps by, and `dry`: no writing."""

    about: dict[str, Any]
    scratch: Session
    dry: bool


def cursor(session: Session) -> Cursor:
    """Read from the end of the log: the last mark says it all."""
    found = Cursor(head=session.head)
    for entry in _readable(session.entries(before=found.head + 1, reverse=True)):
        key = entry.key or ""
        if key.startswith(MARK):
            places, digest = key.removeprefix(MARK).split(":")
            return found._replace(places=int(places), digest=digest)
        if key.startswith(OPEN) and (found.open_from or found.head) in (entry.seq, entry.seq + 1):
            found = found._replace(open_from=entry.seq, open_key=key)
        elif not key.startswith(PREFIX):
            found = found._replace(gone_on=True)
    return found


def common(session: Session, tell: Callable[[Timeline], None], scene: Scene) -> Shared:
    """Compare a source with a session, entry by entry."""
    comparison = _Comparison(session, scene)
    try:
        tell(comparison)
    except Diverged:
        return Shared(comparison.shared, comparison.last, whole=False)
    return Shared(comparison.shared, comparison.last, whole=True)


class Timeline:
    """What a format tells its steps to; each returns its place. Raises Diverged where the session says otherwise."""

    def __init__(
        self, scene: Scene, session: Session | None = None, known: Cursor | None = None, make: Makes | None = None
    ) -> None:
        self.session = session
        self._past = session  # where the places that are known stand: a fork shares them
        self.added = self.unchanged = 0
        self.id: str = make.id if make is not None else str(session.id if session else "")
        self._scene = scene
        self._make = make
        self._known = known or Cursor()
        self._places = 0
        self._digest = sha256()  # of all that was told; in hardware almost everywhere
        self._batch: Batch | None = None
        self._checks = scene.scratch.batch()
        self._steps = self._bytes = 0
        self._at: datetime | None = None
        self._seqs: list[int] = []  # of the places that are known, once they are asked for
        self._head = self._known.head
        self._runs: list[tuple[int, int]] = []  # (place, seq) where each new portion begins
        self._open_from = self._known.open_from

    @property
    def places(self) -> int:
        """How many entries were told so far."""
        return self._places

    @property
    def pending(self) -> bool:
        """Whether its session is still to be made; in a dry run it never is."""
        return self._make is not None

    # -- steps -----------------------------------------------------------------------------------------

    def append(
        self, message: Message, *, at: datetime | None = None, usage: UsageLike | None = None, raw: bytes | None = None
    ) -> int:
        """A message. A usage in no known shape is left out. Raises InvalidMessage, and then nothing was told.

        `raw` is the line that it was read from, of a source that never writes a line again: quicker to compare."""
        told = _plain(message) if raw is None else raw

        def write(batch: Batch) -> None:
            try:
                batch.append(message, at=at, usage=usage)
            except InvalidMessage:
                raise
            except InvalidArgument:  # a usage that nobody is known to write; the format keeps it in the message's meta
                batch.append(message, at=at)

        return self._step(told, write, lambda entry: entry.message == message, at=at, size=len(told))

    def note(self, data: dict[str, Any], kind: str = "note", *, at: datetime | None = None) -> int:
        """Something that the model never sees."""
        told = _plain([kind, data])
        return self._step(
            told,
            lambda batch: batch.note(data, kind, at=at),
            lambda entry: (entry.kind, entry.data) == (kind, data),
            at=at,
            size=len(told),
        )

    def compact(
        self, summary: str, *, since: int, upto: int, at: datetime | None = None, usage: UsageLike | None = None
    ) -> int:
        """A summary where the places `since` to `upto` stood; the run must split no call from its result."""

        def write(batch: Batch) -> None:
            first, last = self.seq(since), self.seq(upto)
            try:
                batch.compact(summary, since=first, upto=last, at=at, usage=usage)
            except InvalidArgument:
                batch.compact(summary, since=first, upto=last, at=at)

        return self._step(
            _plain(["compact", summary, since, upto]),
            write,
            lambda entry: entry.kind == "compaction" and (entry.data or {}).get("summary") == summary,
            at=at,
        )

    def replace(self, messages: list[Message], *, since: int, upto: int, at: datetime | None = None) -> int:
        """Any messages, or none, where the places `since` to `upto` stood; returns the place of the first."""
        expected = iter([*messages, None])
        return self._step(
            _plain(["replace", [to_builtins(message) for message in messages], since, upto]),
            lambda batch: batch.replace(messages, since=self.seq(since), upto=self.seq(upto), at=at),
            lambda entry: entry.message == next(expected),
            count=len(messages) + 1,
            at=at,
        )

    def rewind(self, to: int | None, *, at: datetime | None = None) -> int:
        """Back to what was seen right after a place; None empties the view."""
        return self._step(
            _plain(["rewind", to]),
            lambda batch: batch.rewind(0 if to is None else self.seq(to), at=at),
            lambda entry: entry.kind == "rewind",
            at=at,
        )

    def set_state(self, values: dict[str, Any], *, at: datetime | None = None) -> int:
        return self._step(
            _plain(["state", values]),
            lambda batch: batch.set_state(values, at=at),
            lambda entry: entry.kind == "state",
            at=at,
        )

    # -- what is said once, after all steps ------------------------------------------------------------

    def settle(self, name: str, content: Any, write: Callable[[Session, str], object]) -> None:
        """Something that a source says of itself as a whole, such as a cursor that moves: written once for each
        content, after all steps. `write` gets the session, and the key to write its one entry with."""
        self._flush(last=True)
        if not self._scene.dry:
            self._made()
        key = f"{TAIL}{name}:{blake2b(_plain([name, content]), digest_size=12).hexdigest()}"
        if self.session is not None and self._make is None and _has(self.session, key):
            self.unchanged += 1
            return
        self._must_be_ours()
        self._take_back()
        if not self._scene.dry:
            write(self._made(), key)
        self.added += 1

    def open(self, messages: list[Message], *, at: datetime | None = None) -> None:
        """What was under way when the source was written, after all else. It is shown until the source tells how it
        went on; then the view is as if it had not been there."""
        self._flush(last=True)
        key = f"{OPEN}{blake2b(_plain([to_builtins(message) for message in messages]), digest_size=12).hexdigest()}"
        if self._open_from and self._known.open_key == key:
            self._open_from = 0  # it still stands
            self.unchanged += len(messages)
            return
        self._must_be_ours()
        self._take_back()
        self.added += len(messages)
        if not self._scene.dry:
            self._made().extend(messages, at=at, key=key)

    def finish(self) -> None:
        """All is told. Raises Diverged if that was less than the last time."""
        self._flush(last=True)
        if self._open_from and not self._known.gone_on:
            self._take_back()
        if not self._scene.dry:
            self._made()

    # -- places ----------------------------------------------------------------------------------------

    def seq(self, place: int) -> int:
        """The seq of a place that was told."""
        if place >= self._known.places and self._runs:
            start, first = self._runs[bisect_right(self._runs, (place, 2**62)) - 1]
            return first + place - start
        if not self._seqs and self._past is not None:
            self._seqs = [entry.seq for entry in _step_entries(self._past)]
        return self._seqs[place]

    # -- how it gets there -----------------------------------------------------------------------------

    def _step(
        self, told: bytes, write: Writes, looks: Looks, *, count: int = 1, at: datetime | None = None, size: int = 0
    ) -> int:
        place = self._places
        if place < self._known.places:
            self._check(write)
            self._pass(told, count)
            return place
        if self._steps >= PORTION or self._bytes >= PORTION_BYTES:
            self._flush()
        if self._batch is None:
            self._batch = self._begin()
        write(self._batch)
        self._places += count
        self._digest.update(told)
        self._steps += count
        self._bytes += size
        self._at = at or self._at
        self.added += count
        return place

    def _check(self, write: Writes) -> None:
        """What is refused now was refused when it was imported: so both count the same places."""
        write(self._checks)
        if self._steps >= PORTION:
            self._checks, self._steps = self._scene.scratch.batch(), 0
        self._steps += 1

    def _pass(self, told: bytes, count: int) -> None:
        """A step that was imported before."""
        self._digest.update(told)
        self._places += count
        self.unchanged += count
        if self._places > self._known.places:
            raise Diverged
        if self._places == self._known.places:
            self._steps, self._checks = 0, self._scene.scratch.batch()
            if self._known.digest not in ("", self._told()):
                raise Diverged

    def _begin(self) -> Batch:
        self._must_be_ours()
        self._take_back()
        if self._scene.dry:
            self._runs = self._runs or [(self._places, self._head + 1)]
            return self._scene.scratch.batch()
        session = self._made()
        self._runs.append((self._places, self._head + 1))
        return session.batch(expect=self._head)

    def _flush(self, last: bool = False) -> None:
        """Write what was told, in one transaction; its last entry is the mark."""
        if last and self._places < self._known.places:
            raise Diverged
        batch, self._batch = self._batch, None
        if batch is None or self._scene.dry:
            return
        key = f"{MARK}{self._places}:{self._told()}"
        batch.note(self._scene.about | {"places": self._places}, MARK_KIND, key=key, at=self._at)
        with batch:
            pass
        self._head = batch.entries[-1].seq
        self._steps = self._bytes = 0

    def _must_be_ours(self) -> None:
        if self._known.gone_on:  # somebody goes on with the session here: what the source tells belongs in a fork
            raise Diverged

    def _told(self) -> str:
        return self._digest.hexdigest()[:24]

    def _take_back(self) -> None:
        """What was under way is not any more."""
        seq, self._open_from = self._open_from, 0
        if seq and not self._scene.dry:
            self._head = self._made().rewind(seq - 1, key=f"{TAIL}undo:{seq}").seq

    def _made(self) -> Session:
        if self._make is not None:
            make, self._make = self._make, None
            self.session = make()
            self._head = self.session.head
        assert self.session is not None
        return self.session


class _Comparison(Timeline):
    """Compares each step with the entry that stands in its place, and writes nothing."""

    def __init__(self, session: Session, scene: Scene) -> None:
        super().__init__(scene, session)
        self.shared = self.last = 0
        self._entries = _step_entries(session)

    def _step(
        self, told: bytes, write: Writes, looks: Looks, *, count: int = 1, at: datetime | None = None, size: int = 0
    ) -> int:
        place = self._places
        self._places += count
        self._check(write)
        for _ in range(count):
            entry = next(self._entries, None)
            if entry is None or not looks(entry):
                raise Diverged
        self.shared, self.last = self._places, entry.seq if entry else 0
        return place

    def settle(self, name: str, content: Any, write: Callable[[Session, str], object]) -> None:
        return

    def open(self, messages: list[Message], *, at: datetime | None = None) -> None:
        return

    def seq(self, place: int) -> int:
        return 1 if self.session is None else super().seq(place)


def _step_entries(session: Session) -> Iterator[Entry]:
    """The entries that are steps, in their order: all up to the last mark that are not keyed by us."""
    last = 0
    for entry in _readable(session.entries(kinds=(MARK_KIND,), reverse=True)):
        if (entry.key or "").startswith(MARK):
            last = entry.seq
            break
    for entry in _readable(session.entries(before=last + 1)):
        if not (entry.key or "").startswith(PREFIX):
            yield entry


def _readable(entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries that are not damaged."""
    while True:
        try:
            yield next(entries)
        except StopIteration:
            return
        except Damaged:
            continue


def _has(session: Session, key: str) -> bool:
    try:
        session.entry(key=key)
    except NotFound:
        return False
    return True


def _plain(value: Any) -> bytes:
    """Bytes that are the same for the same content."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(to_builtins(value), sort_keys=True).encode()
