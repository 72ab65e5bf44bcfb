"""`threadline mcp`: the store as tools for an agent."""

from __future__ import annotations

import os

import click

from threadline.cli.desk import Desk, command
from threadline.cli.failing import Failed
from threadline.cli.memory import default_project, project_option


@command(
    examples=[
        "threadline mcp --project shop --allow-write",
        "claude mcp add threadline -- threadline mcp --store agents.db --allow-write",
    ]
)
@project_option
@click.option(
    "--allow-write", is_flag=True, help="Let the agent claim, correct and promote. Without it, it only reads."
)
@click.option("-a", "--agent", default="mcp", show_default=True, metavar="NAME", help="Whose working memory it is.")
def mcp(desk: Desk, project: str | None, globally: bool, allow_write: bool, agent: str) -> None:
    """Serve a memory and past sessions over MCP, on standard input and output, until that ends.

    Needs pip install 'threadline[mcp]'. Answers are capped, tell where they come from, and are marked as data.
    """
    try:
        from threadline.server.mcp import serve
    except ImportError as error:
        raise Failed("the MCP server needs its extra: pip install 'threadline[mcp]'") from error
    with desk.store(write=allow_write, make=allow_write) as store:
        name = None if globally else project or default_project()
        serve(store, name, os.getcwd(), allow_write=allow_write, agent=agent)
