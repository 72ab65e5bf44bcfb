"""Where an export goes: a file that is whole or not there, readable by its owner only, or an open stream."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

Write = Callable[[bytes], object]


@contextmanager
def writing(target: str | os.PathLike[str] | BinaryIO) -> Iterator[Write]:
    """A function that writes. A file appears under its name when the block ends, and not at all on an exception."""
    if not isinstance(target, str | os.PathLike):
        yield target.write
        return
    path = Path(target)
    fd, partial = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".partial", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def write_pieces(target: str | os.PathLike[str] | BinaryIO, pieces: Iterable[bytes]) -> None:
    with writing(target) as write:
        for piece in pieces:
            write(piece)
