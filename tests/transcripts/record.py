"""Record what the seeds' published code makes and shows, for tests without a network: run it as a program.

Each folder in `recorded/` holds a source, as that code wrote it, and `shown.json`, what it shows of it."""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from transcripts import test_mycode_published as mycode
from transcripts import test_nanobot_published as nanobot
from transcripts import test_power_loop_published as power_loop
from transcripts.folders import MyCode
from transcripts.published import ask

RECORDED = Path(__file__).parent / "recorded"
SESSIONS = 4


def main() -> None:
    shutil.rmtree(RECORDED, ignore_errors=True)
    for published, version in (("0.4.2", 5), ("0.7.0", 6), ("0.8.0", 7), ("0.15.0", None)):
        record_mycode(published, version)
    for published in nanobot.VERSIONS:
        record_nanobot(published)
    for published, layout in power_loop.VERSIONS:
        record_power_loop(published, layout)


def record_mycode(published: str, version: int | None) -> None:
    folder, dice = RECORDED / f"mycode-{published}", random.Random(published)
    for number in range(SESSIONS):
        MyCode(folder, f"s{number}", version).write(mycode.random_log(dice, version))
    with tempfile.TemporaryDirectory() as copy:  # up to 0.7 reading mends the files
        shutil.copytree(folder / "sessions", copy, dirs_exist_ok=True)
        keep(folder, ask("mycode-sdk", published, "mycode_shows.py", copy))


def record_nanobot(published: str) -> None:
    folder, dice = RECORDED / f"nanobot-{published}", random.Random(published)
    specs = [{"key": f"telegram:{n}", "acts": nanobot.random_acts(dice, published)} for n in range(SESSIONS)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(specs))
        file.flush()
        keep(folder, ask("nanobot-ai", published, "nanobot_keeps.py", folder, file.name))
    for lock in folder.rglob("*.lock"):
        lock.unlink()
    for place in folder.rglob(".workspace"):  # it names the machine of the recording
        place.write_text(f"/home/bot/{folder.name}/workspace\n")


def record_power_loop(published: str, layout: str) -> None:
    folder, dice = RECORDED / f"power-loop-{published}", random.Random(published)
    folder.mkdir(parents=True)
    specs = [{"id": f"sess_{n}", "acts": power_loop.random_acts(dice, published)} for n in range(SESSIONS)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(specs))
        file.flush()
        shown = ask("power-loop", published, "power_loop_keeps.py", folder / "store.sqlite", layout, file.name)
    keep(folder, shown)


def keep(folder: Path, shown: object) -> None:
    (folder / "shown.json").write_text(json.dumps(shown, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
