"""`threadline migrate`: the schema of a store on PostgreSQL, made, checked, printed, spread over a cluster."""

from __future__ import annotations

import click

import threadline
from threadline.cli.desk import Desk, command


@command(store=False)
@click.argument("url", required=False)
@click.option("--print", "printed", is_flag=True, help="Only print the statements, for whoever may run them.")
@click.option("--check", is_flag=True, help="Only check that the schema is that of this version; changes nothing.")
@click.option("--distribute", is_flag=True, help="Then spread it over a Citus cluster; URL is the coordinator.")
@click.option("--tenants", is_flag=True, help="Then keep namespaces apart by row-level security.")
def migrate(desk: Desk, url: str | None, printed: bool, check: bool, distribute: bool, tenants: bool) -> None:
    """Bring the database at URL to the schema of this version, all or nothing."""
    if url is None and not printed:
        raise click.UsageError("give the URL of a database, or --print")
    if printed or url is None:
        desk.screen.say(threadline.postgres.ddl(tenants=tenants))
        return
    if check:
        threadline.postgres.check(url)
        desk.give({"schema": "current"}, "the schema is that of this version")
        return
    before = threadline.postgres.migrate(url)
    told = "the schema was made" if before == 0 else f"the schema is up to date; it had version {before}"
    desk.give({"version_before": before}, told)
    if distribute:
        steps = threadline.postgres.distribute(url)
        desk.give({"distributed": steps}, f"distributed: {', '.join(steps)}" if steps else "it was distributed already")
    if tenants:
        threadline.postgres.separate_tenants(url)
        desk.give(
            {"tenants": True}, "namespaces are apart: SELECT threadline.admit('role', 'namespace') lets a role in"
        )
