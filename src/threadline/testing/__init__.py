"""Tools to test stores, ours and yours: the contract that every backend passes, and ways to break the machine.

`THREADLINE_SCALE` multiplies the number of trials of slow proofs, `THREADLINE_SEED` replays a run."""

from __future__ import annotations

import os


def scaled(trials: int) -> int:
    """So many trials in the test suite, and more in `make torture`."""
    return max(1, round(trials * float(os.environ.get("THREADLINE_SCALE", "1"))))


def seed() -> int:
    """The seed of this run: fixed, so that runs repeat, unless THREADLINE_SEED says otherwise."""
    return int(os.environ.get("THREADLINE_SEED", "1"))
