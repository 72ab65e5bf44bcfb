"""What all commands have in common: the store, ID, safe printing, tables, JSON, errors, asking, progress."""

from __future__ import annotations

import ast
import json
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import threadline
from threadline import Store
from threadline.cli import COMMANDS, main, words
from threadline.cli.desk import Desk, command, short_ids
from threadline.cli.progress import Progress
from threadline.cli.safe import one_line, plain
from threadline.cli.screen import Column, Ink, Screen, cells, cut, fitted

NASTY = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\x08\x00\r\u200b\ufeff\udc80\U000e0041end"


# -- safe printing -------------------------------------------------------------------------------------


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_printed(text: str) -> None:
    shown = plain(text)

    assert [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"] == []
    assert not {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u200e", "\u200f"} & {*shown}
    assert "\n" not in one_line(text)


def test_what_is_taken_out_is_shown_as_what_it_is() -> None:
    assert plain("a\x1b[31m\x7f\u202eb\r\nc") == "a␛[31m␡<U+202E>b\nc"


def test_letters_of_all_scripts_stay() -> None:
    text = "žluťoučký 你好 नमस्ते שלום 👩‍👩‍👧 می‌خواهم"

    assert plain(text) == text


@pytest.mark.parametrize(
    "arguments",
    [(), ("ls",), ("ls", "--json"), ("rename", "latest", NASTY), ("tag", "latest", NASTY), ("tag", NASTY), (NASTY,)],
    ids=lambda arguments: " ".join(arguments)[:10],
)
def test_stored_text_never_reaches_the_terminal_as_it_is(run, path: Path, arguments: tuple[str, ...]) -> None:
    with threadline.open(path) as store:
        store.new(title=NASTY, key=NASTY, agent=NASTY, tags=[NASTY], model=NASTY).append(NASTY)
    for width in (None, 100):
        done = run(*arguments, width=width)

        assert done.output
        assert [c for c in done.output if unicodedata.category(c) in ("Cc", "Cs", "Cf") and c != "\n"] == []


def test_only_the_screen_prints() -> None:
    """Whatever else printed could print what somebody stored."""
    folder = Path(threadline.__file__).parent / "cli"
    printing = {"print", "echo", "secho", "echo_via_pager", "style"}
    found = [
        f"{path.name}:{node.lineno}"
        for path in sorted(folder.rglob("*.py"))
        if path.name not in ("screen.py", "demo_agent.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")) in printing
    ]

    assert found == []


# -- the screen ----------------------------------------------------------------------------------------


def lines(columns: list[Column], rows: list[list[str | Ink]], width: int) -> list[str]:
    return [Screen(terminal=True, width=width, colour=False).painted(*line) for line in fitted(columns, rows, width)]


@given(st.lists(st.lists(st.text(max_size=60), min_size=3, max_size=3), max_size=5), st.integers(20, 200))
def test_a_table_is_never_wider_than_the_terminal(rows: list[list[str | Ink]], width: int) -> None:
    columns = [Column("A"), Column("TITLE", flexible=True, least=4), Column("N", right=True, drop=1)]

    assert [line for line in lines(columns, rows, width) if cells(line) > width] == []


def test_columns_shrink_and_then_go() -> None:
    columns = [Column("ID"), Column("TITLE", flexible=True, least=6), Column("N", right=True, drop=1)]
    rows: list[list[str | Ink]] = [["abcd", "a long title", "12"]]

    assert lines(columns, rows, 40) == ["ID    TITLE          N", "abcd  a long title  12"]
    assert lines(columns, rows, 17) == ["ID    TITLE     N", "abcd  a long…  12"[:17]]
    assert lines(columns, rows, 13) == ["ID    TITLE", "abcd  a long…"]


def test_wide_characters_take_two_columns() -> None:
    assert (cells("你好"), cells("é"), cells("e\u0301")) == (4, 1, 1)
    assert cut("你好世界", 5) == "你好…"


def test_colour_stands_beside_the_text_never_in_it() -> None:
    coloured, plain_screen = (Screen(terminal=True, width=80, colour=colour) for colour in (True, False))

    assert coloured.painted(Ink("\x1b[0mx", "bold red"), "y") == "\x1b[1;31m␛[0mx\x1b[0my"
    assert plain_screen.painted(Ink("x", "red")) == "x"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("TERM", "xterm")

    assert Screen(terminal=True).colour
    monkeypatch.setenv(name, value)
    assert not Screen(terminal=True).colour


def test_a_pipe_has_neither_colour_nor_an_end_of_line(run, store: Store) -> None:
    store.new(title="x" * 300, id="i" * 100)
    done = run("ls")

    assert "x" * 300 in done.output
    assert "i" * 100 in done.output


# -- ID ------------------------------------------------------------------------------------------------


@pytest.fixture
def family(store: Store) -> Store:
    for id, key in (("aab1", "telegram:42"), ("aab2", None), ("b", "aab"), ("latest-not", "x")):
        store.new(id=id, key=key, title=f"title of {id}")
    return store


@pytest.mark.parametrize(
    ("id", "means"),
    [("aab1", "aab1"), ("telegram:42", "aab1"), ("aab2", "aab2"), ("aab", "b"), ("l", "latest-not"), ("b", "b")],
)
def test_an_id_is_an_id_a_key_or_a_beginning(run, family: Store, id: str, means: str) -> None:
    assert json.loads(run("tag", id, "--json").output)["id"] == means


def test_latest_is_the_one_that_changed_last(run, family: Store) -> None:
    family.get("aab2").append("hi")

    assert json.loads(run("tag", "latest", "--json").output)["id"] == "aab2"


def test_a_session_that_was_put_away_is_found_by_its_beginning(run, family: Store) -> None:
    family.trash(family.new(id="thrown-away"))
    child = family.get("aab1").spawn("search")

    assert json.loads(run("tag", "thrown", "--json").output)["id"] == "thrown-away"
    assert json.loads(run("tag", str(child.id)[:10], "--json").output)["id"] == child.id


def test_an_ambiguous_beginning_lists_the_candidates(run, family: Store) -> None:
    done = run("tag", "aa")

    assert done.exit_code == 1
    assert "aab1  title of aab1" in done.output
    assert "aab2  title of aab2" in done.output


def test_of_very_many_candidates_some_are_listed(run, store: Store) -> None:
    for n in range(12):
        store.new(id=f"x{n:02}")

    assert run("tag", "x").output.count("\n") == 1 + 10 + 1


def test_no_such_session_is_one_line_with_the_next_step(run, family: Store) -> None:
    done = run("tag", "zzz")

    assert (done.exit_code, done.output) == (1, "Error: no session 'zzz': `threadline ls --all` lists them all\n")


def test_namespaces_are_apart(run, store: Store) -> None:
    store.within("acme").new(id="theirs")

    assert run("tag", "theirs").exit_code == 1
    assert run("tag", "theirs", "--namespace", "acme").exit_code == 0
    assert run("--namespace", "acme", "tag", "theirs").exit_code == 0


@given(st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=6, unique=True))
def test_a_short_id_means_one_of_those_shown(ids: list[str]) -> None:
    shown = short_ids(ids, least=3)

    for id in ids:
        assert [other for other in ids if other.startswith(shown[id])] == [id] or shown[id] == id


