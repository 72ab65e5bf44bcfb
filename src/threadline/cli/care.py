"""`threadline verify`, `backup` and `stats`: looking after a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from threadline import Problem, Store, VerifyReport
from threadline.cli import words
from threadline.cli.desk import Desk, command
from threadline.cli.screen import Column, Ink


@command(examples=["threadline verify --store backup.db"])
def verify(desk: Desk) -> int:
    """Read everything and check it: every digest, chain, view, count and index. Changes nothing.

    The exit code is 1 if anything is damaged; `doctor` says what can be done.
    """
    with desk.store() as store:
        report = verified(desk, store)
    looked = ", ".join(_many(count, name) for name, count in report.counts.items() if count)
    desk.give(
        {"ok": report.ok, "problems": report.problems, "counts": report.counts},
        Ink("whole", "green") if report.ok else Ink(words.count(len(report.problems), "problem"), "bold red"),
        f": {looked or 'nothing'} checked",
    )
    if not report.ok:
        tell(desk, report.problems)
        desk.hint("`threadline doctor` says what can be done.")
    return 0 if report.ok else 1


def _many(count: int, name: str) -> str:
    return words.count(count, "entry" if name == "entries" else name.removesuffix("s"))


def verified(desk: Desk, store: Store) -> VerifyReport:
    with desk.progress("verifying") as progress:
        return store.verify(progress=progress.told)


def tell(desk: Desk, problems: list[Problem]) -> None:
    columns = (Column("SESSION"), Column("ENTRY", right=True), Column("WHAT", flexible=True, least=20))
    desk.table(columns, [[p.session or "-", "-" if p.seq is None else str(p.seq), p.what] for p in problems])


@command(examples=["threadline backup ~/backups/agents-$(date +%F).db"])
@click.argument("path", type=click.Path(path_type=Path))
def backup(desk: Desk, path: Path) -> None:
    """Copy the store to the new file PATH, consistent, while others write. A server's sessions go to a file as well."""
    with desk.store() as store, desk.progress("backing up") as progress:
        store.backup(path, progress=progress.told)
    size_bytes = path.expanduser().stat().st_size
    desk.give({"path": str(path), "size_bytes": size_bytes}, f"{path}: {words.size(size_bytes)}")
    desk.hint(f"`threadline verify --store {path}` checks it.")


@command()
def stats(desk: Desk) -> None:
    """Show how much there is in the store, all namespaces together, and how large it is."""
    with desk.store() as store, desk.progress("counting") as progress:
        found = store.stats(progress=progress.told)
    if desk.as_json:
        desk.give(found)
        return
    wide = max(map(len, found))
    for name, value in found.items():
        label = name.removesuffix("_bytes").replace("_", " ")
        desk.say(Ink(label.ljust(wide), "dim"), "  ", told(name, value))


def told(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return words.size(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
