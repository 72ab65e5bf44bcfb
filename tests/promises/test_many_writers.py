"""Any number of threads, tasks and processes write to one session: nothing is lost or doubled, nobody starves."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from processes import at_once, exit_code, fork

import threadline
from threadline import Session, Store
from threadline.backends.sqlite.backend import SqliteBackend
from threadline.backends.sqlite.writers import FileLock
from threadline.testing import scaled, seed

FAIR_S = 2.0


def append(session: Any, writer: str, count: int) -> None:
    for n in range(count):
        session.append(f"{writer}:{n}")


def texts(session: Session) -> list[str]:
    return [entry.message.text for entry in session.entries() if entry.message]


def check(session: Session, expected: dict[str, int]) -> None:
    """Nothing lost, nothing doubled, no hole, and each writer's entries in the order in which it wrote them."""
    log = list(session.entries())
    written = texts(session)

    assert [entry.seq for entry in log] == list(range(1, session.head + 1))
    assert Counter(text.partition(":")[0] for text in written) == expected
    for writer, count in expected.items():
        assert [text for text in written if text.startswith(f"{writer}:")] == [f"{writer}:{n}" for n in range(count)]
    assert session._store.verify().ok


def in_threads(*works: Callable[[], Any]) -> list[Any]:
    """What each of `works` returned, or the error it raised. All start together, each in a thread of its own."""
    together = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        together.wait()
        try:
            return work()
        except threadline.ThreadlineError as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


# -- one session -------------------------------------------------------------------------------------------------


def test_eight_processes_lose_and_double_nothing(path: Path) -> None:
    def work(writer: str) -> None:
        with threadline.open(path) as store:
            append(store.session("one"), writer, scaled(100))

    writers = [f"process{i}" for i in range(8)]
    at_once(*(partial(work, writer) for writer in writers))

    with threadline.open(path) as store:
        check(store.session("one"), dict.fromkeys(writers, scaled(100)))


def test_none_of_eight_processes_starves(path: Path) -> None:
    """In a fixed time each gets its share. SQLite's own busy handler leaves some with a single entry."""

    def work(writer: str) -> int:
        with threadline.open(path) as store:
            session, written, end = store.session("one"), 0, time.monotonic() + FAIR_S
            while time.monotonic() < end:
                session.append(f"{writer}:{written}")
                written += 1
            return written

    shares = at_once(*(partial(work, f"process{i}") for i in range(8)))

    print("appended by each:", shares)
    assert min(shares) >= sum(shares) / len(shares) / 10
    with threadline.open(path) as store:
        check(store.session("one"), {f"process{i}": share for i, share in enumerate(shares)})


def test_32_threads_lose_and_double_nothing(store: Store, session: Session) -> None:
    writers = [f"thread{i}" for i in range(32)]
    in_threads(*(partial(append, session, writer, scaled(30)) for writer in writers))

    check(session, dict.fromkeys(writers, scaled(30)))


def test_32_tasks_lose_and_double_nothing(path: Path) -> None:
    async def task(session: threadline.AsyncSession, writer: str) -> None:
        for n in range(scaled(30)):
            await session.append(f"{writer}:{n}")

    async def work() -> None:
        async with threadline.aopen(path) as store:
            session = await store.session("one")
            await asyncio.gather(*(task(session, writer) for writer in writers))

    writers = [f"task{i}" for i in range(32)]
    asyncio.run(work())

    with threadline.open(path) as store:
        check(store.session("one"), dict.fromkeys(writers, scaled(30)))


def test_processes_of_many_threads_lose_and_double_nothing(path: Path) -> None:
    def work(process: int) -> None:
        with threadline.open(path) as store:
            session = store.session("one")
            in_threads(*(partial(append, session, f"thread{process}.{i}", scaled(20)) for i in range(8)))

    at_once(*(partial(work, process) for process in range(4)))

    with threadline.open(path) as store:
        expected = {f"thread{process}.{i}": scaled(20) for process in range(4) for i in range(8)}
        check(store.session("one"), expected)


