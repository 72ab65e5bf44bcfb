"""What a durable append costs in syncs, and that the WAL stays small, is used after a crash and gone after a close."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from processes import at_once, fork

import threadline
from threadline import Session, Store
from threadline.backends.sqlite.backend import SqliteBackend
from threadline.testing import scaled

PAGE_BYTES = 4096
FEW_PAGES = 120  # of WAL before a checkpoint, where a test wants many of them; the schema alone takes fewer
PER_CHECKPOINT = 3  # the WAL before it is read, the file after it is written, the WAL's header when it begins anew


class CountingDisk(apsw.VFS):
    """Counts syncs, and takes a while for each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.syncs = 0
        self.sync_s = 0.0
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return CountingFile(self, name, flags)


class CountingFile(apsw.VFSFile):
    def __init__(self, disk: CountingDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        self._disk.syncs += 1
        time.sleep(self._disk.sync_s)
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[CountingDisk]:
    disk = CountingDisk("counting disk")
    yield disk
    disk.unregister()


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """As many items as there were checkpoints; they come often."""
    seen: list[None] = []
    checkpoint = SqliteBackend._checkpoint
    monkeypatch.setattr("threadline.backends.sqlite.backend.CHECKPOINT_PAGES", FEW_PAGES)
    monkeypatch.setattr(SqliteBackend, "_checkpoint", lambda *args: (seen.append(None), checkpoint(*args)))
    return seen


def opened(path: Path, disk: CountingDisk, **options: Any) -> Store:
    """A store whose WAL has begun: the first entry after that costs one sync more, once."""
    store = Store(SqliteBackend(str(path), vfs=disk.name, **options))
    store.new(id="s").append("first")
    disk.syncs = 0
    return store


def append_until(session: Session, checkpoints: list[None], count: int) -> int:
    """Append until there were so many checkpoints, then once more: the WAL begins anew at the next write."""
    appended = 0
    while len(checkpoints) < count:
        session.append(f"{appended}")
        appended += 1
    session.append("on a new WAL")
    return appended + 1


# -- syncs -------------------------------------------------------------------------------------------------------


def test_a_durable_append_costs_exactly_one_sync(path: Path, disk: CountingDisk) -> None:
    with opened(path, disk) as store:
        for n in range(100):
            store.get("s").append(f"{n}")

        assert disk.syncs == 100


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_checkpoint_costs_three_syncs_more(
    path: Path, disk: CountingDisk, checkpoints: list[None], count: int
) -> None:
    with opened(path, disk) as store:
        appended = append_until(store.get("s"), checkpoints, count)

        assert disk.syncs == appended + PER_CHECKPOINT * count


def test_a_batch_is_one_sync_however_much_it_writes(path: Path, disk: CountingDisk) -> None:
    with opened(path, disk) as store:
        with store.get("s").batch() as b:
            b.extend([f"{n}" for n in range(50)])
            b.rewind(3)
            b.append("edited")

        assert disk.syncs == 1


def test_a_refusal_and_a_repeated_key_cost_no_sync(path: Path, disk: CountingDisk) -> None:
    with opened(path, disk) as store:
        session = store.get("s")
        session.append("once", key="k")
        disk.syncs = 0
        session.append("once", key="k")
        with pytest.raises(threadline.Stale):
            session.append("late", expect=0)

        assert disk.syncs == 0


def test_reading_costs_no_sync(path: Path, disk: CountingDisk) -> None:
    with opened(path, disk) as store:
        session = store.get("s")
        session.view()
        list(session.entries())
        list(store.sessions())
        store.stats()
        store.verify()

        assert disk.syncs == 0


def test_relaxed_appends_cost_no_sync_but_for_checkpoints(
    path: Path, disk: CountingDisk, checkpoints: list[None]
) -> None:
    with opened(path, disk, durability="relaxed") as store:
        append_until(store.get("s"), checkpoints, 3)

        assert disk.syncs == PER_CHECKPOINT * 3


def test_32_threads_share_their_syncs(path: Path, disk: CountingDisk) -> None:
    with opened(path, disk) as store:
        session = store.get("s")
        disk.sync_s = 0.002
        appends = 32 * scaled(20)
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(session.append, (f"{n}" for n in range(appends))))

        print(f"{disk.syncs} syncs for {appends} appends")
        assert disk.syncs <= 0.25 * appends


