"""`threadline import PATH…`: moving in, with the files of other tools."""

from __future__ import annotations

import os

import click
from msgspec.structs import asdict

import threadline
from threadline import Store, ThreadlineError, transcripts
from threadline.cli import words
from threadline.cli.desk import Desk, command
from threadline.transcripts import ImportReport

TOLD = 20  # problems that a person is told one by one


@command(
    examples=[
        "threadline import ~/.mycode ~/.nanobot/workspace power_loop_sessions.db",
        "threadline import --dry-run ~/.mycode/sessions",
    ]
)
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path())
@click.option(
    "--from",
    "format",
    metavar="FORMAT",
    help="The format, if it is not to be recognised: mycode, nanobot, power-loop, …",
)
@click.option("--project", metavar="NAME", help="The working memory that files of knowledge go to.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and write nothing.")
def import_(desk: Desk, paths: tuple[str, ...], format: str | None, project: str | None, dry_run: bool) -> int:
    """Bring sessions of other tools from each PATH, a file or a folder, into the store.

    Sources are only read. Importing again adds what is new: a source that grew is continued, one that was rewritten
    becomes a fork. What cannot be read is reported with its place, and the rest is imported.
    """
    with _store(desk, dry_run or not any(map(os.path.lexists, paths))) as store:
        reports = [_imported(desk, store, path, format, project, dry_run) for path in paths]
    found = [report for report in reports if report is not None]
    total = _together(found, dry_run)
    _tell(desk, total)
    return 1 if len(found) < len(paths) or not (total.sessions or total.entries) else 0


def _store(desk: Desk, for_nothing: bool) -> Store:
    """The store to write to. Where nothing will be written none is made: where there is none yet, everything is new."""
    if not for_nothing:
        return desk.store(write=True, make=True)
    try:
        return desk.store()
    except threadline.NotFound:
        return threadline.open(":memory:")


def _imported(
    desk: Desk, store: Store, path: str, format: str | None, project: str | None, dry_run: bool
) -> ImportReport | None:
    """The report of one path; None where it cannot be read at all, which is said and keeps no other path out."""
    total = os.path.getsize(path) if os.path.isfile(path) else None
    try:
        with desk.progress(f"reading {os.path.basename(path.rstrip('/'))}", total=total, unit="byte") as progress:
            return transcripts.read(
                path,
                format,
                store=store,
                project=project,
                dry_run=dry_run,
                progress=lambda report: progress.reach(report.bytes_read),
            )
    except (threadline.Closed, threadline.ReadOnly, threadline.StoreFull):
        raise
    except ThreadlineError as error:
        desk.warn(f"not imported: {error}")
        return None


def _together(reports: list[ImportReport], dry_run: bool) -> ImportReport:
    """The reports of several paths as one."""
    total = asdict(ImportReport(dry_run=dry_run))
    for report in reports:
        for name, value in asdict(report).items():
            if name != "dry_run":
                total[name] = total[name] + value
    return ImportReport(**total | {"sessions": list(dict.fromkeys(total["sessions"]))})


def _tell(desk: Desk, report: ImportReport) -> None:
    would = "would be " if report.dry_run else ""
    forks = f", {words.count(report.forked, 'fork')} made" if report.forked else ""
    aside = f", {words.size(report.bytes_reported)} set aside" if report.bytes_reported else ""
    desk.give(
        report,
        f"{words.count(len(report.sessions), 'session')}: {words.count(report.added, 'entry')} {would}added, "
        f"{report.unchanged:,} unchanged{forks}; {words.size(report.bytes_read)} read{aside}",
    )
    if desk.as_json:
        return
    for problem in report.problems[:TOLD]:
        desk.warn(str(problem))
    if len(report.problems) > TOLD:
        desk.warn(f"… and {len(report.problems) - TOLD:,} more: --json lists them all")
    if report.added and not report.dry_run:
        desk.hint("`threadline ls` lists them")
