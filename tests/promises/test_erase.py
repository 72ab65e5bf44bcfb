"""Promise 8: erase leaves no byte behind, or says which and until when."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from shutil import rmtree

import apsw
import pytest

import threadline
from threadline import Message, Session, Store, StoreFailed, StoreFull, ToolCall, Uncertain
from threadline.backends.sqlite import backend, connections, wiping
from threadline.backends.sqlite.backend import SqliteBackend
from threadline.testing import scaled, seed
from threadline.testing.crash import Recorder, crashes
from threadline.testing.faults import FailingDisk

HISTORIES = 8
STEPS = 120
CROWD = 150
CROWDS = 12  # tried until old copies come about
SLICE = 24  # bytes of what is stored compressed; so many in a row do not come about by chance


# -- how bytes are looked for --------------------------------------------------------------------------


def found(folder: Path, needles: list[bytes]) -> list[str]:
    """Where any of the needles lies, in any file of the folder."""
    return [
        f"{needle[:60]!r} in {file.name}"
        for file in sorted(folder.iterdir())
        for needle in needles
        if needle in file.read_bytes()
    ]


def needle_of(number: int) -> str:
    return f"needle-{number:03}-"


def compressed(path: Path, session: Session) -> list[bytes]:
    """Slices of a session's large content as it is stored."""
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    tree = session._ref.tree if session._ref is not None else b""
    blobs = [content for (content,) in reader.execute("SELECT content FROM blob WHERE tree = ?", (tree,))]
    reader.close()
    return [blob[at : at + SLICE] for blob in blobs for at in range(8, len(blob) - SLICE, 997)]


# -- histories -----------------------------------------------------------------------------------------


class Life:
    """Sessions that grow in each other's way, through two stores on one file, so that pages are split and joined."""

    def __init__(self, path: Path, dice: Random) -> None:
        self.path = path
        self.dice = dice
        self.stores = [threadline.open(path, durability="relaxed", namespace="") for _ in range(2)]
        self.sessions: dict[int, Session] = {}
        self.count = 0

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def store(self) -> Store:
        return self.dice.choice(self.stores)

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            if len(self.sessions) < 8 or self.dice.random() < 0.05:
                self._born()
            number = self.dice.choice([*self.sessions])
            session = self.store().get(str(self.sessions[number].id))
            self.dice.choice(ACTS)(session, self.dice, needle_of(number))

    def _born(self) -> None:
        self.count += 1
        said = needle_of(self.count)
        names = {"key": said + "key", "id": said + "id", "title": said + "title", "agent": said + "agent"}
        more = {"cwd": "/" + said, "tags": [said + "tag"], "meta": {said: said}, "system": said, "model": said}
        self.sessions[self.count] = self.store().new(**names, **more)


def text(dice: Random, said: str) -> str:
    """Of any length, and with the needle all over it."""
    return said * dice.choice([1, 3, 20, 100, 400]) + bytes(dice.choices(range(97, 123), k=60)).decode()


def large(dice: Random, said: str) -> str:
    """What compresses, and what does not."""
    noise = "".join(map(chr, dice.choices(range(33, 126), k=9_000)))
    return dice.choice([said * 2_000, noise + said])


