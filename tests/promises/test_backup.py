"""A backup taken under full load is a consistent prefix of every log, and a store like any other."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import apsw
import pytest
from processes import at_once
from torture import backups
from torture.backups import under_load, until_busy
from torture.runner import Unit

import threadline
from threadline import Session, Store
from threadline.testing import scaled, seed

WRITERS = 4


def test_a_backup_under_load_is_a_prefix_of_every_log(tmp_path: Path) -> None:
    trials = backups.trials(Unit(seed(), 0, scaled(5)), tmp_path)

    assert [trial.wrong for trial in trials if trial.wrong] == []


def test_a_backup_holds_all_that_was_answered_before_it_began(session: Session, store: Store, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        for n in range(scaled(5)):
            list(pool.map(session.append, (f"{n}.{i}" for i in range(20))))
            store.backup(tmp_path / f"copy{n}.db")
            with threadline.open(tmp_path / f"copy{n}.db") as copy:
                assert copy.get(session.id or "").head == session.head


def test_backups_of_a_growing_store_grow(path: Path, tmp_path: Path) -> None:
    heads = []
    with threadline.open(path) as store, under_load(path, WRITERS):
        for n in range(4):
            until_busy(store.session("shared"))
            store.backup(tmp_path / f"{n}.copy")
            with threadline.open(tmp_path / f"{n}.copy") as copy:
                heads.append(copy.session("shared").head)

    assert all(earlier < later for earlier, later in pairwise(heads))


def test_the_file_alone_would_be_no_backup(path: Path, session: Session, tmp_path: Path) -> None:
    """The same check catches a plain copy: what was answered last is in the WAL."""
    session.append("answered")
    at_once(lambda: str(shutil.copy(path, tmp_path / "copy.db")))  # elsewhere: closing a file drops a process's locks
    with threadline.open(tmp_path / "copy.db") as copy, pytest.raises(threadline.NotFound):
        copy.get(session.id or "")


def test_a_backup_does_not_overwrite(store: Store, session: Session, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"somebody's only copy")

    with pytest.raises(threadline.Conflict, match="precious exists already"):
        store.backup(precious)

    assert precious.read_bytes() == b"somebody's only copy"


def test_a_backup_leaves_nothing_beside_it(store: Store, session: Session, tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    store.backup(tmp_path / "backups" / "copy.db")

    assert os.listdir(tmp_path / "backups") == ["copy.db"]


def test_a_backup_is_as_private_as_the_store(store: Store, session: Session, tmp_path: Path) -> None:
    store.backup(tmp_path / "copy.db")

    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


def test_a_backup_into_a_folder_that_is_not_there_says_so_in_our_words(store: Store, tmp_path: Path) -> None:
    with pytest.raises(threadline.ThreadlineError):
        store.backup(tmp_path / "nowhere" / "copy.db")

    assert not (tmp_path / "nowhere").exists()


def test_a_restored_backup_is_written_to_in_wal_mode(store: Store, session: Session, tmp_path: Path) -> None:
    session.append("before")
    store.backup(tmp_path / "copy.db")
    with threadline.open(tmp_path / "copy.db") as copy:
        copy.get(session.id or "").append("after")

        assert (tmp_path / "copy.db-wal").stat().st_size > 0
        assert copy.verify().ok
        assert [message.text for message in copy.get(session.id or "").messages()] == ["before", "after"]


def test_a_restored_backup_goes_on_under_many_writers(store: Store, session: Session, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    session.append("before")
    store.backup(copy)

    def work(writer: str) -> None:
        with threadline.open(copy) as own:
            for n in range(10):
                own.get(session.id or "").append(f"{writer}:{n}")

    at_once(*(partial(work, f"writer{i}") for i in range(WRITERS)))

    with threadline.open(copy) as own:
        assert own.get(session.id or "").head == 1 + WRITERS * 10
        assert own.verify().ok


def test_a_backup_knows_the_keys(store: Store, session: Session, tmp_path: Path) -> None:
    session.append("once", key="k")
    store.backup(tmp_path / "copy.db")
    with threadline.open(tmp_path / "copy.db") as copy:
        copy.get(session.id or "").append("once", key="k")

        assert copy.get(session.id or "").head == 1


def test_a_read_only_store_can_be_backed_up(path: Path, tmp_path: Path) -> None:
    with threadline.open(path) as store:
        store.session("s").append("one")
    with threadline.open(path, read_only=True) as store:
        store.backup(tmp_path / "copy.db")

    with threadline.open(tmp_path / "copy.db", read_only=True) as copy:
        assert copy.session("s").head == 1


def test_a_backup_of_a_store_in_memory_is_a_file(tmp_path: Path) -> None:
    with threadline.open(":memory:") as store:
        store.session("s").append("one")
        store.backup(tmp_path / "copy.db")

    with threadline.open(tmp_path / "copy.db") as copy:
        assert copy.session("s").head == 1
        assert apsw.Connection(str(tmp_path / "copy.db")).pragma("journal_mode") == "wal"
