"""Erasing. Sessions grow in each other's way, with words of their own everywhere that words can be; then one of them is
erased, or one entry redacted, and every file is searched for its words, raw: not one is left, or the receipt says so.
All else is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from threadline import Message, Session, Store, ToolCall
from torture.histories import Clock, fresh, open_store, snapshot
from torture.power_cuts import checkpoints_every
from torture.runner import Trial, Unit

SESSIONS = 5
STEPS = 25


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    for n in range(unit.count):
        rng = Random(f"{unit.dice('erasing')} {n}")
        with checkpoints_every(rng.choice((8, 40, 1_000))):
            whole = rng.random() < 0.7
            yield Trial(
                "; ".join((erased if whole else redacted)(fresh(folder), rng)) or None, "erase" if whole else "redact"
            )


def erased(path: Path, rng: Random) -> Iterator[str]:
    """What is left of a session that was erased, and what else changed."""
    with open_store(path, Clock()) as store:
        live(store, rng)
        victim = rng.choice([info.key or "" for info in store.sessions()])
        before = {key: told for key, told in snapshot(store).items() if key != victim}
        receipt = store.erase(store.session(victim), cascade=True)
        yield from left(path.parent, needle(victim))
        if not receipt.done:
            yield f"pending, and nobody else is there: {receipt.pending}"
        if snapshot(store) != before:
            yield "other sessions are not what they were"
        yield from (f"verify: {problem}" for problem in store.verify().problems)
    yield from left(path.parent, needle(victim))


def redacted(path: Path, rng: Random) -> Iterator[str]:
    """What is left of an entry that was redacted."""
    with open_store(path, Clock()) as store:
        live(store, rng)
        session = store.session(rng.choice([info.key or "" for info in store.sessions()]))
        secret = f"secret-{rng.randbytes(8).hex()}"
        session.append(f"the password is {secret}", key=f"key of {secret}")
        session.append("and then?")
        receipt = session.redact(session.head - 1, "a secret")
        yield from left(path.parent, secret)
        if not receipt.done:
            yield f"pending, and nobody else is there: {receipt.pending}"
        yield from (f"verify: {problem}" for problem in store.verify().problems)


def left(folder: Path, words: str) -> Iterator[str]:
    for file in folder.iterdir():
        if words.encode() in file.read_bytes():
            yield f"{words} is still in {file.name}"


def needle(key: str) -> str:
    return f"needle-{key}-"


def live(store: Store, rng: Random) -> None:
    """Some sessions, step by step in turns: their words in messages, titles, tags, states, goals, notes, inboxes,
    drafts, keys and large outputs."""
    keys = [rng.randbytes(6).hex() for _ in range(SESSIONS)]
    for n in range(STEPS):
        key = rng.choice(keys)
        words = f"{needle(key)}{n} " * rng.choice((1, 3, 30, 400))
        rng.choice(DEEDS)(store.session(key), words, n)


def _say(session: Session, words: str, n: int) -> None:
    session.append(words, key=f"{words[:60]}{n}")


def _round(session: Session, words: str, n: int) -> None:
    session.extend([Message.assistant(words, ToolCall(f"c{n}", "look", {"for": words})), Message.tool(f"c{n}", words)])


def _about(session: Session, words: str, n: int) -> None:
    session.append("hello")
    session.tag(words[:50].strip())
    session.rename(words[:100])
    session.update(meta={"why": words}, system=words)


def _beside(session: Session, words: str, n: int) -> None:
    session.enqueue(words, key=f"{words[:60]}{n}")
    session.set_state({"words": words})
    session.set_goal(words)
    session.note({"words": words})


def _fold(session: Session, words: str, n: int) -> None:
    session.extend([words, words])
    session.compact(words, keep_turns=1)


def _draft(session: Session, words: str, n: int) -> None:
    draft = session.draft()
    draft.write(words)
    draft.let_go()


DEEDS = (_say, _say, _round, _about, _beside, _fold, _draft)