Act = Callable[[Session, Random, str], object]
ACTS: list[Act] = [
    lambda s, d, n: s.append(text(d, n), key=f"{n}{d.random()}", usage={"input": 1, "request_id": f"{n}{d.random()}"}),
    lambda s, d, n: s.append(text(d, n)),
    lambda s, d, n: s.append(Message.tool(n, large(d, n))),
    lambda s, d, n: s.append(Message.assistant(n, ToolCall(f"{n}{d.random()}", n, {n: n}))),
    lambda s, d, n: s.enqueue(text(d, n), key=f"{n}{d.random()}"),
    lambda s, d, n: s.take(),
    lambda s, d, n: s.set_state({f"{n}{d.randint(0, 3)}": text(d, n)}),
    lambda s, d, n: s.set_goal(text(d, n)[:3_000]),
    lambda s, d, n: s.rename(text(d, n)[:200]),
    lambda s, d, n: s.update(system=text(d, n), meta={n: text(d, n)}),
    lambda s, d, n: s.tag(f"{n}{d.randint(0, 9)}"),
    lambda s, d, n: s.rewind(d.randint(0, s.head)),
    lambda s, d, n: streamed(s, text(d, n)),
    lambda s, d, n: s.repair(n),
    lambda s, d, n: s._store.search(n),
    lambda s, d, n: s._store.memory("p").claim(text(d, n), session=s.id, preliminary=True, chain=n),
    lambda s, d, n: s._store.memory("p").claim(f"known {d.random()}", session=s.id),
    lambda s, d, n: s.fork(key=f"{n}{d.random()}").append(text(d, n)),
    lambda s, d, n: s.spawn(n, call_id=f"{n}{d.random()}").append(text(d, n), usage={"output": 1}),
]


def streamed(session: Session, said: str) -> None:
    with session.draft(key=said[:200] + str(session.head)) as draft:
        draft.write(said)
        draft.finish()


