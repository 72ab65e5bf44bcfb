"""Histories for tests: those of the torture."""

from torture.histories import Clock, Step, fast_folder, loaded_dice, next_step, open_store, snapshot, step_of

__all__ = ["Clock", "Step", "fast_folder", "loaded_dice", "next_step", "open_store", "snapshot", "step_of"]
