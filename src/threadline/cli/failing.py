"""How a command fails: with one clear line that says what to do next, and exit code 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

import threadline
from threadline import ThreadlineError
from threadline.cli.safe import one_line


class Failed(click.ClickException):
    """The command could not do what was asked. The message is one line with the next step."""


@contextmanager
def failing() -> Iterator[None]:
    """What the store refuses becomes the one line. Every command made by `desk.command` is inside of one already."""
    try:
        yield
    except ThreadlineError as error:
        raise Failed(one_line(told(error))) from error


def told(error: ThreadlineError) -> str:
    """The error for somebody at a command line: the library's own words name Python calls where a command helps."""
    match error:
        case threadline.NotFound(what="store"):
            return f"no store at {error.name}: --store or $THREADLINE_STORE names another"
        case threadline.NotActive(status="ended"):
            return f"session {error.session} has ended: `threadline memory recover {error.session}` brings it back"
        case threadline.NotActive():
            return f"session {error.session} is {error.status}: `threadline restore {error.session}` makes it active"
        case threadline.LeaseHeld():
            return f"{error.holder} is writing to it (its lease ends at {error.until:%H:%M:%S} UTC): try again then"
        case threadline.Stale():
            return "somebody else wrote to it meanwhile, and nothing was done: look again, then give the command again"
        case threadline.NotVisible():
            return f"entry {error.seq} is not in the view: `threadline show` says what is"
        case threadline.BudgetTooSmall():
            return f"the newest turn alone needs {error.needed:,} tokens: give --max-tokens {error.needed} or more"
        case threadline.Damaged():
            place = f"entry {error.seq} of session {error.session}" if error.seq is not None else "the store"
            return f"{place} is damaged ({error.what}): `threadline doctor` says what can be done"
        case threadline.Uncertain():
            return "the disk or the server failed while it was written: look whether it is there, then give it again"
    return str(error)
