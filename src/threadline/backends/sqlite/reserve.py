"""The reserve: a file beside the store that is there to be removed.

On a full disk not even a deletion can be written. So some room is kept while there is plenty: when a deletion finds
the disk full, the reserve goes, and the deletion has its room. It comes back when there is plenty again."""

from __future__ import annotations

import os
from contextlib import suppress

RESERVE_BYTES = 4 * 1024 * 1024  # a deletion touches few pages; a full WAL is as large


class Reserve:
    """The reserve of the store at `path`; none for a store in memory."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else path + ".reserve"

    def keep(self) -> None:
        """Put it there, if it is not, and if there is as much room again beside it. Without room there is none."""
        if self._path is None or os.path.exists(self._path):
            return
        with suppress(OSError):  # a disk without room, or one that only lets us write the store: `size_bytes` tells
            if _room(os.path.dirname(self._path) or ".") >= 2 * RESERVE_BYTES:
                _make(self._path)

    def spend(self) -> bool:
        """Give its room to whoever needs it now; False if there is none."""
        if self._path is None:
            return False
        try:
            os.unlink(self._path)
        except OSError:
            return False
        return True

    @property
    def size_bytes(self) -> int:
        return os.path.getsize(self._path) if self._path is not None and os.path.exists(self._path) else 0


def _room(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _make(path: str) -> None:
    """Really taken from the disk: a file with a hole would keep no room."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)
