"""The workloads: each yields (what, reached, must reach, unit, detail)."""

from __future__ import annotations

import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

import threadline
from bench.commands import commands
from bench.contexts import context
from bench.families import tree, usage
from bench.floors import BareLog, bare_listing, bare_tail
from bench.measure import cpu_ms_of_script, in_turns
from bench.postgres import postgres
from threadline import Message, Session, Store
from threadline.backends.sqlite.backend import SqliteBackend
from threadline.core import codec

Found = tuple[str, float, float, str, str]

TEXT = secrets.token_hex(512)  # 1 KiB
MESSAGE = Message.user(TEXT)
BODY = codec.encode(MESSAGE)


def append(folder: Path, large: int) -> Iterator[Found]:
    """One append of 1 KiB beside a bare transaction with the same bytes, at both durabilities, and as the log grows."""
    yield append_beside_bare(folder, "full", "full", 200)
    yield append_beside_bare(folder, "relaxed", "normal", 1_000)


def append_beside_bare(folder: Path, durability: str, synchronous: str, repeat: int) -> Found:
    bare = BareLog(folder / f"bare-{durability}.db", synchronous)
    with threadline.open(folder / f"append-{durability}.db", durability=durability) as store:
        session = store.new()
        took = in_turns({"bare": lambda: bare.append(BODY), "ours": lambda: session.append(MESSAGE)}, repeat)
    ratio = took["ours"].median_us / took["bare"].median_us
    return f"append, CPU, {durability}", ratio, 2.0, "x bare", f"{took['ours']} beside {took['bare']}"


def growth(folder: Path, large: int) -> Iterator[Found]:
    """The same append at 10 entries and at a million, and the view's tail beside a bare SELECT and decode."""
    sizes = (10, 10_000, large)
    stores = {size: threadline.open(folder / f"growth-{size}.db", durability="relaxed") for size in sizes}
    sessions = {size: filled(stores[size].new(), size) for size in sizes}
    took = in_turns({str(size): appends(sessions[size]) for size in sizes}, 300)
    ratio = took[str(large)].median_us / took["10"].median_us
    detail = f"{took[str(large)]} beside {took['10']}"
    yield f"append at {large:,} entries", ratio, 1.3, "x at 10", detail
    yield from tails(folder, sessions, large)
    yield from forks(sessions, large)
    for store in stores.values():
        store.close()


def tails(folder: Path, sessions: dict[int, Session], large: int) -> Iterator[Found]:
    bare = bare_tail(folder / "bare-tail.db", [BODY], 10_000)
    calls = {str(size): tail(session) for size, session in sessions.items() if size >= 120}
    took = in_turns({"bare": bare, **calls}, 50)
    ratio = took[str(large)].median_us / took["bare"].median_us
    yield f"view(last=120) of {large:,}", ratio, 2.0, "x bare", f"{took[str(large)]} beside {took['bare']}"
    flat = took[str(large)].median_us / took["10000"].median_us
    yield f"view(last=120), {large:,} beside 10,000", flat, 1.3, "x", f"{took[str(large)]} beside {took['10000']}"


def forks(sessions: dict[int, Session], large: int) -> Iterator[Found]:
    took = in_turns({str(size): session.fork for size, session in sessions.items()}, 100, rounds=5)
    flat = took[str(large)].median_us / took["10"].median_us
    yield f"fork of {large:,} entries", flat, 1.3, "x at 10", f"{took[str(large)]} beside {took['10']}"
    yield "bytes of a fork", bytes_per_fork(sessions[large]), 1_000, "bytes", "mean of 1,000"


def syncs(folder: Path, large: int) -> Iterator[Found]:
    """Syncs are counted, not timed: by a VFS under the real store."""
    vfs = CountingVFS("bench-count")
    store = Store(SqliteBackend(str(folder / "sync.db"), vfs="bench-count"))
    session = store.new()
    vfs.syncs = 0
    for _ in range(100):
        session.append(MESSAGE)
    yield "syncs of a durable append", vfs.syncs / 100, 1.0, "per append", "without a checkpoint"
    vfs.delay_s = 0.002
    alone = rate(session, 1, 100)
    vfs.syncs = 0
    together = rate(session, 32, 50)
    yield "syncs, 32 threads", vfs.syncs / 1_600, 0.25, "per append", "checkpoints included; a sync takes 2 ms"
    yield (
        "one thread beside 32, a sync takes 2 ms",
        alone / together,
        0.25,
        "x the rate",
        f"{alone:.0f}/s, {together:.0f}/s",
    )
    store.close()


