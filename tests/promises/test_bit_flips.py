"""Promise 6: damage is detected, named and contained; all that is undamaged stays readable.

A closed store is damaged in one place, opened again, and asked for everything that it was asked for before."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw
import pytest
from histories import Clock, fast_folder, loaded_dice, next_step, open_store, snapshot

from threadline import Entry, Session, Store
from threadline.errors import ThreadlineError
from threadline.store import VerifyReport
from threadline.testing import scaled, seed

STEPS = 60
SMALL = (4, 8, 20, 60, 150)  # bytes of text: most of the file is structure, where damage does most harm
PAGE_BYTES = 4096
PATIENCE_S = 20.0  # reading this store takes a hundredth of a second: more is a hang

Answers = dict[tuple[Any, ...], Any]  # what the store said, by what it was asked; an error is an answer, too


class Victim(NamedTuple):
    """A whole store: its bytes, its answers, and which session's log an entry of a fork lies in."""

    content: bytes
    answers: Answers
    entries: dict[tuple[str, int], Entry]
    owners: dict[tuple[str, int], str]


class Trial(NamedTuple):
    """What became of a store with a bit flipped: what it answered otherwise, and what `verify` reported."""

    place: str
    changed: Answers
    report: VerifyReport | None  # None where the file was refused

    @property
    def noticed(self) -> bool:
        return self.report is None or not self.report.ok


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with fast_folder() as folder:
        build(folder / "store.db")
        with open_store(folder / "store.db") as store:
            entries = {(entry.session, entry.seq): entry for session in sessions(store) for entry in session.entries()}
            owners = {place: owner(store, *place) for place in entries}
            answers = ask(store, list(entries))
            assert store.verify().ok
        yield Victim((folder / "store.db").read_bytes(), answers, entries, owners)


@pytest.fixture(scope="module")
def flips(victim: Victim) -> list[Trial]:
    """One bit each, anywhere in the file."""
    rng = Random(seed())
    bits = [rng.randrange(len(victim.content) * 8) for _ in range(scaled(300))]
    with fast_folder() as folder:
        return [examine(folder, victim, flipped(victim.content, bit), f"bit {bit}") for bit in bits]


# -- the claims ----------------------------------------------------------------------------------------


def test_verify_finds_every_flip_that_changes_an_answer(flips: list[Trial]) -> None:
    assert [trial for trial in flips if trial.changed and not trial.noticed] == []


def test_damage_raises_our_own_errors_and_no_others(flips: list[Trial]) -> None:
    assert [(trial.place, foreign(trial)) for trial in flips if foreign(trial)] == []


def test_an_entry_is_read_as_it_was_written_or_not_at_all(folder: Path, victim: Victim) -> None:
    rng, index = Random(seed()), page_of(folder, victim, "sqlite_autoindex_entry_1")
    for bit in (index * 8 + rng.randrange(PAGE_BYTES * 8) for _ in range(scaled(100))):
        trial = examine(folder, victim, flipped(victim.content, bit), f"bit {bit}")

        assert not any(isinstance(found, Entry) for found in trial.changed.values()), trial


def test_damage_that_verify_names_by_entry_reaches_no_other_entry(flips: list[Trial], victim: Victim) -> None:
    for trial in flips:
        if trial.report and all(problem.seq for problem in trial.report.problems):
            assert lost(trial, victim) <= named(trial)


def test_a_flip_in_the_content_of_an_entry_is_named_and_leaves_all_others_readable(
    folder: Path, victim: Victim
) -> None:
    rng = Random(seed())
    for _ in range(scaled(60)):
        place, bit = bit_of_an_entry(victim, rng)
        trial = examine(folder, victim, flipped(victim.content, bit), f"bit {bit}")

        assert place in named(trial)
        assert lost(trial, victim) == {place}


