"""A claim: how others can tell that a writer is gone, and not merely slow.

A store that writes drafts keeps a file of its own beside the database, and keeps it locked. The kernel lets go of the
lock when the process dies, however it dies, and at no other time. A process id would not do: it comes back as another
process, and means nothing in another container."""

from __future__ import annotations

import fcntl
import os
import re
import threading
from contextlib import suppress
from os import urandom

_NAME = re.compile(rb"[0-9a-f]{16}")  # what is read from the database becomes part of a path only if it looks so


class Claim:
    """The claim of one open store, made when it is first needed. In memory (no path) nobody else asks."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._name: bytes | None = None
        self._fd = -1
        self._mutex = threading.Lock()

    def name(self) -> bytes:
        with self._mutex:
            if self._name is None:
                self._name = urandom(8).hex().encode()
                if self._path is not None:
                    self._fd = os.open(self._file(self._name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                    fcntl.flock(self._fd, fcntl.LOCK_EX)
            return self._name

    def lives(self, name: bytes | None) -> bool:
        """Whether the store of that claim is still open, in whatever process."""
        if name is None or not _NAME.fullmatch(name):
            return False
        if name == self._name or self._path is None:
            return name == self._name
        try:
            descriptor = os.open(self._file(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        with suppress(OSError):  # left behind by a crash; another who asks finds it gone, which says the same
            os.unlink(self._file(name))
        return False

    def close(self) -> None:
        if self._fd >= 0 and self._name is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._file(self._name))
        self.forget()

    def forget(self) -> None:
        """In a forked child: the claim is the parent's. Close only; unlocking would let go of the parent's lock."""
        descriptor, self._fd, self._name = self._fd, -1, None
        self._mutex = threading.Lock()
        if descriptor >= 0:
            os.close(descriptor)

    def _file(self, name: bytes) -> str:
        return f"{self._path}.writer-{name.decode()}"
