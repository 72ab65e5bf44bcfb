"""Our own JSONL: all of a session, of several, or of a store, line by line. docs/format.md is its specification.

What is written comes back exactly: the same numbers, times, keys and digests, on any engine, so that an export of what
was imported is the same file. Lines that were damaged are set aside, and all others are imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from threadline import Session, Store, records
from threadline.transcripts.desk import Desk
from threadline.transcripts.masking import Mask, NoMask
from threadline.transcripts.sources import Source

FIRST_BYTES = 2**18  # looked at to tell whether a file is ours
LINE_MAX = 2**28  # a longer line is no entry that anybody wrote
OURS = re.compile(rb'^\{"type":"[a-z]+",.*,"crc":"[0-9a-f]{8}"\}$', re.M)
HEADER = b'{"type":"threadline",'

_GLUED = re.compile(rb'(?<="\})(?=\{"type":")')
_BLANK = b"\0 \t\r\n"


# -- writing -------------------------------------------------------------------------------------------


def pieces(what: Store | Iterable[Session], mask: Mask) -> Iterator[bytes]:
    """The lines of a file with these sessions and their sub-agents, or with all of a store."""
    return map(records.encode, records.dump(what, mask=None if isinstance(mask, NoMask) else mask))


# -- reading -------------------------------------------------------------------------------------------


def claims(source: Source) -> bool:
    if source.magic(len(HEADER)) == HEADER:
        return True
    return source.is_log and OURS.search(source.magic(FIRST_BYTES)) is not None  # its first line may be damaged


def bring(source: Source, desk: Desk) -> None:
    reading = _Reading(source, desk)
    with source.open(source.path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        source.count(source.path, size)
        try:
            for offset, line in _lines(file, size, source):
                reading.line(offset, line)
        except _TooNew as error:
            source.report(source.path, 0, size, str(error))
            return
    reading.end()


def _lines(file: BinaryIO, size: int, source: Source) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < size and (line := file.readline(min(LINE_MAX, size - offset))):
        length = len(line)
        if length == LINE_MAX and not line.endswith(b"\n"):
            while more := file.readline(FIRST_BYTES):
                length += len(more)
                if more.endswith(b"\n"):
                    break
            source.report(source.path, offset, length, f"a line of more than {LINE_MAX:,} bytes: set aside")
        else:
            yield offset, line
        offset += length


class _TooNew(Exception):
    """Nothing of the file is read."""


class _Reading:
    """One file on its way into the store."""

    def __init__(self, source: Source, desk: Desk) -> None:
        self._source, self._desk = source, desk
        self._loader = records.Loader(desk.store, dry_run=desk.dry_run)
        self._namespace = ""
        self._seen = 0  # entries of the session at hand
        self._refused: set[str] = set()
        self._ended = False

    def line(self, offset: int, line: bytes) -> None:
        """A line, or several that were glued together, or one behind a block of NUL bytes."""
        try:
            record = records.decode(line)
            why = self._taken(record)
        except ValueError as error:
            self._torn(offset, line, error)
            return
        if why is not None:
            self._report(offset, line, why)

    def _torn(self, offset: int, line: bytes, error: ValueError) -> None:
        if not line.strip(_BLANK):
            if line.strip(b"\r\n"):
                self._report(offset, line, "a block of NUL bytes or spaces")
            return
        start = len(line) - len(line.lstrip(_BLANK))
        parts = [line[:start], *_GLUED.split(line[start:])]
        if len(parts) == 2 and not start:
            what = str(error) if line.endswith(b"\n") else "a torn last line: it ends in the middle"
            self._report(offset, line, what)
            return
        for part in filter(None, parts):
            self.line(offset, part)
            offset += len(part)

    def _taken(self, record: records.Record) -> str | None:
        """None, or what is wrong with it; nearly all are entries."""
        if isinstance(record, records.EntryRecord):
            return self._entry(record)
        match record:
            case records.FileRecord():
                if record.version > records.VERSION:
                    raise _TooNew(
                        f"written in version {record.version} of the format; this threadline knows up to "
                        f"{records.VERSION}: upgrade with pip install -U threadline"
                    )
            case records.SessionRecord():
                return self._session(record)
            case records.DamagedRecord():
                return f"entry {record.seq} was damaged before it was exported: {record.what}"
            case records.InboxRecord():
                return self._loader.inbox(record)
            case records.DraftRecord():
                return self._loader.draft(record)
            case records.RequestRecord():
                return self._loader.request(record)
            case records.EndRecord():
                self._finish(cut_off=False)
                self._ended = True
            case _:
                self._finish(cut_off=False)
                return self._loader.memory(record)
        return None

    def _session(self, record: records.SessionRecord) -> str | None:
        self._finish(cut_off=False)
        self._namespace = record.namespace
        if (why := self._loader.session(record)) is not None:
            self._refused.add(record.id)
            return f"session {record.id!r} is set aside: {why}"
        return None

    def _entry(self, record: records.EntryRecord) -> str | None:
        if self._loader.id != record.session and record.session not in self._refused:
            self._finish(cut_off=False)
            self._desk.remark(
                self._source.path,
                f"the line of session {record.session!r} is damaged: its entries are imported without what it said",
            )
            self._loader.recover(record, self._namespace)
        why = self._loader.entry(record)
        self._seen += why is None
        return why

    def _finish(self, *, cut_off: bool) -> None:
        outcome = self._loader.finish(cut_off=cut_off)
        if outcome is not None:
            known = max(0, self._seen - outcome.entries)
            self._desk.taken_in(outcome.id, added=outcome.entries, unchanged=known, forked=outcome.how == "forked")
            for remark in outcome.remarks:
                self._desk.remark(self._source.path, f"session {outcome.id!r}: {remark}")
        self._seen = 0

    def end(self) -> None:
        self._finish(cut_off=True)
        memories = self._loader.memories
        memories.flush()
        self._desk.count(added=memories.added, unchanged=memories.known)
        if not self._ended:
            self._desk.remark(self._source.path, "the file was cut off: import it again when it is whole")

    def _report(self, offset: int, line: bytes, what: str) -> None:
        self._source.report(self._source.path, offset, len(line), what)
