"""Properties run on the same examples every time, unless THREADLINE_SEED asks for others."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "threadline",
    derandomize="THREADLINE_SEED" not in os.environ,
    database=None,  # a failure is replayed by the line that it prints, not by what an earlier run left behind
    deadline=None,  # two busy cores are no bug
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("threadline")