def test_a_writer_that_is_killed_holds_nobody_up(path: Path) -> None:
    with threadline.open(path) as store:
        session = store.session("one")
        session.append("first")

        def work() -> None:
            with threadline.open(path) as own:
                append(own.session("one"), "victim", 1_000_000)

        for _ in range(scaled(10)):
            victim = fork(work)
            time.sleep(0.02)
            os.kill(victim, 9)
            session.append("survivor")
            assert exit_code(victim) == -9

        assert store.verify().ok


# -- keys and expectations -----------------------------------------------------------------------------------


def test_a_key_that_four_processes_retry_is_stored_once(path: Path) -> None:
    keys = [f"key{n}" for n in range(scaled(100))]

    def work() -> list[int]:
        with threadline.open(path) as store:
            session = store.session("one")
            return [session.append(f"of {key}", key=key).seq for key in keys]

    answers = at_once(work, work, work, work)

    assert all(answer == answers[0] for answer in answers)
    with threadline.open(path) as store:
        assert sorted(texts(store.session("one"))) == sorted(f"of {key}" for key in keys)


def test_a_key_that_threads_retry_is_stored_once(store: Store, session: Session) -> None:
    def work() -> list[int]:
        return [entry.seq for n in range(scaled(30)) for entry in session.extend([f"a{n}", f"b{n}"], key=f"key{n}")]

    answers = in_threads(*[work] * 8)

    assert answers == [list(range(1, 2 * scaled(30) + 1))] * 8
    assert session.head == 2 * scaled(30)


def test_of_many_who_expect_the_same_head_exactly_one_writes(path: Path) -> None:
    """Six processes read the head and write after it: each head has one winner, each loser is told the truth."""

    def work() -> list[int]:
        won, lies = [], 0
        with threadline.open(path) as store:
            session = store.session("one")
            while (head := session.head) < scaled(60):
                try:
                    won.append(session.append(f"after {head}", expect=head).seq)
                except threadline.Stale as stale:
                    lies += not stale.found > stale.expected == head
        assert not lies
        return won

    won = at_once(*[work] * 6)

    with threadline.open(path) as store:
        session = store.session("one")
        assert sorted(seq for seqs in won for seq in seqs) == list(range(1, session.head + 1))
        assert texts(session) == [f"after {head}" for head in range(session.head)]


# -- opening and making ----------------------------------------------------------------------------------------


def test_32_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    def work(path: Path, writer: str) -> None:
        with threadline.open(path) as store:
            append(store.session("one"), writer, 3)

    writers = [f"process{i}" for i in range(32)]
    for n in range(scaled(3)):
        path = tmp_path / f"{n}.db"
        at_once(*(partial(work, path, writer) for writer in writers))

        with threadline.open(path) as store:
            check(store.session("one"), dict.fromkeys(writers, 3))


def test_a_key_names_one_session_however_many_make_it_at_once(path: Path) -> None:
    def work(n: int) -> str | None:
        with threadline.open(path) as store:
            session = store.session("telegram:42")
            session.append(f"{n}")
            return session.id

    ids = at_once(*(partial(work, n) for n in range(16)))

    assert len(set(ids)) == 1
    with threadline.open(path) as store:
        assert [info.head for info in store.sessions()] == [16]


def test_threads_that_make_the_session_of_a_key_at_once_make_one(store: Store) -> None:
    session = store.session("telegram:42")
    in_threads(*(partial(session.append, f"{n}") for n in range(16)))
    in_threads(*(lambda n=n: store.session("telegram:42").append(f"{n}") for n in range(16)))

    assert [info.head for info in store.sessions()] == [32]


def test_different_sessions_do_not_mix(path: Path) -> None:
    def work(key: str) -> None:
        with threadline.open(path) as store:
            append(store.session(key), key, scaled(50))

    at_once(*(partial(work, f"session{i}") for i in range(6)))

    with threadline.open(path) as store:
        for i in range(6):
            check(store.session(f"session{i}"), {f"session{i}": scaled(50)})


# -- closing -----------------------------------------------------------------------------------------------------


