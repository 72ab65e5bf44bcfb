"""Sources: files and folders of others, opened to be read only, and never left by a link.

A source says which of its bytes could not be read: all others are imported. So for each one, and for all together,
bytes read = bytes imported + bytes reported."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from threadline import InvalidArgument

LINE_MAX = 32 * 2**20  # a longer line is set aside without being held: memory stays bounded whatever the file
BUFFER = 2**20
TOLD_BYTES = 4 * 2**20  # how often a reader is told how far it is
DEPTH_MAX = 24  # of folders below the one that was named
LOGS = (".jsonl", ".ndjson")  # what somebody might have meant us to read


class Problem(Struct, frozen=True):
    """What could not be read, and where: `length` bytes from `offset` on are not imported. 0 for a remark."""

    path: str
    offset: int
    length: int
    what: str

    def __str__(self) -> str:
        place = f" at byte {self.offset:,} ({self.length:,} bytes)" if self.length else ""
        return f"{self.path}{place}: {self.what}"


class Refused(Exception):
    """A file that is not opened: a link, a device, something that is gone or not ours to read."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path


class Line(NamedTuple):
    """A line of JSON with its place. `length` includes the end of the line."""

    offset: int
    length: int
    raw: bytes
    value: dict[str, Any]


class Damage(NamedTuple):
    """A line that could not be read. `last`: nothing follows, so that it may be complete the next time."""

    offset: int
    length: int
    raw: bytes
    what: str
    last: bool


class Source:
    """A file or a folder that is to be read, what was read of it, and what could not be."""

    def __init__(self, path: Path, top: Path, is_folder: bool) -> None:
        self.path = path
        self.top = top
        self.is_folder = is_folder
        self.claimed = False
        self.on_read: Callable[[int], None] | None = None
        self.problems: dict[tuple[str, int, str], Problem] = {}
        self._read: dict[str, int] = {}

    @property
    def is_log(self) -> bool:
        return not self.is_folder and self.path.suffix in LOGS

    @property
    def bytes_read(self) -> int:
        return sum(self._read.values())

    def report(self, path: Path, offset: int, length: int, what: str) -> None:
        """These bytes are not imported. Saying it twice is saying it once, so that a source may be read again."""
        self.problems[str(path), offset, what] = Problem(str(path), offset, length, what)

    def count(self, path: Path, size: int) -> None:
        """So many bytes of that file were read."""
        self._read[str(path)] = max(size, self._read.get(str(path), 0))

    def file(self, name: str) -> Path:
        """A file inside the folder, or the file itself for an empty name."""
        return self.path / name if name else self.path

    def has(self, name: str) -> bool:
        """Whether it is a folder with a regular file of that name; a link is none."""
        return self.is_folder and is_regular(self.path / name)

    def check(self) -> None:
        """Raise InvalidArgument if the file itself cannot be opened."""
        try:
            open_to_read(self.path).close()
        except Refused as refused:
            raise InvalidArgument(f"{self.path}: {refused}") from refused

    def open(self, path: Path) -> BinaryIO:
        return open_to_read(path)

    def text(self, path: Path, limit: int = LINE_MAX) -> bytes | None:
        """All of a small file, None where there is none; what is not read of it is reported."""
        if not os.path.lexists(path):
            return None
        try:
            with self.open(path) as file:
                size = os.fstat(file.fileno()).st_size
                self.count(path, size)
                if size <= limit:
                    return file.read(size)
                self.report(path, 0, size, f"larger than {limit:,} bytes: set aside")
        except Refused as refused:
            self.report(path, 0, 0, str(refused))
        return None

    def object(self, path: Path) -> dict[str, Any] | None:
        """The JSON object that a small file holds; None where there is none, or one that cannot be read."""
        found = self.text(path)
        if found is None:
            return None
        try:
            value = decode(found)
        except ValueError as error:
            self.report(path, 0, len(found), f"not JSON: {error}")
            return None
        if not isinstance(value, dict):
            self.report(path, 0, len(found), f"not an object, but {_kind(value)}")
            return None
        return value

    def listed(self, folder: Path) -> list[Path]:
        """The plain files of a folder, by name; none where there is no folder. Links are named and left."""
        if not is_folder(folder):
            return []
        found = sorted(folder.iterdir())
        for path in found:
            if path.is_symlink():
                self.report(path, 0, 0, "a symbolic link: not followed")
        return [path for path in found if is_regular(path)]

    def lines(self, path: Path) -> Iterator[Line | Damage]:
        """The JSON objects of a file, one per line, and the lines that are none; those are reported.

        Reads as far as the file went when it was first opened, so that a file being written gives the same twice."""
        with self.open(path) as file:
            size = self._read.get(str(path)) or os.fstat(file.fileno()).st_size
            self.count(path, size)
            yield from self._lines(file, path, size)

    def _lines(self, file: BinaryIO, path: Path, size: int) -> Iterator[Line | Damage]:
        offset = told = 0
        while offset < size and (raw := file.readline(min(LINE_MAX, size - offset))):
            length, whole = len(raw), raw.endswith(b"\n")
            if not whole and length >= LINE_MAX:
                length += _skip_line(file, size - offset - length)
                raw, what = b"", f"a line of more than {LINE_MAX:,} bytes: set aside"
            else:
                value, what = _object(raw, whole)
                if value is not None:
                    yield Line(offset, length, raw, value)
            if what:
                self.report(path, offset, length, what)
                yield Damage(offset, length, raw, what, last=offset + length >= size and not whole)
            offset += length
            if self.on_read is not None and offset >= told + TOLD_BYTES:
                told = offset
                self.on_read(offset)

    def first(self, path: Path, lines: int = 5) -> list[dict[str, Any]]:
        """The first objects of a file, to tell whose it is; neither counted nor reported."""
        found: list[dict[str, Any]] = []
        try:
            with self.open(path) as file:
                for _ in range(lines):
                    raw = file.readline(BUFFER)
                    value, _ = _object(raw, whole=True)
                    found += [] if value is None else [value]
        except (OSError, Refused):
            return []
        return found

    def magic(self, size: int = 16) -> bytes:
        """The first bytes, to tell whose it is."""
        if self.is_folder:
            return b""
        try:
            with self.open(self.path) as file:
                return file.read(size)
        except (OSError, Refused):
            return b""


