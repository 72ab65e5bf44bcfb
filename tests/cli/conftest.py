from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from threadline.cli import main
from threadline.cli.desk import Desk
from threadline.cli.screen import Screen

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _nobodys_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the store, the pager or the colours of whoever runs it."""
    for name in [name for name in os.environ if name.startswith("THREADLINE_") and "TEST" not in name]:
        if name not in ("THREADLINE_SCALE", "THREADLINE_SEED"):
            monkeypatch.delenv(name)
    for name in ("PAGER", "NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("THREADLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command on the store at `path`, as on a pipe; with width=, as on a terminal of that width."""
    monkeypatch.setenv("THREADLINE_STORE", str(path))

    def run(*arguments: str, width: int | None = None, stdin: str | None = None, asks: bool = False) -> Result:
        terminal = None if width is None else Screen(terminal=True, width=width, colour=False)
        desk = Desk(terminal, asks=asks) if width is not None or asks else None
        return CliRunner().invoke(main, [*arguments], input=stdin, obj=desk)

    return run


@pytest.fixture
def here(path: Path) -> list[str]:
    """The program itself, for a process of its own."""
    return [sys.executable, "-m", "threadline", "--store", str(path)]
