"""`threadline index`: the index that `search` looks things up in."""

from __future__ import annotations

import click

from threadline.cli import words
from threadline.cli.desk import Desk, command


@command(examples=["threadline index", "threadline index --rebuild"])
@click.option("--rebuild", is_flag=True, help="Make it anew.")
@click.option("--drop", is_flag=True, help="Only remove it: the next search makes it again.")
def index(desk: Desk, rebuild: bool, drop: bool) -> None:
    """Bring the search index up to date, so that no search has to wait for it.

    It is derived from the log, and can be dropped and made anew at any time. Others may read and write meanwhile;
    broken off, it goes on where it stopped.
    """
    if rebuild and drop:
        raise click.UsageError("--rebuild makes it anew, --drop removes it: give one of them")
    with desk.store(write=True) as store, desk.progress("indexing") as progress:
        now = store.index(rebuild=rebuild, drop=drop, progress=progress.told)
    answer = {"done": now.done, "total": now.total, "left": now.left}
    if drop:
        desk.give(answer, "the search index is gone; the next search makes it again")
    else:
        desk.give(answer, f"the search index is up to date: {words.count(now.done, 'row')}")
