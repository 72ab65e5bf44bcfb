"""On a full disk nothing is lost, and sessions can still be removed: room was kept for that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import threadline
from threadline import Session, Store, StoreFull
from threadline.backends.sqlite import reserve
from threadline.backends.sqlite.backend import SqliteBackend
from threadline.backends.sqlite.reserve import RESERVE_BYTES
from threadline.testing.faults import FailingDisk

MEGABYTES = 24
CHUNK = 20_000

REMOVALS = {
    "delete": lambda store, session: store.delete(session),
    "erase": lambda store, session: store.erase(session),
    "redact": lambda store, session: session.redact(1, "why"),
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, small enough to be filled; only root can make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here; the failing disk below stands for it")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def noise(number: int) -> str:
    """What does not compress."""
    return os.urandom(CHUNK // 2).hex() + str(number)


def filled(store: Store, session: Session) -> int:
    """Write until the disk is full; how many entries were acknowledged."""
    for number in range(MEGABYTES * 1_000_000 // CHUNK * 4):
        try:
            session.append(noise(number))
        except StoreFull:
            return number
    raise AssertionError("the disk never was full")


@pytest.mark.parametrize("how", ["delete", "erase"])
def test_a_full_disk_can_be_emptied_and_written_to_again(small_disk: Path, how: str) -> None:
    with threadline.open(small_disk / "store.db") as store:
        kept = store.new()
        kept.append("kept")
        large = store.new()
        acknowledged = filled(store, large)
        (small_disk / "somebody else's").write_bytes(b"x" * 4_096 * _free_pages(small_disk))
        assert large.head == acknowledged
        with pytest.raises(StoreFull, match="delete, erase"):
            kept.extend([noise(n) for n in range(MEGABYTES * 1_000_000 // CHUNK)])  # more than a WAL has room for
        done = REMOVALS[how](store, large)

        assert done if how == "delete" else done.done
        assert [kept.append(noise(n)).seq for n in range(50)] == [*range(2, 52)]
        assert store.verify().problems == []
    with threadline.open(small_disk / "store.db") as store:
        assert store.get(str(kept.id)).head == 51


def _free_pages(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize // 4_096


def test_the_reserve_is_taken_from_the_disk_and_comes_back_when_there_is_room(small_disk: Path) -> None:
    path = small_disk / "store.db"
    with threadline.open(path) as store:
        assert store.stats()["reserve_bytes"] == RESERVE_BYTES
        assert path.with_name("store.db.reserve").stat().st_blocks * 512 >= RESERVE_BYTES
    path.with_name("store.db.reserve").unlink()
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 4_096 * (_free_pages(small_disk) - 1_500))
    with threadline.open(path) as store:
        assert store.stats()["reserve_bytes"] == 0
    filler.unlink()
    with threadline.open(path) as store:
        assert store.stats()["reserve_bytes"] == RESERVE_BYTES


# -- the same without a file system of its own ---------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    with FailingDisk() as disk:
        yield disk


@pytest.fixture
def store(path: Path, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store on a disk that is full until the reserve is given up."""
    spend = reserve.Reserve.spend

    def spent(self: reserve.Reserve) -> bool:
        done = spend(self)
        if done:
            disk.heal()
        return done

    monkeypatch.setattr(reserve.Reserve, "spend", spent)
    with Store(SqliteBackend(str(path), vfs=disk.name)) as store:
        yield store
        disk.heal()


def now_full(disk: FailingDisk) -> None:
    disk.fail(at=disk.calls + 1, error=apsw.FullError, lasting=True)


@pytest.mark.parametrize("how", REMOVALS)
def test_what_removes_something_has_the_reserve(store: Store, disk: FailingDisk, path: Path, how: str) -> None:
    session, other = store.new(), store.new()
    session.extend(["needle", "hello"])
    now_full(disk)
    with pytest.raises(StoreFull):
        other.append("hi")
    assert path.with_name("store.db.reserve").exists()
    REMOVALS[how](store, session)

    assert other.append("hi").seq == 1
    assert store.verify().problems == []


def test_without_a_reserve_a_full_disk_is_told(store: Store, disk: FailingDisk, path: Path) -> None:
    session = store.new()
    session.append("hello")
    path.with_name("store.db.reserve").unlink()
    now_full(disk)
    with pytest.raises(StoreFull):
        store.delete(session)
    disk.heal()

    assert session.head == 1


def test_an_erase_leaves_no_byte_on_a_full_disk_either(store: Store, disk: FailingDisk, path: Path) -> None:
    """The pages that it frees are not overwritten through the WAL then, but in the file."""
    session, other = store.new(), store.new()
    session.extend([f"needle {n} " * 500 for n in range(40)])
    other.extend([f"kept {n} " * 500 for n in range(40)])
    now_full(disk)
    receipt = store.erase(session)

    assert receipt.pending == []
    assert [file.name for file in path.parent.iterdir() if b"needle" in file.read_bytes()] == []
    assert store.verify().problems == []
