"""The context of the last 120 messages: beside the bare SELECT and decode, as the log grows, in a new process, and
for each provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

import threadline
from bench.floors import TAIL, bare_tail
from bench.measure import Timing, cpu_ms_of_script, in_turns
from bench.turns import BODIES, TURN
from threadline import Session

Found = tuple[str, float, float, str, str]

LAST = 120
PROVIDERS = ("anthropic", "openai", "responses", "gemini")


def context(folder: Path, large: int) -> Iterator[Found]:
    sizes = {size: _whole_steps(size) for size in (300, 10_000, large)}
    paths = {size: folder / f"context-{size}.db" for size in sizes}
    for size, path in paths.items():
        with threadline.open(path, durability="relaxed") as store:
            _filled(store.session("it"), sizes[size])
    bare = bare_tail(folder / "bare-context.db", BODIES, sizes[10_000])
    stores = {size: threadline.open(path, read_only=True) for size, path in paths.items()}
    calls = {str(size): _asking(store.session("it")) for size, store in stores.items()}
    took = in_turns({"bare": bare, **calls}, 50)
    yield from _ratios(took, large)
    yield from _formatting(stores[large].session("it"))
    for store in stores.values():
        store.close()
    yield from _cold(paths, folder / "bare-context.db", large)


def _ratios(took: dict[str, Timing], large: int) -> Iterator[Found]:
    ours, bare, small = took[str(large)], took["bare"], took["300"]
    yield f"context of 120 of {large:,}", ours.median_us / bare.median_us, 2.0, "x bare", f"{ours} beside {bare}"
    yield f"context, {large:,} beside 300", ours.median_us / small.median_us, 1.3, "x", f"{ours} beside {small}"


def _formatting(session: Session) -> Iterator[Found]:
    """What it costs to write a message for a provider, over handing out our own values."""
    took = in_turns({name: _asking(session, name) for name in ("threadline", *PROVIDERS)}, 30)
    for name in PROVIDERS:
        each = (took[name].median_us - took["threadline"].median_us) / LAST
        yield f"formatting for {name}", each, 15, "us per message", str(took[name])


def _cold(paths: dict[int, Path], bare: Path, large: int) -> Iterator[Found]:
    """The first context of a new process: the imports, the opening and the reading."""
    floor = cpu_ms_of_script(
        "import apsw, msgspec\n"
        f"rows = apsw.Connection({str(bare)!r}).execute({TAIL!r}).fetchall()\n"
        "[(row, msgspec.json.decode(row[6])) for row in rows]"
    )
    ms = {size: cpu_ms_of_script(_script(path)) for size, path in paths.items()}
    detail = f"{ms[large]:.0f} ms beside {floor:.0f} ms, over an empty process"
    yield "first context of a process", ms[large] / floor, 2.0, "x bare", detail
    flat = f"{ms[large]:.0f} ms beside {ms[300]:.0f} ms"
    yield f"first context, {large:,} beside 300", ms[large] / ms[300], 1.3, "x", flat


def _script(path: Path) -> str:
    return f"import threadline; threadline.open({str(path)!r}).session('it').context(max_messages={LAST})"


def _asking(session: Session, format: str = "threadline") -> Callable[[], object]:
    return lambda: session.context(max_messages=LAST, format=format)


def _whole_steps(size: int) -> int:
    """The nearest size at which the window holds 120 messages: it moves by 30, and begins at a turn of four."""
    return size - (size - LAST) % 60


def _filled(session: Session, entries: int) -> None:
    for begin in range(0, entries, 1_000):
        session.extend(list(islice(cycle(TURN), min(1_000, entries - begin))))
