"""`threadline ls`: which sessions there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import click

from threadline import SessionInfo
from threadline.cli import words
from threadline.cli.desk import Desk, command, complete_id, short_ids
from threadline.cli.screen import Column, Ink, Piece

PAGE = 500  # sessions that are read at once where all are wanted
COLUMNS = (
    Column("ID"),
    Column("CHANGED", drop=2),
    Column("TITLE", flexible=True, least=32),
    Column("KEY", flexible=True, least=10, drop=5),
    Column("AGENT", flexible=True, drop=6),
    Column("MODEL", flexible=True, drop=9),
    Column("MESSAGES", right=True, drop=4),
    Column("TOKENS", right=True, drop=7),
    Column("COST", right=True, drop=8),
    Column("STATE", flexible=True, least=12, drop=3),
)


@command(examples=["threadline ls --cwd . --waiting", "threadline ls --all --limit 0 --json | jq -r .id"])
@click.option("--cwd", metavar="FOLDER", help="Only those of that folder.")
@click.option("--agent", metavar="NAME", help="Only those of that agent.")
@click.option("--tag", metavar="TAG", help="Only those with that tag.")
@click.option("--key", "key_prefix", metavar="PREFIX", help="Only those whose key begins so.")
@click.option("--parent", metavar="ID", shell_complete=complete_id, help="Only the children of that session.")
@click.option("--waiting", is_flag=True, help="Only those with open calls, an unanswered user turn or a filled inbox.")
@click.option("--children", is_flag=True, help="Sub-agents, too.")
@click.option("--archived", "status", flag_value="archived", help="Those that were archived.")
@click.option("--trashed", "status", flag_value="trashed", help="Those in the trash.")
@click.option("--all", "status", flag_value="all", help="Active, archived and trashed ones.")
@click.option("--order", type=click.Choice(["updated", "created"]), default="updated", help="By which time [updated].")
@click.option("-n", "--limit", type=click.IntRange(0), default=50, help="How many at most [50]; 0 for all.")
def ls(
    desk: Desk, status: str | None, children: bool, waiting: bool, parent: str | None, limit: int, **filters: Any
) -> None:
    """List sessions, the latest change first. Without sub-agents, and without what was put away."""
    with desk.store() as store:
        page = store.sessions(
            status=None if status == "all" else status or "active",
            parent=None if parent is None else desk.session(store, parent),
            root=not children,
            waiting=waiting or None,
            limit=min(limit, PAGE) or PAGE,
            **filters,
        )
        found = islice(page, limit or None)
        if desk.as_json:
            for info in found:
                desk.give(info)
            return
        with desk.paged():
            infos = list(found)
            listed(desk, infos)
    if not infos:
        desk.hint("No sessions. `threadline ls --all` also lists what was put away, --children sub-agents.")
    elif len(infos) == limit:
        desk.hint(f"The latest {limit}. More with --limit; a beginning of the ID will do for other commands.")


def listed(desk: Desk, infos: Sequence[SessionInfo]) -> None:
    """A table of sessions; a column that would be empty is not there."""
    if not infos:
        return
    rows = [*rows_of(desk, infos)]
    used = [n for n in range(len(COLUMNS)) if n < 3 or any(_text(row[n]) for row in rows)]
    desk.table([COLUMNS[n] for n in used], [[row[n] for n in used] for row in rows])


def rows_of(desk: Desk, infos: Sequence[SessionInfo]) -> Iterable[list[Piece]]:
    terminal = desk.screen.terminal
    shown = short_ids(info.id for info in infos) if terminal else {info.id: info.id for info in infos}
    for info in infos:
        yield [
            Ink(shown[info.id], "cyan"),
            Ink(words.ago(info.updated_at) if terminal else words.exact(info.updated_at), "dim"),
            "  " * info.depth + (info.title or "-"),
            info.key or "",
            info.agent or "",
            info.model or "",
            f"{info.messages:,}",
            words.short(info.tokens) if info.tokens else "",
            words.money(info.cost) if info.cost else "",
            state_of(info),
        ]


def state_of(info: SessionInfo) -> Ink:
    """What somebody should know before going on with it."""
    if info.status != "active":
        return Ink(info.status, "dim")
    said = [f"held by {info.holder}"] if info.holder else []
    said += [words.count(info.pending, "open call")] if info.pending else []
    said += [f"{info.queued} queued"] if info.queued else []
    return Ink(", ".join(said), "yellow")


def _text(piece: Piece) -> str:
    return piece.text if isinstance(piece, Ink) else piece
