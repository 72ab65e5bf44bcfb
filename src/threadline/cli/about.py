"""`threadline rename` and `threadline tag`: what is said of a session."""

from __future__ import annotations

import click

from threadline.cli.desk import Desk, command, id_argument
from threadline.cli.screen import Ink


@command(examples=["threadline rename latest 'the login bug'"])
@id_argument
@click.argument("title")
def rename(desk: Desk, id: str, title: str) -> None:
    """Give session ID a title. No machine replaces a title that a person gave."""
    with desk.store(write=True) as store:
        session = desk.session(store, id)
        session.rename(title)
        info = session.info
    desk.give(info, Ink(info.id, "cyan"), " is now called ", Ink(info.title or "", "bold"))


@command(examples=["threadline tag latest bug login", "threadline tag latest --remove bug"])
@id_argument
@click.argument("tags", nargs=-1, metavar="[TAG]...")
@click.option("-r", "--remove", multiple=True, metavar="TAG", help="Take that tag away; may be given several times.")
def tag(desk: Desk, id: str, tags: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Add tags to session ID, or take them away. Without any, show those it has."""
    with desk.store(write=bool(tags or remove)) as store:
        session = desk.session(store, id)
        if tags:
            session.tag(*tags)
        if remove:
            session.untag(*remove)
        info = session.info
    desk.give(info, Ink(info.id, "cyan"), "  ", ", ".join(info.tags) or "no tags")
