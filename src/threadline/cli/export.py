"""`threadline export ID…`: taking sessions out, in our own format or in one to read, to send, to move on with."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import click

from threadline import Session, Store, transcripts
from threadline.cli import words
from threadline.cli.desk import Desk, command, complete_id

SUFFIXES = {"jsonl": ".jsonl", "markdown": ".md", "html": ".html", "openai": ".json", "anthropic": ".json"}
SUFFIXES |= {"nanobot": ".jsonl", "power-loop": ".db"}  # a session of mycode is a folder
TOGETHER = "jsonl"  # the one format that has room for several sessions in one file
MEMORY = "mnemo"  # the one format that holds no sessions, but a working memory
NAME_CHARS = 100
WRITTEN = [format.name for format in transcripts.formats() if format.writes]


@command(
    examples=[
        "threadline export latest --format html -o session.html",
        "threadline export --all --raw -o everything.jsonl      # and back: threadline import everything.jsonl",
        "threadline export 3fa8 9c1d --format markdown -o notes/",
    ]
)
@click.argument("ids", metavar="ID…", nargs=-1, shell_complete=complete_id)
@click.option("--format", type=click.Choice(WRITTEN), default=TOGETHER, help="Which format [jsonl].")
@click.option("-o", "--output", metavar="PATH", help="A file, or a folder for one file per session [standard output].")
@click.option("--raw", is_flag=True, help="With the secrets that are masked otherwise.")
@click.option("--project", metavar="NAME", help="For mnemo: whose memory to write [the global one].")
@click.option("--all", "everything", is_flag=True, help="All of the store instead of single sessions.")
def export(
    desk: Desk,
    ids: tuple[str, ...],
    format: str,
    output: str | None,
    raw: bool,
    project: str | None,
    everything: bool,
) -> None:
    """Write each session ID, with its sub-agents, to a file or to standard output.

    Keys and passwords are masked unless --raw is given. The format jsonl holds everything: `threadline import` makes
    the same sessions of it, in any store.
    """
    if format == MEMORY:
        _export_memory(desk, project, output, raw)
        return
    if bool(ids) is everything:
        raise click.UsageError("name the sessions to export, or give --all")
    if output is None and desk.screen.terminal:  # what was said may hold what a terminal obeys
        raise click.UsageError("an export is not for a terminal: name a file with -o, or pipe it on")
    with desk.store() as store:
        sessions = [desk.session(store, id) for id in ids]
        what: Store | list[Session] = store if everything else sessions
        try:
            masked = _exported(store, what, format, output, raw)
        except OSError as error:
            raise click.ClickException(f"cannot write {error.filename or output}: {error.strerror or error}") from error
    _tell(desk, output, masked, raw)


def _exported(store: Store, what: Store | list[Session], format: str, output: str | None, raw: bool) -> dict[str, int]:
    """Write it all; how many secrets of each kind were masked."""
    target: BinaryIO | str = sys.stdout.buffer if output in (None, "-") else str(output)
    one = not isinstance(what, Store) and len(what) == 1
    into_folder = isinstance(target, str) and (target.endswith(os.sep) or os.path.isdir(target))
    if not into_folder and (format == TOGETHER or one):
        given = what[0] if one and isinstance(what, list) else what
        return transcripts.write(given, target, format, raw=raw).masked
    if not isinstance(target, str):
        raise click.UsageError(f"{format} takes one session in one file: name a folder with -o")
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    masked: dict[str, int] = {}
    for session in _each(store, what):
        report = transcripts.write(session, folder / file_name(str(session.id), format), format, raw=raw)
        for name, count in report.masked.items():
            masked[name] = masked.get(name, 0) + count
    return masked


def _export_memory(desk: Desk, project: str | None, output: str | None, raw: bool) -> None:
    if output is None:
        raise click.UsageError("mnemo is a folder: name it with -o")
    with desk.store() as store:
        masked = transcripts.write(store.memory(project), output, MEMORY, raw=raw).masked
    _tell(desk, output, masked, raw)


def _each(store: Store, what: Store | list[Session]) -> Iterable[Session]:
    if isinstance(what, list):
        return what
    return (store.get(info.id) for info in store.sessions(status=None, order="created"))


def file_name(id: str, format: str) -> str:
    """A name for the file of a session: its id where that is plain, and never a way out of the folder."""
    plain = quote(id.encode("utf-8", "surrogatepass"), safe="-_.~")
    if len(plain) > NAME_CHARS or not re.match(r"[A-Za-z0-9_%~-]", plain):
        plain = f"{plain[:40].lstrip('.')}~{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    return plain + SUFFIXES.get(format, "")


def _tell(desk: Desk, output: str | None, masked: dict[str, int], raw: bool) -> None:
    count = sum(masked.values())
    if count:
        named = ", ".join(f"{name} ({number})" for name, number in sorted(masked.items()))
        desk.warn(f"{words.count(count, 'secret')} masked: {named}; --raw keeps them")
    if output not in (None, "-"):
        desk.give({"output": output, "masked": masked, "raw": raw}, f"written to {output}")
