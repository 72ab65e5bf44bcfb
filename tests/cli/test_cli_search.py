"""`threadline search` and `threadline index`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import threadline
from threadline import Message
from threadline.cli.screen import cells


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with threadline.open(path, durability="relaxed") as store:
        one = store.new(key="one", title="the login bug", agent="coder")
        one.extend(["parse_config raises E1234", Message.assistant("I fixed the migrations \x1b[31m\u202e there")])
        two = store.new(key="two")
        two.extend(["nothing to see", "migrations again", "and migrations once more"])
        two.rewind(1)
    return path


def test_search_tells_where_it_was_said(run: Any, path: Path) -> None:
    done = run("search", "parseConfig")

    assert done.exit_code == 0
    assert "  the login bug" in done.stdout
    assert "    **parse_config** raises E1234\n" in done.stdout


def test_what_was_found_is_marked_safely_and_fits(run: Any) -> None:
    done = run("search", "migration", "--around", "1", width=60)

    assert done.exit_code == 0
    assert "**migrations** ␛[31m<U+202E> there" in done.stdout
    assert "\x1b[31m" not in done.stdout
    assert "hidden" in done.stdout
    assert "user: parse_config raises E1234" in done.stdout


@pytest.mark.parametrize("width", [24, 40, 60, 200])
def test_no_line_of_a_hit_is_wider_than_the_terminal(run: Any, path: Path, width: int) -> None:
    with threadline.open(path) as store:
        told = store.new(title="wide \u9f8d\u9f8d\u9f8d and\nlong " * 9)
        told.extend(
            ["needle " + "\u6e2c\u8a66" * 60, "what about the needle in " + "this haystack " * 12, "needle " * 30]
        )
    done = run("search", "needle", "--around", "2", width=width)

    assert done.stdout.count("**needle") >= 4
    assert max(map(cells, done.stdout.splitlines())) <= width


def test_on_a_pipe_a_snippet_is_one_line_and_a_title_is_whole(run: Any, path: Path) -> None:
    with threadline.open(path) as store:
        store.new(title="long " * 60).extend(["what about the needle in " + "this haystack " * 12])
    first, second = run("search", "needle").stdout.splitlines()

    assert first.endswith(("long " * 60).strip())
    assert second.startswith("    what about the **needle** in this haystack")


def test_a_machine_gets_hits(run: Any) -> None:
    done = run("search", "migrations", "--json")

    hits = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(hits) == 3
    assert {"session", "seq", "at", "role", "snippet", "score", "before", "after", "hidden"} <= {*hits[0]}
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--session", "two"], 2),
        (["--role", "assistant"], 1),
        (["--agent", "coder"], 1),
        (["--sessions"], 2),
        (["--until", "2020-01-01"], 0),
        (["--since", "2020-01-01T10:00"], 3),
        (["-n", "1"], 1),
        (["--as-is"], 3),
    ],
)
def test_filters(run: Any, options: list[str], count: int) -> None:
    done = run("search", "migrations", *options, "--json")

    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == count


def test_a_query_that_begins_with_a_dash_comes_after_two(run: Any) -> None:
    assert run("search", "--", "--json", "E1234").exit_code == 0


def test_looking_as_it_is_changes_nothing(run: Any, path: Path) -> None:
    before = path.read_bytes()

    assert run("search", "E1234", "--as-is").exit_code == 0

    assert path.read_bytes() == before


def test_the_index_is_brought_up_to_date_dropped_and_made_anew(run: Any) -> None:
    assert "up to date" in run("index").stdout
    assert json.loads(run("index", "--drop", "--json").stdout)["left"]
    assert not json.loads(run("index", "--rebuild", "--json").stdout)["left"]
    assert run("index", "--rebuild", "--drop").exit_code == 2