def decode(raw: bytes) -> Any:
    """JSON as others write it. Raises ValueError, also for NaN, infinity and nesting without end."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return json.loads(raw.decode(), parse_constant=_no_constant)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


def is_regular(path: Path) -> bool:
    """Whether it is a plain file, and not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether it is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def open_to_read(path: Path) -> BinaryIO:
    """Open a plain file, for reading only and without following a link in its last place. Raises Refused."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(path, _why(path, error)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):  # a pipe would block, a device would never end
        os.close(fd)
        raise Refused(path, "not a plain file: not read")
    return os.fdopen(fd, "rb", BUFFER)


def walk(top: Path, tell: Callable[[Problem], None]) -> Iterator[Source]:
    """`top`, and all below it: each folder before what it holds, by name. A folder that was claimed is not entered.

    The link that `top` may be is followed, because somebody named it; no other one is."""
    start = Path(os.path.realpath(top))
    source = Source(start if top.is_symlink() else top, start, start.is_dir())
    yield source
    if source.is_folder and not source.claimed:
        yield from _below(source, tell, DEPTH_MAX)


def _below(folder: Source, tell: Callable[[Problem], None], depth: int) -> Iterator[Source]:
    try:
        with os.scandir(folder.path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        tell(Problem(str(folder.path), 0, 0, _why(folder.path, error)))
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.is_symlink():
            if path.suffix in (*LOGS, ".db", ".sqlite", ".json") or path.is_dir():
                tell(Problem(str(path), 0, 0, "a symbolic link: not followed"))
        elif entry.is_file(follow_symlinks=False):
            yield Source(path, folder.top, False)
        elif entry.is_dir(follow_symlinks=False):
            source = Source(path, folder.top, True)
            yield source
            if not source.claimed and depth:
                yield from _below(source, tell, depth - 1)
            elif not source.claimed:
                tell(Problem(str(path), 0, 0, "folders nested too deep: not entered"))


def _object(raw: bytes, whole: bool) -> tuple[dict[str, Any] | None, str]:
    """The object that a line holds, or what is wrong with it; neither for a blank line."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not raw.strip():
            return None, ""
        try:
            value = decode(raw)
        except ValueError as error:
            return None, _wrong(raw, whole, error)
    if type(value) is dict:
        return value, ""
    return None, f"not an object, but {_kind(value)}"


def _wrong(raw: bytes, whole: bool, error: ValueError) -> str:
    if not raw.strip(b"\0\r\n\t "):
        return "a block of NUL bytes"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start} of the line"
    if not whole:
        return "a torn last line: it ends in the middle"
    if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
        return "two objects glued on one line"
    return f"not JSON: {error}"


def _skip_line(file: BinaryIO, left: int) -> int:
    """Go to the end of a line without holding it; how many bytes that took."""
    skipped = 0
    while skipped < left and (piece := file.readline(min(BUFFER, left - skipped))):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _no_constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


def _kind(value: Any) -> str:
    return "null" if value is None else f"a JSON {type(value).__name__}"


def _why(path: Path, error: OSError) -> str:
    if os.path.islink(path):
        return "a symbolic link: not followed"
    return f"cannot be read: {(error.strerror or str(error)).lower()}"