def test_a_garbled_sector_is_found_or_harms_nothing(folder: Path, victim: Victim) -> None:
    rng = Random(seed())
    for _ in range(scaled(60)):
        sector = rng.randrange(len(victim.content) // 512) * 512
        garbled = victim.content[:sector] + rng.randbytes(512) + victim.content[sector + 512 :]
        trial = examine(folder, victim, garbled, f"sector at {sector}")

        assert trial.noticed or not trial.changed, trial.place


def test_a_file_that_lost_its_end_is_found_out(folder: Path, victim: Victim) -> None:
    rng = Random(seed())
    for _ in range(scaled(30)):
        size = rng.randrange(1, len(victim.content))
        trial = examine(folder, victim, victim.content[:size], f"cut to {size} bytes")

        assert trial.noticed, trial.place


def test_damage_in_the_write_ahead_log_leaves_a_state_that_once_was(folder: Path) -> None:
    """SQLite ends the log at the first damaged frame: what came later is lost, what came before is whole."""
    files, moments = unfinished(folder / "store.db")
    rng = Random(seed())
    for _ in range(scaled(60)):
        bit = rng.randrange(len(files["store.db-wal"]) * 8)
        write(folder, files | {"store.db-wal": flipped(files["store.db-wal"], bit)})
        with open_store(folder / "store.db") as store:
            assert store.verify().ok, bit
            assert snapshot(store) in moments, bit


# -- the victim ----------------------------------------------------------------------------------------


def build(path: Path) -> None:
    """Sessions, forks, compactions, keys, tags, calls, an archived session, a large body, a family, requests, a log
    that outlived its session, and a session that lives."""
    rng, clock = Random("victim"), Clock()  # always the same, whatever the seed: only the damage varies
    with loaded_dice(), patch("histories.TEXT_BYTES", SMALL), open_store(path, clock) as store:
        for clock.step in range(1, STEPS + 1):
            next_step(store, rng, clock.step).run(store)
        about = store.new(key="about", title="Title", tags=("a", "b"), cwd="/tmp", agent="me", meta={"n": 1})
        about.append("large " * 3_000, key="large", usage={"input": 7})
        store.archive(about.fork(key="archived"))
        for lifecycle in ("linked", "detached"):
            child = about.spawn("searcher", call_id=lifecycle, lifecycle=lifecycle, model="a-model")
            child.append("look for it", usage={"input": 5, "output": 6, "request_id": f"request-{lifecycle}"})
            child.spawn("below").record_usage(cache_read=9, cost=0.25)
        gone = store.new(key="gone")
        gone.extend([f"shared with a fork, number {i}" for i in range(5)], key="call")
        gone.fork(3, key="heir")
        store.delete(gone)
        live(store.session("alive"))


def live(session: Session) -> None:
    """All that lies beside a log: a state and a goal in it, a lease, an inbox, a draft."""
    session.set_state({"n": 1, "text": "state " * 300})
    session.set_state({"n": 2})
    session.set_goal("stay alive", "somehow")
    session.rewind(1, state=True)
    for n in range(5):
        session.enqueue(f"waiting {n} " * 20, key=f"queued-{n}" if n % 2 else None)
    for text in ("half a sentence " * 10, "and another " * 700):
        d = session.draft(key="draft")
        d.write(text)
        d.let_go()
    session.lease("worker", ttl=300 * 24 * 3600)


def unfinished(path: Path) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The files of a store that was never closed, and what it said after each step, the first of all nothing."""
    rng, clock, moments = Random("unfinished"), Clock(), [{}]
    with open_store(path, clock) as store:
        for clock.step in range(1, 13):
            next_step(store, rng, clock.step).run(store)
            moments.append(snapshot(store))
        files = {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
    return files, moments


def sessions(store: Store) -> list[Session]:
    return [store.get(info.id) for info in store.sessions(status=None, root=False)]


def owner(store: Store, session: str, seq: int) -> str:
    """The session that wrote an entry: itself, or the ancestor that it shares it with; the heir of one that is gone."""
    origin = store.get(session).info.origin
    if origin is None or seq > origin[1] or origin[0] not in {known.id for known in sessions(store)}:
        return session
    return owner(store, origin[0], seq)


# -- damage --------------------------------------------------------------------------------------------


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def bit_of_an_entry(victim: Victim, rng: Random) -> tuple[tuple[str, int], int]:
    """A bit of the text of an entry that stands in the file once, and the entry's place in its owner's log."""
    while True:
        place, entry = rng.choice(list(victim.entries.items()))
        text = entry.message.text.encode()[:200] if entry.message else b""
        if len(text) > 16 and victim.content.count(text) == 1:
            bit = victim.content.index(text) * 8 + rng.randrange(len(text) * 8)
            return (victim.owners[place], place[1]), bit


def page_of(folder: Path, victim: Victim, tree: str) -> int:
    """Where the first page of a table or index begins in the file."""
    write(folder, {"store.db": victim.content})
    with closing(apsw.Connection(str(folder / "store.db"))) as connection:
        (number,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (tree,)).fetchone()
    return (number - 1) * PAGE_BYTES


def examine(folder: Path, victim: Victim, content: bytes, place: str) -> Trial:
    """Open a damaged store and ask it everything."""
    write(folder, {"store.db": content})
    with within(PATIENCE_S):
        try:
            store = open_store(folder / "store.db")
        except ThreadlineError:
            return Trial(place, {}, None)
        with store:
            answers = ask(store, list(victim.entries))
            report = answer(store.verify)
    if not isinstance(report, VerifyReport):
        answers["verify",], report = report, VerifyReport([], {})
    changed = {question: answer for question, answer in answers.items() if answer != victim.answers.get(question)}
    return Trial(place, changed, report)


def write(folder: Path, files: dict[str, bytes]) -> None:
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


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


def ask(store: Store, places: list[tuple[str, int]]) -> Answers:
    """Everything that the public API says of these entries, their sessions and the whole store."""
    answers: Answers = {
        ("sessions",): answer(lambda: sorted((info.id, info) for info in store.sessions(status=None, root=False))),
        ("oldest",): answer(lambda: [info.id for info in store.sessions(order="created")]),
        ("spent",): answer(lambda: store.usage(by=("session", "day", "model", "agent"))),
        ("tagged",): answer(lambda: [info.id for info in store.sessions(tag="a")]),
    }
    for id in {session for session, _ in places}:
        for name, question in ABOUT_A_SESSION.items():
            answers[name, id] = answer(lambda id=id, question=question: question(store.get(id)))
        answers |= {("walk", id, seq): found for seq, found in walk(store, id, len(places))}
    for id, seq in places:
        answers["entry", id, seq] = answer(lambda id=id, seq=seq: store.get(id).entry(seq))
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


def walk(store: Store, id: str, at_most: int) -> Iterator[tuple[int, Any]]:
    """The log from end to end, going on after what is damaged."""
    entries = answer(lambda: store.get(id).entries())
    for seq in range(1, at_most) if isinstance(entries, Iterator) else ():
        found = answer(lambda: next(entries, None))
        if found is None:
            return
        yield seq, found


def foreign(trial: Trial) -> list[str]:
    return sorted({repr(found) for found in trial.changed.values() if isinstance(found, Exception)})


def named(trial: Trial) -> set[tuple[str | None, int | None]]:
    return {(problem.session, problem.seq) for problem in trial.report.problems} if trial.report else set()


def lost(trial: Trial, victim: Victim) -> set[tuple[str, int]]:
    """The entries that are not read as they were, by the session that wrote them."""
    places = {(question[1], question[2]) for question in trial.changed if question[0] in ("entry", "walk")}
    return {(victim.owners[place], place[1]) for place in places if place in victim.owners}
