"""`threadline copy SOURCE TARGET`: moving house, from a file to a server and back."""

from __future__ import annotations

import click

import threadline
from threadline import CopyProgress, CopyReport, Store
from threadline.cli import words
from threadline.cli.desk import Desk, command


@command(store=False, examples=["threadline copy agents.db postgresql://db.example/agents"])
@click.argument("source")
@click.argument("target")
def copy(desk: Desk, source: str, target: str) -> int:
    """Copy all sessions of SOURCE, of all namespaces, into TARGET. Each is a file or a URL.

    Every row is the same there, and checked by its digest and chain on the way. SOURCE is only read. The command can be
    broken off and given again: then it adds what is missing.
    """
    with threadline.open(source, read_only=True) as here, threadline.open(target) as there:
        report = copied(desk, here, there)
    tell(desk, report)
    return 0 if report.ok else 1


def copied(desk: Desk, here: Store, there: Store) -> CopyReport:
    with desk.progress("copying", total=here.stats()["entries"]) as progress:

        def show(reached: CopyProgress) -> None:
            progress.reach(reached.entries)

        return threadline.copy(here, there, progress=show)


def tell(desk: Desk, report: CopyReport) -> None:
    memory = f", {words.count(report.nodes, 'node')} of memories" if report.nodes else ""
    told = f"{report.sessions:,} sessions, {report.made:,} of them new; {report.entries:,} entries copied{memory}"
    desk.give(report, told)
    for problem in () if desk.as_json else report.problems:
        desk.warn(f"not copied whole: {problem.session}: {problem.what}")
