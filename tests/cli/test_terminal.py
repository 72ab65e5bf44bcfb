"""The program as a person meets it: on a terminal, wide and narrow, in a pipe, with a pager, interrupted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from realistic import furnish
from terminal import at_terminal

import threadline
from threadline import Store
from threadline.cli.progress import Progress
from threadline.cli.screen import Screen, cells


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("furnished") / "store.db"
    with threadline.open(path, durability="relaxed") as store:
        session = furnish(store)
        session._store.new(id="long", key="long").extend([f"message {n} {'x' * 200}" for n in range(3_000)])
    return path


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with threadline.open(path) as store:
        yield store


# -- a terminal ----------------------------------------------------------------------------------------


def test_colours_on_a_terminal_only_and_only_if_wanted(here: list[str]) -> None:
    seen = at_terminal([*here, "ls"])
    unwanted = at_terminal([*here, "ls"], NO_COLOR="1")
    piped = subprocess.run([*here, "ls"], capture_output=True, text=True, check=True)

    assert "\x1b[36m" in seen.screen
    assert "\x1b" not in unwanted.screen + piped.stdout + piped.stderr


@pytest.mark.parametrize("width", [24, 57, 140])
def test_a_listing_fits_the_terminal_whatever_its_width(here: list[str], width: int) -> None:
    seen = at_terminal([*here, "ls", "--all"], width=width, NO_COLOR="1")
    table = seen.screen.splitlines()

    assert seen.code == 0
    assert len(table) == 8
    assert [line for line in table if cells(line) > width] == []


def test_on_a_terminal_nothing_that_was_stored_is_obeyed(here: list[str]) -> None:
    seen = at_terminal([*here, "show", "web:evil"], NO_COLOR="1")

    assert "harmless" in seen.screen
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & {*seen.screen}


def test_a_question_is_asked_and_answered_at_the_terminal(here: list[str], store: Store) -> None:
    doomed = store.new(id="doomed-1", title="an experiment")
    kept = at_terminal([*here, "delete", "doomed"], keys={"[y/N]": "n\n"})
    assert doomed.info.title == "an experiment"
    gone = at_terminal([*here, "delete", "doomed"], keys={"[y/N]": "y\n"})

    assert (kept.code, gone.code) == (1, 0)
    assert "an experiment" in kept.screen
    assert store.sessions(id_prefix="doomed").items == []


def test_progress_is_seen_and_wiped(here: list[str]) -> None:
    seen = at_terminal([*here, "verify"], NO_COLOR="1")

    assert seen.code == 0
    assert "verifying" in seen.screen
    assert "left" in seen.screen
    assert seen.screen.rpartition("\r")[2].startswith("whole: ")


# -- a pager -------------------------------------------------------------------------------------------


def test_counting_tells_how_far_it_is() -> None:
    drawn: list[str] = []
    with threadline.open(":memory:") as store:
        store.new().extend(["one", "two", "three"])
        progress = Progress(Screen(terminal=True, width=80), "counting", shown=False, clock=iter(range(9)).__next__)
        found = store.stats(progress=lambda told: (progress.told(told), drawn.append(progress.line(2.0))))

    assert found["entries"] == 3
    assert drawn == ["counting  3 of 3 entries (100%)  2/s  0:00 left"]


def test_long_output_goes_through_the_pager(here: list[str], tmp_path: Path) -> None:
    seen = at_terminal([*here, "log", "long"], THREADLINE_PAGER=f"cat > {tmp_path}/paged")

    assert seen == ("", 0)
    assert (tmp_path / "paged").read_text().count("\n") == 3_000


@pytest.mark.parametrize("pager", ["head -n 1", "sh -c 'read line; kill -9 $$'", "false", "no-such-pager 2>/dev/null"])
def test_a_pager_that_quits_or_is_killed_is_no_error(here: list[str], pager: str) -> None:
    seen = at_terminal([*here, "show", "long"], THREADLINE_PAGER=pager)

    assert seen.code == 0
    assert "Error" not in seen.screen
    assert "Traceback" not in seen.screen


def test_ctrl_c_is_for_the_pager_while_it_runs(here: list[str]) -> None:
    pager = "sh -c 'trap \"\" INT; cat > /dev/null; echo ready; sleep 0.4; echo done by the pager'"
    seen = at_terminal([*here, "ls"], keys={"ready": "\x03"}, THREADLINE_PAGER=pager)

    assert "done by the pager" in seen.screen
    assert "stopped" not in seen.screen
    assert seen.code == 0


# -- a pipe --------------------------------------------------------------------------------------------


def test_a_reader_that_has_had_enough_is_no_error(here: list[str]) -> None:
    program = subprocess.Popen([*here, "log", "long"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout is not None
    program.stdout.readline()
    program.stdout.close()
    _, complaints = program.communicate(timeout=30)

    assert (program.returncode, complaints) == (0, b"")


def test_a_full_disk_behind_standard_output_is_told(here: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*here, "log", "long"], stdout=full, stderr=subprocess.PIPE, text=True)

    assert (done.returncode, done.stderr) == (1, "Error: No space left on device\n")


def test_a_closed_standard_output_is_told(here: list[str]) -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *here, "ls"], stderr=subprocess.PIPE, text=True)

    assert (done.returncode, done.stderr) == (1, "Error: standard output is closed\n")


def test_letters_that_the_terminal_cannot_show_are_escaped(here: list[str]) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*here, "ls"], capture_output=True, env=environment, check=True)

    assert b"\\u4f60\\u597d" in done.stdout


# -- Ctrl-C --------------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_tail_without_complaint(here: list[str]) -> None:
    seen = at_terminal([*here, "tail", "-f", "cli:login", "-n", "1"], keys={"naive": "\x03"})

    assert seen.code == 0
    assert "Traceback" not in seen.screen


def test_ctrl_c_at_a_question_changes_nothing(here: list[str], store: Store) -> None:
    session = store.new(id="spared")
    seen = at_terminal([*here, "delete", "spared"], keys={"[y/N]": "\x03"})

    assert (seen.code, seen.screen.splitlines()[-1]) == (1, "stopped")
    assert session.info.id == "spared"


# -- the shell -----------------------------------------------------------------------------------------


def completed(here: list[str], words: str) -> str:
    environment = os.environ | {
        "_THREADLINE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"threadline {words}",
        "COMP_CWORD": str(words.count(" ") + 1),
        "THREADLINE_STORE": here[-1],
    }
    script = "from threadline.cli import main; main(prog_name='threadline')"
    return subprocess.run([here[0], "-c", script], capture_output=True, text=True, env=environment, check=True).stdout


def test_the_shell_completes_commands_and_sessions(here: list[str], store: Store) -> None:
    assert "plain,rename" in completed(here, "ren")
    found = completed(here, "show ")
    assert "plain,latest" in found
    assert "plain,long" in found
    assert "plain,cli:login" in completed(here, "show cli:")
