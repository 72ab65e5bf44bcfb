"""A forked child reopens by itself, whatever the parent's threads were doing, and neither can harm the other."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from processes import at_once, exit_code, fork

import threadline
from threadline import Session, Store
from threadline.backends.sqlite import files
from threadline.testing import scaled


def append(session: Session, writer: str, count: int = 5) -> None:
    for n in range(count):
        session.append(f"{writer}:{n}")


def counts(session: Session) -> Counter[str]:
    """How many entries each writer has in the log."""
    return Counter(entry.message.text.partition(":")[0] for entry in session.entries() if entry.message)


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[None]:
    """Threads that do something over and over again until the block ends."""
    over = threading.Event()

    def repeat(work: Callable[[], object]) -> None:
        while not over.is_set():
            work()

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_child_writes_through_the_session_it_inherited(store: Store, session: Session) -> None:
    append(session, "parent")
    at_once(partial(append, session, "child"))

    assert counts(session) == {"parent": 5, "child": 5}


def test_a_child_of_a_child_does_so_too(store: Store, session: Session) -> None:
    append(session, "parent")

    def child() -> None:
        append(session, "child")
        at_once(partial(append, session, "grandchild"))

    at_once(child)

    assert counts(session) == {"parent": 5, "child": 5, "grandchild": 5}


def test_parent_and_children_append_to_one_session_at_once(store: Store, session: Session) -> None:
    append(session, "parent", 1)
    children = [fork(partial(append, session, f"child{i}", 20)) for i in range(4)]
    append(session, "parent", 20)

    assert [exit_code(pid) for pid in children] == [0] * 4
    assert counts(session) == {"parent": 21} | {f"child{i}": 20 for i in range(4)}
    assert store.verify().ok


def test_children_are_born_whole_while_threads_of_the_parent_write(store: Store, session: Session) -> None:
    written: Counter[str] = Counter()

    def write(writer: str) -> None:
        session.append(f"{writer}:{written[writer]}")
        written[writer] += 1

    with meanwhile(*(partial(write, f"thread{i}") for i in range(4))):
        for i in range(scaled(20)):
            at_once(partial(append, session, f"child{i}", 3))

    assert counts(session) == written | Counter({f"child{i}": 3 for i in range(scaled(20))})
    assert store.verify().ok


def test_children_are_born_whole_while_threads_read(store: Store, session: Session) -> None:
    append(session, "parent", 300)
    with meanwhile(session.view, session.view, store.verify, lambda: list(session.entries())):
        for i in range(scaled(10)):
            at_once(partial(append, session, f"child{i}", 3))

    assert counts(session) == {"parent": 300} | {f"child{i}": 3 for i in range(scaled(10))}


def test_children_are_born_whole_while_threads_open_and_close_stores(tmp_path: Path) -> None:
    """Opening and closing takes locks inside SQLite that are the whole process's: a child must not inherit them."""
    path = tmp_path / "shared.db"
    with threadline.open(path) as store, meanwhile(*(lambda: threadline.open(path).close() for _ in range(3))):
        session = store.new()
        for i in range(scaled(30)):
            at_once(partial(append, session, f"child{i}", 2))

        assert counts(session) == {f"child{i}": 2 for i in range(scaled(30))}


