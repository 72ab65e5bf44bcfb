"""Many writers. Processes with threads write to one session at once, in all the ways there are, and note when each call
began, when it was answered and what with; one of them may be killed. Then the history is checked against the log:

- what was acknowledged is stored, at the seq that was answered; - what is stored was acknowledged, or is uncertain: its
writer was killed or told so; - the order is total, without holes, the same as each writer's own, and the same as real
time where calls do not overlap; - a key is stored once, however many call it; of those who expect the same head one
writes; - nobody starves, and nobody gets an error that it does not deserve."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import threadline
from threadline import Session, Store
from torture.power_cuts import checkpoints_every
from torture.processes import exit_code, fork
from torture.runner import Trial, Unit

CALLS = 12  # of one writer
LONGEST_WAIT_S = 20.0  # on a machine that does much else; a writer that starves waits for ever


class Call(NamedTuple):
    """One line of the history. `seqs` is None where the call had no answer, and empty where it was refused."""

    writer: str
    texts: list[str]
    key: str | None
    began: float
    ended: float
    seqs: list[int] | None


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    for n in range(unit.count):
        rng = Random(f"{unit.dice('writers')} {n}")
        path = folder / f"{n}.db"
        with checkpoints_every(rng.choice((5, 50, 1_000))):
            history = play(path, rng)
        with threadline.open(path) as store:
            yield Trial("; ".join(findings(store, history)) or None)
        for left in folder.glob(f"{n}.db*"):
            left.unlink()


# -- a history -----------------------------------------------------------------------------------------


def play(path: Path, rng: Random) -> list[Call]:
    """Let them write; what they noted. The one that is killed has noted the beginning of its last calls."""
    processes, threads, mortal = rng.randint(2, 6), rng.choice((1, 1, 3)), rng.random() < 0.5
    waiting, gate = os.pipe()
    notes = [path.with_name(f"{path.name}.{n}.notes") for n in range(processes)]
    pids = [
        fork(lambda n=n: _process(path, notes[n], n, threads, rng.random(), waiting, gate)) for n in range(processes)
    ]  # type: ignore[misc]
    os.close(waiting)
    os.close(gate)  # all of them start now
    if mortal:
        time.sleep(rng.uniform(0.005, 0.1))
        os.kill(pids[0], signal.SIGKILL)
    codes = [exit_code(pid) for pid in pids]
    assert all(code in ((0, -signal.SIGKILL) if mortal and not n else (0,)) for n, code in enumerate(codes)), codes
    return [call for note in notes if note.exists() for call in _read(note)]


def _process(path: Path, note: Path, number: int, threads: int, luck: float, waiting: int, gate: int) -> None:
    os.close(gate)
    os.read(waiting, 1)
    with threadline.open(path) as store, open(note, "ab", buffering=0) as out:
        works = [
            threading.Thread(target=_write, args=(store, f"{number}.{n}", Random(f"{luck} {n}"), out))
            for n in range(threads)
        ]
        for work in works:
            work.start()
        for work in works:
            work.join()


def _write(store: Store, writer: str, rng: Random, out: Any) -> None:
    """Calls of all sorts. Each is noted before it begins and after it was answered, a line each."""
    session = store.session("shared")
    for n in range(CALLS):
        name = f"{writer}:{n}"
        kind = rng.choice(("plain", "keyed", "several", "expecting", "common"))
        texts = [f"{name}/{i}" for i in range(3)] if kind == "several" else [f"{name}/0"]
        key = f"common {n}" if kind == "common" else name if kind != "plain" else None
        if kind == "common":
            texts = [f"common {n}/0"]  # whoever is first: all of them call the same
        began = time.monotonic()
        _note(out, Call(writer, texts, key, began, 0.0, None))
        seqs = _call(session, kind, texts, key)
        _note(out, Call(writer, texts, key, began, time.monotonic(), seqs))
        assert session.head >= max(seqs, default=0), "a writer does not read what it wrote"


def _call(session: Session, kind: str, texts: list[str], key: str | None) -> list[int]:
    if kind == "expecting":
        try:
            return [session.append(texts[0], key=key, expect=session.head).seq]
        except threadline.Stale as stale:
            if stale.found <= stale.expected:
                raise RuntimeError(f"a lie: {stale!r}") from stale
            return []
    if kind == "several":
        return [entry.seq for entry in session.extend(texts, key=key)]
    return [session.append(texts[0], key=key).seq for _ in range(1 if key is None else 2)][:1]


def _note(out: Any, call: Call) -> None:
    out.write(json.dumps(call).encode() + b"\n")  # one write, one line: O_APPEND


def _read(note: Path) -> Iterator[Call]:
    """The calls of a process: those without an answer, too, once."""
    lines = note.read_bytes().split(b"\n")
    calls = [Call(*json.loads(line)) for line in lines if line]
    answered = {(call.writer, call.began) for call in calls if call.seqs is not None}
    yield from (call for call in calls if call.seqs is not None or (call.writer, call.began) not in answered)


# -- checking it ---------------------------------------------------------------------------------------


def findings(store: Store, history: list[Call]) -> Iterator[str]:
    log = [entry.message.text if entry.message else "" for entry in store.session("shared").entries()]
    yield from (f"verify: {problem}" for problem in store.verify().problems)
    if [entry.seq for entry in store.session("shared").entries()] != list(range(1, len(log) + 1)):
        yield "there are holes in the log"
    yield from _stored(log, history)
    yield from _ordered(history)
    slow = [call for call in history if call.ended - call.began > LONGEST_WAIT_S]
    if slow:
        yield f"{slow[0].writer} waited for {slow[0].ended - slow[0].began:.1f} s"


def _stored(log: list[str], history: list[Call]) -> Iterator[str]:
    """Acknowledged is stored, stored is acknowledged or uncertain, nothing twice."""
    for call in history:
        if call.seqs and log[call.seqs[0] - 1 : call.seqs[-1]] != call.texts:
            yield f"{call.texts[0]} was acknowledged at {call.seqs} and is not there"
    for text, times in Counter(log).items():
        if times > 1:
            yield f"{text} is stored {times} times"
    may_be = {text for call in history if call.seqs != [] for text in call.texts}
    yield from (f"{text} is stored, and nobody wrote it" for text in set(log) - may_be)
    for call in history:
        there = [text in log for text in call.texts]
        if call.seqs is None and any(there) and not all(there):
            yield f"half of {call.texts} is stored"


def _ordered(history: list[Call]) -> Iterator[str]:
    """Whoever was answered before another began has the smaller seq. A key that was there already says nothing."""
    own = [call for call in history if call.seqs and not (call.key or "").startswith("common")]
    latest: Call | None = None  # to begin, of those that stand before
    for call in sorted(own, key=lambda call: (call.seqs or [0])[0]):
        if latest is not None and call.ended < latest.began:
            yield f"{call.texts[0]} was over before {latest.texts[0]} began, and stands after it"
        latest = call if latest is None or call.began > latest.began else latest
    for writer in {call.writer for call in own}:
        seqs = [(call.seqs or [0])[0] for call in own if call.writer == writer]
        if seqs != sorted(seqs):
            yield f"the calls of {writer} are not in its own order"
