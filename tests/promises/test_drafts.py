"""A draft survives kill -9 up to its last 4 KiB, and becomes one entry or stays a draft, never both and never neither.

Children stream and report over a pipe; they are killed at a random moment, and the parent looks."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from processes import exit_code, fork

import threadline
from threadline import Conflict, Store
from threadline.drafts import BEHIND_BYTES
from threadline.testing import scaled, seed

LONGEST_LIFE_S = 0.05
PATIENCE_S = 30.0

Report = Callable[[str], object]
Work = Callable[[Path, Report], None]


def tokens(n: int) -> Iterator[str]:
    """The n-th message, in pieces of many sizes."""
    rng = random.Random(n)
    for i in range(rng.randint(1, 60)):
        yield f"<{n}.{i}:{'é' * rng.choice((0, 1, 30, 400))}>"


# -- what a child does -----------------------------------------------------------------------------------------


def streams(path: Path, report: Report) -> None:
    session = threadline.open(path).session("k")
    for n in count(session.head):
        with session.draft() as d:
            for token in tokens(n):
                d.write(token)
                report(f"w{len(d.text.encode())}")
            d.finish()
        report(f"f{n}")


def reports_before_it_finishes(path: Path, report: Report) -> None:
    """A mutant."""
    session = threadline.open(path).session("k")
    for n in count(session.head):
        with session.draft() as d:
            for token in tokens(n):
                d.write(token)
            report(f"f{n}")
            time.sleep(0.005)


def forgets_to_flush(path: Path, report: Report) -> None:
    """A mutant."""
    session = threadline.open(path).session("k")
    for n in count(session.head):
        report(f"w{sum(len(token.encode()) for token in tokens(n))}")
        with session.draft() as d:
            time.sleep(0.002)
            d.finish("".join(tokens(n)))
        report(f"f{n}")


# -- a life, a death, and what is found ------------------------------------------------------------------------


def life(path: Path, work: Work, rng: random.Random) -> tuple[int, int]:
    """The last message that was reported as finished, and how many bytes of the next were reported as written."""
    reading, writing = os.pipe()
    pid = fork(lambda: work(path, lambda told: os.write(writing, f"{told}\n".encode())))
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = [pipe.readline().strip()]
        time.sleep(rng.uniform(0, LONGEST_LIFE_S))
        os.kill(pid, signal.SIGKILL)
        said += pipe.read().split()
    assert exit_code(pid) == -signal.SIGKILL
    finished = [int(line[1:]) for line in said if line[0] == "f"]
    written = int(said[-1][1:]) if said[-1][0] == "w" else 0
    return (finished[-1] if finished else -1), written


def problems(store: Store, finished: int, written: int) -> Iterator[str]:
    yield from (f"verify: {problem}" for problem in store.verify().problems)
    session = store.session("k")
    told = [message.text for message in session.messages()]
    whole = ["".join(tokens(n)) for n in range(len(told) + 1)]
    if told != whole[:-1]:
        yield "the entries are not the messages, whole and once each"
    if finished >= len(told):
        yield f"lost: message {finished} was finished"
    drafts = session.drafts
    if len(drafts) > 1 or not all(draft.interrupted for draft in drafts):
        yield f"drafts: {drafts}"
    text = drafts[0].text if drafts else ""
    if not whole[-1].startswith(text):
        yield f"other text: {text!r}"
    if finished == len(told) - 1 and written - len(text.encode()) > BEHIND_BYTES:
        yield f"behind: {written} bytes were written, {len(text.encode())} are there"


def deaths(folder: Path, work: Work, kills: int) -> list[str]:
    rng = random.Random(f"{seed()} {work.__name__}")
    found: list[str] = []
    messages = 0
    for n in range(kills):
        path = folder / f"{n // 10}.db"
        finished, written = life(path, work, rng)
        with threadline.open(path) as store:
            found += problems(store, finished, written)
            for draft in store.session("k").drafts:
                draft.drop()
            messages = max(messages, store.session("k").head)
    assert messages > 5, "the children died too young to prove anything"
    return found


def test_kill_takes_at_most_4_kib_of_a_draft_and_nothing_that_was_finished(tmp_path: Path) -> None:
    assert deaths(tmp_path, streams, scaled(60)) == []


@pytest.mark.parametrize(("mutant", "complaint"), [(reports_before_it_finishes, "lost"), (forgets_to_flush, "behind")])
def test_the_checker_catches_a_child_that(mutant: Work, complaint: str, tmp_path: Path) -> None:
    found = deaths(tmp_path, mutant, 30)

    assert any(problem.startswith(complaint) for problem in found), found


# -- gone, or merely slow ------------------------------------------------------------------------------------------


def stalls(path: Path, report: Report) -> None:
    d = threadline.open(path).session("k").draft()
    d.write("a thought that is never")
    report("stalled")
    time.sleep(PATIENCE_S)


def test_a_writer_that_stands_still_is_not_gone_and_one_that_was_killed_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    reading, writing = os.pipe()
    pid = fork(lambda: stalls(path, lambda told: os.write(writing, told.encode())))
    os.read(reading, 7)
    with threadline.open(path) as store:
        session = store.session("k")
        ends_at = time.monotonic() + PATIENCE_S
        while not session.drafts[0].text and time.monotonic() < ends_at:
            time.sleep(0.01)
        os.kill(pid, signal.SIGSTOP)
        (draft,) = session.drafts
        assert (draft.text, draft.interrupted) == ("a thought that is never", False)
        with pytest.raises(Conflict):
            draft.keep()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

        assert session.drafts[0].interrupted
        session.drafts[0].keep()
        assert [message.text for message in session.messages()] == ["a thought that is never"]
        assert list(tmp_path.glob("*.writer-*")) == []


def test_a_writer_is_known_by_every_name_of_its_file(tmp_path: Path) -> None:
    path, link = tmp_path / "store.db", tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    with threadline.open(path) as store, store.session("k").draft() as d:
        d.write("alive")
        d.flush()
        link.symlink_to(path)
        with threadline.open(link, read_only=True) as other:
            assert [(draft.text, draft.interrupted) for draft in other.session("k").drafts] == [("alive", False)]


def test_a_forked_child_neither_keeps_a_claim_alive_nor_writes_to_the_drafts_of_its_parent(tmp_path: Path) -> None:
    """The middle process streams, forks a child that outlives it, and is killed."""
    path = tmp_path / "store.db"
    reading, writing = os.pipe()

    def outlives(d: threadline.DraftWriter) -> None:
        try:
            d.write("from the child")
        except Conflict:
            os.write(writing, b"refused\n")
        time.sleep(PATIENCE_S)

    def work() -> None:
        d = threadline.open(path).session("k").draft()
        d.write("from the parent")
        d.flush()
        os.write(writing, f"{fork(lambda: outlives(d))}\n".encode())
        time.sleep(PATIENCE_S)

    pid = fork(work)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = {pipe.readline().strip(), pipe.readline().strip()}
    (child,) = (int(line) for line in said - {"refused"})
    with threadline.open(path) as store:
        session = store.session("k")
        assert not session.drafts[0].interrupted
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        alive = Path(f"/proc/{child}").exists()
        found = [(draft.text, draft.interrupted) for draft in session.drafts]
    os.kill(child, signal.SIGKILL)

    assert "refused" in said
    assert alive
    assert found == [("from the parent", True)]