# -- the size of the WAL -----------------------------------------------------------------------------------------


def wal_bytes(path: Path) -> int:
    return os.path.getsize(f"{path}-wal")


def test_a_reader_that_iterates_slowly_does_not_let_the_wal_grow(
    path: Path, checkpoints: list[None], store: Store
) -> None:
    session = store.new()
    for n in range(600):
        session.append(f"{n}")
    slow = session.entries()
    for _ in range(600):
        session.append("x" * PAGE_BYTES)
        next(slow)

    print(f"{wal_bytes(path)} bytes of WAL for {600 * PAGE_BYTES} written")
    assert wal_bytes(path) < 3 * FEW_PAGES * PAGE_BYTES


def test_readers_that_never_pause_do_not_let_the_wal_grow(path: Path, checkpoints: list[None], store: Store) -> None:
    """There is always one of them that began before the last write, and holds a checkpoint back that does not wait."""
    session = store.new()
    session.extend([f"{n}" for n in range(600)])
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            session.view(last=200)

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        for _ in range(600):
            session.append("x" * PAGE_BYTES)
        over.set()
    for reader in readers:
        reader.result()

    print(f"{wal_bytes(path)} bytes of WAL for {600 * PAGE_BYTES} written")
    assert wal_bytes(path) < 10 * FEW_PAGES * PAGE_BYTES


def test_writers_in_several_processes_keep_the_wal_small(path: Path, checkpoints: list[None]) -> None:
    def work() -> int:
        with threadline.open(path) as store:
            session, largest = store.session("s"), 0
            for _ in range(200):
                session.append("x" * PAGE_BYTES)
                largest = max(largest, wal_bytes(path))
            return largest

    assert max(at_once(work, work, work)) < 6 * FEW_PAGES * PAGE_BYTES


# -- what is left of it ------------------------------------------------------------------------------------------


def files(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent))


def append(path: Path, text: str) -> None:
    with threadline.open(path) as store:
        store.session("s").append(text)


def test_closing_leaves_only_the_database_its_lock_and_its_reserve(path: Path) -> None:
    append(path, "one")

    assert files(path) == ["store.db", "store.db.lock", "store.db.reserve"]


def test_the_last_to_close_leaves_only_the_database_its_lock_and_its_reserve(path: Path) -> None:
    at_once(*(partial(append, path, f"{n}") for n in range(8)))

    assert files(path) == ["store.db", "store.db.lock", "store.db.reserve"]


def test_one_that_closes_leaves_the_wal_to_those_who_stay(path: Path, store: Store) -> None:
    session = store.session("s")
    session.append("before")
    at_once(partial(append, path, "elsewhere"))
    session.append("after")

    assert f"{path.name}-wal" in files(path)
    assert [message.text for message in session.messages()] == ["before", "elsewhere", "after"]


def test_a_crash_leaves_a_wal_that_the_next_open_uses(path: Path) -> None:
    def crash() -> None:
        session = threadline.open(path).session("s")
        for n in range(10):
            session.append(f"{n}")
        os._exit(0)

    os.waitpid(fork(crash), 0)

    assert wal_bytes(path) > 0
    with threadline.open(path) as store:
        assert [message.text for message in store.session("s").messages()] == [f"{n}" for n in range(10)]
        assert store.verify().ok


def test_the_open_after_a_crash_needs_no_help_from_the_file_itself(path: Path) -> None:
    """Nothing was moved into the file yet: without its WAL it would be an empty store."""

    def crash() -> None:
        threadline.open(path).session("s").append("only in the WAL")
        os._exit(0)

    os.waitpid(fork(crash), 0)
    os.unlink(f"{path}-shm")  # only an index of the WAL: it is made anew

    with threadline.open(path) as store:
        assert store.session("s").head == 1
