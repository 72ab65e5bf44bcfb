"""50 of 100,000 sessions beside a bare indexed SELECT, and as the sessions become more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import threadline
from bench.floors import bare_listing
from bench.measure import Curve, Found, beside, in_turns
from threadline import Store


def listing(folder: Path, large: int) -> Iterator[Found | Curve]:
    most = max(1_000, large // 10)
    sizes = sorted({100, 1_000, max(1_000, most // 10), most})
    bare = bare_listing(folder / "bare-list.db", most)
    stores = {size: peopled(folder / f"list-{size}.db", size) for size in sizes}
    calls = {str(size): store.sessions for size, store in stores.items()}
    took = in_turns({"bare": bare, "latest": lambda: stores[most].latest("/work/7"), **calls}, 50)
    yield beside(f"list 50 of {most:,} sessions", took[str(most)], took["bare"], 2.0, "x bare SELECT")
    yield beside(f"list 50, {most:,} beside 100", took[str(most)], took["100"], 1.3, "x")
    yield beside("latest(cwd)", took["latest"], took[str(most)], 1.3, "x list 50")
    points = [(float(size), took[str(size)].median_us) for size in sizes]
    yield Curve("list 50, by the number of sessions", "µs of CPU", {"list 50": points})
    for store in stores.values():
        store.close()


def peopled(path: Path, sessions: int) -> Store:
    store = threadline.open(path, durability="relaxed")
    for n in range(sessions):
        store.new(title=f"how do I list my sessions? {n}", cwd=f"/work/{n % 1_000}")
    return store


WORKLOADS = (listing,)