def test_no_fork_comes_while_a_file_is_looked_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is the one use of SQLite without a pool."""
    looking, go_on, forked, look = Event(), Event(), Event(), files.look

    def look_slowly(*args: Any, **options: Any) -> None:
        looking.set()
        assert go_on.wait(10)
        look(*args, **options)

    def fork_once() -> None:
        assert exit_code(fork(lambda: None)) == 0
        forked.set()

    monkeypatch.setattr(files, "look", look_slowly)
    with ThreadPoolExecutor(2) as threads:
        opening = threads.submit(lambda: threadline.open(path).close())
        assert looking.wait(10)
        forking = threads.submit(fork_once)
        too_early = forked.wait(0.2)
        go_on.set()
        opening.result()
        forking.result()

    assert not too_early


def test_what_a_child_writes_after_its_parent_closed_is_kept(path: Path) -> None:
    """Whoever closes a file last removes the WAL: the parent must see that the child is still there."""
    store = threadline.open(path)
    session = store.new(id="s")
    append(session, "parent")
    parent_is_closed, close = os.pipe()

    def child() -> None:
        os.close(close)
        append(session, "child")
        os.read(parent_is_closed, 1)
        append(session, "child")

    pid = fork(child)
    while session.head < 10:
        pass
    store.close()
    os.close(close)
    os.close(parent_is_closed)

    assert exit_code(pid) == 0
    with threadline.open(path) as store:
        assert counts(store.get("s")) == {"parent": 5, "child": 10}


def test_what_the_parent_writes_after_a_child_closed_is_kept(path: Path) -> None:
    with threadline.open(path) as store:
        session = store.new(id="s")
        append(session, "parent")

        def child() -> None:
            append(session, "child")
            store.close()

        at_once(child)
        append(session, "parent")

    with threadline.open(path) as store:
        assert counts(store.get("s")) == {"parent": 10, "child": 5}


def test_a_third_process_sees_the_locks_of_a_child(path: Path) -> None:
    """It opens and closes the file between two writes of the child: nothing may be swept away under its hands."""
    store = threadline.open(path)
    session = store.new(id="s")
    go, gone = os.pipe()

    def child() -> None:
        os.close(gone)
        append(session, "child")
        os.read(go, 1)
        append(session, "child")

    pid = fork(child)
    while session.head < 5:
        pass
    store.close()
    subprocess.run([sys.executable, "-c", f"import threadline; threadline.open({str(path)!r}).close()"], check=True)
    os.close(gone)
    os.close(go)

    assert exit_code(pid) == 0
    with threadline.open(path) as store:
        assert counts(store.get("s")) == {"child": 10}


def test_a_child_does_not_hold_the_lock_of_a_parent_that_was_killed(path: Path) -> None:
    """A lock on a file lives until every process that inherited it lets go: the child must do so at once."""
    for _ in range(scaled(10)):
        born, tell = os.pipe()
        parent = fork(partial(_write_have_a_child_and_write_on, path, tell))
        os.close(tell)
        child = int(os.read(born, 20))
        os.close(born)
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        try:
            at_once(partial(_open_and_append, path))
        finally:
            os.kill(child, signal.SIGKILL)


def _write_have_a_child_and_write_on(path: Path, tell: int) -> None:
    session = threadline.open(path).session("s")
    for i in range(4):
        threading.Thread(target=append, args=(session, f"thread{i}", 1_000_000), daemon=True).start()
    pid = fork(signal.pause)
    os.write(tell, b"%d" % pid)
    signal.pause()


def _open_and_append(path: Path) -> None:
    with threadline.open(path) as store:
        store.session("s").append("free")


def test_the_async_store_works_in_a_child(path: Path) -> None:
    async def write(session: threadline.AsyncSession, writer: str) -> None:
        await asyncio.gather(*(session.append(f"{writer}:{n}") for n in range(20)))

    async def opened() -> tuple[threadline.AsyncStore, threadline.AsyncSession]:
        store = await threadline.aopen(path)
        session = await store.new(id="s")
        await write(session, "parent")
        return store, session

    store, session = asyncio.run(opened())
    at_once(lambda: asyncio.run(write(session, "child")))
    asyncio.run(write(session, "parent"))
    asyncio.run(store.close())

    with threadline.open(path) as again:
        assert counts(again.get("s")) == {"parent": 40, "child": 20}


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_pool_of_forked_workers_shares_a_session(store: Store, session: Session) -> None:
    append(session, "parent")
    with multiprocessing.get_context("fork").Pool(4, initializer=_inherit, initargs=(session,)) as pool:
        pool.map(_append_inherited, range(40))

    assert counts(session) == {"parent": 5, "worker": 40}


def _inherit(session: Session) -> None:
    global inherited
    inherited = session


def _append_inherited(n: int) -> None:
    inherited.append(f"worker:{n}")


def test_a_store_in_memory_is_copied_with_the_process() -> None:
    with threadline.open(":memory:") as store:
        session = store.new()
        append(session, "parent")

        def child() -> int:
            append(session, "child")
            return session.head

        assert at_once(child) == [10]
        assert counts(session) == {"parent": 5}


def test_a_closed_store_stays_closed_in_a_child(path: Path) -> None:
    store = threadline.open(path)
    store.close()

    def child() -> None:
        with pytest.raises(threadline.Closed):
            store.new()

    at_once(child)


def test_a_closed_store_whose_folder_is_gone_hinders_no_fork(tmp_path: Path) -> None:
    gone = threadline.open(tmp_path / "gone" / "store.db")
    gone.close()
    shutil.rmtree(tmp_path / "gone")
    with threadline.open(tmp_path / "here.db") as store:
        session = store.new()
        at_once(lambda: at_once(partial(append, session, "grandchild")))

        assert counts(session) == {"grandchild": 5}


def test_an_open_store_whose_folder_is_gone_hinders_no_fork(tmp_path: Path) -> None:
    gone = threadline.open(tmp_path / "gone" / "store.db")
    shutil.rmtree(tmp_path / "gone")
    with threadline.open(tmp_path / "here.db") as store:
        session = store.new()
        at_once(lambda: at_once(partial(append, session, "grandchild")))

        assert counts(session) == {"grandchild": 5}
    gone.close()


def test_a_child_that_ends_in_the_ordinary_way_leaves_the_parent_whole(path: Path) -> None:
    """Not by os._exit: the interpreter tears down what the child inherited."""
    script = f"""
import os, sys, threadline
store = threadline.open({str(path)!r})
session = store.new(id="s")
session.append("parent:0")
if os.fork() == 0:
    session.append("child:0")
    sys.exit()
os.wait()
session.append("parent:1")
os._exit(0)  # a crash, as far as the file is concerned
"""
    subprocess.run([sys.executable, "-c", script], check=True)

    with threadline.open(path) as store:
        assert counts(store.get("s")) == {"parent": 2, "child": 1}
        assert store.verify().ok
