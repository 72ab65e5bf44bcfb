"""All classes of torture, in the order in which they run."""

from __future__ import annotations

from torture import damage, full_disks, io_errors, kills, power_cuts, upgrades
from torture.runner import Torture

_CLASSES = (
    Torture("power-cuts", "power cuts at any moment, torn sectors", power_cuts.trials, power_cuts.CUTS, 200_000, 4_000),
    Torture("kills", "kill -9 at any moment: threads, tasks, group commits", kills.trials, 50, 10_000, 200),
    Torture("io-errors", "every call to the disk fails, once or for long", io_errors.trials, 200, 20_000, 1_600),
    Torture("full-disks", "a disk fills up, and has room again", full_disks.trials, 20, 1_000, 40),
    Torture("damage", "flipped bits, garbage, lost ends in file and WAL", damage.trials, 250, 50_000, 1_500),
    Torture("upgrades", "kill -9 in the middle of an upgrade", upgrades.trials, 25, 1_000, 50),
)

ALL = {torture.name: torture for torture in _CLASSES}
