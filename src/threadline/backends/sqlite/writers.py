"""The writers' queue: one process at a time by a locked file, one sync for all threads that wait anyway.

SQLite's own busy handler lets a lucky writer win for seconds while others starve; the kernel serves the waiters of a
locked file in order, and frees the lock when its holder dies. Within the process the thread that finds nobody
writing writes at once, without a queue. Threads that come meanwhile wait, and the first of them writes for all."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_UN, flock
from typing import Any

from msgspec import Struct

from threadline.errors import Closed, StoreFailed

GROUP_MAX = 256  # more in one transaction would make the last one wait for the work of all


class FileLock:
    """A lock between processes: `path` beside the database, locked while one of them writes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        try:
            if self._fd < 0:  # not earlier: a forked child must come up even if its files are gone
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            flock(self._fd, LOCK_EX)
        except OSError as error:
            raise StoreFailed(f"the lock beside the database cannot be taken ({error}): nothing was written") from error

    def release(self) -> None:
        if self._fd >= 0:  # it may be that it was never taken
            flock(self._fd, LOCK_UN)

    def close(self) -> None:
        """Close only: in a forked child, unlocking would let go of the parent's lock."""
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class Job(Struct, eq=False):
    """One operation that wants to write. It is done when it has an outcome, and that only comes after the commit.

    `afterwards` is what is to be done with its answer then, still under the lock and in no transaction."""

    operation: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    afterwards: Callable[[Any], Any] | None = None
    answer: Any = None
    error: BaseException | None = None
    done: bool = False
    leads: bool = False
    gone: bool = False  # interrupted: nobody waits for its outcome
    turn: threading.Lock | None = None  # held while it waits; made only for those who do

    def run(self, connection: Any) -> Any:
        return self.operation(connection, *self.arguments)

    def fail(self, error: BaseException) -> None:
        self.error, self.done = error, True


class Writers:
    """`commit` gets the jobs of one group, under the lock, and gives each of them an outcome.

    A KeyboardInterrupt may come between any two calls, also in the middle of what follows one. So each step leaves
    things such that all of it can be done again, and `submit` does it again for a job that was interrupted: nobody may
    wait for ever for somebody who has gone."""

    def __init__(self, lock: FileLock | None, commit: Callable[[list[Job]], None]) -> None:
        self._lock = lock
        self._commit = commit
        self._mutex = threading.Lock()
        self._queue: deque[Job] = deque()  # those who wait; the one who leads is not among them
        self._group: list[Job] = []  # the one who leads, and those for whom it writes; nobody does while it is empty
        self._closed = False
        self._at_rest = threading.Event()

    def close(self) -> None:
        """Take no more jobs, and wait until those that were taken are done."""
        with self._mutex:
            self._closed = True
            if not self._group:
                self._at_rest.set()
        self._at_rest.wait()

    def submit(self, job: Job) -> Any:
        """Run one job and give its answer, or raise its error."""
        try:
            with self._mutex:
                if self._closed:
                    raise Closed
                if self._group:
                    job.turn = threading.Lock()
                    job.turn.acquire()
                    self._queue.append(job)
                else:
                    self._group = [job]
            if job.turn is not None:
                job.turn.acquire()  # until it is done, or its turn to lead
            if not job.done:
                self._lead(job)
        except BaseException:
            job.gone = True
            self._hand_over(job)
            raise
        if job.error is not None:
            raise job.error
        return job.answer

    def _lead(self, job: Job) -> None:
        """Write for everyone who waits, then let the next one lead."""
        if job.leads:
            self._step_up(job)
        try:
            if self._lock is not None:
                self._lock.acquire()
            if self._queue:  # only now: whoever came while we waited for the lock rides along
                self._take_along()
            self._commit(self._group)
        finally:
            self._hand_over(job)

    def _step_up(self, job: Job) -> None:
        """From the head of the queue to its lead, which the one before us left to us."""
        with self._mutex:
            self._group = [job]
            if self._queue and self._queue[0] is job:
                self._queue.popleft()

    def _take_along(self) -> None:
        with self._mutex:
            while self._queue and len(self._group) < GROUP_MAX:
                self._group.append(self._queue[0])
                self._queue.popleft()

    def _hand_over(self, job: Job) -> None:
        """Wake those whose work is done; those whose work is not, because we were interrupted, wait on.

        A job that does not lead, or not any more, only leaves the queue."""
        with self._mutex:
            group = self._group
            if not group or group[0] is not job:
                if job in self._queue:
                    self._queue.remove(job)
                    if job.leads:
                        self._let_next()
                return
            if self._lock is not None:
                self._lock.release()
            if self._queue and self._queue[0] is job:  # interrupted while it stepped up
                self._queue.popleft()
            while len(group) > 1:
                other = group[-1]
                if not (other.done or other.gone) and not (self._queue and self._queue[0] is other):
                    self._queue.appendleft(other)
                wake(other)
                group.pop()
            self._let_next()

    def _let_next(self) -> None:
        """The next one steps up by itself, when it wakes: until then the one before it still counts as leading."""
        if self._queue:
            following = self._queue[0]
            following.leads = True
            wake(following)
        else:
            if self._closed:
                self._at_rest.set()
            self._group = []


def wake(job: Job) -> None:
    """Let a waiting job go on, if it is done or leads now."""
    if (job.done or job.leads) and job.turn is not None and job.turn.locked():
        job.turn.release()
