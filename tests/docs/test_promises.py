"""The page of promises: every test that it names is there, and every promise has a mutant that is there, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from torture.classes import ALL as CLASSES
from torture.mutants import ALL as MUTANTS
from torture.mutants import Mutant
from torture.planting import mutated

ROOT = Path(__file__).parent.parent.parent
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
NAMES = re.compile(r"`([^`]+)`")
ROWS = {int(n): (NAMES.findall(tests), NAMES.findall(mutants)) for n, _, tests, mutants in
        ROW.findall((ROOT / "docs" / "promises.md").read_text(encoding="utf-8"))}  # fmt: skip


def test_every_promise_has_its_number_its_tests_and_its_mutants() -> None:
    rows = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "promises.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert list(map(int, rows)) == list(range(1, len(rows) + 1))
    assert list(ROWS) == list(map(int, rows)), "a promise without a mutant: torture/mutants.py says how"
    assert len(rows) > 20


@pytest.mark.parametrize("number", ROWS)
def test_what_a_promise_names_is_there(number: int) -> None:
    tests, mutants = ROWS[number]
    missing = [name for name in tests if not (ROOT / name).is_file() and name.removeprefix("torture ") not in CLASSES]

    assert missing == []
    assert set(mutants) <= set(MUTANTS)
    assert mutants, "no mutant shows that these tests can fail"


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_changes_one_piece_of_the_source_and_stands_beside_its_promise(mutant: Mutant) -> None:
    assert mutated(mutant)  # raises where the text is not there once

    promised = [tests for tests, mutants in ROWS.values() if mutant.name in mutants]
    caught_by = "torture " + mutant.caught_by[1] if mutant.caught_by[0] == "torture" else mutant.caught_by[0]
    assert any(caught_by in tests for tests in promised)