def erased(folder: Path, number: int) -> list[str]:
    """Live a history, erase some of its sessions, and say what is found of them."""
    life = Life(folder / "store.db", Random(f"{seed()} {number}"))
    try:
        life.grow(STEPS)
        doomed = life.dice.sample(sorted(life.sessions), 3)
        needles = []
        for goner in doomed:
            session = life.sessions.pop(goner)
            needles += [needle_of(goner).encode(), *compressed(life.path, session)]
            receipt = life.store().erase(session, cascade=True)
            assert receipt.pending == []
        left = found(folder, needles)
        life.grow(STEPS // 4)  # what anybody had read before does not come back
        assert life.stores[0].verify().problems == []
        return left + found(folder, needles)
    finally:
        life.close()


@pytest.mark.parametrize("number", range(scaled(HISTORIES)))
def test_no_byte_of_an_erased_session_is_left(tmp_path: Path, number: int) -> None:
    assert erased(tmp_path, number) == []


@pytest.mark.parametrize("number", range(scaled(HISTORIES // 2)))
def test_no_byte_of_a_redacted_entry_is_left(tmp_path: Path, number: int) -> None:
    life = Life(tmp_path / "store.db", Random(f"{seed()} redact {number}"))
    needles = []
    life.grow(STEPS)
    for n, session in [*life.sessions.items()][:4]:
        said = f"hidden-{n:03}-"
        act = life.dice.choice(SAYS)
        first = session.head + 1
        act(session, life.dice, said)
        life.grow(5)
        session._store.search(said)
        session.fork().append("shares it")
        needles += [said.encode()]
        for seq in range(first, session.head + 1):
            if said in repr(session.entry(seq)):
                assert session.redact(seq, "why").pending == []
    left = found(tmp_path, needles)
    life.grow(STEPS // 4)

    assert left + found(tmp_path, needles) == []
    assert life.stores[0].verify().problems == []
    life.close()


SAYS: list[Act] = [
    lambda s, d, n: s.append(text(d, n), key=f"{n}{d.random()}", usage={"input": 1}),
    lambda s, d, n: s.append(Message.tool("c", large(d, n))),
    lambda s, d, n: s.append(Message.assistant(n, ToolCall("c", n, {n: n}))),
    lambda s, d, n: (s.set_state({n: n}), s.set_state({"other": 1})),
    lambda s, d, n: (s.set_goal(n, n), s.complete_goal()),
    lambda s, d, n: s.update(system=n),
    lambda s, d, n: s.note({n: n}),
    lambda s, d, n: streamed(s, text(d, n)),
    lambda s, d, n: (s.enqueue(text(d, n)), [s.take() for _ in s.queued()]),
]


# -- mutants: the search finds what is left behind ---------------------------------------------------------


def without_secure_delete(patch: pytest.MonkeyPatch) -> None:
    kept = tuple(setting for setting in connections.SETTINGS if setting[0] != "secure_delete")
    patch.setattr(connections, "SETTINGS", (*kept, ("secure_delete", 0)))
    without_clearing(patch)


def without_clearing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wiping, "_clear", lambda *_: None)


def without_truncating(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wiping, "_truncate", lambda _: None)
    patch.setattr(wiping, "size", lambda _: 0)
    without_clearing(patch)  # which would meet a file without its WAL


def without_wiping(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backend, "wipe", lambda *_: None)


def crowded(folder: Path, number: int) -> list[str]:
    """Erase a session that shares index pages with others, and say what is found of it.

    Pages that are split or joined keep old copies of rows in their free space: about one in some thousand rows."""
    dice = Random(f"{seed()} crowded {number}")
    with threadline.open(folder / "store.db", durability="relaxed") as store:
        doomed, other = store.new(), store.new()
        for _ in range(CROWD):
            with doomed.batch() as batch:
                for _ in range(10):
                    batch.append("x", key=f"{dice.random()}{needle_of(1) * dice.randint(1, 30)}")
            other.append("y", key=f"{dice.random()}{'other' * dice.randint(1, 60)}")
        assert store.erase(doomed).done
        return found(folder, [needle_of(1).encode()])


@pytest.mark.parametrize("number", range(scaled(2)))
def test_free_space_of_pages_holds_no_old_copies(tmp_path: Path, number: int) -> None:
    assert crowded(tmp_path, number) == []


def test_old_copies_in_free_space_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_clearing(monkeypatch)
    for number in range(CROWDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        if crowded(folder, number):
            return

    pytest.fail("the search finds nothing, whether free space is cleared or not")


@pytest.mark.parametrize("mutant", [without_secure_delete, without_truncating, without_wiping])
def test_a_mutant_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutant(monkeypatch)
    caught = 0
    for number in range(HISTORIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        caught += erased(folder, number) != []
        if caught:
            break

    assert caught


# -- what is pending -----------------------------------------------------------------------------------


@pytest.fixture
def reader(path: Path) -> Iterator[apsw.Connection]:
    """Somebody who has begun to read, and takes their time."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    yield connection
    connection.close()


def begin_to_read(reader: apsw.Connection) -> None:
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM entry").fetchall()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiping, "PATIENCE_MS", 20)
    monkeypatch.setattr(wiping, "PAUSE_S", 0.0)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("later", ["write", "close", "erase"])
def test_what_a_reader_holds_back_is_said_and_goes_when_it_ends(
    path: Path, store: Store, reader: apsw.Connection, later: str
) -> None:
    session, other = store.new(), store.new()
    session.append("needle")
    begin_to_read(reader)
    receipt = store.erase(session)

    assert [(pending.what, "reader" in pending.why) for pending in receipt.pending] == [("the file and its WAL", True)]
    assert not receipt.done
    assert found(path.parent, [b"needle"])
    reader.execute("COMMIT")
    {"write": lambda: other.append("hi"), "close": store.close, "erase": lambda: store.erase(other)}[later]()
    assert found(path.parent, [b"needle"]) == []


@pytest.mark.usefixtures("hasty")
def test_what_is_pending_when_the_process_dies_goes_when_the_store_is_opened_again(path: Path) -> None:
    """Killed right after the commit: nobody got a receipt, and the bytes go all the same."""
    pid = os.fork()
    if pid == 0:
        with threadline.open(path) as store:
            session = store.new()
            session.append("needle")
            wiping.Wiping.attempt = lambda *_, **__: os._exit(9)  # type: ignore[method-assign]
            store.erase(session)
        os._exit(0)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 9
    assert found(path.parent, [b"needle"])
    with threadline.open(path) as store:
        assert store.stats()["sessions"] == 0
        assert found(path.parent, [b"needle"]) == []


def test_erasing_does_not_disturb_whoever_reads(path: Path, store: Store) -> None:
    """Free space is cleared in the file itself, while others read it, and other handles keep their locks on it."""
    kept = [store.new() for _ in range(20)]
    for n, session in enumerate(kept):
        session.extend([f"kept {n} {i} " + "x" * 300 for i in range(20)])
    before = [[*session.entries()] for session in kept]
    with threadline.open(path) as other:
        walks = [other.get(str(session.id)).entries() for session in kept]
        begun = [next(walk) for walk in walks]
        goner = store.new()
        goner.extend(["needle" * 50] * 50)
        store.erase(goner)

        assert [[first, *walk] for first, walk in zip(begun, walks, strict=True)] == before
        other.new().append("hi")
        store.new().append("hi")
        assert other.verify().problems == []


# -- when the machine fails in the middle of it --------------------------------------------------------------


def two_sessions(store: Store) -> tuple[Session, Session]:
    """One to be erased, and one beside it in the same pages."""
    doomed, kept = store.new(id="doomed"), store.new(id="kept")
    for n in range(12):
        doomed.append(f"needle {n} " * (n * 9 + 1), key=f"needle {n}")
        kept.append(f"kept {n} " * (n * 9 + 1), key=f"kept {n}")
    kept.append(Message.tool("c", "kept" * 3_000))
    return doomed, kept


def test_a_power_cut_in_the_middle_of_it_harms_nobody_and_what_was_said_to_be_gone_is_gone(tmp_path: Path) -> None:
    """Free space is overwritten in place, beside rows that stay: also a torn write must leave those alone."""
    live = tmp_path / "live"
    live.mkdir()
    with Recorder() as recorder:
        store = Store(SqliteBackend(str(live / "store.db"), vfs=recorder.name))
        doomed, kept = two_sessions(store)
        before = [*kept.entries()]
        recorder.acknowledge("written")
        assert store.erase(doomed).done
        recorder.acknowledge("erased")
        store.close()
    outcomes = set()
    for number, crash in enumerate(crashes(recorder.trace, scaled(150), Random(f"{seed()} cuts"))):
        if "written" not in crash.acknowledged:
            continue
        folder = tmp_path / f"cut-{number}"
        folder.mkdir()
        crash.write_to(folder)
        with threadline.open(folder / "store.db") as store:
            assert [*store.get("kept").entries()] == before
            assert store.verify().problems == []
            gone = {info.id for info in store.sessions()} == {"kept"}
        left = found(folder, [b"needle"])
        assert gone == (left == [])
        assert gone or "erased" not in crash.acknowledged
        outcomes.add(gone)
        rmtree(folder)

    assert outcomes == {True, False}


@pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError])
@pytest.mark.parametrize("lasting", [False, True])
def test_a_failing_disk_is_told_and_no_receipt_says_what_is_not_so(
    tmp_path: Path, error: type[apsw.IOError], lasting: bool
) -> None:
    outcomes = set()
    for at in range(1, scaled(40), 2):
        path = tmp_path / f"{at}" / "store.db"
        path.parent.mkdir()
        with FailingDisk() as disk:
            store = Store(SqliteBackend(str(path), vfs=disk.name))
            doomed, kept = two_sessions(store)
            before = [*kept.entries()]
            disk.fail(at=disk.calls + at, error=error, lasting=lasting)
            try:
                outcome = "done" if store.erase(doomed).done else "pending"
            except (StoreFull, StoreFailed, Uncertain):
                outcome = "refused"
            disk.heal()
            left = found(path.parent, [b"needle"])
            store.close()
        assert (outcome == "done") <= (left == [])
        with threadline.open(path) as store:
            assert [*store.get("kept").entries()] == before
            assert store.verify().problems == []
            gone = store.find("doomed") is None and "doomed" not in {info.id for info in store.sessions()}
        assert gone or outcome == "refused"
        assert gone <= (found(path.parent, [b"needle"]) == [])
        outcomes.add(outcome)

    assert "refused" in outcomes
    assert outcomes & {"done", "pending"}
