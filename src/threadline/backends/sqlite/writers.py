"""The writers' queue: one process at a time by a locked file, one sync for all threads that wait anyway.

SQLite's own busy handler lets a lucky writer win for seconds while others starve; the kernel serves the waiters of a
locked file in order, and frees the lock when its holder dies. Within the process the thread that finds nobody
writing writes at once, without a queue. Threads that come meanwhile wait, and the first of them writes for all."""

from __future__ import annotations

import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

GROUP_MAX = 256  # more in one transaction would make the last one wait for the work of all


class FileLock:
    """A lock between processes: `path` beside the database, locked while one of them writes."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def release(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close only: in a forked child, unlocking would let go of the parent's lock."""
        os.close(self._fd)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class Job:
    """One call that wants to write. Done when it has an outcome, and an outcome only comes after the commit."""

    __slots__ = ("answer", "done", "error", "leads", "run", "turn")

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self.run = run
        self.answer: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.leads = False
        self.turn: threading.Lock | None = None  # held while it waits; made only for those who do

    def succeed(self, answer: Any) -> None:
        self.answer, self.done = answer, True

    def fail(self, error: BaseException) -> None:
        self.error, self.done = error, True

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


class Writers:
    """`commit` gets the jobs of one group, under the lock, and gives each of them an outcome."""

    def __init__(self, lock: FileLock | None, commit: Callable[[list[Job]], None]) -> None:
        self._lock = lock
        self._commit = commit
        self._mutex = threading.Lock()
        self._queue: deque[Job] = deque()
        self._busy = False

    def submit(self, job: Job) -> Any:
        """Run one job and give its answer, or raise its error."""
        with self._mutex:
            self._queue.append(job)
            waits = self._busy
            self._busy = True
            if waits:
                job.turn = threading.Lock()
                job.turn.acquire()
        if waits:
            self._wait(job)
        if not job.done:
            self._lead(job)
        return job.outcome()

    def _wait(self, job: Job) -> None:
        """Until the job is done or it is its turn to lead. Interrupted, it leaves the queue if it still can."""
        assert job.turn is not None
        try:
            job.turn.acquire()
        except BaseException:
            with self._mutex:
                waiting = job in self._queue and not job.leads
                if waiting:
                    self._queue.remove(job)
            if not waiting:  # somebody is at it, or we lead: see it through, so that nobody waits for us for ever
                job.turn.acquire()
                if not job.done:
                    self._lead(job)
            raise

    def _lead(self, job: Job) -> None:
        """Write for everyone who waits, then let the next one lead."""
        group: list[Job] = []
        try:
            if self._lock is not None:
                self._lock.acquire()
            try:
                with self._mutex:  # only now: whoever came while we waited for the lock rides along
                    group = [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_MAX))]
                self._commit(group)
            finally:
                if self._lock is not None:
                    self._lock.release()
        finally:
            self._hand_over(job, group)

    def _hand_over(self, job: Job, group: list[Job]) -> None:
        with self._mutex:
            if job in self._queue:  # interrupted before it began
                self._queue.remove(job)
            self._queue.extendleft(other for other in reversed(group) if not other.done and other is not job)
            for other in group:
                wake(other)
            if self._queue:
                self._queue[0].leads = True
                wake(self._queue[0], lead=True)
            else:
                self._busy = False


def wake(job: Job, *, lead: bool = False) -> None:
    """Let a waiting job go on: it is done, or it leads now."""
    if (job.done or lead) and job.turn is not None and job.turn.locked():
        job.turn.release()
