"""Where a command prints: the only file of the command line that does.

A string is printed safely, whoever wrote it (`safe.plain`). Colour is not in the text but beside it, in an `Ink`, so
that escape codes can only come from here, and only on a terminal.
On a pipe everything is plain and whole."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EBADF
from typing import IO, NamedTuple

from threadline.cli.safe import one_line, plain

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_GAP = "  "


class Ink(NamedTuple):
    """Text with a colour or weight: names from `bold dim red green yellow blue magenta cyan`, separated by spaces."""

    text: str
    style: str = ""


Piece = str | Ink


class Column(NamedTuple):
    """One column of a table. On a narrow terminal the `flexible` ones shrink, down to `least`; then columns go, those
    with the highest `drop` first; 0 stays always."""

    name: str
    right: bool = False
    flexible: bool = False
    least: int = 8
    drop: int = 0


class Screen:
    """Standard output and standard error, and what they can do. Tests make one of their own."""

    def __init__(self, *, terminal: bool | None = None, width: int | None = None, colour: bool | None = None) -> None:
        self.terminal = (sys.stdout is not None and sys.stdout.isatty()) if terminal is None else terminal
        self.colour = (self.terminal and _wants_colour()) if colour is None else colour
        self._width = width
        self._out: IO[str] | None = None

    @property
    def width(self) -> int:
        """The columns of the terminal; without one, no line is ever too long."""
        if self._width is not None:
            return self._width
        return _columns() if self.terminal else 1_000_000

    # -- printing --------------------------------------------------------------------------------------

    def say(self, *pieces: Piece, end: str = "\n") -> None:
        """Print pieces beside each other, safely, with colour where there is colour."""
        self._write(self.painted(*pieces) + end)

    def line(self, *pieces: Piece) -> None:
        """The same on one line of the terminal, cut where it ends."""
        self.say(*_trimmed([*_on_one_line(pieces, self.width)]))

    def err(self, *pieces: Piece, end: str = "\n") -> None:
        """The same on standard error: what is not the answer (progress, hints, questions, what went wrong)."""
        if sys.stderr is None:  # it was closed: nobody wants to know
            return
        colour = self.colour and sys.stderr.isatty()
        sys.stderr.write(_encodable(self.painted(*pieces, colour=colour) + end, sys.stderr))
        sys.stderr.flush()

    def painted(self, *pieces: Piece, colour: bool | None = None) -> str:
        inked = self.colour if colour is None else colour
        return "".join(_paint(piece, inked) for piece in pieces)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Piece]]) -> None:
        """Rows below a line of names, fitted to the terminal."""
        for line in fitted(columns, [[*row] for row in rows], self.width):
            self.say(*line)

    @contextmanager
    def paged(self) -> Iterator[None]:
        """What is printed inside goes through the pager of the user, if there is a terminal and a pager.

        Quitting the pager ends the block at its next line, and is no error."""
        command = _pager() if self.terminal and self._width is None and self._out is None else None
        if command is None:
            yield
            return
        with _running(command) as pager:
            self._out = pager
            try:
                with suppress(BrokenPipeError):
                    yield
            finally:
                self._out = None

    def flush(self) -> None:
        if sys.stdout is not None:
            sys.stdout.flush()

    def _write(self, text: str) -> None:
        out = self._out or sys.stdout
        if out is None:
            raise OSError(EBADF, "standard output is closed")
        out.write(_encodable(text, out))


def _columns() -> int:
    from shutil import get_terminal_size

    return max(20, get_terminal_size((80, 24)).columns)


@contextmanager
def _running(command: str) -> Iterator[IO[str]]:
    """The pager, to write to, and waited for in the end. Ctrl-C is for the pager while it runs: it knows what to do."""
    import signal
    import subprocess

    environment = {"LESS": "FRX", "LV": "-c"} | os.environ
    process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8")
    assert process.stdin is not None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield process.stdin
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        signal.signal(signal.SIGINT, before)


def _pager() -> str | None:
    for name in ("THREADLINE_PAGER", "PAGER"):
        if (wish := os.environ.get(name)) is not None:
            return None if wish.strip() in ("", "cat") else wish
    from shutil import which

    return "less" if which("less") else None


def _wants_colour() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _paint(piece: Piece, colour: bool) -> str:
    text, style = piece if isinstance(piece, Ink) else (piece, "")
    safe = plain(text)
    if not colour or not style or not safe:
        return safe
    return f"\x1b[{';'.join(_CODES[name] for name in style.split())}m{safe}\x1b[0m"


def _encodable(text: str, out: IO[str]) -> str:
    """The text as far as the stream can take it: a terminal that knows only ASCII gets escapes, never an exception."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _on_one_line(pieces: Iterable[Piece], left: int) -> Iterator[Piece]:
    for piece in pieces:
        text, style = piece if isinstance(piece, Ink) else (piece, "")
        line = plain(text).replace("\n", " ")
        blank = line[: len(line) - len(line.lstrip())]
        if cells(line) > left:
            yield Ink(blank + cut(line, left - len(blank)), style) if left > len(blank) + 1 else ""
            return
        left -= cells(line)
        yield Ink(line, style)


