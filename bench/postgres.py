"""PostgreSQL beside bare psycopg, on a server of its own that syncs: the client's CPU, round trips, many at once."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

import threadline
from bench.measure import Found, beside, in_turns
from bench.said import BODY, MESSAGE
from threadline import Session
from threadline.testing.postgres import Server
from threadline.testing.proxy import Proxy

AT_ONCE = 16


class BareTable:
    """One table, one connection, one prepared INSERT in a transaction of its own."""

    def __init__(self, url: str, number: int) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS bare (session bigint, seq bigint, body bytea, PRIMARY KEY (session, seq))"
        )
        self._number = number
        self._seq = 0

    def append(self, body: bytes) -> None:
        self._seq += 1
        row = (self._number, self._seq, body)
        self.connection.execute("INSERT INTO bare VALUES (%s, %s, %s)", row, prepare=True)


def postgres(folder: Path, large: int) -> Iterator[Found]:
    message, body = MESSAGE, BODY
    with Server() as server:
        yield append_beside_bare(server.url(), message, body)
        yield round_trips(server, message)
        yield many_at_once(server.url(), message, body)
        yield from flat(server.url(), message, large)


def append_beside_bare(url: str, message: Any, body: bytes) -> Found:
    bare = BareTable(url, 0)
    with threadline.open(url) as store:
        session = store.new()
        took = in_turns({"bare": lambda: bare.append(body), "ours": lambda: session.append(message)}, 150)
    bare.connection.close()
    return beside("PostgreSQL append, client CPU", took["ours"], took["bare"], 1.5, "x bare psycopg")


def round_trips(server: Server, message: Any) -> Found:
    with (
        tempfile.TemporaryDirectory() as folder,
        Proxy(Path(folder), server.folder) as proxy,
        threadline.open(proxy.url("postgres")) as store,
    ):
        session = store.new()
        session.extend([message, message])
        session.append(message)  # prepared by now
        before = proxy.trips
        for _ in range(20):
            session.append(message)
        trips = (proxy.trips - before) / 20
    return Found("PostgreSQL append, round trips", trips, 1.0, "per append", "counted on the line")


def many_at_once(url: str, message: Any, body: bytes) -> Found:
    """So many threads, each with a session of its own, beside as many that insert into a bare table."""
    tables = [BareTable(url, n) for n in range(1, AT_ONCE + 1)]
    with threadline.open(url) as store:
        sessions = [store.new() for _ in range(AT_ONCE)]
        rates: dict[str, list[float]] = {"bare": [], "ours": []}
        for _ in range(5):
            rates["bare"].append(rate([lambda t=t: t.append(body) for t in tables]))  # type: ignore[misc]
            rates["ours"].append(rate([lambda s=s: s.append(message) for s in sessions]))  # type: ignore[misc]
    for table in tables:
        table.connection.close()
    bare, ours = (sorted(found)[2] for found in rates.values())
    detail = f"{ours:.0f}/s beside {bare:.0f}/s"
    return Found(f"PostgreSQL, bare inserts, {AT_ONCE} at once", bare / ours, 1 / 0.7, "x the rate of appends", detail)


def rate(calls: list[Callable[[], object]], each: int = 60) -> float:
    """Calls per second of all threads together."""

    def work(call: Callable[[], object]) -> None:
        for _ in range(each):
            call()

    workers = [threading.Thread(target=work, args=(call,)) for call in calls]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(calls) * each / (time.perf_counter() - begin)


def flat(url: str, message: Any, large: int) -> Iterator[Found]:
    """The view's tail and a listing, as the log and the store grow."""
    entries, sessions = max(1_000, large // 10), max(200, large // 200)
    with threadline.open(url, durability="relaxed", namespace="flat") as store:
        small, big = filled(store.new(), 200, message), filled(store.new(), entries, message)
        took = in_turns({"small": lambda: small.view(last=120), "big": lambda: big.view(last=120)}, 20)
        yield beside(f"PostgreSQL view(last=120), {entries:,} beside 200", took["big"], took["small"], 1.3, "x")
        few, many = store.within("few"), store.within("many")
        for there, count in ((few, 100), (many, sessions)):
            for n in range(count):
                there.new(title=f"how do I list my sessions? {n}")
        took = in_turns({"few": few.sessions, "many": many.sessions}, 20)
        yield beside(f"PostgreSQL list 50, {sessions:,} beside 100", took["many"], took["few"], 1.3, "x")


def filled(session: Session, entries: int, message: Any) -> Session:
    for begin in range(0, entries, 1_000):
        session.extend([message] * min(1_000, entries - begin))
    return session


WORKLOADS = (postgres,)
