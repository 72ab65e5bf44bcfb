"""Failing disks: a VFS whose n-th write, truncate, sync or read fails, and one that is small.

    with FailingDisk() as disk:
        store = Store(SqliteBackend(path, vfs=disk.name))
        disk.fail(at=disk.calls + 7, error=apsw.FullError, lasting=True)
        ...
        disk.heal()  # space was freed

`calls` counts, so that a test can run a workload once on a healthy disk and then fail every single call of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from typing_extensions import Buffer

SECTOR_BYTES = 512

ErrorKind = type[apsw.FullError] | type[apsw.IOError]


class FailingDisk(apsw.VFS):
    """Does what it is asked until the call it is told to fail at. Reads count only when `reads` says so.

    It never really syncs, since no test cuts real power; it only takes `sync_s` for it, in which threads queue up."""

    def __init__(self, *, sync_s: float = 0.0, reads: bool = False) -> None:
        self.name = f"threadline-failing-disk-{next(_numbers)}"
        self.reads = reads
        self.sync_s = sync_s
        self.calls = 0
        self.failures = 0
        self.heal()
        super().__init__(self.name, "")

    def __enter__(self) -> FailingDisk:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unregister()

    def fail(self, *, at: int, error: ErrorKind = apsw.FullError, lasting: bool = False) -> None:
        """Fail call number `at`, or, if it is lasting, all calls from then on until `heal`."""
        self._at = at
        self._error: ErrorKind = error
        self._lasting = lasting

    def heal(self) -> None:
        """Space was freed, the cable is back: everything succeeds."""
        self.fail(at=0)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _FailingFile(self, name, flags)

    def fails_now(self) -> bool:
        self.calls += 1
        failing = self._at > 0 and (self.calls == self._at or (self._lasting and self.calls > self._at))
        self.failures += failing
        return failing

    def error(self, code: int) -> apsw.Error:
        """What SQLite's own VFS would report of a call that is known by its `code`.

        Only a write tells that the disk is full: os_unix.c turns all else that fails into an I/O error."""
        if self._error is apsw.FullError and code == apsw.SQLITE_IOERR_WRITE:
            return apsw.FullError("the disk was told to be full here")
        error: Any = apsw.IOError("the disk was told to fail here")
        error.extendedresult = code
        failure: apsw.Error = error
        return failure


class _FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: Buffer, offset: int) -> None:
        if self._disk.fails_now():
            if self._disk.calls % 2:  # half of the failing writes leave their beginning behind
                super().xWrite(bytes(data)[:SECTOR_BYTES], offset)
            raise self._disk.error(apsw.SQLITE_IOERR_WRITE)
        super().xWrite(data, offset)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self._disk.reads and self._disk.fails_now():
            raise self._disk.error(apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    def xTruncate(self, newsize: int) -> None:
        self._checked(lambda: super(_FailingFile, self).xTruncate(newsize), apsw.SQLITE_IOERR_TRUNCATE)

    def xSync(self, flags: int) -> None:
        self._checked(lambda: time.sleep(self._disk.sync_s) if self._disk.sync_s else None, apsw.SQLITE_IOERR_FSYNC)

    def _checked(self, call: Callable[[], None], code: int) -> None:
        if self._disk.fails_now():
            raise self._disk.error(code)
        call()


# -- a small disk --------------------------------------------------------------------------------------


class SmallDisk(apsw.VFS):
    """Holds so many bytes and no more: a file that would grow beyond that is told that the disk is full."""

    def __init__(self, capacity: int) -> None:
        self.name = f"threadline-small-disk-{next(_numbers)}"
        self.capacity = capacity
        self.refusals = 0
        self.sizes: dict[str, int] = {}
        super().__init__(self.name, "")

    def __enter__(self) -> SmallDisk:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unregister()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        file = _SmallFile(self, name, flags)
        file.path = (name if isinstance(name, str) else name.filename()) if name else ""
        self.sizes[file.path] = file.xFileSize()
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, False)
        self.sizes.pop(filename, None)

    def take(self, path: str, end: int) -> bool:
        """Whether the file may reach that far."""
        more = end - self.sizes[path]
        if more > 0:
            if sum(self.sizes.values()) + more > self.capacity:
                self.refusals += 1
                return False
            self.sizes[path] = end
        return True


class _SmallFile(apsw.VFSFile):
    path: str

    def __init__(self, disk: SmallDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: Buffer, offset: int) -> None:
        if not self._disk.take(self.path, offset + len(bytes(data))):
            raise apsw.FullError("there is no room on this disk")
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._disk.sizes[self.path] = newsize

    def xSync(self, flags: int) -> None:
        pass  # no test cuts real power


_numbers = count(1)