# -- widths --------------------------------------------------------------------------------------------


def cells(text: str) -> int:
    """How many columns of a terminal a safe text takes: two for wide characters, none for combining ones."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def _cell(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text on one line, with an ellipsis where it does not fit."""
    line = one_line(text)
    if cells(line) <= width:
        return line
    kept, left = "", max(0, width - 1)
    for character in line:
        left -= _cell(character)
        if left < 0:
            break
        kept += character
    return kept.rstrip() + "…"


def fitted(columns: Sequence[Column], rows: list[list[Piece]], width: int) -> Iterator[list[Piece]]:
    """The lines of a table that is no wider than that: columns shrink, then go."""
    inked = [[cell if isinstance(cell, Ink) else Ink(cell) for cell in row] for row in rows]
    clean = [[Ink(one_line(cell.text), cell.style) for cell in row] for row in inked]
    wide = [max([cells(column.name), *(cells(row[n].text) for row in clean)]) for n, column in enumerate(columns)]
    kept = _kept(columns, wide, width)
    room = _shrunk(columns, wide, kept, width)
    heads = [Ink(column.name, "dim") for column in columns]
    for row in [heads, *clean]:
        yield _trimmed([*_line(columns, row, room, kept)])


def _trimmed(line: list[Piece]) -> list[Piece]:
    while line and not _text(line[-1]).strip():
        line.pop()
    return line


def _text(piece: Piece) -> str:
    return piece.text if isinstance(piece, Ink) else piece


def _line(columns: Sequence[Column], row: list[Ink], room: dict[int, int], kept: list[int]) -> Iterator[Piece]:
    for n in kept:
        text = cut(row[n].text, room[n])
        pad = " " * (room[n] - cells(text))
        last = n == kept[-1]
        yield from () if n == kept[0] else (_GAP,)
        yield from (pad,) if columns[n].right else ()
        yield Ink(text, row[n].style)
        yield from () if columns[n].right or last else (pad,)


def _kept(columns: Sequence[Column], wide: list[int], width: int) -> list[int]:
    """Which columns stay, when the flexible ones are as narrow as they may be."""
    kept = list(range(len(columns)))
    while len(kept) > 1:
        least = sum(min(wide[n], columns[n].least) if columns[n].flexible else wide[n] for n in kept)
        droppable = [n for n in kept if columns[n].drop]
        if least + len(_GAP) * (len(kept) - 1) <= width or not droppable:
            break
        kept.remove(max(droppable, key=lambda n: columns[n].drop))
    return kept


def _shrunk(columns: Sequence[Column], wide: list[int], kept: list[int], width: int) -> dict[int, int]:
    """How wide each is: the widest flexible one gives way first; then, if it must be, any."""
    room = {n: wide[n] for n in kept}
    over = sum(room.values()) + len(_GAP) * (len(kept) - 1) - width
    flexible = {n: columns[n].least for n in kept if columns[n].flexible}
    for least in (flexible, dict.fromkeys(kept, 1)):
        while over > 0 and (narrower := [n for n in least if room[n] > least[n]]):
            room[max(narrower, key=room.__getitem__)] -= 1
            over -= 1
    return room
