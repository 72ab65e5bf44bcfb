"""Commands that look: ls, show, log, tail, context, usage. What a person sees, and what a machine gets."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from realistic import BEGAN, NASTY, furnish

import threadline
from threadline import Message, Reasoning, Session, Store, ToolCall
from threadline.cli.screen import cells
from threadline.cli.shapes import line_of


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One furnished store for all that only look."""
    path = tmp_path_factory.mktemp("furnished") / "store.db"
    with threadline.open(path, durability="relaxed") as store:
        furnish(store)
    return path


@pytest.fixture(scope="module")
def store(path: Path) -> Iterator[Store]:
    with threadline.open(path, read_only=True) as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    found = store.find("cli:login")
    assert found is not None
    return found


def documents(done: Result) -> list[Any]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


LOOKING = [
    (),
    ("ls", "--all", "--children"),
    ("show", "cli:login"),
    ("show", "cli:login", "--full"),
    ("show", "web:evil"),
    ("log", "cli:login"),
    ("log", "web:evil", "1"),
    ("tail", "cli:login", "-n", "30"),
    ("context", "web:evil"),
    ("usage", "--by", "session"),
    ("usage", "--by", "day"),
    ("search", "harmless"),
    ("doctor", "--quick"),
    ("stats",),
]


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
@pytest.mark.parametrize("width", [30, 80, 200, None])
def test_everything_fits_the_terminal_and_obeys_nobody(run, arguments: tuple[str, ...], width: int | None) -> None:
    done = run(*arguments, width=width)

    assert done.exit_code == 0, done.output
    assert done.stdout
    assert [c for c in done.output if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"] == []
    assert not {"\u202e", "\u2069", "\x9b"} & {*done.output}
    whole = (
        arguments[:1] in (("context",), ("stats",), ("doctor",), ("search",), ()) or "1" in arguments
    )  # JSON, paths, text
    if width is not None and not whole:
        assert [line for line in done.stdout.splitlines() if cells(line) > width] == []


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_a_machine_gets_documents_in_ascii_one_per_line(run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, "--json") if arguments else run("--json")

    assert documents(done)
    assert done.stdout.isascii()


# -- threadline, ls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("memory", "recall", "nothing of the kind")])
def test_what_to_do_next_fits_a_narrow_terminal(run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, width=40)

    assert done.exit_code == 0
    assert max(map(cells, done.stdout.splitlines()), default=0) <= 40


def test_alone_without_a_store_a_machine_gets_nothing(run, path: Path, tmp_path: Path) -> None:
    done = run("--store", str(tmp_path / "none.db"), "--json")

    assert (done.exit_code, done.stdout) == (0, "")


def test_alone_it_shows_the_latest_sessions_and_what_to_do_next(run) -> None:
    said = run(width=120).stdout

    assert said.index("what if we used sessions") < said.index("Users are logged out")
    assert "threadline show" in said
    assert "threadline ls --waiting" in said


def test_alone_without_a_store_it_tells_how_to_begin(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from threadline.cli import main

    done = CliRunner().invoke(main, ["--store", str(tmp_path / "none.db")])

    assert done.exit_code == 0
    assert "threadline demo" in done.output
    assert [*tmp_path.iterdir()] == []


def listed(done: Result) -> list[str]:
    return [info["title"] for info in documents(done)]


@pytest.mark.parametrize(
    ("arguments", "titles"),
    [
        (["--tag", "chat"], ["你好！你能帮我订一张去上海的火车票吗？"]),
        (["--agent", "crawler"], [NASTY]),
        (["--cwd", "/home/ana/shop", "--limit", "1"], ["what if we used sessions instead of tokens?"]),
        (["--archived"], ["old experiment"]),
        (["--trashed"], ["scratch"]),
        (["--key", "web:"], [NASTY]),
        (["--parent", "cli:login"], ["Find naive datetimes."]),
        (["--waiting", "--agent", "crawler"], [NASTY]),
    ],
)
def test_ls_filters(run, arguments: list[str], titles: list[str]) -> None:
    assert listed(run("ls", "--json", *arguments)) == titles


def test_ls_lists_sub_agents_and_what_was_put_away_only_on_request(run) -> None:
    assert len(listed(run("ls", "--json"))) == 4
    assert len(listed(run("ls", "--json", "--children"))) == 6
    assert len(listed(run("ls", "--json", "--all", "--children"))) == 8


def test_ls_walks_through_all_pages(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.cli.ls.PAGE", 2)

    assert len(listed(run("ls", "--json", "--limit", "0", "--all", "--children"))) == 8
    assert len(listed(run("ls", "--json", "--limit", "3", "--all", "--children"))) == 3


def test_what_ls_prints_on_a_pipe_can_be_given_back(run, session: Session) -> None:
    first = [line.split()[0] for line in run("ls").stdout.splitlines()[1:]]

    assert session.id in first
    assert all(run("show", id).exit_code == 0 for id in first)


# -- show ----------------------------------------------------------------------------------------------


def test_show_tells_the_conversation_in_its_order(run) -> None:
    said = run("show", "cli:login", width=100).stdout
    parts = [
        "summary  #12",
        "stands for entries 1-6",
        "We found that refresh() compared local time",
        "[image/png error.png 34.6 kB]",
        '▸ edit  file="app/login.py" line=52',
        "✓ 1 line changed",
        "note",
        "Now look for the same mistake",
        "▸ spawn",
        "searcher “Find naive datetimes.”",
        "✓ Found 2: cart.py:7, mail.py:99.",
        "There are two more",
        "rewound to entry 16",
        "No, just fix those two.",
        "never sent: internal marker",
        "… no result yet",
        "goal active: No naive datetime anywhere",
        "open call  edit of entry 22 began",
        "in the inbox  And add a test, please.",
        "Sub-agents",
        "└─ ",
        "   └─ ",
    ]

    places = [said.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


def test_show_leaves_out_what_the_model_does_not_see(run) -> None:
    said = run("show", "cli:login", width=100).stdout

    assert "Rust" not in said
    assert "Good catch" not in said


def test_show_at_is_what_the_model_saw_then(run) -> None:
    said = run("show", "cli:login", "--at", "18", width=100).stdout

    assert "Rewrite everything in Rust." in said
    assert "just fix those two" not in said
    assert "As it was right after entry 18 of 24" in said


def test_show_folds_tools_and_reasoning_unless_asked(run) -> None:
    folded, full = (run("show", "cli:login", "--at", "5", *more, width=80).stdout for more in ((), ("--full",)))

    assert "(+30 lines," in folded
    assert "line 29" not in folded
    assert "line 29" in full
    assert '"pattern": "refresh"' in full
    assert "then the tests." in full
    assert "thought: The refresh may compare" in folded


def test_show_for_a_machine_has_all_of_it(run, session: Session) -> None:
    (document,) = documents(run("show", "cli:login", "--json"))

    assert document["session"]["id"] == session.id
    assert [entry["seq"] for entry in document["entries"]] == [entry.seq for entry in session.view().entries]
    assert [call["call"]["id"] for call in document["pending"]] == ["c5", "c6"]
    assert [child["agent"] for child in document["children"]] == ["searcher", "reader"]
    assert document["queued"][0]["message"]["parts"] == [{"type": "text", "text": "And add a test, please."}]


def test_show_marks_what_is_damaged(run, tmp_path: Path) -> None:
    import apsw

    with threadline.open(tmp_path / "d.db") as store:
        store.new(id="hurt").extend(["one", "two", "three"])
    connection = apsw.Connection(str(tmp_path / "d.db"))
    connection.execute("UPDATE entry SET body = CAST('{\"x\":1}' AS BLOB) WHERE seq = 2")
    connection.close()
    done = run("show", "hurt", "--store", str(tmp_path / "d.db"))
    listing = run("log", "hurt", "--store", str(tmp_path / "d.db"))

    assert done.exit_code == 0
    assert done.stdout.index("one") < done.stdout.index("entry 2 is damaged") < done.stdout.index("three")
    assert listing.exit_code == 1
    assert "entry 2 is damaged" in listing.stderr
    assert "three" in listing.stdout


def test_drafts_are_shown_beside_the_conversation(run, tmp_path: Path) -> None:
    with threadline.open(tmp_path / "d.db") as store:
        session = store.new(id="streams")
        session.append(Message.assistant(None, Reasoning("", encrypted="zzz")))
        draft = session.draft("assistant")
        draft.__enter__()
        draft.write("half a sent")
    done = run("show", "streams", "--store", str(tmp_path / "d.db"))

    assert "interrupted draft  half a sent" in done.stdout
    assert "thought: (encrypted)" in done.stdout


# -- log, tail -----------------------------------------------------------------------------------------


def test_log_lists_every_entry_and_marks_what_is_not_seen(run, session: Session) -> None:
    lines = run("log", "cli:login", width=120).stdout.splitlines()

    assert len(lines) == session.head == 24
    seen = {entry.seq for entry in session.view().entries}
    assert {int(line.split()[0]) for line in lines if line[3] != "·"} == seen
    assert "Rewrite everything in Rust." in lines[16]
    assert "rewound to entry 16" in lines[18]


def test_log_is_bounded_filtered_and_reversed(run) -> None:
    def seqs(*arguments: str) -> list[int]:
        return [entry["seq"] for entry in documents(run("log", "cli:login", "--json", *arguments))]

    assert seqs("--after", "3", "--before", "6") == [4, 5]
    assert seqs("--kind", "rewind", "--kind", "compaction") == [12, 19]
    assert seqs("--reverse", "-n", "2") == [24, 23]


def test_log_of_one_entry_is_that_entry_whole(run, session: Session) -> None:
    told = json.loads(run("log", "cli:login", "4").stdout)

    assert told == documents(run("log", "cli:login", "4", "--json"))[0]
    assert told["message"]["parts"][0]["output"].endswith("line 29")
    assert run("log", "cli:login", "99").exit_code == 1


def test_tail_shows_the_last_entries(run) -> None:
    assert [entry["seq"] for entry in documents(run("tail", "cli:login", "-n", "2", "--json"))] == [23, 24]


def test_tail_f_goes_on_with_what_others_write(run, tmp_path: Path) -> None:
    from threading import Timer

    with threadline.open(tmp_path / "t.db") as store:
        session = store.new(id="live")
        session.append("before")
        writer = Timer(0.3, lambda: session.append(Message.assistant("after", ToolCall("c", "look"))))
        writer.start()
        done = run("tail", "-f", "live", "--timeout", "1", "--store", str(tmp_path / "t.db"))
        writer.join()

    assert done.stdout.index("before") < done.stdout.index("after") < done.stdout.index("▸ look")


def test_tail_of_the_store_tells_which_session_changed(run, tmp_path: Path) -> None:
    from threading import Timer

    with threadline.open(tmp_path / "t.db") as store:
        session = store.new(id="live")
        writer = Timer(0.3, lambda: session.append("news"))
        writer.start()
        done = run("tail", "--all", "--timeout", "1", "--json", "--store", str(tmp_path / "t.db"))
        writer.join()

    assert [info["id"] for info in documents(done)] == ["live"]


# -- context -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["threadline", "anthropic", "openai", "responses", "gemini"])
def test_context_prints_exactly_what_would_be_sent(run, session: Session, format: str) -> None:
    sent = session.context(format=format, max_tokens=5_000)
    for printed in (
        json.loads(run("context", "cli:login", "--format", format, "--max-tokens", "5000").stdout),
        json.loads(run("context", "cli:login", "--format", format, "--max-tokens", "5000", width=80).stdout),
    ):
        assert printed == {"system": sent.system, "messages": json.loads(line_of(sent.messages))}


def test_context_for_a_machine_tells_what_it_is_made_of(run, session: Session) -> None:
    (told,) = documents(run("context", "cli:login", "--format", "openai", "--json"))
    sent = session.context(format="openai")

    assert (told["tokens"], told["seqs"], told["head"]) == (sent.tokens, list(sent.seqs), sent.head)
    assert told["fingerprint"] == sent.fingerprint()
    assert len(told["repairs"]) == 2


def test_a_budget_that_is_too_small_is_told_with_the_one_that_would_do(run) -> None:
    done = run("context", "cli:login", "--max-tokens", "3")

    assert done.exit_code == 1
    needed = done.stderr.rpartition("--max-tokens ")[2].split()[0]
    assert run("context", "cli:login", "--max-tokens", needed).exit_code == 0


# -- usage ---------------------------------------------------------------------------------------------


def test_usage_draws_bars_in_proportion(run) -> None:
    rows = run("usage", "--by", "agent", width=120).stdout.splitlines()
    bars = [row.count("█") for row in rows]

    assert [row.split()[0] for row in rows[1:]] == ["coder", "helper", "searcher", "all"]
    assert bars == [0, 24, 1, 0, 0]
    assert "▍" in rows[3]


def test_usage_by_day_shows_the_days_without_anything(run) -> None:
    rows = [line.split() for line in run("usage", "--by", "day", width=120).stdout.splitlines()[1:]]

    assert [row[0] for row in rows[:5]] == [f"2026-05-0{n}" for n in range(1, 6)]
    assert rows[1] == ["2026-05-02"]
    assert rows[5][0] == "…"


def test_usage_of_a_session_and_its_sub_agents(run, session: Session) -> None:
    alone, family = (documents(run("usage", "cli:login", "--json", *more)) for more in ((), ("--children",)))

    assert sum(row["cost"] for row in alone) == pytest.approx(session.usage().cost)
    assert sum(row["cost"] for row in family) == pytest.approx(session.usage(children=True).cost)
    assert [row["model"] for row in family] == ["claude-sonnet-5", "claude-haiku-5"]


def test_usage_within_a_time(run) -> None:
    until = (BEGAN - timedelta(days=1)).date().isoformat()

    assert [row["model"] for row in documents(run("usage", "--json", "--until", until))] == ["gpt-5"]
    assert documents(run("usage", "--json", "--since", "1s")) == []
    assert run("usage", "--since", "yesterday-ish").exit_code == 2
    assert run("usage", "cli:login", "--by", "day").exit_code == 2
