"""What is acknowledged survives kill -9 of the whole server, whole, once, and in order. `torture.servers` has the
trials."""

from __future__ import annotations

from random import Random

import pytest
from torture.servers import crash_under_load, told

from threadline.testing import scaled, seed
from threadline.testing.postgres import Server

CRASHES = 3


def test_a_killed_server_loses_nothing_that_it_acknowledged() -> None:
    with Server() as server:
        report = told(crash_under_load(server, "full", scaled(CRASHES), Random(seed())))

    assert report.acknowledged > 0
    assert report == (report.acknowledged, [], [], [], [])


def test_relaxed_durability_is_caught_losing() -> None:
    """The mutant: the same check, and a server that answers before it writes."""
    rng = Random(seed())
    for _ in range(10):
        with Server() as server:
            report = told(crash_under_load(server, "relaxed", 1, rng))
        assert (report.doubled, report.holes, report.problems) == ([], [], [])  # but never half a call
        if report.lost:
            return
    pytest.fail("nothing was ever lost: the check cannot see a loss")
