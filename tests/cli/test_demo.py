"""The demo shows what it claims, and refuses what it must."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import threadline
from threadline.cli import main


def test_the_demo_proves_seven_things_on_one_screen(path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--store", str(path)])

    assert result.exit_code == 0, result.output
    assert result.output.count("✓") == 7
    assert result.output.count("\n") <= 40
    assert str(path) in result.output


def test_what_the_demo_leaves_behind_is_a_whole_store(path: Path) -> None:
    CliRunner().invoke(main, ["demo", "--store", str(path)])

    with threadline.open(path) as store:
        assert store.verify().ok
        assert [info.title for info in store.sessions(order="created")] == [
            "what if we had not deployed?",
            "Please run the tests and deploy.",
        ]


def test_the_demo_never_writes_to_a_file_that_exists(path: Path) -> None:
    path.write_bytes(b"precious")

    result = CliRunner().invoke(main, ["demo", "--store", str(path)])

    assert result.exit_code == 1
    assert "exists already" in result.output
    assert path.read_bytes() == b"precious"


def test_an_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2
