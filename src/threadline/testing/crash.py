"""Power cuts: run a workload once, then cut the power at any moment of it, as often as you like.

    with Recorder() as recorder:
        store = Store(SqliteBackend(path, vfs=recorder.name))
        store.session("a").append("hello")
        recorder.acknowledge("hello")
        store.close()
    for crash in crashes(recorder.trace, 1_000, Random(1)):
        crash.write_to(folder)  # then open the store in there, and look

The model of the disk is as unkind as POSIX allows. What was synced is there. Every write that was not may be there,
may be missing, or may be torn between sectors, each independently of the others. Names are made and removed in order,
so a prefix of that survives, as in a file system with a journal for its metadata."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import apsw

if TYPE_CHECKING:
    from typing_extensions import Buffer

SECTOR_BYTES = 512  # the least that any disk writes all or nothing

# SQLite's own VFS syncs the folder at the first sync of such a file (os_unix.c, UNIXFILE_DIRSYNC): its name counts.
_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


# -- what happens to a disk ----------------------------------------------------------------------------


class File(NamedTuple):
    """A file as the disk knows it: one that is deleted and made again under its old name is another one."""

    name: str
    number: int


class Write(NamedTuple):
    file: File
    offset: int
    data: bytes


class Truncate(NamedTuple):
    file: File
    size: int


class Sync(NamedTuple):
    file: File


class SyncFolder(NamedTuple):
    pass


class Create(NamedTuple):
    file: File


class Delete(NamedTuple):
    name: str


class Existing(NamedTuple):
    """A file that was there before the trace began, and is taken as safe."""

    file: File
    data: bytes


class Acknowledge(NamedTuple):
    """A call returned, so its caller relies on it from now on."""

    what: object


Event: TypeAlias = Write | Truncate | Sync | SyncFolder | Create | Delete | Existing | Acknowledge


class Recorder(apsw.VFS):
    """A VFS for the files of one folder that does what it is asked and keeps the trace of it.

    It never really syncs; it only takes `sync_s` for it, the time in which other threads queue up."""

    def __init__(self, *, sync_s: float = 0.0) -> None:
        self.name = f"threadline-recorder-{next(_numbers)}"
        self.trace: list[Event] = []
        self.sync_s = sync_s
        self._files: dict[str, File] = {}
        super().__init__(self.name, "")

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unregister()

    def acknowledge(self, what: object) -> None:
        """Note that a call returned: from now on no power cut may undo it."""
        self.trace.append(Acknowledge(what))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if name is None:  # a temporary file: no crash outlives it
            return apsw.VFSFile("", name, flags)
        path = name if isinstance(name, str) else name.filename()
        before = Path(path).read_bytes() if os.path.exists(path) else None
        file = _RecordedFile(self, name, flags)
        file.file = self._known(path, before)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, False)
        self._files.pop(os.path.basename(filename), None)
        self.trace.append(Delete(os.path.basename(filename)))
        if syncdir:
            self.trace.append(SyncFolder())

    def _known(self, path: str, before: bytes | None) -> File:
        name = os.path.basename(path)
        if name not in self._files:
            file = self._files[name] = File(name, next(_numbers))
            self.trace.append(Create(file) if before is None else Existing(file, before))
        return self._files[name]


class _RecordedFile(apsw.VFSFile):
    file: File

    def __init__(self, recorder: Recorder, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._trace = recorder.trace
        self._sync_s = recorder.sync_s
        self._folder_too = bool(flags[0] & _JOURNALS)
        super().__init__("", name, flags)

    def xWrite(self, data: Buffer, offset: int) -> None:
        super().xWrite(data, offset)
        self._trace.append(Write(self.file, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._trace.append(Truncate(self.file, newsize))

    def xSync(self, flags: int) -> None:
        if self._sync_s:
            time.sleep(self._sync_s)
        self._trace.append(Sync(self.file))
        if self._folder_too:
            self._trace.append(SyncFolder())
            self._folder_too = False


_numbers = count(1)


# -- what is left of it --------------------------------------------------------------------------------


class Crash(NamedTuple):
    """One folder that a power cut may leave behind, and what was acknowledged by then, in order."""

    files: dict[str, bytes]
    acknowledged: tuple[Any, ...]
    moment: int  # how many events of the trace had happened
    after: str  # what sort of event the last of them was

    def write_to(self, folder: Path) -> None:
        """Make the folder hold exactly these files."""
        for old in folder.iterdir():
            old.unlink()
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def crashes(trace: Sequence[Event], trials: int, rng: Random) -> Iterator[Crash]:
    """So many crashes of the trace, in the order of time. The same dice give the same ones.

    Half of them come at any moment. Most moments are writes to the WAL, so the others come after each sort of event
    equally often: a checkpoint is a small part of a trace, and the removal of a WAL a single moment of it."""
    sorts: dict[str, list[int]] = {}
    for moment, event in enumerate(trace, 1):
        sorts.setdefault(sort_of(event), []).append(moment)
    anywhere = [rng.randint(1, len(trace)) for _ in range(trials - trials // 2)]
    everywhere = [rng.choice(sorts[rng.choice(sorted(sorts))]) for _ in range(trials // 2)]
    moments = Counter(anywhere + everywhere)
    disk = Disk()
    for moment, event in enumerate(trace, 1):
        disk.take(event)
        for _ in range(moments[moment]):
            yield Crash(disk.after_power_cut(rng), tuple(disk.acknowledged), moment, sort_of(event))


def sort_of(event: Event) -> str:
    """What happens and to which file, in words: "write store.db-wal"."""
    match event:
        case Write(file) | Truncate(file) | Sync(file) | Create(file) | Existing(file):
            return f"{type(event).__name__.lower()} {file.name}"
        case Delete(name):
            return f"delete {name}"
        case Acknowledge():
            return "acknowledge"
        case SyncFolder():
            return "sync the folder"


class Disk:
    """What is safe, and what is still under way."""

    def __init__(self) -> None:
        self.acknowledged: list[object] = []
        self._safe: dict[File, bytearray] = {}
        self._names: dict[str, File] = {}
        self._writes: list[Write | Truncate] = []
        self._namings: list[Create | Delete] = []

    def take(self, event: Event) -> None:
        match event:
            case Write() | Truncate():
                self._writes.append(event)
            case Create() | Delete():
                self._namings.append(event)
            case Sync(file):
                for write in self._writes:
                    if write.file == file:
                        _apply(self._safe.setdefault(file, bytearray()), write)
                self._writes = [write for write in self._writes if write.file != file]
            case SyncFolder():
                _rename(self._names, self._namings)
                self._namings = []
            case Existing(file, data):
                self._names[file.name] = file
                self._safe[file] = bytearray(data)
            case Acknowledge(what):
                self.acknowledged.append(what)

    def after_power_cut(self, rng: Random) -> dict[str, bytes]:
        """What may be there when the power comes back: name and content of every file."""
        names = dict(self._names)
        _rename(names, self._namings[: rng.randint(0, len(self._namings))])
        contents = {file: bytearray(self._safe.get(file, b"")) for file in names.values()}
        lost = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))  # some crashes come early in the disk's own order, some late
        for write in self._writes:
            if write.file in contents and rng.random() >= lost:
                for piece in _torn(write, rng):
                    _apply(contents[write.file], piece)
        return {name: bytes(contents[file]) for name, file in names.items()}


def _rename(names: dict[str, File], namings: Sequence[Create | Delete]) -> None:
    for naming in namings:
        if isinstance(naming, Create):
            names[naming.file.name] = naming.file
        else:
            names.pop(naming.name, None)


def _apply(content: bytearray, write: Write | Truncate) -> None:
    size = write.size if isinstance(write, Truncate) else write.offset
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    if isinstance(write, Truncate):
        del content[size:]
    else:
        content[size : size + len(write.data)] = write.data


def _torn(write: Write | Truncate, rng: Random) -> Iterator[Write | Truncate]:
    """The write whole, or in two cases of five only some of its sectors."""
    if isinstance(write, Truncate) or rng.random() < 0.6:
        yield write
        return
    start, end = write.offset, write.offset + len(write.data)
    edges = [start, *range(start - start % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES), end]
    for low, high in pairwise(edges):
        if rng.random() < 0.5:
            yield Write(write.file, low, write.data[low - start : high - start])
