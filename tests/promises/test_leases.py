"""A lease keeps others out, a dead holder's ends by itself, and a late holder is refused inside the write."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from processes import at_once, exit_code, fork

import threadline
from threadline import LeaseHeld, LeaseLost, leases
from threadline.testing import scaled

PATIENCE_S = 30.0


def count_up(path: Path, name: str, times: int) -> list[int]:
    """Read, think, write: only a lease keeps two of them from writing the same number."""
    with threadline.open(path) as store:
        session = store.session("k")
        tokens = []
        for _ in range(times):
            with session.lease(name, ttl=PATIENCE_S, wait=PATIENCE_S) as lease:
                n = session.state.get("n", 0)
                session.append(f"{name} saw {n}", lease=lease)
                session.set_state({"n": n + 1}, lease=lease)
                tokens.append(lease.token)
        return tokens


def test_many_processes_take_turns(tmp_path: Path) -> None:
    path, times = tmp_path / "store.db", scaled(5)
    granted = at_once(*(lambda n=n: count_up(path, f"worker-{n}", times) for n in range(5)))

    with threadline.open(path) as store:
        session = store.session("k")
        assert session.state == {"n": 5 * times}
        assert [e.message.text.rpartition(" ")[2] for e in session.entries(kinds="message") if e.message] == [
            str(n) for n in range(5 * times)
        ]
        assert sorted(token for tokens in granted for token in tokens) == list(range(1, 5 * times + 1))
        assert store.verify().ok


def test_threads_that_wait_are_served_in_the_order_in_which_they_came(path: Path) -> None:
    with threadline.open(path) as store:
        session, served = store.new(), []

        def work(name: str) -> None:
            with session.lease(name, ttl=PATIENCE_S, wait=PATIENCE_S):
                served.append(name)

        threads = [threading.Thread(target=work, args=(f"worker-{n}",)) for n in range(8)]
        with session.lease("first", ttl=PATIENCE_S):
            for n, thread in enumerate(threads):
                thread.start()
                while len(leases._lines.get(store._backend, {}).get(session._made().number, ())) <= n:
                    time.sleep(0.001)
        for thread in threads:
            thread.join()

        assert served == [f"worker-{n}" for n in range(8)]
        assert not leases._lines.get(store._backend)


def test_a_holder_that_stood_still_is_fenced_off(tmp_path: Path) -> None:
    """It holds a lease, is stopped, loses it to another process, and wakes up believing that it still has it."""
    path = tmp_path / "store.db"
    reading, writing = os.pipe()
    waiting, gate = os.pipe()

    def work() -> None:
        session = threadline.open(path).session("k")
        lease = session.lease("sleeper", ttl=0.5)
        session.append("in time", lease=lease)
        os.write(writing, b"held")
        os.read(waiting, 1)
        try:
            session.append("too late", lease=lease)
        except LeaseLost as lost:
            os.write(writing, f"lost to {lost.holder}".encode())

    pid = fork(work)
    assert os.read(reading, 100) == b"held"
    os.kill(pid, signal.SIGSTOP)
    with threadline.open(path) as store:
        session = store.session("k")
        with session.lease("successor", ttl=PATIENCE_S, wait=PATIENCE_S) as lease:
            session.append("taken over", lease=lease)
            os.write(gate, b"!")
            os.kill(pid, signal.SIGCONT)
            answer = os.read(reading, 100)
            assert exit_code(pid) == 0

        assert answer == b"lost to successor"
        assert [message.text for message in session.messages()] == ["in time", "taken over"]


def test_the_lease_of_a_killed_process_ends_at_its_time_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    reading, writing = os.pipe()

    def work() -> None:
        lease = threadline.open(path).session("k").lease("victim", ttl=1.5)
        os.write(writing, str(lease.until.timestamp()).encode())
        time.sleep(PATIENCE_S)

    pid = fork(work)
    until = float(os.read(reading, 100))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with threadline.open(path) as store:
        session = store.session("k")
        if time.time() < until - 0.5:  # on a machine that is not at its knees
            with pytest.raises(LeaseHeld) as caught:
                session.append("too early")
            assert caught.value.holder == "victim"
        lease = session.lease("heir", wait=PATIENCE_S)

        assert time.time() >= until
        assert session.append("at last", lease=lease).seq == 1
