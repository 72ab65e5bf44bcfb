"""The command line. Each command is a file of its own, loaded when it is called, so that `--help` is quick."""

from __future__ import annotations

from importlib import import_module

import click

# name -> (where it lives, what it does): the help text stands here so that listing commands imports none of them.
COMMANDS = {
    "copy": ("threadline.cli.copy", "Copy all sessions from one store into another: a file, a server."),
    "demo": ("threadline.cli.demo", "Watch a session survive kill -9, then be mended, folded, rewound and forked."),
    "migrate": ("threadline.cli.migrate", "Make, check, print or distribute the schema of a store on PostgreSQL."),
}


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=Commands)
@click.version_option(package_name="threadline")
def main() -> None:
    """A durable session store for LLM agents: one append-only log per conversation, in one SQLite file."""
