"""Working memory: what a claim costs beside an append, and a recall over many nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import threadline
from bench.measure import QUICK, Found, beside, in_turns
from threadline import Memory, Store

NODES = 10_000 if QUICK else 100_000
QUERIES = 300


def memory(folder: Path, large: int) -> Iterator[Found]:
    yield claim_beside_append(folder)
    yield from recalls(folder, NODES)


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
    rng = Random(7)
    words = vocabulary(rng)
    with threadline.open(folder / "recall.db", durability="relaxed") as store:
        known = store.memory("p")
        for first in range(0, nodes, 1_000):
            known.claims([sentence(rng, words) for _ in range(first, min(first + 1_000, nodes))])
        begin = time.perf_counter()
        known.recall("warm up")
        indexed_s = time.perf_counter() - begin
        rare = sorted(timed_ms(known, " ".join(rng.choices(words[200:], k=rng.randint(1, 5)))) for _ in range(QUERIES))
        mixed = sorted(timed_ms(known, sentence(rng, words)) for _ in range(QUERIES))
        common = sorted(timed_ms(known, " ".join(rng.sample(words[:20], k=3))) for _ in range(QUERIES))
    told = {"specific words": rare, "a whole sentence": mixed, "common words only": common}
    for name, took in told.items():
        detail = f"median {took[len(took) // 2]:.1f} ms; indexed in {indexed_s:.1f} s"
        yield Found(f"recall over {nodes:,} nodes, {name}, p95", p95(took), 10.0, "ms CPU", detail)


def vocabulary(rng: Random) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(rng.choices(letters, k=rng.randint(4, 9))) for _ in range(20_000)]


def sentence(rng: Random, words: list[str]) -> str:
    """Words by Zipf's law, as people use them: the commonest stands in nearly every second node."""
    return " ".join(words[min(int(rng.paretovariate(0.6)) - 1, len(words) - 1)] for _ in range(rng.randint(8, 20)))


def timed_ms(known: Memory, query: str) -> float:
    """CPU, which no neighbour on the machine makes longer."""
    begin = time.process_time()
    known.recall(query)
    return (time.process_time() - begin) * 1_000


def p95(sorted_ms: list[float]) -> float:
    return sorted_ms[int(len(sorted_ms) * 0.95)]


WORKLOADS = (memory,)
