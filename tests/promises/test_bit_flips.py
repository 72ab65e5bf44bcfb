"""Damage is detected, named and contained; all that is undamaged stays readable. `torture.damage` has the trials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import apsw
import pytest
from histories import fast_folder
from torture.damage import HARMS, LONG, PAGE_BYTES, Victim, examine, flipped, victim_of, write, wrong_with

import threadline
from threadline import Entry
from threadline.testing import scaled, seed

TRIALS = {"a_bit_anywhere": 60, "a_bit_in_use": 120}


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def victim() -> Victim:
    return victim_of("victim", LONG)


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_harm_is_found_and_named_and_reaches_no_further(harm: object, folder: Path, victim: Victim) -> None:
    rng = Random(f"{seed()} {harm}")
    wrong = [harm(folder, victim, rng) for _ in range(scaled(TRIALS.get(harm.__name__, 25)))]  # type: ignore[attr-defined, operator]

    assert [what for what in wrong if what] == []


def test_an_entry_is_read_as_it_was_written_or_not_at_all(folder: Path, victim: Victim) -> None:
    """Also where the index leads to another entry."""
    rng, index = Random(seed()), page_of(folder, victim, "sqlite_autoindex_entry_1")
    for bit in (index * 8 + rng.randrange(PAGE_BYTES * 8) for _ in range(scaled(40))):
        trial = examine(folder, victim, flipped(victim.content, bit), f"bit {bit}")

        assert not any(isinstance(found, Entry) for found in trial.changed.values()), trial


def test_all_questions_are_answered_alike_by_a_store_that_is_whole(folder: Path, victim: Victim) -> None:
    """Or the harms would be found whatever they do."""
    trial = examine(folder, victim, victim.content, "nowhere")

    assert (trial.changed, trial.noticed, wrong_with(trial, victim)) == ({}, False, None)


def page_of(folder: Path, victim: Victim, tree: str) -> int:
    """Where the first page of a table or index begins in the file."""
    write(folder, {"store.db": victim.content})
    with closing(apsw.Connection(str(folder / "store.db"))) as connection:
        (number,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (tree,)).fetchone()
    return (number - 1) * PAGE_BYTES


def test_a_share_that_points_elsewhere_leads_to_no_other_sessions_entries(path: Path) -> None:
    with threadline.open(path) as store:
        store.session("one").append("of one")
        store.session("two").append("of two")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(
            "UPDATE share SET log = (SELECT max(log) FROM share) WHERE log = (SELECT min(log) FROM share)"
        )

    with threadline.open(path) as store, pytest.raises(threadline.Damaged, match="where its entries lie"):
        store.session("one").messages()
