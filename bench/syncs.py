"""Syncs, counted by a VFS under the real store, not timed; and what many threads share."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from bench.measure import Found
from bench.said import MESSAGE
from threadline import Session, Store
from threadline.backends.sqlite.backend import SqliteBackend


def syncs(folder: Path, large: int) -> Iterator[Found]:
    vfs = CountingVFS("bench-count")
    yield from alone(folder, vfs)
    yield from together(folder, vfs)


def alone(folder: Path, vfs: CountingVFS) -> Iterator[Found]:
    for durability, must in (("full", 1.0), ("relaxed", 0.0)):
        store = Store(SqliteBackend(str(folder / f"{durability}.db"), vfs=vfs.name, durability=durability))
        session = store.new()
        vfs.syncs = 0
        for _ in range(100):
            session.append(MESSAGE)
        yield Found(f"syncs, {durability}", vfs.syncs / 100, must, "per append", "without a checkpoint")
        vfs.syncs = 0
        for _ in range(2_000):
            session.append(MESSAGE)
        extra = vfs.syncs - 2_000 * must
        checkpoints = vfs.checkpoints
        detail = f"of 2,000 appends, {checkpoints} checkpoints among them"
        yield Found(f"syncs of checkpoints, {durability}", extra / max(1, checkpoints), 3.0, "per checkpoint", detail)
        store.close()


def together(folder: Path, vfs: CountingVFS) -> Iterator[Found]:
    store = Store(SqliteBackend(str(folder / "together.db"), vfs=vfs.name))
    session = store.new()
    vfs.delay_s = 0.002
    one = rate(session, 1, 100)
    vfs.syncs = 0
    many = rate(session, 32, 50)
    yield Found("syncs, 32 threads", vfs.syncs / 1_600, 0.25, "per append", "checkpoints included; a sync takes 2 ms")
    yield Found(
        "rate of one thread, a sync takes 2 ms", one / many, 0.25, "x of 32 threads", f"{one:.0f}/s, {many:.0f}/s"
    )
    vfs.delay_s = 0.0
    store.close()


def rate(session: Session, threads: int, each: int) -> float:
    """Appends per second of so many threads together."""

    def work() -> None:
        for _ in range(each):
            session.append(MESSAGE)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return threads * each / (time.perf_counter() - begin)


class CountingVFS(apsw.VFS):
    """The usual file system, counting syncs, and making each as slow as a disk."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.syncs = 0
        self.database_syncs = 0
        self.delay_s = 0.0
        super().__init__(name, "")

    @property
    def checkpoints(self) -> int:
        """Each syncs the database itself once, and nothing else does."""
        count, self.database_syncs = self.database_syncs, 0
        return count

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> CountingFile:
        return CountingFile(self, name, flags)


class CountingFile(apsw.VFSFile):
    def __init__(self, vfs: CountingVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._vfs = vfs
        self._database = bool(flags[0] & apsw.SQLITE_OPEN_MAIN_DB)
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        self._vfs.syncs += 1
        self._vfs.database_syncs += self._database
        time.sleep(self._vfs.delay_s)
        super().xSync(flags)


WORKLOADS = (syncs,)
