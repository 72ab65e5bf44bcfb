"""What is acknowledged survives kill -9 at any moment, whole, once, and in order. `torture.kills` has the trials."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random

import pytest
from torture.kills import LIVES_OF_A_FILE, WORKS, Acknowledge, Work, call_of, life, wrong_with
from torture.power_cuts import checkpoints_every

import threadline
from threadline.testing import scaled, seed


def deaths(folder: Path, work: Work, kills: int) -> list[str]:
    """The problems that so many kills leave behind; some of them strike in the middle of a checkpoint."""
    rng = Random(f"{seed()} {work.__name__}")
    found: list[str] = []
    acknowledged = 0
    with checkpoints_every(20):
        for n in count():
            if n >= kills and (acknowledged > kills or n == 10 * kills):  # a busy machine needs more of them
                break
            path, key = folder / f"{n // LIVES_OF_A_FILE}.db", f"life {n}"
            names = life(path, key, work, rng)
            acknowledged += len(names)
            found += filter(None, [wrong_with(path, key, names)])
    assert acknowledged > kills, "the children died too young to prove anything"
    return found


@pytest.mark.parametrize("work", WORKS)
def test_kill_loses_nothing_acknowledged_and_leaves_nothing_half(work: Work, tmp_path: Path) -> None:
    assert deaths(tmp_path, work, scaled(20)) == []


# -- these tests, tested: children with the bugs that the checker is there for --------------------------


def acknowledges_too_early(path: Path, key: str, acknowledge: Acknowledge) -> None:
    session = threadline.open(path).session(key)
    for n in count():
        name = f"thread:{n}"
        acknowledge(name)
        call_of(name)(session, name)


def writes_in_pieces(path: Path, key: str, acknowledge: Acknowledge) -> None:
    session = threadline.open(path).session(key)
    for n in count():
        for i in range(3):
            session.append(f"mutant:{n}/{i}")
        acknowledge(f"mutant:{n}")


def forgets_its_keys(path: Path, key: str, acknowledge: Acknowledge) -> None:
    session = threadline.open(path).session(key)
    for n in count():
        session.extend([f"mutant:{n}/{i}" for i in range(3)])
        acknowledge(f"mutant:{n}")


@pytest.mark.parametrize(
    ("mutant", "complaint"),
    [(acknowledges_too_early, "lost"), (writes_in_pieces, "half"), (forgets_its_keys, "twice")],
)
def test_the_checker_catches_a_child_that(mutant: Work, complaint: str, tmp_path: Path) -> None:
    found = deaths(tmp_path, mutant, 30)

    assert any(complaint in problem for problem in found), found
