"""The benchmark finds its workloads by itself, and hides no target that is not met. What it measures is no test."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from bench.__main__ import chosen, plain, publish
from bench.measure import Curve, Found, Timing, beside
from bench.plots import plot

MISSED = Found("context", 3.0, 2.0, "x bare <SELECT>", "", 2.9, 3.1)
MET = Found("view", 1.0, 2.0, "x bare", "")
TOLD = Found("append", 7.0, None, "x bare file", "")
CURVE = Curve("by length", "µs", {"ours": [(10, 5.0), (1_000_000, 5.5)], "bare": [(10, 1.0), (1_000_000, 900.0)]})


def test_every_file_with_workloads_is_found() -> None:
    names = {work.__name__ for work in chosen(None)}

    assert names >= {"append", "growth", "listing", "syncs", "start", "disk", "postgres", "usage", "tree", "life"}


def test_a_ratio_is_the_median_of_its_rounds() -> None:
    found = beside("it", Timing((2.0, 40.0, 6.0)), Timing((1.0, 10.0, 2.0)), 2.0, "x")

    assert (found.reached, found.low, found.high, found.met) == (3.0, 2.0, 4.0, False)


def test_a_plot_is_well_formed_and_names_every_target() -> None:
    drawn = plot("context", [MISSED, MET, TOLD, CURVE])

    words = "".join(ElementTree.fromstring(drawn).itertext())
    assert all(said in words for said in ("3.00 of 2", "view", "by length"))


def test_the_table_says_what_is_not_met(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.md").write_text("before\n<!-- results -->\nold\n<!-- end of results -->\nafter\n")

    publish(tmp_path, {"context": [MISSED, MET, TOLD, CURVE]}, "a machine")

    page = (tmp_path / "benchmarks.md").read_text()
    assert "old" not in page
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "| context | 3.00 x bare <SELECT> | 2.90 to 3.10 | 2 | **not met** |" in page
    assert (tmp_path / "bench" / "context.svg").exists()
    assert [number["met"] for number in plain({"it": [MISSED, MET, TOLD]}, "")["workloads"]["it"]["numbers"]] == [
        False,
        True,
        None,
    ]
