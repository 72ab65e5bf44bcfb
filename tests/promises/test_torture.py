"""The torture itself: its classes at their smallest, its dice, and its report."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from histories import fast_folder
from torture import readers, writers
from torture.classes import ALL
from torture.histories import folder_of
from torture.runner import Run, Torture, Trial, Unit, Worker, play, report, table

from threadline import transcripts
from threadline.testing import seed


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder


def test_many_writers_leave_a_history_that_the_log_agrees_with(folder: Path) -> None:
    assert [trial.wrong for trial in writers.trials(Unit(seed(), 0, 3), folder) if trial.wrong] == []


@pytest.mark.parametrize("number", range(8))
def test_hostile_input_is_read_or_refused_in_our_words(number: int, folder: Path) -> None:
    assert [trial.wrong for trial in readers.trials(Unit(seed(), number, 60), folder) if trial.wrong] == []


# -- the history checker, tested -------------------------------------------------------------------------


def test_the_checker_of_histories_sees(path: Path, store: Any) -> None:
    store.session("shared").extend(["a:0/0", "b:0/0", "b:0/0"])

    def found(*calls: writers.Call) -> str:
        return "; ".join(writers.findings(store, list(calls)))

    a = writers.Call("a", ["a:0/0"], None, 1.0, 2.0, [1])
    b = writers.Call("b", ["b:0/0"], None, 3.0, 4.0, [2])
    assert found(a, b) == "b:0/0 is stored 2 times"
    assert "a:0/0 is stored, and nobody wrote it" in found(b)
    assert "c:0/0 was acknowledged at [4] and is not there" in found(
        a, b, writers.Call("c", ["c:0/0"], None, 1, 2, [4])
    )
    assert "b:0/0 was over before a:0/0 began" in found(a._replace(began=8.0, ended=9.0), b)
    assert "half of ['a:0/0', 'a:0/1']" in found(a._replace(texts=["a:0/0", "a:0/1"], seqs=None), b)
    assert "a waited for 60.0 s" in found(a._replace(ended=61.0), b)


# -- the runner ----------------------------------------------------------------------------------------


def odd(unit: Unit, folder: Path) -> Iterator[Trial]:
    for n in range(unit.count):
        yield Trial("the seventh of the second" if (unit.number, n) == (1, 6) else None, "odd" if n % 2 else "")


def dies(unit: Unit, folder: Path) -> Iterator[Trial]:
    yield Trial()
    os.kill(os.getpid(), signal.SIGKILL)


def raises(unit: Unit, folder: Path) -> Iterator[Trial]:
    yield Trial()
    raise KeyError("nobody expected this")


def ran(trials: Any, count: int = 20) -> tuple[Any, str]:
    out = io.StringIO()
    results = Run([(Torture("some", "what it is", trials, 10, count, count), count)], 7, out).go(2)
    return results[0], out.getvalue()


def test_a_violation_is_named_so_that_it_can_be_played_again() -> None:
    result, shown = ran(odd)

    assert (result.trials, result.violations) == (20, ["some:1:7: the seventh of the second"])
    assert "python -m torture --seed 7 --trial some:1:7" in shown
    assert result.kinds == {"odd": 10}
    last = list(play(Torture("some", "", odd, 10, 20, 20), Unit(7, 1, 10), upto=7))[-1]
    assert last.wrong == "the seventh of the second"
    assert "some" in table([result])
    assert json.loads(json.dumps(report([result], seed=7)))["classes"][0]["kinds"] == {"odd": 10}


def test_a_process_that_dies_is_a_violation_and_the_others_go_on() -> None:
    result, _ = ran(dies)

    assert len(result.violations) == 2
    assert all("the process died" in violation for violation in result.violations)


def test_an_error_that_nobody_expected_is_a_violation() -> None:
    result, _ = ran(raises)

    assert ["KeyError" in violation for violation in result.violations] == [True, True]


def test_who_asks_twice_to_stop_gets_the_results_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def waits(unit: Unit, folder: Path) -> Iterator[Trial]:
        yield Trial()
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(60)

    def impatient(worker: Worker, end: Any = Worker.end) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return end(worker)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(Worker, "end", impatient)
    result, _ = ran(waits, 10)

    assert result.planned == 10
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize("name", [format.name for format in transcripts.formats() if format.reads])
def test_a_sample_is_the_same_in_every_run(name: str) -> None:
    first = readers.sample(name)
    readers.sample.cache_clear()

    assert readers.sample(name) == first


def test_units_that_make_too_few_trials_are_a_violation() -> None:
    result, _ = ran(lambda unit, folder: iter([Trial()]))

    assert [violation.partition(": ")[2] for violation in result.violations] == ["only 1 of 10 trials were made"] * 2


def test_the_same_dice_make_the_same_trials(folder: Path) -> None:
    """Of the classes that no scheduler has a part in."""
    for name in ("power-cuts", "damage", "lives", "readers"):
        unit = Unit(3, 0, 20)
        first, again = (list(ALL[name].trials(unit, folder_of(folder, f"{name}{n}"))) for n in range(2))

        assert [trial.kind for trial in first] == [trial.kind for trial in again]


@pytest.mark.parametrize("torture", ALL.values(), ids=ALL)
def test_a_class_has_a_size_for_ci_and_one_in_full(torture: Torture) -> None:
    assert 0 < torture.unit <= torture.ci <= torture.full
