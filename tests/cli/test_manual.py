"""The page of commands is what `--help` says, and `--help` is quick: it loads neither a command nor a store."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import threadline
from threadline.cli import COMMANDS, main
from threadline.cli.manual import page

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def test_the_page_of_commands_is_what_help_says() -> None:
    """Run: python -m threadline.cli.manual > docs/commands.md."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_list_says_and_begins_with_what_it_does(name: str) -> None:
    command = main.get_command(click.Context(main), name)

    assert command is not None
    assert command.name == name
    assert (command.help or "").strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_debug(name: str) -> None:
    for command in leaves(main.get_command(click.Context(main), name)):
        flags = {flag for parameter in command.params for flag in parameter.opts}

        assert {"--json", "--debug"} <= flags


def leaves(command: click.Command | None) -> list[click.Command]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        return [leaf for name in command.list_commands(context) for leaf in leaves(command.get_command(context, name))]
    return [] if command is None else [command]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_every_command_prints_for_machines_is_documented(name: str) -> None:
    table = (
        (PAGE.parent / "cli.md").read_text(encoding="utf-8").partition("what `--json` prints")[2].partition("\n\n")[0]
    )
    named = re.findall(r"`(\w+)[^`]*`", " ".join(line.split("|")[1] for line in table.splitlines()[2:]))

    assert name in named


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        f"import sys; from threadline.cli import main; main({arguments}, standalone_mode=False); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    ours = {name for name in loaded if name.startswith("threadline.")}
    assert ours == {f"threadline.cli{name}" for name in ("", ".desk", ".shapes", ".screen", ".safe")}
    assert not {"apsw", "msgspec", "asyncio", "subprocess", "json", "rich", "psycopg", "tempfile", "email"} & {*loaded}


def test_the_package_runs_as_a_module() -> None:
    said = subprocess.run([sys.executable, "-m", "threadline", "--version"], capture_output=True, text=True, check=True)

    assert said.stdout == f"threadline, version {threadline.__version__}\n"


def test_a_listing_imports_only_what_it_needs(path: Path) -> None:
    threadline.open(path).close()
    script = (
        f"import sys; from threadline.cli import main; main(['--store', {str(path)!r}, 'ls'], standalone_mode=False)"
    )
    script += "; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    rooms = {name.split(".")[1] for name in loaded if name.startswith("threadline.")}
    assert not rooms & {"aio", "context", "formats", "memory", "postgres", "testing", "tokenizers", "transcripts"}
    commands = {name for name in loaded if name.startswith("threadline.cli.")}
    assert not commands & {f"threadline.cli.{name}" for name in ("show", "conversation", "doctor", "progress", "home")}
    assert not {"asyncio", "subprocess", "psycopg", "rich", "shutil"} & {*loaded}