# -- the store -----------------------------------------------------------------------------------------


def test_a_mistyped_store_is_not_made(run, tmp_path: Path) -> None:
    for arguments in (("ls",), ("rename", "latest", "x")):
        done = CliRunner().invoke(main, [*arguments, "--store", str(tmp_path / "typo.db")])

        assert done.exit_code == 1
        assert done.output.startswith("Error: no store at")
        assert done.output.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_the_store_may_stand_before_the_command_and_beats_the_environment(run, store: Store, tmp_path: Path) -> None:
    store.new(id="mine")
    with threadline.open(tmp_path / "other.db") as other:
        other.new(id="theirs")
    other_url = str(tmp_path / "other.db")

    assert "mine" in run("ls").output
    assert "theirs" in run("--store", other_url, "ls").output
    assert "theirs" in run("ls", "--store", other_url).output


def test_the_default_store_is_that_of_the_library(tmp_path: Path) -> None:
    with threadline.open() as store:
        store.new(id="at-home")

    assert "at-home" in CliRunner().invoke(main, ["ls"]).output


def test_it_works_on_a_server(postgres_url: str) -> None:
    with threadline.open(postgres_url) as store:
        store.new(id="on-a-server", key="k")
    done = CliRunner().invoke(main, ["rename", "on-a", "new title", "--store", postgres_url])

    assert done.output == "on-a-server is now called new title\n"
    assert "new title" in CliRunner().invoke(main, ["ls", "--store", postgres_url]).output


# -- how a command fails -------------------------------------------------------------------------------


