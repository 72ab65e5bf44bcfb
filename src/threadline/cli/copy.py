"""`threadline copy SOURCE TARGET`: moving house, from a file to a server and back."""

from __future__ import annotations

import json
import sys

import click

import threadline
from threadline import CopyReport
from threadline.cli.failing import failing


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="The report as one line of JSON.")
def copy(source: str, target: str, as_json: bool) -> None:
    """Copy all sessions of SOURCE, of all namespaces, into TARGET. Each is a file or a URL.

    Every row is the same there, and checked by its digest and chain on the way. SOURCE is only read. The command can be
    broken off and given again: then it adds what is missing.
    """
    with failing(), threadline.open(source, read_only=True) as here, threadline.open(target) as there:
        report = threadline.copy(here, there, progress=show if sys.stderr.isatty() else None)
    tell(report, as_json)
    if not report.ok:
        raise SystemExit(1)


def show(progress: threadline.CopyProgress) -> None:
    click.echo(f"\r{progress.sessions:,} sessions, {progress.entries:,} entries", nl=False, err=True)


def tell(report: CopyReport, as_json: bool) -> None:
    if as_json:
        problems = [{"session": p.session, "seq": p.seq, "what": p.what} for p in report.problems]
        click.echo(
            json.dumps({n: getattr(report, n) for n in ("sessions", "made", "entries")} | {"problems": problems})
        )
        return
    if sys.stderr.isatty():
        click.echo("", err=True)
    click.echo(f"{report.sessions:,} sessions, {report.made:,} of them new; {report.entries:,} entries copied")
    for problem in report.problems:
        click.echo(f"not copied whole: {problem.session}: {problem.what}", err=True)
