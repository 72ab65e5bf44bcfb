"""Working memory: what a claim costs beside an append, and a recall over many nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import threadline
from bench.measure import QUICK, Found, beside, in_turns
from threadline import Memory, Store
from threadline.testing.postgres import Server

NODES = 10_000 if QUICK else 100_000
QUERIES = 300


def memory(folder: Path, large: int) -> Iterator[Found]:
    yield claim_beside_append(folder)
    yield from recalls(folder, NODES)
    yield from recalls_on_a_server(NODES)


def claim_beside_append(folder: Path) -> Found:
    """Both of 1 KiB, durable as a process survives, each new."""
    with threadline.open(folder / "claims.db", durability="relaxed") as store:
        took = in_turns({"append": appends(store), "claim": claims(store.memory("p"))}, repeat=300)
        return beside("claim of 1 KiB, CPU", took["claim"], took["append"], 2.0, "x append")


def appends(store: Store) -> Callable[[], object]:
    session, numbers = store.new(), count()
    return lambda: session.append(body(next(numbers)))


def claims(memory: Memory) -> Callable[[], object]:
    numbers = count()
    return lambda: memory.claim(body(next(numbers)))


def body(number: int) -> str:
    return f"{number} " + "x" * 1_020


def recalls(folder: Path, nodes: int) -> Iterator[Found]:
    with threadline.open(folder / "recall.db", durability="relaxed") as store:
        yield from recalled(store.memory("p"), nodes, f"recall over {nodes:,} nodes", time.process_time)


def recalls_on_a_server(nodes: int) -> Iterator[Found]:
    """The CPU of both sides: ours, and that of the process on the server which answers."""
    with Server() as server, threadline.open(server.url(), durability="relaxed") as store:
        clock = partial(both_s, server)
        yield from recalled(store.memory("p"), nodes, f"PostgreSQL recall over {nodes:,} nodes", clock)


def recalled(known: Memory, nodes: int, title: str, clock: Callable[[], float]) -> Iterator[Found]:
    rng = Random(7)
    words = vocabulary(rng)
    for first in range(0, nodes, 1_000):
        known.claims([sentence(rng, words) for _ in range(first, min(first + 1_000, nodes))])
    begin = time.perf_counter()
    known.recall("warm up")
    indexed_s = time.perf_counter() - begin
    queries = {
        "specific words": lambda: " ".join(rng.choices(words[200:], k=rng.randint(1, 5))),
        "a whole sentence": lambda: sentence(rng, words),
        "common words only": lambda: " ".join(rng.sample(words[:20], k=3)),
    }
    for name, query in queries.items():
        took = sorted(timed_ms(known, query(), clock) for _ in range(QUERIES))
        detail = f"median {took[len(took) // 2]:.1f} ms; the first one {indexed_s:.1f} s"
        yield Found(f"{title}, {name}, p95", p95(took), 10.0, "ms CPU", detail)


def both_s(server: Server) -> float:
    """Seconds of CPU of this process and of all that the server's postmaster started."""
    postmaster = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    tasks = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return time.process_time() + sum(_on_cpu_s(pid) for pid in tasks)


def _on_cpu_s(pid: str) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def vocabulary(rng: Random) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(rng.choices(letters, k=rng.randint(4, 9))) for _ in range(20_000)]


def sentence(rng: Random, words: list[str]) -> str:
    """Words by Zipf's law, as people use them: the commonest stands in nearly every second node."""
    return " ".join(words[min(int(rng.paretovariate(0.6)) - 1, len(words) - 1)] for _ in range(rng.randint(8, 20)))


def timed_ms(known: Memory, query: str, clock: Callable[[], float]) -> float:
    """CPU, which no neighbour on the machine makes longer."""
    begin = clock()
    known.recall(query)
    return (clock() - begin) * 1_000


def p95(sorted_ms: list[float]) -> float:
    return sorted_ms[int(len(sorted_ms) * 0.95)]


WORKLOADS = (memory,)
