"""All classes of torture, in the order in which they run."""

from __future__ import annotations

from torture import (
    backups,
    damage,
    erasing,
    full_disks,
    io_errors,
    kills,
    lives,
    power_cuts,
    readers,
    servers,
    upgrades,
    writers,
)
from torture.runner import Torture

_CLASSES = (
    Torture("power-cuts", "power cuts at any moment, torn sectors", power_cuts.trials, power_cuts.CUTS, 200_000, 4_000),
    Torture("kills", "kill -9 at any moment: threads, tasks, group commits", kills.trials, 50, 10_000, 200),
    Torture("io-errors", "every call to the disk fails, once or for long", io_errors.trials, 200, 20_000, 1_600),
    Torture("full-disks", "a disk fills up, and has room again", full_disks.trials, 20, 1_000, 40),
    Torture("damage", "flipped bits, garbage, lost ends in file and WAL", damage.trials, 250, 50_000, 1_500),
    Torture("lives", "random lives of a log: fold against model, contexts legal", lives.trials, 1_000, 200_000, 6_000),
    Torture("readers", "hostile input to every reader", readers.trials, 300, 40_000, 2_700),
    Torture("backups", "backups while others write", backups.trials, 10, 200, 10),
    Torture("erasing", "every file searched for what was erased", erasing.trials, 20, 1_000, 40),
    Torture("writers", "many processes and threads at one session, one killed", writers.trials, 10, 300, 20),
    Torture("servers", "kill -9 of a PostgreSQL server under load", servers.trials, 10, 100, 10),
    Torture("upgrades", "kill -9 in the middle of an upgrade", upgrades.trials, 25, 1_000, 50),
)

ALL = {torture.name: torture for torture in _CLASSES}
