"""All help texts as one page: `python -m threadline.cli.manual > docs/commands.md`. A test compares the two."""

from __future__ import annotations

from collections.abc import Iterator

import click

from threadline.cli import COMMANDS, main
from threadline.cli.screen import Screen

WIDTH = 100
TOP = """# Commands

Generated from `--help` by `python -m threadline.cli.manual > docs/commands.md`. What all commands have in common
stands in [cli.md](cli.md).
"""


def page() -> str:
    root = click.Context(main, info_name="threadline", terminal_width=WIDTH)
    chapters = [TOP, _chapter("threadline", main, root)]
    for name in COMMANDS:
        command = main.get_command(root, name)
        assert command is not None
        chapters += [
            _chapter(f"threadline {path}", leaf, context) for path, leaf, context in _family(name, command, root)
        ]
    return "\n".join(chapters)


def _family(
    path: str, command: click.Command, parent: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """The command, and those below it."""
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, terminal_width=WIDTH)
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                yield from _family(f"{path} {name}", below, context)


def _chapter(path: str, command: click.Command, context: click.Context) -> str:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"## {path}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    Screen(terminal=False).say(page(), end="")
