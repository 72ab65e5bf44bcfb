"""`threadline erase` and `threadline redact`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import threadline
from conftest import Run
from threadline import NotFound, Store


@pytest.fixture
def told(store: Store) -> Store:
    session = store.new(id="x1", key="telegram:42")
    session.extend(["needle", "hello"])
    return store


def test_erase_asks_and_says_what_will_go(told: Store, run: Run, path: Path) -> None:
    result = run("erase", "telegram:42", "--store", str(path), stdin="n\n", asks=True)

    assert result.exit_code == 1
    assert "x1" in result.stderr
    assert "2 messages" in result.stderr
    assert told.get("x1").head == 2


def test_erase_without_anybody_to_ask_is_a_usage_error(told: Store, run: Run) -> None:
    assert run("erase", "x1").exit_code == 2
    assert told.get("x1").head == 2


def test_an_erased_session_leaves_no_byte(told: Store, run: Run, path: Path) -> None:
    result = run("erase", "x1", "--yes")

    assert (result.exit_code, result.stdout) == (0, "erased 1 session, 2 entries\n")
    assert [file.name for file in path.parent.iterdir() if b"needle" in file.read_bytes()] == []
    with pytest.raises(NotFound):
        told.get("x1")


def test_forks_are_named_and_go_along_with_cascade(told: Store, run: Run, path: Path) -> None:
    fork = told.get("x1").fork()
    child = told.get("x1").spawn("sub")
    refused = run("erase", "x1", "--yes")
    shown = run("erase", "x1", "--cascade", "--store", str(path), stdin="no\n", asks=True)
    done = run("erase", "x1", "--cascade", "--yes", "--json")

    assert (refused.exit_code, refused.stderr.count(str(fork.id))) == (1, 1)
    assert all(str(each.id) in shown.stderr for each in (fork, child))
    receipt = json.loads(done.stdout)
    assert (done.exit_code, len(receipt["sessions"]), receipt["entries"], receipt["pending"]) == (0, 3, 2, [])


def test_redact_takes_the_words_and_keeps_the_place(told: Store, run: Run, path: Path) -> None:
    given = ("redact", "x1", "1", "--reason", "a password")
    refused = run(*given, "--store", str(path), stdin="\n", asks=True)
    done = run(*given, "--yes")

    assert (refused.exit_code, "needle" in refused.stderr) == (1, True)
    assert (done.exit_code, done.stdout) == (0, "redacted entry 1 of 1 session, 1 entry\n")
    assert told.get("x1").entry(1).redacted == "a password"


def test_redact_of_what_is_not_there_fails_with_one_line(told: Store, run: Run) -> None:
    result = run("redact", "x1", "9", "--reason", "why", "--yes")

    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "9" in result.stderr


def test_what_is_pending_is_told(told: Store, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = [threadline.Pending("the WAL", "somebody reads", "until they end")]
    receipt = threadline.Receipt(told.get("x1").info.created_at, ["x1"], 2, pending, ["the moon"])
    monkeypatch.setattr(Store, "erase", lambda *_, **__: receipt)
    result = run("erase", "x1", "--yes")

    assert result.stdout.splitlines()[1:] == ["kept: the moon", "pending: the WAL: somebody reads; until they end"]
