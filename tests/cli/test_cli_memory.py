"""`threadline memory …`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import threadline


@pytest.fixture(autouse=True)
def project(store: threadline.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that gives the memory its name, and a store that is there."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "app.py").write_text("one\ntwo\nthree\n")
    monkeypatch.chdir(folder)
    return folder


def said(result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def given(result) -> list[dict]:
    return [json.loads(line) for line in said(result).splitlines()]


def test_without_a_command_there_is_help_and_no_complaint(run) -> None:
    done = run("memory")

    assert (done.exit_code, done.stderr.partition(":")[0]) == (2, "Usage")


def test_what_is_claimed_is_recalled_and_shown(run) -> None:
    addr = said(run("memory", "claim", "the API listens on port 8080", "-d", "net", "--file", "app.py:2-3")).strip()
    found = said(run("memory", "recall", "which", "port"))
    (machine,) = given(run("memory", "recall", "port", "--json"))
    shown = said(run("memory", "show", addr))

    assert addr in found
    assert "the API listens on port 8080" in found
    assert (machine["addr"][:12], machine["domain"], machine["anchors"][0]["lines"]) == (addr, "net", [2, 3])
    assert "the API listens" in shown
    assert addr in said(run("memory", "list"))
    assert "found" in said(run("memory", "anchors"))


def test_the_folder_names_the_project_and_others_are_apart(run, store: threadline.Store) -> None:
    run("memory", "claim", "of the shop")
    run("memory", "claim", "of all", "--global")

    assert [node.content for node in store.memory("shop").active()] == ["of the shop"]
    assert [node.content for node in store.memory().active()] == ["of all"]
    assert "of the shop" not in said(run("memory", "list", "-p", "other"))


def test_a_life_of_claims(run) -> None:
    one, two = (said(run("memory", "claim", text)).strip() for text in ("port 80", "the build takes 40 s"))
    new = said(run("memory", "supersede", one, "port 8080"))
    compressed = said(run("memory", "compress", two, "--content", "slow"))
    run("memory", "retire", new[:12], "--reason", "wrong")
    events = given(run("memory", "events", "--json"))

    assert f"in the place of {one}" in new
    assert "coverage" in compressed
    assert [event["what"] for event in events] == ["retired", "compressed", "superseded", "claimed", "claimed"]
    assert "slow" in said(run("memory", "render"))


def test_a_session_is_promoted_ended_recovered_and_collected(run) -> None:
    claimed = ("memory", "claim", "-s", "s1", "--preliminary")
    run(*claimed, "in a chain", "--chain", "idea")
    run(*claimed, "alone")
    run("memory", "stash", "idea", "later", "-s", "s1")
    summary = said(run("memory", "summary", "s1"))
    chains = said(run("memory", "chains", "--status", "stashed"))
    run("memory", "pop", "idea", "-s", "s1")
    promoted = said(run("memory", "promote", "idea"))
    ended = said(run("memory", "end", "s1", "--no-promote"))
    refused = run(*claimed, "late")
    archives = said(run("memory", "archives"))
    dry = said(run("memory", "gc", "--older-than", "0d", "--dry-run"))
    back = said(run("memory", "recover", "s1"))
    run("memory", "end", "s1", "--no-promote")
    unasked = run("memory", "gc", "--older-than", "0d")
    gone = said(run("memory", "gc", "--older-than", "0d", "--yes"))

    assert "2 preliminary" in summary
    assert "idea" in chains
    assert promoted == "1 node, 1 chain promoted\n"
    assert ended == "0 nodes promoted, 1 archived\n"
    assert refused.exit_code == 1
    assert "recover" in refused.output
    assert "s1" in archives
    assert (dry, back, gone) == ("1 archive would go\n", "1 node brought back\n", "1 archive removed\n")
    assert unasked.exit_code == 2


def test_a_handoff_is_text_for_a_prompt(run) -> None:
    run("memory", "claim", "write the tests", "-d", "task", "-s", "s1")

    assert "write the tests" in said(run("memory", "handoff"))
    assert given(run("memory", "handoff", "--json"))[0]["session"] == "s1"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show", "abcd"), 1, "no node"),
        (("show", "xyz"), 1, "hexadecimal"),
        (("extend", "none", "abcd"), 1, "no chain"),
        (("claim", "x", "--file", "../outside"), 1, "outside"),
        (("claim", "x", "--preliminary"), 1, "session"),
        (("claim", "x", "--ttl", "soon"), 2, "30d"),
        (("claim",), 2, "CONTENT"),
        (("recover", "s1"), 1, "no archive"),
    ],
)
def test_what_cannot_be_done_is_one_line(run, arguments: tuple[str, ...], code: int, says: str) -> None:
    result = run("memory", *arguments)

    assert result.exit_code == code
    assert says in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_no_claim_obeys_the_terminal(run) -> None:
    run("memory", "claim", "red \x1b[31m alert")

    for command in ("list", "render", "handoff"):
        assert "\x1b[31m" not in said(run("memory", command, width=80))


def test_without_its_extra_the_server_says_what_to_install(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "threadline.server.mcp", None)
    done = run("mcp", "--project", "shop")

    assert done.exit_code == 1
    assert "threadline[mcp]" in done.output


def test_where_nothing_is_known_there_is_no_table_of_it(run) -> None:
    done = run("memory", "recall", "anything", width=80)

    assert done.exit_code == 0
    assert "ADDRESS" not in done.stdout
