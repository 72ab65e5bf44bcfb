"""What reading, appending and forking cost as a log grows to its full size; the last 120 messages beside a bare SELECT
and decode; and the first context of a new process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import threadline
from bench.floors import TAIL, bare_tail
from bench.measure import Curve, Found, Timing, beside, cpu_ms_of_script, in_turns
from bench.said import BODIES, MESSAGE, filled
from threadline import Session

LAST = 120


def growth(folder: Path, large: int) -> Iterator[Found | Curve]:
    paths = {size: built(folder, size) for size in sorted({300, 1_000, 10_000, min(large, 100_000), large})}
    bare = bare_tail(folder / "bare-tail.db", BODIES, whole_steps(10_000))
    stores = {size: threadline.open(path, durability="relaxed") for size, path in paths.items()}
    sessions = {size: store.session("it") for size, store in stores.items()}
    yield from reading(sessions, bare, large)
    yield from cold(paths, folder / "bare-tail.db", large)
    yield from writing(sessions, large)
    for store in stores.values():
        store.close()


def reading(sessions: dict[int, Session], bare: Callable[[], object], large: int) -> Iterator[Found | Curve]:
    contexts = in_turns({"bare": bare, **{str(size): asking(s) for size, s in sessions.items()}}, 50)
    views = in_turns({"bare": bare, **{str(size): looking(s) for size, s in sessions.items()}}, 50)
    firsts = in_turns({"bare": bare, "ours": reading_anew(sessions[large])}, 20)
    for what, took in (("view(last=120)", views), ("context(max_messages=120)", contexts)):
        ours, small = took[str(large)], took["300"]
        yield beside(f"{what} of {large:,}", ours, took["bare"], 2.0, "x bare SELECT + decode")
        yield beside(f"{what}, {large:,} beside 300", ours, small, 1.3, "x")
    yield beside(f"context of {large:,}, nothing remembered", firsts["ours"], firsts["bare"], None, "x bare SELECT")
    named = {"context": contexts, "view": views}
    lines = {name: curve(took, sessions) for name, took in named.items()}
    yield Curve("the last 120 messages, by the length of the log", "µs of CPU", lines)


def cold(paths: dict[int, Path], bare: Path, large: int) -> Iterator[Found]:
    """The first context of a new process: the imports, the opening and the reading."""
    floor = cpu_ms_of_script(
        "import apsw, msgspec\n"
        f"rows = apsw.Connection({str(bare)!r}).execute({TAIL!r}).fetchall()\n"
        "[(row, msgspec.json.decode(row[6])) for row in rows]"
    )
    ms = {size: cpu_ms_of_script(script(paths[size])) for size in (300, large)}
    detail = f"{ms[large]:.0f} ms beside {floor:.0f} ms, over an empty process"
    yield Found("first context of a process", ms[large] / floor, 2.0, "x bare apsw and msgspec", detail)
    flat = f"{ms[large]:.0f} ms beside {ms[300]:.0f} ms"
    yield Found(f"first context of a process, {large:,} beside 300", ms[large] / ms[300], 1.3, "x", flat)


def writing(sessions: dict[int, Session], large: int) -> Iterator[Found | Curve]:
    appends = in_turns({str(size): appending(s) for size, s in sessions.items()}, 300)
    forks = in_turns({str(size): s.fork for size, s in sessions.items()}, 100, rounds=5)
    yield beside(f"append at {large:,} entries", appends[str(large)], appends["300"], 1.3, "x at 300")
    yield beside(f"fork at {large:,} entries", forks[str(large)], forks["300"], 1.3, "x at 300")
    yield Found("bytes of a fork", bytes_per_fork(sessions[large]), 1_000, "bytes", "mean of 1,000")
    lines = {"append of 1 KiB": curve(appends, sessions), "fork": curve(forks, sessions)}
    yield Curve("writing, by the length of the log", "µs of CPU", lines)


def curve(took: dict[str, Timing], sessions: dict[int, Session]) -> list[tuple[float, float]]:
    return [(size, took[str(size)].median_us) for size in sessions]


def built(folder: Path, size: int) -> Path:
    path = folder / f"growth-{size}.db"
    with threadline.open(path, durability="relaxed") as store:
        filled(store.session("it"), whole_steps(size))
    return path


def whole_steps(size: int) -> int:
    """The nearest size at which the window holds 120 messages: it moves by 30, and begins at a turn of four."""
    return size - (size - LAST) % 60


def asking(session: Session) -> Callable[[], object]:
    return lambda: session.context(max_messages=LAST)


def looking(session: Session) -> Callable[[], object]:
    return lambda: session.view(last=LAST)


def reading_anew(session: Session) -> Callable[[], object]:
    """A context whose rows the connection does not remember, as after a commit of another process."""
    recents = session._backend._recents  # type: ignore[attr-defined]

    def ask() -> object:
        recents.clear()
        return session.context(max_messages=LAST)

    return ask


def appending(session: Session) -> Callable[[], object]:
    return lambda: session.append(MESSAGE)


def script(path: Path) -> str:
    return f"import threadline; threadline.open({str(path)!r}).session('it').context(max_messages={LAST})"


def bytes_per_fork(session: Session, count: int = 1_000) -> float:
    backend = session._backend
    before = backend.stats()
    for _ in range(count):
        session.fork()
    after = backend.stats()
    return float(after["size_bytes"] - before["size_bytes"]) / count


WORKLOADS = (growth,)
