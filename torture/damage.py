"""Damage. A closed store is damaged in one place: a bit flips, a sector is garbage, a page is gone, the end is missing,
in the file or in its WAL. Then it is opened again and asked for what it was asked for before: whatever it answers
otherwise is found by `verify`, named, and reaches no further than what is named."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from threadline import Entry, Memory, Node, Session, Store
from threadline.errors import ThreadlineError
from threadline.store import VerifyReport
from torture.histories import Clock, fast_folder, loaded_dice, next_step, open_store, snapshot
from torture.runner import Trial, Unit

SMALL = (4, 8, 20, 60, 150)  # bytes of text: most of the file is structure, where damage does most harm
SECTOR_BYTES, PAGE_BYTES = 512, 4096
PATIENCE_S = 20.0  # reading such a store takes a hundredth of a second: more is a hang
ASKED = 3  # of the questions about a session, beside the log and the view
STEPS = (6, 10, LONG := 16)
VICTIMS = 7  # so many different stores
MEMORY = "project"

K = TypeVar("K")

Answers = dict[tuple[Any, ...], Any]  # what the store said, by what it was asked; an error is an answer, too


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    rng = Random(unit.dice("damage"))
    victim = victim_of(f"victim {unit.seed} {unit.number % VICTIMS}", STEPS[unit.number % len(STEPS)])
    with patch("threadline.backends.sqlite.reserve.RESERVE_BYTES", PAGE_BYTES):  # to make it takes longer than a trial
        for _ in range(unit.count):
            harm = rng.choices(list(HARMS), weights=list(HARMS.values()))[0]
            yield Trial(harm(folder, victim, rng), harm.__name__)


# -- the victim ----------------------------------------------------------------------------------------


class Victim(NamedTuple):
    """A whole store: its bytes, its answers, and which session's log an entry of a fork lies in; and one that was never
    closed: its files, and what it said after each step."""

    content: bytes
    used: list[int]  # the bytes that are not zero
    texts: list[tuple[tuple[str, int], int, int]]
    answers: Answers
    nodes: list[tuple[str, int, int]]  # the addresses of nodes whose content stands in the file once, and where
    entries: dict[tuple[str, int], Entry]
    owners: dict[tuple[str, int], str]
    unclosed: dict[str, bytes]
    moments: list[dict[str, Any]]


@lru_cache(maxsize=2)
def victim_of(dice: str, steps: int) -> Victim:
    with fast_folder() as folder:
        build(folder / "store.db", dice, steps)
        with open_store(folder / "store.db") as store:
            entries = {(entry.session, entry.seq): entry for session in sessions(store) for entry in session.entries()}
            owners = {place: owner(store, *place) for place in entries}
            contents = {node.addr: node.content.encode() for node in _known(store)}
            answers = ask(store, list(entries))
            assert store.verify().ok
            store.backup(folder / "compact.db")
        # Pages that were split leave copies behind that nobody reads: most victims have none, so that damage hurts.
        content = (folder / ("store.db" if steps == LONG else "compact.db")).read_bytes()
        unclosed, moments = unfinished(folder / "unclosed.db", dice)
    used = [offset for offset, byte in enumerate(content) if byte]
    said = {place: entry.message.text.encode()[:200] for place, entry in entries.items() if entry.message}
    texts, nodes = places_in(content, said), places_in(content, contents)
    return Victim(content, used, texts, answers, nodes, entries, owners, unclosed, moments)


def build(path: Path, dice: str, steps: int) -> None:
    """Sessions, forks, compactions, keys, tags, calls, an archived session, a large body, a family, requests, a log
    that outlived its session, a session that lives, and a memory."""
    rng, clock = Random(dice), Clock()
    with loaded_dice(), patch("torture.histories.TEXT_BYTES", SMALL), open_store(path, clock) as store:
        for clock.step in range(1, steps + 1):
            next_step(store, rng, clock.step).run(store)
        about = store.new(key="about", title="Title", tags=("a", "b"), cwd="/tmp", agent="me", meta={"n": 1})
        about.append("large " * 1_000, key="large", usage={"input": 7})
        store.archive(about.fork(key="archived"))
        child = about.spawn("searcher", call_id="call", lifecycle=rng.choice(("linked", "detached")), model="a-model")
        child.append("look for it", usage={"input": 5, "output": 6, "request_id": "request"})
        gone = store.new(key="gone")
        store.session("plain").extend([f"{n} words of an entry that stand in the file once" for n in range(3)])
        gone.extend([f"shared with a fork, number {i}" for i in range(3)], key="call")
        gone.fork(2, key="heir")
        store.delete(gone)
        live(store.session("alive"))
        remember(store.memory(MEMORY))


def live(session: Session) -> None:
    """All that lies beside a log: a state and a goal in it, a lease, an inbox, a draft."""
    session.set_state({"n": 1, "text": "state " * 300})
    session.set_goal("stay alive", "somehow")
    session.rewind(1, state=True)
    for n in range(2):
        session.enqueue(f"waiting {n} " * 20, key=f"queued-{n}" if n % 2 else None)
    draft = session.draft(key="draft")
    draft.write("half a sentence " * 10)
    draft.let_go()
    session.lease("worker", ttl=300 * 24 * 3600)


def remember(memory: Memory) -> None:
    """Nodes of all kinds, chains, a session at work, one that has ended, and one whose nodes were collected."""
    port = memory.claim("the server listens at port 80", chain="ports")
    build = memory.claim("a build of everything takes forty seconds")
    memory.supersede(port, "the server listens at port 8080")
    memory.compress([build], "builds are slow: forty seconds")
    memory.claim(
        "perhaps a cache would help", session="work", agent="me", preliminary=True, chain="idea", meta={"n": 1}
    )
    memory.claim("it may be the linker", session="work", preliminary=True)
    memory.promote("idea")
    for ended in ("over", "collected"):
        memory.claim(f"something of session {ended}", session=ended, preliminary=True)
        memory.end(ended, promote=False)
        if ended == "collected":
            memory.gc(timedelta(0))
    memory.claim("what was claimed the last of all")
    memory.recall("port")


def _known(store: Store) -> list[Node]:
    return store.memory(MEMORY).active(session="work", agent="me")


def unfinished(path: Path, dice: str) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The files of a store that was never closed, and what it said after each step, the first of all nothing."""
    rng, clock, moments = Random(dice), Clock(), [{}]
    with open_store(path, clock) as store:
        for clock.step in range(1, 9):
            next_step(store, rng, clock.step).run(store)
            moments.append(snapshot(store))
        files = {suffix: path.with_name(path.name + suffix).read_bytes() for suffix in ("", "-wal")}
    return {f"store.db{suffix}": content for suffix, content in files.items()}, moments


