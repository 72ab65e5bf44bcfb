"""Commands that change a session, put it away or take it away; and those that look after the store."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result
from realistic import furnish

import threadline
from threadline import Message, Session, Store, ToolCall
from threadline.cli import main
from threadline.cli.doctor import erasures

NOW = datetime.now(UTC)


def document(done: Result) -> Any:
    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()
    return json.loads(line)


@pytest.fixture
def talk(store: Store) -> Session:
    session = store.new(key="talk", id="talk-1", title="a talk")
    for turn in ("one", "two", "three"):
        session.extend([f"question {turn}", Message.assistant(f"answer {turn}")])
    return session


def test_fork_shares_up_to_an_entry(run, store: Store, talk: Session) -> None:
    made = document(run("fork", "talk", "--at", "4", "--title", "other way", "--key", "talk:2", "--json"))

    fork = store.get(made["id"])
    assert (fork.info.origin, fork.info.title, fork.key) == (("talk-1", 4), "other way", "talk:2")
    assert fork.messages() == talk.messages(4)


def test_rewind_tells_how_to_go_back(run, talk: Session) -> None:
    before = talk.messages()
    done = run("rewind", "talk", "2", width=100)
    assert len(talk.messages()) == 2
    back = done.stderr.partition("`threadline ")[2].partition("`")[0].split()
    run(*back)

    assert talk.messages() == before


def test_rewind_beyond_the_log_is_refused(run, talk: Session) -> None:
    assert run("rewind", "talk", "99").exit_code == 1
    assert talk.head == 6


def test_compact_folds_with_text_from_an_option_a_file_and_standard_input(run, talk: Session, tmp_path: Path) -> None:
    (tmp_path / "summary.txt").write_text("from a file\n")
    run("compact", "talk", "--upto", "2", "--summary", "from an option")
    run("compact", "talk", "--keep-turns", "1", "--file", str(tmp_path / "summary.txt"))
    assert [m.text for m in talk.messages()] == ["from a file", "question three", "answer three"]
    talk.append("question four")
    entry = document(run("compact", "talk", "--keep-turns", "1", "--file", "-", "--json", stdin="from stdin\n"))

    assert [m.text for m in talk.messages()] == ["from stdin", "question four"]
    assert entry["data"]["summary"] == "from stdin"


@pytest.mark.parametrize(
    "arguments",
    [("--keep-turns", "1"), ("--summary", "x"), ("--keep-turns", "1", "--summary", " "), ("--keep-turns", "x")],
)
def test_compact_wants_a_text_and_a_run(run, talk: Session, arguments: tuple[str, ...]) -> None:
    assert run("compact", "talk", *arguments).exit_code == 2
    assert talk.head == 6


def test_nothing_to_compact_is_one_line(run, talk: Session) -> None:
    done = run("compact", "talk", "--keep-turns", "9", "--summary", "x")

    assert (done.exit_code, done.output.count("\n")) == (1, 1)


def test_what_to_ask_a_model_for_holds_the_run_and_changes_nothing(run, talk: Session) -> None:
    done = run("compact", "talk", "--keep-turns", "1", "--prompt")

    assert threadline.SUMMARY_PROMPT in done.stdout
    assert "answer two" in done.stdout
    assert "question three" not in done.stdout
    assert talk.head == 6


def test_repair_answers_open_calls(run, talk: Session) -> None:
    assert "nothing to mend" in run("repair", "talk").stdout
    talk.append(Message.assistant(None, ToolCall("c", "deploy")))
    done = run("repair", "talk")

    assert "interrupted" in done.stdout
    assert talk.pending == []


def test_rename_and_tag(run, talk: Session) -> None:
    assert document(run("rename", "talk", "new name", "--json"))["title"] == "new name"
    assert document(run("tag", "talk", "a", "b", "--json"))["tags"] == ["a", "b"]
    assert document(run("tag", "talk", "c", "--remove", "a", "--json"))["tags"] == ["b", "c"]
    assert run("tag", "talk").stdout == "talk-1  b, c\n"


def test_sessions_are_put_away_and_brought_back(run, store: Store, talk: Session) -> None:
    other = store.new(id="other")
    for word, status in (("archive", "archived"), ("trash", "trashed"), ("restore", "active")):
        assert run(word, "talk", "other").exit_code == 0
        assert (talk.info.status, other.info.status) == (status, status)


def test_of_several_ids_none_is_touched_if_one_is_wrong(run, store: Store, talk: Session) -> None:
    assert run("trash", "talk", "nonsense").exit_code == 1
    assert talk.info.status == "active"


def test_a_session_that_was_put_away_is_not_written_to(run, store: Store, talk: Session) -> None:
    store.archive(talk)
    done = run("rewind", "talk", "2")

    assert done.exit_code == 1
    assert "threadline restore talk-1" in done.stderr


def old_and_new(path: Path) -> None:
    clock = [NOW - timedelta(days=100)]
    with threadline.open(path, clock=lambda: clock[0]) as store:
        store.new(id="old", title="an old one").append("x")
        clock[0] = NOW
        store.new(id="new").append("x")


def test_prune_lists_and_asks_and_moves_to_the_trash(run, path: Path) -> None:
    old_and_new(path)
    listed = run("prune", "--older-than", "30d", "--dry-run")
    refused = run("prune", "--older-than", "30d", stdin="n\n", asks=True)
    with threadline.open(path, read_only=True) as store:
        assert store.get("old").info.status == "active"
    done = document(run("prune", "--older-than", "30d", "--yes", "--json"))

    assert "an old one" in listed.stdout
    assert "1 session would go" in listed.stdout
    assert refused.exit_code == 1
    assert refused.stderr.endswith("Error: nothing was done\n")
    assert done["sessions"] == ["old"]
    with threadline.open(path, read_only=True) as store:
        assert [store.get(id).info.status for id in ("old", "new")] == ["trashed", "active"]
    assert "nothing is older" in run("prune", "--older-than", "30d").stdout
    assert run("prune", "--older-than", "soon").exit_code == 2


def test_delete_says_what_goes_and_asks(run, store: Store, talk: Session) -> None:
    talk.spawn("searcher").append("x")
    refused = run("delete", "talk", stdin="\n", asks=True)
    assert refused.exit_code == 1
    assert "talk-1  a talk: 6 entries; 1 sub-agent go along" in refused.stderr
    assert talk.head == 6
    done = document(run("delete", "talk", "--yes", "--json"))

    assert done == {"session": "talk-1", "deleted": 2}
    assert store.find("talk") is None


def test_what_was_written_to_after_the_question_is_not_deleted(
    run, store: Store, talk: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.cli.desk.Desk.confirm", lambda *_: talk.append("wait, I still need this"))
    done = run("delete", "talk")

    assert done.exit_code == 1
    assert "somebody else wrote" in done.stderr
    assert talk.head == 7


def test_delete_may_keep_the_children(run, store: Store, talk: Session) -> None:
    child = talk.spawn("searcher")
    run("delete", "talk", "--keep-children", "--yes")

    assert child.info.parent is None


def test_what_was_redacted_is_shown_with_its_reason(run, talk: Session) -> None:
    talk.compact("a secret summary", upto=2)
    for seq in (7, 3):
        talk.redact(seq, "a password")
    shown, listed = run("show", "talk").stdout, run("log", "talk").stdout

    assert "redacted: a password" in shown
    assert listed.count("[redacted: a password]") == 2
    assert "secret" not in shown + listed


# -- care ----------------------------------------------------------------------------------------------


def damage(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute('UPDATE entry SET body = CAST(\'{"role":"user"}\' AS BLOB) WHERE seq = 3')
    connection.close()


def test_verify_says_whole_or_what_is_not(run, path: Path, talk: Session) -> None:
    whole = run("verify")
    assert (whole.exit_code, whole.stdout) == (0, "whole: 1 session, 6 entries checked\n")
    talk._store.close()
    damage(path)
    done, told = run("verify"), run("verify", "--json")

    assert done.exit_code == told.exit_code == 1
    assert "talk-1" in done.stdout
    assert json.loads(told.stdout)["problems"][0]["seq"] == 3


def test_doctor_is_content_with_a_whole_store(run, talk: Session) -> None:
    assert run("doctor").stdout.startswith("healthy")
    assert json.loads(run("doctor", "--json").stdout) == {"ok": True, "findings": []}


def findings(run: Any, *arguments: str) -> list[dict[str, str]]:
    done = run("doctor", "--json", *arguments)
    assert done.exit_code == 1, done.output
    found: list[dict[str, str]] = json.loads(done.stdout)["findings"]
    return found


def test_doctor_explains_damage_and_its_commands_save_what_is_whole(
    run, path: Path, tmp_path: Path, talk: Session
) -> None:
    talk._store.backup(tmp_path / "BACKUP.db")
    talk._store.close()
    damage(path)
    (finding,) = [found for found in findings(run) if "entry 3" in found["what"]]
    assert "talk-1" in finding["what"]
    commands = [line.strip().split()[1:4] for line in finding["mend"].split("threadline")[1:]]
    for _, source, target in [
        ("copy", *words[-2:]) for words in (("x", str(path), "NEW.db"), ("x", "BACKUP.db", "NEW.db"))
    ]:
        CliRunner().invoke(main, ["copy", str(tmp_path / source), str(tmp_path / target)])

    assert [words[:2] for words in commands] == [[str(path), "NEW.db"], ["BACKUP.db", "NEW.db"]]
    with threadline.open(tmp_path / "NEW.db", read_only=True) as store:
        assert store.verify().ok
        assert len(store.get("talk-1").messages()) == 6


def test_doctor_finds_sessions_that_stopped_in_the_middle_and_mends_them(run, path: Path) -> None:
    with threadline.open(path, clock=lambda: NOW - timedelta(hours=2)) as store:
        session = store.new(id="stuck")
        session.append(Message.assistant(None, ToolCall("c", "deploy")))
    (finding,) = findings(run)
    assert "stuck stopped with 1 open call" in finding["what"]
    run(*finding["mend"].split()[1:])

    assert run("doctor").exit_code == 0


def test_doctor_leaves_sessions_alone_that_somebody_works_on(run, path: Path) -> None:
    with threadline.open(path, clock=lambda: NOW - timedelta(hours=2)) as store:
        store.new(id="slow").append(Message.assistant(None, ToolCall("c", "build")))
    with threadline.open(path) as store, store.get("slow").lease("worker", ttl=60):
        done = run("doctor")

    assert done.stdout.startswith("healthy")


def test_doctor_finds_interrupted_drafts_and_mends_them(run, path: Path) -> None:
    with threadline.open(path) as store:
        session = store.new(id="cut-off")
        session.append("go on")
        session.draft("assistant").__enter__().write("half a sent")
    (finding,) = findings(run, "--quick")
    run(*finding["mend"].split()[1:])

    with threadline.open(path, read_only=True) as store:
        assert store.get("cut-off").messages()[-1].text == "half a sent"
    assert run("doctor", "--quick").exit_code == 0


def test_doctor_finds_an_erasure_that_is_pending_and_mends_it(run, path: Path) -> None:
    with threadline.open(path) as store:
        store.new(id="secret").append("the password is hunter2")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM entry")
    assert "pending" in run("erase", "secret", "--yes").stdout
    (finding,) = findings(run, "--quick")
    reader.close()
    run(*finding["mend"].split("  ")[0].split()[1:])

    assert (finding["level"], finding["what"]) == ("problem", "an erasure is pending")
    assert run("doctor").exit_code == 0


def test_doctor_says_how_far_the_index_lags_and_what_brings_it_up_to_date(
    run, path: Path, talk: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.cli.doctor.LAG_ROWS", 5)
    (finding,) = json.loads(run("doctor", "--quick", "--json").stdout)["findings"]
    run(*finding["mend"].split()[1:])

    assert (finding["level"], finding["mend"]) == ("advice", "threadline index")
    assert finding["why"].startswith("7 rows of the log are not in the search index yet.")
    assert json.loads(run("doctor", "--json").stdout) == {"ok": True, "findings": []}


def test_doctor_mends_an_index_that_is_not_what_the_log_says(run, path: Path, talk: Session) -> None:
    run("index")
    talk._store.close()
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE search_doc SET terms = terms + 1 WHERE doc = (SELECT min(doc) FROM search_doc)")
    first, *_ = findings(run)
    run(*first["mend"].split()[1:])

    assert first["mend"] == "threadline index --rebuild"
    assert run("doctor").exit_code == 0


def test_doctor_knows_that_a_server_keeps_dead_rows_until_a_vacuum() -> None:
    stats = {"path": "server", "entries": 1_000, "dead_rows": 10_001}

    (finding,) = erasures(stats)
    assert (finding.level, finding.mend.split("  ")[0]) == ("advice", "psql URL -c 'VACUUM'")
    assert not [*erasures(stats | {"dead_rows": 10_000}), *erasures(stats | {"entries": 100_000})]


def test_doctor_finds_a_file_that_others_may_read(run, path: Path, talk: Session) -> None:
    path.chmod(0o644)
    (finding,) = findings(run, "--quick")

    assert finding["mend"] == f"chmod 600 {path}"


@pytest.mark.parametrize(
    ("content", "mend"),
    [(None, "threadline demo"), (b"not a database, but long enough to be taken for one" * 20, "--store")],
)
def test_doctor_explains_why_a_store_cannot_be_opened(run, path: Path, content: bytes | None, mend: str) -> None:
    if content is not None:
        path.write_bytes(content)
    (finding,) = findings(run)

    assert "cannot be opened" in finding["what"]
    assert mend in finding["mend"]


def test_backup_makes_a_whole_copy_and_never_overwrites(run, talk: Session, tmp_path: Path) -> None:
    made = document(run("backup", str(tmp_path / "copy.db"), "--json"))
    again = run("backup", str(tmp_path / "copy.db"))

    assert made["size_bytes"] == (tmp_path / "copy.db").stat().st_size
    assert run("verify", "--store", str(tmp_path / "copy.db")).exit_code == 0
    assert again.exit_code == 1
    assert "exists already" in again.stderr


def test_stats_count_and_measure(run, talk: Session) -> None:
    assert document(run("stats", "--json"))["entries"] == 6
    assert "entries           6" in run("stats").stdout


EVERYTHING = [
    ("ls",), ("show", "cli:login"), ("log", "cli:login"), ("tail", "cli:login"), ("context", "cli:login"), ("usage",),
    ("fork", "cli:login"), ("rewind", "cli:login", "16"),
    ("compact", "cli:login", "--keep-turns", "1", "--summary", "x"),
    ("repair", "cli:login"), ("rename", "cli:login", "t"), ("tag", "cli:login", "t"), ("archive", "cli:login"),
    ("trash", "cli:login"), ("restore", "cli:login"), ("prune", "--older-than", "1d", "--yes"), ("verify",),
    ("doctor",), ("stats",), ("delete", "cli:login", "--yes"), (),
]  # fmt: skip


def test_every_command_works_on_a_server(postgres_url: str, tmp_path: Path) -> None:
    with threadline.open(postgres_url, durability="relaxed") as store:
        furnish(store)
    failed = []
    for arguments in [("backup", str(tmp_path / "from-server.db")), *EVERYTHING]:
        done = CliRunner().invoke(main, ["--store", postgres_url, *arguments])
        if done.exit_code or not done.stdout:
            failed.append((arguments, done.output))

    assert failed == []
