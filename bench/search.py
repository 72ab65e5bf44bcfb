"""Search at a million messages: how long questions take, how large the index is, and what an append pays for it.

    python -m bench.search [--messages N] [--store PATH] [--json PATH]

The store is generated, the same each time: words as rare as words are (Zipf), identifiers, paths and error codes, eight
messages to a session. Times are CPU time of one process, each question asked once, after a few to warm up. `--store`
keeps it, or uses the one that is there."""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from random import Random

import apsw

import threadline
from bench.measure import Found
from threadline import Message, Store
from threadline.core.words import terms

WORDS = 60_000
SESSION = 8  # messages
QUESTIONS = 200  # of each kind
MUST_MS = {"specific": 10.0, "common": 100.0}

ONSETS = (
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
)
VOWELS = ("a", "e", "i", "o", "u", "ea", "ou")
CODAS = ("", "n", "r", "l", "st", "m", "ck", "nd", "t")
FREQUENT = """
the to and of a in is it that for you on this with be are as not can have we if will so do from at by or what how file
test error function code data server user time change add run build config database request value line check type name
"""


class Language:
    """Words, the n-th as often as words are, and sentences of them."""

    def __init__(self, random: Random) -> None:
        made = FREQUENT.split()
        seen = set(made)
        while len(made) < WORDS:
            word = "".join(
                random.choice(ONSETS) + random.choice(VOWELS) + random.choice(CODAS)
                for _ in range(random.randint(1, 3))
            )
            if word not in seen:
                seen.add(word)
                made.append(word)
        self.words = made
        self._sums = list(accumulate(1 / (rank + 2.7) ** 1.05 for rank in range(WORDS)))
        self._random = random

    def word(self) -> str:
        return self.words[bisect(self._sums, self._random.random() * self._sums[-1])]

    def message(self, number: int) -> str:
        random = self._random
        said = [self.word() for _ in range(max(4, int(random.lognormvariate(3.5, 0.8))))]
        if random.random() < 0.4:
            said.insert(random.randrange(len(said)), f"{self.word()}_{self.word()}")
        if random.random() < 0.2:
            said.insert(random.randrange(len(said)), f"src/{self.word()}/{self.word()}.py:{random.randrange(400)}")
        if random.random() < 0.1:
            said.append(f"E{random.randrange(100_000):05d}")
        if number % 1_000 == 0:
            said.append(f"needle{number}")
        return " ".join(said)


def fill(store: Store, messages: int) -> int:
    """The text of so many messages; how many bytes that are."""
    language = Language(Random(7))
    size = number = 0
    while number < messages:
        texts = [language.message(number + i) for i in range(min(SESSION, messages - number))]
        store.new().extend([Message.user(t) if i % 2 == 0 else Message.assistant(t) for i, t in enumerate(texts)])
        size += sum(len(text.encode()) for text in texts)
        number += len(texts)
    return size


def questions(messages: int) -> dict[str, tuple[str, list[str]]]:
    """Of each kind: how quick it must be, and what is asked."""
    random = Random(11)
    language = Language(Random(7))
    rare = language.words[3_000:]
    middle = language.words[300:3_000]

    def some(make: Callable[[], str]) -> list[str]:
        return [make() for _ in range(QUESTIONS)]

    return {
        "a word that stands in one message": (
            "specific",
            some(lambda: f"needle{random.randrange(max(1, messages // 1_000)) * 1_000}"),
        ),
        "two rare words": ("specific", some(lambda: f"{random.choice(rare)} {random.choice(rare)}")),
        "an error code and common words": ("specific", some(lambda: f"why error E{random.randrange(100_000):05d}")),
        "an identifier": ("specific", some(lambda: f"{random.choice(middle)}_{random.choice(middle)}")),
        "a phrase": ("specific", some(lambda: f'"{random.choice(rare)} {random.choice(middle)}"')),
        "two common words": ("common", some(lambda: " ".join(random.sample(FREQUENT.split()[30:], 2)))),
        "a word of middling rarity": ("common", some(lambda: random.choice(middle))),
        "a long question": ("common", some(lambda: " ".join(language.word() for _ in range(14)))),
        "a long question of common words": ("common", some(lambda: " ".join(random.choices(FREQUENT.split(), k=14)))),
    }


