"""How far a long command has come: how much, how fast, how long yet. On standard error, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic

import threadline
from threadline.cli import words
from threadline.cli.screen import Screen, cells, cut

REDRAW_S = 0.1


class Progress:
    """One line that is drawn again and again, and wiped at the end.

    >>> with desk.progress("verifying", total=1_000, unit="entry") as progress:
    ...     progress.reach(done)
    """

    def __init__(
        self,
        screen: Screen,
        label: str,
        *,
        total: int | None = None,
        unit: str = "entry",
        shown: bool | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._screen = screen
        self._label = label
        self.unit = unit
        self._shown = (sys.stderr is not None and sys.stderr.isatty()) if shown is None else shown
        self._clock = clock
        self._began = self._drawn_at = clock()
        self._drawn = 0
        self.total = total
        self.done = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._drawn:
            self._draw("")
            self._screen.err("", end="")

    def reach(self, done: int, total: int | None = None) -> None:
        """So much is done, and, if it is known better by now, of so much."""
        self.done, self.total = done, self.total if total is None else total
        now = self._clock()
        if self._shown and now - self._drawn_at >= REDRAW_S:
            self._drawn_at = now
            self._draw(self.line(now - self._began))

    def told(self, reached: threadline.Progress) -> None:
        """What the store says of itself: for `progress=`."""
        self.unit = reached.unit
        self.reach(reached.done, reached.total)

    def line(self, elapsed_s: float) -> str:
        """`verifying  1,200 of 4,000 entries (30%)  600/s  0:05 left`."""
        rate = self.done / elapsed_s if elapsed_s > 0 else 0.0
        if not self.total:
            return f"{self._label}  {self._many(self.done)}  {self._each(rate)}/s"
        done = min(self.done, self.total)
        left = f"{words.duration((self.total - done) / rate)} left" if rate else ""
        return (
            f"{self._label}  {self._each(done)} of {self._many(self.total)} ({100 * done // self.total}%)"
            f"  {self._each(rate)}/s  {left}"
        ).rstrip()

    def _many(self, number: int) -> str:
        return words.size(number) if self.unit == "byte" else words.count(number, self.unit)

    def _each(self, number: float) -> str:
        return words.size(number) if self.unit == "byte" else f"{number:,.0f}"

    def _draw(self, line: str) -> None:
        fits = cut(line, max(20, self._screen.width) - 1)
        sys.stderr.write(f"\r{fits}{' ' * max(0, self._drawn - cells(fits))}\r")
        sys.stderr.flush()
        self._drawn = cells(fits)
