"""What the seeds' published code showed when it was recorded is what we show: without a network, always the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from threadline import Store, transcripts
from transcripts import test_mycode_published as mycode
from transcripts import test_nanobot_published as nanobot
from transcripts import test_power_loop_published as power_loop

FOLDERS = sorted(path for path in (Path(__file__).parent / "recorded").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_view_is_what_was_recorded(folder: Path, store: Store) -> None:
    shown = json.loads((folder / "shown.json").read_text())
    name = folder.name.rpartition("-")[0]
    source = folder / "store.sqlite" if name == "power-loop" else folder
    report = transcripts.read(source, store=store)
    told = {id: _told(name, store, id, value) for id, value in shown.items()}

    assert (len(shown), report.problems) == (4, [])
    for ours, theirs in told.values():
        assert ours == theirs or (folder.name == "power-loop-0.2.0" and sorted(ours) == sorted(theirs))


def _told(name: str, store: Store, id: str, value: Any) -> tuple[list[Any], list[Any]]:
    if name == "mycode":
        return mycode.told(store, id), [message for message in value if message[1]]
    if name == "nanobot":
        return nanobot.ours(store.session(id)), nanobot.theirs(value)
    return power_loop.ours(store.get(id)), power_loop.theirs(value)