def listing(folder: Path, large: int) -> Iterator[Found]:
    """50 of 100,000 sessions beside a bare indexed SELECT, and beside 50 of 100."""
    sessions = max(100, large // 10)
    bare = bare_listing(folder / "bare-list.db", sessions)
    with (
        threadline.open(folder / "list-small.db", durability="relaxed") as small,
        threadline.open(folder / "list-large.db", durability="relaxed") as big,
    ):
        for store, count in ((small, 100), (big, sessions)):
            for n in range(count):
                store.new(title=f"how do I list my sessions? {n}", cwd=f"/work/{n % 1_000}")
        calls = {"bare": bare, "small": small.sessions, "large": big.sessions, "latest": lambda: big.latest("/work/7")}
        took = in_turns(calls, 50)
    ratio = took["large"].median_us / took["bare"].median_us
    yield f"list 50 of {sessions:,} sessions", ratio, 2.0, "x bare", f"{took['large']} beside {took['bare']}"
    flat = took["large"].median_us / took["small"].median_us
    yield f"list 50, {sessions:,} beside 100", flat, 1.3, "x", f"{took['large']} beside {took['small']}"
    yield "latest(cwd)", took["latest"].median_us / took["large"].median_us, 1.3, "x list 50", str(took["latest"])


def start(folder: Path, large: int) -> Iterator[Found]:
    """A new process: the import alone, and up to the first append."""
    yield "import threadline", cpu_ms_of_script("import threadline"), 60, "ms CPU", "over an empty process"
    script = f"import threadline; threadline.open({str(folder / 'start.db')!r}).session('k').append('hi')"
    yield "first append of a process", cpu_ms_of_script(script), 120, "ms CPU", "over an empty process"


def on_a_server(folder: Path, large: int) -> Iterator[Found]:
    """The same store on PostgreSQL, beside bare psycopg."""
    return postgres(MESSAGE, BODY, large)


def life(folder: Path, large: int) -> Iterator[Found]:
    """A token of a draft, the way to a follower, the state of a long log, and an append under a lease."""
    with threadline.open(folder / "life.db", durability="relaxed") as store:
        session = store.new()
        took = in_turns({"draft": lambda: stream(session, 2_000)}, 3)
        per_token = took["draft"].median_us / 2_000
        yield "draft.write of a token", per_token, 10, "us CPU", "of 2,000 tokens, begin, flushes and finish included"
        yield "follow, from append to follower", follow_ms(session, 200), 5, "ms", "median, in one process, wall time"
        yield from states(store, large)
        yield from leases(session)


def states(store: Store, large: int) -> Iterator[Found]:
    sessions = {size: filled(stateful(store.new()), size) for size in (10, large)}
    took = in_turns({str(size): lambda s=s: s.state for size, s in sessions.items()}, 200)
    ratio = took[str(large)].median_us / took["10"].median_us
    yield f"state after {large:,} entries", ratio, 1.3, "x at 10", f"{took[str(large)]} beside {took['10']}"


def leases(session: Session) -> Iterator[Found]:
    free = session.fork()
    with session.lease("worker", ttl=3_600) as lease:
        calls = {"leased": lambda: session.append(MESSAGE, lease=lease), "free": appends(free)}
        took = in_turns(calls, 300)
    ratio = took["leased"].median_us / took["free"].median_us
    yield "append with a lease", ratio, 1.3, "x without", f"{took['leased']} beside {took['free']}"


ALL: tuple[Callable[[Path, int], Iterator[Found]], ...] = (
    append,
    growth,
    context,
    syncs,
    listing,
    commands,
    life,
    usage,
    tree,
    start,
    on_a_server,
)


# -- what they work on ---------------------------------------------------------------------------------


def filled(session: Session, entries: int) -> Session:
    for begin in range(0, entries, 1_000):
        session.extend([MESSAGE] * min(1_000, entries - begin))
    return session


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


def appends(session: Session) -> Callable[[], object]:
    return lambda: session.append(MESSAGE)


def tail(session: Session) -> Callable[[], object]:
    return lambda: session.view(last=120)


def bytes_per_fork(session: Session, count: int = 1_000) -> float:
    backend = session._backend
    before = backend.stats()
    for _ in range(count):
        session.fork()
    after = backend.stats()
    return float(after["size_bytes"] - before["size_bytes"]) / count


def rate(session: Session, threads: int, each: int) -> float:
    """Appends per second of so many threads together."""

    def work() -> None:
        for _ in range(each):
            session.append(MESSAGE)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return threads * each / (time.perf_counter() - begin)


class CountingVFS(apsw.VFS):
    """The usual file system, counting syncs, and making each as slow as a disk."""

    def __init__(self, name: str) -> None:
        self.syncs = 0
        self.delay_s = 0.0
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> CountingFile:
        return CountingFile(self, name, flags)


class CountingFile(apsw.VFSFile):
    def __init__(self, vfs: CountingVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        self._vfs.syncs += 1
        time.sleep(self._vfs.delay_s)
        super().xSync(flags)
