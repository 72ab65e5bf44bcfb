"""Full disks. A history goes on until the disk is full, and beyond: what is refused leaves nothing, all that was
acknowledged stays readable meanwhile, and as soon as there is room again the store goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from threadline import Store
from threadline.errors import StoreFailed, StoreFull, Uncertain
from threadline.testing.faults import SmallDisk
from torture.histories import Clock, fresh, loaded_dice, next_step, open_store
from torture.io_errors import Told, findings
from torture.power_cuts import checkpoints_every
from torture.runner import Trial, Unit

STEPS = 40
REFUSALS = 4  # in a row: then somebody frees space
ROOM_BYTES = 4_000_000


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    with loaded_dice():
        for n in range(unit.count):
            rng = Random(f"{unit.dice('full disks')} {n}")
            with checkpoints_every(rng.choice((8, 40, 1_000))):
                yield Trial("; ".join(filled(fresh(folder), rng)) or None)


def filled(path: Path, rng: Random) -> list[str]:
    """Everything that goes wrong while a disk fills up, and after it has room again."""
    clock, told = Clock(), []
    with SmallDisk(rng.randint(300_000, 900_000)) as disk:
        with open_store(path, clock, vfs=disk.name) as store:
            wrong = list(_fill(store, disk, clock, rng, told))
            disk.capacity = ROOM_BYTES
            clock.step += 1
            store.session("after").append("there is room again")
        with open_store(path) as store:
            return wrong + list(findings(store, told))


def _fill(store: Store, disk: SmallDisk, clock: Clock, rng: Random, told: list[Told]) -> Iterator[str]:
    refused = 0
    while refused < REFUSALS and clock.step < STEPS:
        clock.step += 1
        step = next_step(store, rng, clock.step)
        try:
            step.run(store)
            told.append(Told(step, "acknowledged"))
        except StoreFull:
            refused += 1
            told.append(Told(step, "refused"))
            yield from (f"while the disk is full: {finding}" for finding in findings(store, told))
        except Uncertain:
            told.append(Told(step, "uncertain"))
        except StoreFailed as error:
            yield f"{step.what} on a full disk is {error!r}, not StoreFull"
    clock.step += 1
    with suppress(StoreFull):
        store.session("full").append(rng.randbytes(disk.capacity).hex())
        yield "more is stored than there is room for"
