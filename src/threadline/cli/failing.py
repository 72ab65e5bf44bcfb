"""How a command fails: with one clear line and exit code 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from threadline import ThreadlineError


@contextmanager
def failing() -> Iterator[None]:
    try:
        yield
    except ThreadlineError as error:
        raise click.ClickException(str(error)) from error
