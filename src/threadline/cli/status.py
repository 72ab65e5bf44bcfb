"""`threadline archive`, `trash`, `restore`, `prune` and `delete`: putting sessions away, and taking them away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from threadline import SessionInfo, Store
from threadline.cli import words
from threadline.cli.desk import Desk, command, complete_id
from threadline.cli.ls import listed
from threadline.cli.screen import Ink

SHOWN = 20  # of very many sessions that are about to go

ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete_id)


@command()
@ids_argument
def archive(desk: Desk, ids: tuple[str, ...]) -> None:
    """Put sessions away: kept, not listed, not written to until they are restored."""
    put(desk, ids, lambda store: store.archive, "is archived: `threadline restore` brings it back")


@command()
@ids_argument
def trash(desk: Desk, ids: tuple[str, ...]) -> None:
    """Put sessions into the trash: kept, not listed, not written to until they are restored."""
    put(desk, ids, lambda store: store.trash, "is in the trash: `threadline restore` brings it back")


@command()
@ids_argument
def restore(desk: Desk, ids: tuple[str, ...]) -> None:
    """Make archived or trashed sessions active again."""
    put(desk, ids, lambda store: store.restore, "is active")


def put(desk: Desk, ids: tuple[str, ...], how: Callable[[Store], Callable[[Any], None]], told: str) -> None:
    """All of them are looked up before the first is touched."""
    with desk.store(write=True) as store:
        sessions = [desk.session(store, id) for id in ids]
        for session in sessions:
            how(store)(session)
            info = session.info
            title = f"  {info.title}" if info.title else ""
            desk.give(info, Ink(info.id, "cyan"), Ink(title, "bold"), f"  {told}")


class Span(click.ParamType[timedelta]):
    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            span = words.span(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if span <= timedelta(0):
            self.fail(f"{value!r} is no span of time", param, ctx)
        return span


@command(asks=True, examples=["threadline prune --older-than 90d --dry-run"])
@click.option("--older-than", type=Span(), required=True, metavar="SPAN", help="Not changed for so long: 90d, 12h, 2w.")
@click.option("--dry-run", is_flag=True, help="Only list them.")
def prune(desk: Desk, older_than: timedelta, dry_run: bool) -> None:
    """Move to the trash what nobody has changed for long, nor anything below it. Nothing is deleted."""
    with desk.store(write=not dry_run) as store:
        plan = store.prune(older_than=older_than)
        if not plan.sessions:
            desk.give(plan, f"nothing is older than {plan.before:%Y-%m-%d %H:%M} UTC")
            return
        if dry_run:
            show(desk, store, plan.sessions)
            desk.give(plan, f"{words.count(len(plan.sessions), 'session')} would go to the trash")
            return
        if not desk.yes:
            show(desk, store, plan.sessions)
        desk.confirm([f"{words.count(len(plan.sessions), 'session')} will be moved to the trash."], "Move them?")
        done = store.prune(older_than=older_than, dry_run=False)
    desk.give(
        done,
        f"{words.count(len(done.sessions), 'session')} moved to the trash: `threadline restore ID` brings one back",
    )


def show(desk: Desk, store: Store, ids: list[str]) -> None:
    if desk.as_json:
        return
    listed(desk, [store.get(id).info for id in ids[:SHOWN]])
    if len(ids) > SHOWN:
        desk.say(f"… and {len(ids) - SHOWN:,} more")


@command(asks=True, examples=["threadline delete 4fk2", "threadline delete 4fk2 --keep-children --yes"])
@ids_argument
@click.option("--keep-children", is_flag=True, help="Its sub-agents stay, as sessions of their own.")
def delete(desk: Desk, ids: tuple[str, ...], keep_children: bool) -> None:
    """Remove sessions for good, with their sub-agents. Forks keep what they share with them.

    The space is used again, but old bytes may linger in the file: `erase` leaves none behind.
    """
    with desk.store(write=True) as store:
        sessions = [desk.session(store, id) for id in ids]
        what = [line for session in sessions for line in doomed(session.info, [*session.tree()], keep_children)]
        heads = [session.head for session in sessions]
        desk.confirm([*what, "This cannot be undone."], "Delete?")
        for session, head in zip(sessions, heads, strict=True):
            gone = store.delete(session, cascade=not keep_children, expect=head)
            desk.give({"session": session.id, "deleted": gone}, f"{session.id}: {words.count(gone, 'session')} deleted")


def doomed(info: SessionInfo, family: list[SessionInfo], keep_children: bool) -> list[str]:
    said = f"{info.id}  {info.title or info.key or '(no title)'}: {words.count(info.head, 'entry')}"
    below = sum(child.lifecycle != "detached" for child in family[1:])
    if not below:
        return [said]
    fate = "become sessions of their own" if keep_children else "go along"
    return [f"{said}; {words.count(below, 'sub-agent')} {fate}"]