def sessions(store: Store) -> list[Session]:
    return [store.get(info.id) for info in store.sessions(status=None, root=False)]


def owner(store: Store, session: str, seq: int) -> str:
    """The session that wrote an entry: itself, or the ancestor that it shares it with; the heir of one that is gone."""
    origin = store.get(session).info.origin
    if origin is None or seq > origin[1] or origin[0] not in {known.id for known in sessions(store)}:
        return session
    return owner(store, origin[0], seq)


# -- harm ----------------------------------------------------------------------------------------------


def a_bit_anywhere(folder: Path, victim: Victim, rng: Random) -> str | None:
    bit = rng.randrange(len(victim.content) * 8)
    return wrong_with(examine(folder, victim, flipped(victim.content, bit), f"bit {bit}", rng), victim)


def a_bit_in_use(folder: Path, victim: Victim, rng: Random) -> str | None:
    """Half of a small file is empty space, where nothing hurts."""
    bit = rng.choice(victim.used) * 8 + rng.randrange(8)
    return wrong_with(examine(folder, victim, flipped(victim.content, bit), f"bit {bit}", rng), victim)


def a_bit_of_an_entry(folder: Path, victim: Victim, rng: Random) -> str | None:
    """It is that entry that is named, and no other is lost."""
    if not victim.texts:
        return a_bit_in_use(folder, victim, rng)
    (session, seq), start, end = rng.choice(victim.texts)
    place, bit = (victim.owners[session, seq], seq), rng.randrange(start * 8, end * 8)
    trial = examine(folder, victim, flipped(victim.content, bit), f"bit {bit}", rng)
    if place not in named(trial):
        return f"bit {bit}: entry {place} is not named"
    return wrong_with(trial, victim) or (None if lost(trial, victim) == {place} else f"bit {bit}: others are lost, too")


def a_bit_of_a_node(folder: Path, victim: Victim, rng: Random) -> str | None:
    """It is that node that is named, and all others are read."""
    addr, start, end = rng.choice(victim.nodes)
    bit = rng.randrange(start * 8, end * 8)
    trial = examine(folder, victim, flipped(victim.content, bit), f"bit {bit}", rng)
    if not trial.report or not any(addr[:12] in problem.what for problem in trial.report.problems):
        return f"bit {bit}: node {addr[:12]} is not named"
    if lost(trial, victim) or len(trial.changed.get(("nodes",), ())) != len(victim.answers["nodes",]) - 1:
        return f"bit {bit}: more than node {addr[:12]} is lost"
    return wrong_with(trial, victim)


