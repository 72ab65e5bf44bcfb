"""The command line. Each command is a file of its own, loaded when it is called, so that `--help` is quick.

How a command is written stands in `desk.py`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import click

from threadline import __version__
from threadline.cli.desk import Desk, common

# name -> (where it lives, what it does): the help text stands here so that listing commands imports none of them.
# In the module the command has its own name, with `_` behind it where Python needs that: `import_`.
COMMANDS = {
    "ls": ("threadline.cli.ls", "List sessions, the latest change first."),
    "show": ("threadline.cli.show", "Show a conversation, as a person reads it."),
    "search": ("threadline.cli.search", "Find where something was said."),
    "log": ("threadline.cli.log", "List the raw entries of a session: all that ever happened."),
    "tail": ("threadline.cli.log", "Show the last entries, and with -f new ones as they are written."),
    "context": ("threadline.cli.context", "Print exactly what would be sent to a model."),
    "usage": ("threadline.cli.usage", "Show what was spent: tokens, requests, money."),
    "fork": ("threadline.cli.history", "Make a session that shares the past of another."),
    "rewind": ("threadline.cli.history", "Make the view what it was at an earlier entry, or a later one."),
    "compact": ("threadline.cli.history", "Fold entries into a summary that stands in their place."),
    "repair": ("threadline.cli.history", "Mend a session after a crash: answer open calls, keep drafts."),
    "rename": ("threadline.cli.about", "Give a session a title."),
    "tag": ("threadline.cli.about", "Add and take away tags of a session."),
    "archive": ("threadline.cli.status", "Put sessions away: kept, not listed."),
    "trash": ("threadline.cli.status", "Put sessions into the trash: kept, not listed."),
    "restore": ("threadline.cli.status", "Make archived or trashed sessions active again."),
    "prune": ("threadline.cli.status", "Move to the trash what nobody has changed for long."),
    "delete": ("threadline.cli.status", "Remove sessions for good."),
    "erase": ("threadline.cli.erase", "Remove a session so that no byte of it is left."),
    "redact": ("threadline.cli.erase", "Take the content of one entry away for good."),
    "verify": ("threadline.cli.care", "Read everything and check it."),
    "doctor": ("threadline.cli.doctor", "Explain what is wrong with the store, and what mends it."),
    "backup": ("threadline.cli.care", "Copy the store to a new file, while others write."),
    "stats": ("threadline.cli.care", "Show how much there is in the store."),
    "index": ("threadline.cli.index", "Bring the search index up to date, drop it or make it anew."),
    "memory": ("threadline.cli.memory", "Claim, recall and look after what agents know of a project."),
    "mcp": ("threadline.cli.mcp", "Serve memory and past sessions to an agent, over MCP."),
    "import": ("threadline.cli.import_", "Bring in sessions of other tools: mycode, nanobot, power-loop and more."),
    "export": (
        "threadline.cli.export",
        "Write sessions, or the whole store, to a file: to keep, to read, to move on with.",
    ),
    "copy": ("threadline.cli.copy", "Copy all sessions from one store into another: a file, a server."),
    "migrate": ("threadline.cli.migrate", "Make, check, print or distribute the schema of a store on PostgreSQL."),
    "demo": ("threadline.cli.demo", "Watch a session survive kill -9, then be mended, folded, rewound and forked."),
}


# Where `--help` lists them; those that nobody named here come last.
SECTIONS = {
    "Look": ("ls", "show", "search", "log", "tail", "context", "usage"),
    "Know": ("memory", "mcp"),
    "Change": ("fork", "rewind", "compact", "repair", "rename", "tag"),
    "Put away": ("archive", "trash", "restore", "prune", "delete", "erase", "redact"),
    "Bring in and take out": ("import", "export", "copy"),
    "Look after": ("verify", "doctor", "backup", "stats", "index", "migrate"),
}


def sections() -> dict[str, list[str]]:
    placed = {title: [name for name in names if name in COMMANDS] for title, names in SECTIONS.items()}
    known = {name for names in placed.values() for name in names}
    return placed | {"More": [name for name in COMMANDS if name not in known]}


class HadEnough(Exception):
    """Whoever reads what we print went away: `| head`, a pager that was quit. That is no failure."""


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 1)
            advice = f"did you mean {near[0]!r}?" if near else "all are listed by `threadline --help`"
            raise click.UsageError(f"no command {args[0]!r}: {advice}", ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click would make it a failure
            raise HadEnough from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        wide = max(map(len, COMMANDS))
        for title, names in sections().items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(wide), COMMANDS[name][1]) for name in names])

    def main(self, args: Any = None, *others: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """The front door: runs the command, and ends the process with its exit code."""
        run = partial(super().main, args, *others, standalone_mode=False)
        if not standalone_mode:
            return run(**extra)
        desk = extra["obj"] = extra.get("obj") or Desk()
        sys.exit(_exit_code(desk, partial(run, **extra)))


def _exit_code(desk: Desk, run: Callable[[], Any]) -> int:
    """Run the command; its exit code. Whatever goes wrong ends as one line, safe to print."""
    try:
        code = run()
        desk.screen.flush()
        return code if isinstance(code, int) else 0
    except (HadEnough, BrokenPipeError):
        _let_go_of_stdout()
        return 0
    except (KeyboardInterrupt, click.Abort):
        desk.screen.err("stopped")
        return 1
    except click.exceptions.NoArgsIsHelpError as error:
        desk.screen.err(error.format_message())
        return error.exit_code
    except click.UsageError as error:
        said, path = error.format_message().rstrip("."), "threadline" if error.ctx is None else error.ctx.command_path
        desk.screen.err(f"Error: {said}" if said.endswith(("?", "`")) else f"Error: {said}; `{path} --help` tells how")
        return error.exit_code
    except click.ClickException as error:
        _tell(desk, error)
        return error.exit_code
    except OSError as error:
        _let_go_of_stdout()
        place = f": {error.filename}" if error.filename else ""
        _tell(desk, click.ClickException(f"{error.strerror or error}{place}"))
        return 1
    except Exception as error:
        desk.debug = True
        _tell(desk, click.ClickException(f"this is a bug of threadline: {type(error).__name__}: {error}"))
        return 1


def _tell(desk: Desk, error: click.ClickException) -> None:
    if desk.debug:
        from traceback import format_exc

        desk.screen.err(format_exc(), end="")
    if desk.as_json:
        from threadline.cli.shapes import line_of

        cause = error.__cause__ or error
        name = "Failed" if isinstance(cause, click.ClickException) else type(cause).__name__
        desk.screen.err(line_of({"error": name, "message": error.format_message()}))
    else:
        desk.screen.err(f"Error: {error.format_message()}")


def _let_go_of_stdout() -> None:
    """Python flushes standard output once more at the end, and would complain that it still cannot."""
    if sys.stdout is sys.__stdout__ and sys.__stdout__ is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


@click.group(cls=Commands, invoke_without_command=True)
@click.version_option(__version__, prog_name="threadline")
@click.pass_context
def main(ctx: click.Context) -> Any:
    """A durable session store for LLM agents: one append-only log per conversation, in one SQLite file.

    Without a command: the latest sessions, and what to do next. ID is the id of a session, the beginning of one, a
    key, or `latest`.
    """
    if ctx.invoked_subcommand is None:
        from threadline.cli.home import home

        home(ctx.obj)


main.params += common()
