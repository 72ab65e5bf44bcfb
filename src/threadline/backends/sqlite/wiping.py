"""Wiping: no byte of what was deleted stays in the file.

`secure_delete` overwrites rows and pages that go. Two places are left. The WAL holds what was written until it is
truncated. And when SQLite splits or joins pages, it moves rows and leaves old copies of them in the free space between
a page's index and its rows; it never reads them again, and never clears them. We do, in the file itself, while nobody
writes and the WAL is empty: free space means nothing to a reader, so none is disturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from time import monotonic

import apsw

from threadline.backends.sqlite.files import size
from threadline.backends.sqlite.rows import Connection, run
from threadline.core.receipts import Pending

PATIENCE_MS = 2_000  # our readers hold a page for a few milliseconds; a backup or a foreign program may take longer
PAUSE_S = 1.0  # between attempts
LATER = "it is tried again after the next write, when the store is closed, and when it is opened"

HEADERS = {2: 12, 5: 12, 10: 8, 13: 8}  # the kinds of pages that hold rows, and how long their headers are
PAGES_MAX = 1 << 25  # beyond (137 GB), a page of large content could look like one of them
LOCKED_BYTE = 1 << 30  # the page of this byte is never used
AT_ONCE = 256  # pages read at once

Free = tuple[int, int]  # bytes of the file: from, to


class Hindered(Exception):
    """Why the bytes cannot go yet, and what lets them go."""

    def __init__(self, why: str, until: str) -> None:
        super().__init__(why, until)
        self.why = why
        self.until = until


def wipe(connection: Connection, path: str, vfs: str | None) -> None:
    """Clear the WAL and all free space of the file. Raises Hindered. Called under the writers' lock.

    `connection` is a fresh one: it has read no page, so it brings no old bytes back. Its commit at the end makes every
    other connection forget the pages that it has read."""
    _truncate(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if size(path + "-wal"):
            raise Hindered("another program writes to the file", LATER)
        _clear(connection, path, vfs)
        run(connection, "settle_owed")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _truncate(connection: Connection) -> None:
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError as error:
        raise Hindered(
            "a reader, or a backup under way, still needs the WAL", f"until that reader has ended: {LATER}"
        ) from error


def _clear(connection: Connection, path: str, vfs: str | None) -> None:
    """Overwrite all free space with zeros, on disk when this returns."""
    page, pages = int(connection.pragma("page_size")), int(connection.pragma("page_count"))
    if pages >= PAGES_MAX:
        raise Hindered(f"the file has {pages:,} pages, too many to tell them apart", "VACUUM rewrites such a file")
    # Through SQLite's own layer: closing a file that we opened would drop the locks that this process holds on it.
    file = apsw.VFSFile(vfs or "", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
    with closing(_Closing(file)):
        unused = dict(_unused(file, page))
        for first in range(2, pages + 1, AT_ONCE):
            count = min(AT_ONCE, pages + 1 - first)
            found = file.xRead(count * page, (first - 1) * page)
            for number in range(first, first + count):
                body = found[(number - first) * page : (number - first + 1) * page]
                for low, high in _free_space(body, number, page, unused):
                    if body[low:high].strip(b"\0"):
                        file.xWrite(bytes(high - low), (number - 1) * page + low)
        file.xSync(apsw.SQLITE_SYNC_FULL)


class _Closing:
    def __init__(self, file: apsw.VFSFile) -> None:
        self.close = file.xClose


def _unused(file: apsw.VFSFile, page: int) -> Iterator[tuple[int, int]]:
    """The pages of the freelist, and from which byte on each of them is empty: the trunks of the list name the rest."""
    trunk, hops = _number(file.xRead(36, 0), 32), 0
    while trunk and hops < PAGES_MAX:
        body = file.xRead(page, (trunk - 1) * page)
        count = min(_number(body, 4), page // 4 - 2)
        yield trunk, 8 + 4 * count
        yield from ((_number(body, 8 + 4 * i), 0) for i in range(count))
        trunk, hops = _number(body, 0), hops + 1


def _free_space(body: bytes, number: int, page: int, unused: dict[int, int]) -> Iterator[Free]:
    """Where in a page nothing lies that anybody reads."""
    if number in unused:
        yield unused[number], page
        return
    header = HEADERS.get(body[0])
    if header is None or (number - 1) * page == LOCKED_BYTE // page * page:
        return  # a page of large content, which is full, or was empty before it was filled
    cells, start = int.from_bytes(body[3:5], "big"), int.from_bytes(body[5:7], "big") or 65_536
    yield header + 2 * cells, min(start, page)
    block = int.from_bytes(body[1:3], "big")
    while start <= block <= page - 4:
        yield block + 4, min(block + int.from_bytes(body[block + 2 : block + 4], "big"), page)
        following = int.from_bytes(body[block : block + 2], "big")
        block = following if following > block else 0


def _number(body: bytes, at: int) -> int:
    return int.from_bytes(body[at : at + 4], "big")


class Wiping:
    """What is owed to those who were erased, tried again until it is done: `wipe(wait_ms)` tries once."""

    def __init__(self, wipe: Callable[[int], None]) -> None:
        self.owed = False
        self._wipe = wipe
        self._next_at = 0.0

    def is_due(self) -> bool:
        return self.owed and monotonic() >= self._next_at

    def attempt(self, *, patient: bool = False) -> list[Pending]:
        """Try, and say what is still pending."""
        try:
            self._wipe(PATIENCE_MS if patient else 0)
        except (Hindered, apsw.Error) as error:
            self.owed = True
            self._next_at = monotonic() + PAUSE_S
            hindered = error if isinstance(error, Hindered) else Hindered(f"the disk refused ({error})", LATER)
            return [Pending("the file and its WAL", hindered.why, hindered.until)]
        self.owed = False
        return []