def measure(store: Store, asked: list[str]) -> tuple[float, float, float]:
    """Milliseconds of CPU: median, 95th percentile, largest."""
    for query in asked[:20]:
        store.search(query)
    took = []
    for query in asked:
        begin = time.process_time_ns()
        store.search(query)
        took.append((time.process_time_ns() - begin) / 1e6)
    took.sort()
    return took[len(took) // 2], took[math.ceil(len(took) * 0.95) - 1], took[-1]


def plain(path: Path, asked: list[str]) -> float:
    """What the obvious way costs, the 95th percentile: all terms with OR, sorted by bm25, on the same index."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    took = []
    for query in asked[:40]:
        match = " OR ".join(f'"{term}"' for term in dict.fromkeys(terms(query)))
        begin = time.process_time_ns()
        connection.execute("SELECT rowid FROM search WHERE search MATCH ? ORDER BY rank LIMIT 20", (match,)).fetchall()
        took.append((time.process_time_ns() - begin) / 1e6)
    connection.close()
    return sorted(took)[math.ceil(len(took) * 0.95) - 1]


def sizes(path: Path) -> tuple[int, int]:
    """Bytes of the text that is indexed, and of the index."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    (index,) = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name GLOB 'search*'").fetchone()
    (text,) = connection.execute("SELECT sum(length(body) - 50) FROM entry").fetchone()  # 50: what is JSON about it
    connection.close()
    return text, index


def main(arguments: list[str]) -> int:
    def option(name: str) -> str | None:
        return arguments[arguments.index(name) + 1] if name in arguments else None

    messages = int(option("--messages") or 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(option("--store") or Path(folder) / "search.db")
        found = list(run(path, messages))
    if (target := option("--json")) is not None:
        Path(target).write_text(json.dumps(found, indent=1))
    return 0


def run(path: Path, messages: int) -> Iterator[dict[str, object]]:
    fresh = not path.exists()
    with threadline.open(path, durability="relaxed") as store:
        if fresh:
            begin = time.process_time()
            fill(store, messages)
            print(f"{messages:,} messages written in {time.process_time() - begin:.0f} s of CPU", flush=True)
        begin = time.process_time()
        store.index()
        print(f"indexed in {time.process_time() - begin:.0f} s of CPU", flush=True)
        text, index = sizes(path)
        print(
            f"text {text / 1e6:.0f} MB, index {index / 1e6:.0f} MB: {index / text:.2f} x (must be <= 0.5)\n", flush=True
        )
        yield {"work": "index beside the text", "reached": index / text, "must": 0.5, "unit": "x"}
        print(f"{'question':<36}{'p50':>8}{'p95':>8}{'max':>8}  must   {'plain p95':>9}")
        for kind, (must, asked) in questions(messages).items():
            p50, p95, most = measure(store, asked)
            print(
                f"{kind:<36}{p50:>8.1f}{p95:>8.1f}{most:>8.1f}  {MUST_MS[must]:>4.0f}   {plain(path, asked):>9.1f}",
                flush=True,
            )
            yield {"work": kind, "reached": p95, "must": MUST_MS[must], "unit": "ms"}


def searching(folder: Path, large: int) -> Iterator[Found]:
    """A tenth of the largest log, so that `make bench` ends today; this file by itself takes a million."""
    messages = max(1_000, large // 10)
    for found in run(folder / "search.db", messages):
        work, reached, must, unit = found.values()
        yield Found(f"search of {messages:,}, {work}", float(reached), float(must), f"{unit}, p95")  # type: ignore[arg-type]


WORKLOADS = (searching,)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
