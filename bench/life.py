"""A token of a draft, the way to a follower, the state of a long log, and an append under a lease."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import threadline
from bench.measure import Found, beside, in_turns
from bench.said import MESSAGE, filled
from threadline import Session, Store


def life(folder: Path, large: int) -> Iterator[Found]:
    with threadline.open(folder / "life.db", durability="relaxed") as store:
        session = store.new()
        took = in_turns({"draft": lambda: stream(session, 2_000)}, 3)
        per_token = took["draft"].median_us / 2_000
        yield Found("draft.write of a token", per_token, 10, "µs CPU", "begin, flushes and finish included")
        yield Found("follow, from append to follower", follow_ms(session, 200), 5, "ms", "wall time, one process")
        yield from states(store, large // 10)
        yield from leases(session)


def states(store: Store, entries: int) -> Iterator[Found]:
    sessions = {size: filled(stateful(store.new()), size) for size in (10, entries)}
    took = in_turns({str(size): lambda s=s: s.state for size, s in sessions.items()}, 200)  # type: ignore[misc]
    yield beside(f"state after {entries:,} entries", took[str(entries)], took["10"], 1.3, "x at 10")


def leases(session: Session) -> Iterator[Found]:
    free = session.fork()
    with session.lease("worker", ttl=3_600) as lease:
        calls = {"leased": lambda: session.append(MESSAGE, lease=lease), "free": lambda: free.append(MESSAGE)}
        took = in_turns(calls, 300)
    yield beside("append with a lease", took["leased"], took["free"], 1.3, "x without")


def stateful(session: Session) -> Session:
    for n in range(100):
        session.set_state({f"name {n % 10}": n})
    return session


def stream(session: Session, tokens: int) -> None:
    with session.draft() as d:
        for _ in range(tokens):
            d.write("token ")


def follow_ms(session: Session, entries: int) -> float:
    """From the return of an append to the arrival of the entry at a follower in another thread."""
    arrived: dict[int, float] = {}
    after = session.head

    def follow() -> None:
        for entry in session.follow(after):
            arrived[entry.seq] = time.perf_counter()
            if len(arrived) == entries:
                return

    follower = threading.Thread(target=follow)
    follower.start()
    returned = {}
    for _ in range(entries):
        seq = session.append(MESSAGE).seq
        returned[seq] = time.perf_counter()
        time.sleep(0.005)
    follower.join()
    return statistics.median(max(0.0, arrived[seq] - at) for seq, at in returned.items()) * 1_000


WORKLOADS = (life,)