@pytest.fixture
def failing_with(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """`threadline fails` raises what is put into the list."""
    errors: list[BaseException] = []

    @command()
    def fails(desk: Desk) -> None:
        raise errors[0]

    import threadline.cli.about

    monkeypatch.setattr(threadline.cli.about, "fails", fails, raising=False)
    monkeypatch.setitem(COMMANDS, "fails", ("threadline.cli.about", "It fails."))
    return errors


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (threadline.NotActive("abc", "trashed"), 1, "threadline restore abc"),
        (threadline.BudgetTooSmall(1234, 10), 1, "--max-tokens 1234"),
        (threadline.LeaseHeld("worker-7", datetime(2026, 1, 1, tzinfo=UTC)), 1, "worker-7"),
        (threadline.Damaged("abc", 7, "it rots"), 1, "threadline doctor"),
        (threadline.NotVisible(7), 1, "threadline show"),
        (threadline.StoreFull("no space is left"), 1, "no space is left"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Permission denied: /x"),
        (click.ClickException("as it is"), 1, "as it is"),
        (click.UsageError("wrong words"), 2, "wrong words"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line_with_the_next_step(run, failing_with, error: BaseException, code: int, says: str) -> None:
    failing_with.append(error)
    done = run("fails")

    assert done.exit_code == code
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert done.stdout == ""


def test_debug_shows_the_traceback_as_well(run, failing_with) -> None:
    failing_with.append(threadline.Damaged("abc", 7, NASTY))
    done = run("fails", "--debug")

    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "\x1b" not in done.stderr


def test_a_machine_is_told_the_kind_of_the_error(run, failing_with) -> None:
    failing_with.append(threadline.NotActive("abc", "trashed"))

    assert json.loads(run("fails", "--json").stderr)["error"] == "NotActive"


def test_a_bug_shows_its_traceback_and_fails(run, failing_with) -> None:
    failing_with.append(RuntimeError("oops"))
    done = run("fails")

    assert done.exit_code == 1
    assert "RuntimeError" in done.stderr


def test_a_stop_is_one_line(run, failing_with) -> None:
    failing_with.append(KeyboardInterrupt())
    done = run("fails")

    assert (done.exit_code, done.stderr) == (1, "\nstopped\n")


def test_a_reader_that_has_had_enough_is_no_error(run, failing_with, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.cli._let_go_of_stdout", lambda: None)
    failing_with.append(BrokenPipeError())
    done = run("fails")

    assert (done.exit_code, done.output) == (0, "")


@pytest.mark.parametrize("arguments", [("nonsense",), ("ls", "--nonsense"), ("rename",), ("ls", "--limit", "x")])
def test_wrong_words_are_a_usage_error(run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_mistyped_command_is_answered_with_the_nearest(run) -> None:
    assert "did you mean 'rename'?" in run("renmae").output


# -- asking and progress -------------------------------------------------------------------------------


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    @command(asks=True)
    def asks(desk: Desk) -> None:
        desk.confirm(["This removes it."], "Remove it?")
        desk.say("removed")

    import threadline.cli.about

    monkeypatch.setattr(threadline.cli.about, "asks", asks, raising=False)
    monkeypatch.setitem(COMMANDS, "asks", ("threadline.cli.about", "It asks."))


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_it_is_done_only_after_a_yes(run, asking, answer: str, code: int) -> None:
    done = run("asks", stdin=answer, asks=True)

    assert done.exit_code == code
    assert ("removed" in done.stdout) == (code == 0)
    assert "This removes it.\nRemove it? [y/N] " in done.stderr


def test_yes_is_for_scripts_and_without_it_they_are_refused(run, asking) -> None:
    assert run("asks", "--yes").stdout == "removed\n"
    refused = run("asks", stdin="y\n")
    assert refused.exit_code == 2
    assert "--yes" in refused.output
    assert "removed" not in refused.output


def test_progress_tells_how_much_how_fast_and_how_long_yet() -> None:
    now = [0.0]
    progress = Progress(Screen(terminal=True, width=80), "copying", total=1_000, shown=False, clock=lambda: now[0])
    progress.reach(250)

    assert progress.line(5) == "copying  250 of 1,000 entries (25%)  50/s  0:15 left"
    sized = Progress(Screen(terminal=True, width=80), "backing up", unit="byte", shown=False)
    sized.reach(2_500_000)
    assert sized.line(2) == "backing up  2.5 MB  1.25 MB/s"


def test_progress_is_drawn_in_one_line_and_wiped(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with Progress(Screen(terminal=True, width=60), "x", total=10, shown=True, clock=lambda: now[0]) as progress:
        for done in range(1, 5):
            now[0] += 0.06
            progress.reach(done)

    drawn = capsys.readouterr().err
    assert drawn.count("x  ") == 2  # not more often than eyes can see
    assert "\n" not in drawn
    assert drawn.split("\r")[-2].strip() == ""


def test_numbers_and_times_as_people_read_them() -> None:
    now = datetime(2026, 5, 5, 12, tzinfo=UTC)

    assert [words.size(n) for n in (0, 999, 1_500, 2_000_000, 3.2e12)] == ["0 B", "999 B", "1.5 kB", "2 MB", "3.2 TB"]
    assert [words.short(n) for n in (7, 1_234, 5_600_000)] == ["7", "1.23k", "5.6M"]
    assert [words.count(n, noun) for n, noun in ((1, "entry"), (2, "entry"), (3, "key"))] == [
        "1 entry",
        "2 entries",
        "3 keys",
    ]
    assert [words.money(n) for n in (None, 0, 0.0012, 0.25, 12)] == ["?", "$0.00", "$0.0012", "$0.250", "$12.00"]
    assert [words.ago(now - timedelta(seconds=s), now) for s in (0, 59, 3_599, 7_200, 90_000)] == [
        "now", "59 s ago", "59 min ago", "2 h ago", "1 d ago",
    ]  # fmt: skip
    assert [words.span(t).total_seconds() for t in ("90s", "2 h", "1d", "2w", "1.5 days", "1 week")] == [
        90, 7_200, 86_400, 1_209_600, 129_600, 604_800,
    ]  # fmt: skip
    for wrong in ("", "d", "3 parsecs", "x3d"):
        with pytest.raises(ValueError):  # noqa: PT011
            words.span(wrong)