def test_closing_under_load_ends_every_writer_with_closed_and_keeps_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for the one who has its answer and is about to let go of the lock: there a thread may lose the processor."""
    release = FileLock.release
    rng = random.Random(seed())
    monkeypatch.setattr(FileLock, "release", lambda lock: (time.sleep(rng.choice([0, 0.02])), release(lock)))
    for n in range(scaled(20)):
        path = tmp_path / f"{n}.db"
        store = threadline.open(path)
        session = store.new(id="one")
        answered: list[int] = []

        def write(session: Session = session, answered: list[int] = answered) -> None:
            while True:
                answered.append(session.append("x").seq)

        ends = in_threads(*[write] * 4, lambda store=store: (time.sleep(0.02), store.close()))[:4]

        assert [type(end) for end in ends] == [threadline.Closed] * 4
        with threadline.open(path) as again:
            assert sorted(answered) == list(range(1, again.get("one").head + 1))


def test_a_store_that_waits_for_another_process_can_be_closed(path: Path) -> None:
    """One thread waits for the lock of another process, one closes: the first is told so, in our words."""
    store = threadline.open(path)
    session = store.new()
    held, hold = os.pipe()

    def holder() -> None:
        with open(f"{path}.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.write(hold, b"!")
            time.sleep(0.5)

    pid = fork(holder)
    os.read(held, 1)
    write, _ = in_threads(lambda: session.append("x"), lambda: (time.sleep(0.1), store.close()))

    assert isinstance(write, threadline.Closed | threadline.Entry)
    assert exit_code(pid) == 0


# -- inside a group commit ---------------------------------------------------------------------------------------


class Gate(apsw.VFS):
    """A file system whose syncs wait while it is shut, so that a group can form, and fail when told to."""

    def __init__(self, name: str) -> None:
        self.opened = threading.Event()
        self.opened.set()
        self.reached = threading.Event()
        self.syncs = 0
        self.failing = 0
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return GatedFile(self, name, flags)


class GatedFile(apsw.VFSFile):
    def __init__(self, gate: Gate, name: Any, flags: list[int]) -> None:
        self._gate = gate
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        gate = self._gate
        fails, gate.failing = gate.failing > 0, max(0, gate.failing - 1)
        gate.syncs += 1
        gate.reached.set()
        assert gate.opened.wait(60)
        if fails:
            raise apsw.IOError("the test lets this sync fail")
        super().xSync(flags)


class Grouped:
    """A session whose writers are made to form a group: they queue while another writer syncs."""

    def __init__(self, path: Path, gate: Gate) -> None:
        self.gate = gate
        self.store = Store(SqliteBackend(str(path), vfs="gate"))
        self.session = self.store.new()
        self._blocker = self.store.new()

    def write(self, *works: Callable[[Session], Any], failing: int = 0) -> list[Any]:
        """What `works` return or raise when they are one group, in that order, and its first `failing` syncs fail."""
        self.gate.reached.clear()
        self.gate.opened.clear()
        with ThreadPoolExecutor(len(works) + 1) as pool:
            blocking = pool.submit(self._blocker.append, "everyone waits for me")
            assert self.gate.reached.wait(60)
            jobs = [self._queued(pool, work) for work in works]
            self.gate.syncs, self.gate.failing = 0, failing
            self.gate.opened.set()
            blocking.result()
            return [job.exception() or job.result() for job in jobs]

    def _queued(self, pool: ThreadPoolExecutor, work: Callable[[Session], Any]) -> Future[Any]:
        queue = self.store._backend._writers._queue
        length = len(queue)
        job = pool.submit(work, self.session)
        while len(queue) == length:
            time.sleep(0.001)
        return job


@pytest.fixture
def grouped(path: Path) -> Iterator[Grouped]:
    gate = Gate("gate")
    grouped = Grouped(path, gate)
    yield grouped
    grouped.store.close()
    gate.unregister()


def appending(text: str, **options: Any) -> Callable[[Session], Any]:
    return lambda session: session.append(text, **options).seq


def test_writers_that_wait_anyway_share_one_sync(grouped: Grouped) -> None:
    answers = grouped.write(*(appending(f"{n}") for n in range(8)))

    assert answers == [1, 2, 3, 4, 5, 6, 7, 8]
    assert grouped.gate.syncs == 1


def test_a_refusal_in_a_group_disturbs_no_other_job(grouped: Grouped) -> None:
    grouped.session.append("first", key="k")
    answers = grouped.write(
        appending("second"),
        appending("refused", expect=1),
        lambda session: session.extend(["refused", "too"], key="k"),
        lambda session: session.rewind(99),
        appending("third", expect=2),
    )

    assert [type(answer) for answer in answers] == [
        int,
        threadline.Stale,
        threadline.KeyReused,
        threadline.NotFound,
        int,
    ]
    assert texts(grouped.session) == ["first", "second", "third"]
    assert grouped.store.verify().ok


def test_a_refusal_tells_the_head_that_another_job_of_the_group_made(grouped: Grouped) -> None:
    first, second = grouped.write(appending("first", expect=0), appending("second", expect=0))

    assert first == 1
    assert (second.expected, second.found) == (0, 1)


def test_the_same_key_twice_in_a_group_is_stored_once(grouped: Grouped) -> None:
    answers = grouped.write(*[appending("once", key="k")] * 4)

    assert answers == [1, 1, 1, 1]
    assert texts(grouped.session) == ["once"]


def test_a_batch_that_is_refused_half_way_leaves_nothing_in_the_group(grouped: Grouped) -> None:
    def refused(session: Session) -> None:
        with session.batch() as b:
            b.append("never")
            b.rewind(99)

    answers = grouped.write(appending("before"), refused, appending("after"))

    assert [type(answer) for answer in answers] == [int, threadline.NotFound, int]
    assert texts(grouped.session) == ["before", "after"]


def test_a_group_whose_commit_fails_is_written_singly(grouped: Grouped) -> None:
    answers = grouped.write(*(appending(f"{n}") for n in range(4)), failing=1)

    assert answers == [1, 2, 3, 4]
    assert texts(grouped.session) == ["0", "1", "2", "3"]
    assert grouped.gate.syncs == 1 + 4
    assert grouped.store.verify().ok


def test_a_write_whose_own_commit_fails_is_uncertain_and_the_others_are_stored(grouped: Grouped) -> None:
    answers = grouped.write(*(appending(f"{n}") for n in range(3)), failing=2)

    assert [type(answer) for answer in answers] == [threadline.Uncertain, int, int]
    assert (answers[0].session, answers[0].head) == (grouped.session.id, 0)
    assert texts(grouped.session) in (["1", "2"], ["0", "1", "2"])
    assert grouped.store.verify().ok


def test_a_keyed_write_whose_commit_fails_is_repeated_and_stored_once(grouped: Grouped) -> None:
    answers = grouped.write(appending("a", key="a"), appending("b", key="b"), failing=2)

    assert sorted(answers) == [1, 2]
    assert sorted(texts(grouped.session)) == ["a", "b"]


def test_after_a_disk_that_failed_everything_the_store_goes_on(grouped: Grouped) -> None:
    answers = grouped.write(appending("a"), appending("b", key="b"), failing=100)
    grouped.gate.failing = 0
    head = grouped.session.append("c").seq

    assert [type(answer) for answer in answers] == [threadline.Uncertain, threadline.Uncertain]
    assert [entry.seq for entry in grouped.session.entries()] == list(range(1, head + 1))
    assert grouped.store.verify().ok


def test_writers_through_a_link_queue_with_all_others(tmp_path: Path) -> None:
    """Another name for the file must not be another lock: its holders would not wait for each other."""
    path, link = tmp_path / "agents.db", tmp_path / "link.db"
    link.symlink_to(path)
    with threadline.open(link) as one, threadline.open(path) as other:
        at_once = in_threads(partial(append, one.session("k"), "a", 20), partial(append, other.session("k"), "b", 20))

        assert at_once == [None, None]
        check(other.session("k"), {"a": 20, "b": 20})
    assert [file.name for file in tmp_path.glob("*.lock")] == ["agents.db.lock"]