def a_sector_of_garbage(folder: Path, victim: Victim, rng: Random) -> str | None:
    sector = rng.randrange(len(victim.content) // SECTOR_BYTES) * SECTOR_BYTES
    garbled = replaced(victim.content, sector, rng.randbytes(SECTOR_BYTES))
    return wrong_with(examine(folder, victim, garbled, f"sector at {sector}", rng), victim)


def a_page_of_nothing(folder: Path, victim: Victim, rng: Random) -> str | None:
    page = rng.randrange(len(victim.content) // PAGE_BYTES) * PAGE_BYTES
    zeroed = replaced(victim.content, page, bytes(PAGE_BYTES))
    return wrong_with(examine(folder, victim, zeroed, f"page at {page}", rng), victim)


def a_lost_end(folder: Path, victim: Victim, rng: Random) -> str | None:
    size = rng.randrange(1, len(victim.content))
    trial = examine(folder, victim, victim.content[:size], f"cut to {size} bytes", rng)
    return wrong_with(trial, victim) or (None if trial.noticed else f"cut to {size} bytes: nobody notices")


def the_write_ahead_log(folder: Path, victim: Victim, rng: Random) -> str | None:
    """SQLite ends the log at the first damaged frame: what came later is lost, what came before is whole."""
    wal = victim.unclosed["store.db-wal"]
    place = rng.randrange(len(wal))
    damaged = rng.choice(
        (flipped(wal, place * 8 + rng.randrange(8)), wal[:place], replaced(wal, place, rng.randbytes(SECTOR_BYTES)))
    )
    write(folder, victim.unclosed | {"store.db-wal": damaged})
    try:
        with within(PATIENCE_S), open_store(folder / "store.db") as store:
            problems, found = store.verify().problems, snapshot(store)
    except ThreadlineError as error:
        return f"WAL at {place}: {error!r}"
    if problems:
        return f"WAL at {place}: {problems[:3]}"
    return None if found in victim.moments else f"WAL at {place}: a state that never was"


HARMS: dict[Callable[[Path, Victim, Random], str | None], int] = {
    a_bit_anywhere: 25,
    a_bit_in_use: 40,
    a_bit_of_an_entry: 8,
    a_bit_of_a_node: 4,
    a_sector_of_garbage: 8,
    a_page_of_nothing: 4,
    a_lost_end: 5,
    the_write_ahead_log: 10,
}


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def replaced(content: bytes, offset: int, by: bytes) -> bytes:
    return (content[:offset] + by + content[offset + len(by) :])[: len(content)]


def places_in(content: bytes, said: dict[K, bytes]) -> list[tuple[K, int, int]]:
    """Whose text stands in the file once, and where it begins and ends there."""
    once = {whose: text for whose, text in said.items() if len(text) > 16 and content.count(text) == 1}
    return [(whose, content.index(text), content.index(text) + len(text)) for whose, text in once.items()]


def write(folder: Path, files: dict[str, bytes]) -> None:
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


# -- looking at it -------------------------------------------------------------------------------------


class Looked(NamedTuple):
    """What became of a damaged store: what it answered otherwise, and what `verify` reported."""

    place: str
    changed: Answers
    report: VerifyReport | None  # None where the file was refused

    @property
    def noticed(self) -> bool:
        return self.report is None or not self.report.ok


def examine(folder: Path, victim: Victim, content: bytes, place: str, rng: Random | None = None) -> Looked:
    """Open a damaged store and ask it everything, or what the dice say."""
    write(folder, {"store.db": content})
    with within(PATIENCE_S):
        try:
            store = open_store(folder / "store.db")
        except ThreadlineError:
            return Looked(place, {}, None)
        with store:
            answers = ask(store, list(victim.entries), rng)
            report = answer(store.verify)
    if not isinstance(report, VerifyReport):
        answers["verify",], report = report, VerifyReport([], {})
    changed = {question: answer for question, answer in answers.items() if answer != victim.answers.get(question)}
    return Looked(place, changed, report)


def wrong_with(trial: Looked, victim: Victim) -> str | None:
    if foreign(trial):
        return f"{trial.place}: errors that are not ours: {foreign(trial)}"
    if trial.changed and not trial.noticed:
        return f"{trial.place}: verify does not see that {list(trial.changed)[:3]} changed"
    altered = [question for question, found in trial.changed.items() if isinstance(found, Entry)]
    if altered:
        return f"{trial.place}: {altered[:3]} are read otherwise than they were written"
    if (
        trial.report
        and all(problem.seq for problem in trial.report.problems)
        and not lost(trial, victim) <= named(trial)
    ):
        return f"{trial.place}: {lost(trial, victim) - named(trial)} are lost and not named"
    return None


@contextmanager
def within(seconds: float) -> Iterator[None]:
    def too_long(*_: object) -> None:
        raise TimeoutError("reading a damaged store hangs")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- questions and answers -----------------------------------------------------------------------------


ABOUT_A_SESSION: dict[str, Callable[[Session], Any]] = {
    "info": lambda session: session.info,
    "view": lambda session: session.view(),
    "pending": lambda session: session.pending,
    "state": lambda session: dict(session.state),
    "goal": lambda session: session.goal,
    "queued": lambda session: session.queued(),
    "drafts": lambda session: [(draft.id, draft.role, draft.key, draft.at, draft.text) for draft in session.drafts],
    "forks": lambda session: [fork.id for fork in session.forks()],
    "children": lambda session: [child.id for child in session.children()],
    "tree": lambda session: list(session.tree()),
    "usage": lambda session: session.usage(children=True),
    "requests": lambda session: session.requests(),
}
ABOUT_THE_STORE: dict[str, Callable[[Store], Any]] = {
    "sessions": lambda store: sorted(store.sessions(status=None, root=False), key=lambda info: info.id),
    "oldest": lambda store: [info.id for info in store.sessions(order="created")],
    "spent": lambda store: store.usage(by=("session", "day", "model", "agent")),
    "tagged": lambda store: [info.id for info in store.sessions(tag="a")],
    "nodes": lambda store: _known(store),
    "chains": lambda store: store.memory(MEMORY).chains(),
    "events": lambda store: store.memory(MEMORY).events(),
    "roots": lambda store: store.memory(MEMORY).roots(),
    "archives": lambda store: store.memory(MEMORY).archives(),
    "recalled": lambda store: [hit.addr for hit in store.memory(MEMORY).recall("port build forty seconds")],
}


def ask(store: Store, places: list[tuple[str, int]], rng: Random | None = None) -> Answers:
    """What the public API says of these entries, their sessions and the whole store: everything, or of every session
    its log, its view and some of the rest."""
    answers: Answers = {(name,): answer(lambda q=q: q(store)) for name, q in ABOUT_THE_STORE.items()}  # type: ignore[misc]
    for id in {session: None for session, _ in places}:
        names = list(ABOUT_A_SESSION) if rng is None else ["view", *rng.sample(list(ABOUT_A_SESSION), ASKED)]
        session = answer(lambda id=id: store.get(id))  # type: ignore[misc]
        for name in names:
            question = ABOUT_A_SESSION[name]
            answers[name, id] = answer(lambda: question(session)) if isinstance(session, Session) else session  # noqa: B023
        answers |= {("walk", id, seq): found for seq, found in walk(session, len(places))}
    for id, seq in places if rng is None else rng.sample(places, min(ASKED, len(places))):
        answers["entry", id, seq] = answer(lambda id=id, seq=seq: store.get(id).entry(seq))  # type: ignore[misc]
    return answers


def answer(question: Callable[[], Any]) -> Any:
    """Our errors are answers; others are kept whole, to be complained about."""
    try:
        return question()
    except ThreadlineError as error:
        return type(error).__name__
    except TimeoutError:
        raise
    except Exception as error:
        return error


def walk(session: Any, at_most: int) -> Iterator[tuple[int, Any]]:
    """The log from end to end, going on after what is damaged."""
    entries = answer(session.entries) if isinstance(session, Session) else session
    if not isinstance(entries, Iterator):
        yield 1, entries
        return
    for seq in range(1, at_most + 1):
        found = answer(lambda: next(entries, None))
        if found is None:
            return
        yield seq, found


def foreign(trial: Looked) -> list[str]:
    return sorted({repr(found) for found in trial.changed.values() if isinstance(found, Exception)})


def named(trial: Looked) -> set[tuple[str | None, int | None]]:
    return {(problem.session, problem.seq) for problem in trial.report.problems} if trial.report else set()


def lost(trial: Looked, victim: Victim) -> set[tuple[str, int]]:
    """The entries that are not read as they were, by the session that wrote them."""
    places = {(question[1], question[2]) for question in trial.changed if question[0] in ("entry", "walk")}
    return {(victim.owners[place], place[1]) for place in places if place in victim.owners}
