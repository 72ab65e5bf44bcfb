"""Our own JSONL: what goes out comes back exactly, on any engine, again and again, and through damage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

import threadline
from threadline import Message, Session, Store, ToolCall, records, transcripts
from threadline.testing import scaled, seed

sys.path.insert(0, str(Path(__file__).parent.parent / "promises"))

from histories import Clock, loaded_dice, next_step

STEPS = 60
ODD = [
    Message.user("\ud800\0 \ud83d\ude00 😀 \\ud800"),
    Message.assistant(None, ToolCall("\ud800", "t"), ToolCall("b", "t")),
]
KEY = "sk-ant-" + "a1B2" * 8
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """New stores, one after the other."""
    opened: list[Store] = []

    def another() -> Store:
        opened.append(threadline.open(tmp_path / f"{len(opened)}.db", durability="relaxed"))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


def furnish(store: Store) -> None:
    """All that a store can hold: a random history, a family, forks of what is gone, and what waits beside a log."""
    rng, clock = Random(f"{seed()} jsonl"), Clock()
    with loaded_dice():
        for number in range(1, scaled(STEPS) + 1):
            clock.step = number
            next_step(store, rng, number).run(store)
    family(store)
    orphans(store)
    busy(store)
    deep = store.within("acme").session("deep", tags=["red"], meta={"\ud800": "\0"}, id="\udfff deep")
    deep.extend(ODD, key="k\ud800")
    deep.fork(1, key="first").append(Message.tool("b", "done"))
    store.new(title="empty", id="empty")
    redacted(store)
    store.archive(store.session("old").append("old").session)


def redacted(store: Store) -> None:
    session = store.new(id="redacted")
    session.append("a secret", key="its key")
    session.append(Message.assistant("secret", ToolCall("c", "secret", {"x": 1})), usage={"input": 3})
    session.append(Message.tool("c", "secret"))
    session.set_state({"secret": 1})
    session.compact("secret summary", upto=1)
    session.append("stays")
    for seq in (1, 2, 4, 5):
        session.redact(seq, "asked for")


def family(store: Store) -> None:
    root = store.new(id="root", key="k", tags=["red"])
    root.append("hi", usage={"input": 3, "request_id": "r1", "model": "m"})
    child = root.spawn("sub", key="c", call_id="c1")
    child.append(Message.tool("x", "large" * 2_000), usage={"output": 5})
    child.spawn("deep", lifecycle="detached").record_usage(input=1, cost=0.5)
    root.spawn("second")
    child.fork().append("a fork of a child")
    for _ in range(3):
        root.record_usage(input=7, at=NOON)
    root.set_goal("finish")
    root.set_state({"n": 1})


def orphans(store: Store) -> None:
    """Forks that share what nobody else has any more."""
    origin = store.new(id="origin")
    origin.extend(["1", "2", "3"], key="kk")
    first = origin.fork(2, key="f1")
    first.append("x")
    origin.fork(3, key="f2").append("y", key="z")
    first.fork(key="f3").append("w")
    store.delete(origin)
    store.delete(first)


def busy(store: Store) -> None:
    session = store.session("busy")
    session.append("hello")
    session.compact("said hello", upto=1)
    for text in ("two", "one", "two"):
        session.enqueue(text)
    session.enqueue("once", key="k")
    draft = session.draft()
    draft.write("half a sent")
    draft.let_go()


def exported(what: Store | Session, path: Path, *, raw: bool = True) -> bytes:
    transcripts.write(what, path, "jsonl", raw=raw)
    return path.read_bytes()


def chains(store: Store) -> dict[tuple[str, str], str]:
    """The chain at the head of every session, by namespace and id: it stands for all before it."""
    found: dict[tuple[str, str], str] = {}
    home = ""
    for record in records.dump(store):
        if isinstance(record, records.SessionRecord):
            home = record.namespace
        if isinstance(record, records.EntryRecord):
            found[home, record.session] = record.chain
    return found


# -- there and back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [True, False])
def test_an_export_of_what_was_imported_is_the_same_file(
    open_store: Callable[[], Store], tmp_path: Path, raw: bool
) -> None:
    source, target = open_store(), open_store()
    furnish(source)
    source.new().append(f"my key is {KEY}, keep it")
    first = exported(source, tmp_path / "a.jsonl", raw=raw)
    report = transcripts.read(tmp_path / "a.jsonl", store=target)
    second = exported(target, tmp_path / "b.jsonl", raw=raw)

    assert (report.problems, report.bytes_reported, report.bytes_imported) == ([], 0, len(first))
    assert second == first
    assert target.verify().problems == []
    assert (KEY.encode() in first) is raw
    assert (chains(target) == chains(source)) is raw  # masked content has digests of its own


def test_both_engines_export_the_same_bytes(open_store: Callable[[], Store], tmp_path: Path, postgres_url: str) -> None:
    source, back = open_store(), open_store()
    furnish(source)
    first = exported(source, tmp_path / "a.jsonl")
    with threadline.open(postgres_url, durability="relaxed") as server:
        report = transcripts.read(tmp_path / "a.jsonl", store=server)
        there = exported(server, tmp_path / "b.jsonl")
        again = transcripts.read(tmp_path / "a.jsonl", store=server)

        assert (report.problems, again.problems, again.added) == ([], [], 0)
        assert server.verify().problems == []
    transcripts.read(tmp_path / "b.jsonl", store=back)

    assert there == first
    assert exported(back, tmp_path / "c.jsonl") == first


def test_what_was_imported_goes_on_living(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    furnish(source)
    exported(source, tmp_path / "a.jsonl")
    transcripts.read(tmp_path / "a.jsonl", store=target)
    root = target.session("k")

    assert root.append("hi", at=NOON).seq == source.session("k").head + 1
    assert root.state == {"n": 1}
    assert root.goal == source.session("k").goal
    assert [child.info.agent for child in root.children()] == ["sub", "second"]
    assert root.usage(children=True) == source.session("k").usage(children=True)
    assert [(d.text, d.interrupted) for d in target.session("busy").drafts] == [("half a sent", True)]
    assert [q.text for q in target.session("busy").queued()] == ["two", "one", "two", "once"]
    assert target.session("busy").originals(2)[0].message == Message.user("hello")
    assert target.within("acme").session("deep").extend(ODD, key="k\ud800")[0].seq == 1  # its key is known
    assert target.verify().problems == []


@pytest.mark.parametrize("name", ["root", "f2", "f3", "sub", "deep"])
def test_one_session_is_a_file_that_stands_for_itself(
    open_store: Callable[[], Store], tmp_path: Path, name: str
) -> None:
    """With its sub-agents, and with what it shares; a child without its parent is a root there."""
    source, target = open_store(), open_store()
    furnish(source)
    session = {
        "root": lambda: source.get("root"),
        "f2": lambda: source.session("f2"),
        "f3": lambda: source.session("f3"),
        "sub": lambda: source.session("c"),
        "deep": lambda: source.within("acme").session("first"),
    }[name]()
    first = exported(session, tmp_path / "a.jsonl")
    report = transcripts.read(tmp_path / "a.jsonl", store=target)
    there = target.within("acme" if name == "deep" else "").get(str(session.id))

    assert report.problems == []
    assert exported(there, tmp_path / "b.jsonl") == first
    assert there.messages() == session.messages()
    assert len(there.tree().children) == len(session.tree().children)
    assert there.info.depth == 0
    assert target.verify().problems == []


def test_several_sessions_share_in_a_file_what_they_share_in_the_store(
    open_store: Callable[[], Store], tmp_path: Path
) -> None:
    source, target = open_store(), open_store()
    origin = source.new(id="origin")
    origin.extend([f"{n}" * 1_000 for n in range(50)])
    forks = [origin.fork(40, id=f"fork {n}") for n in range(5)]
    transcripts.write([*forks, origin], tmp_path / "a.jsonl", "jsonl")
    report = transcripts.read(tmp_path / "a.jsonl", store=target)

    assert (tmp_path / "a.jsonl").stat().st_size < 150_000
    assert report.added == 50
    assert [fork.id for fork in target.get("origin").forks()] == [fork.id for fork in forks]
    assert target.stats()["entries"] == 50


def test_a_store_within_a_namespace_gives_and_takes_only_that(open_store: Callable[[], Store], tmp_path: Path) -> None:
    store = open_store()
    store.new(id="x").append("public", usage={"input": 1, "request_id": "r"})
    store.within("acme").new(id="y").append("theirs")
    exported(store, tmp_path / "all.jsonl")
    transcripts.read(tmp_path / "all.jsonl", store=store.within("copy"))
    copied = store.within("copy")

    assert {info.id for info in copied.sessions()} == {"x", "y"}
    assert copied.get("x").usage().input == store.get("x").usage().input == 1
    assert b"public" not in exported(store.within("acme"), tmp_path / "c.jsonl")
    assert store.verify().problems == []


# -- again and again -----------------------------------------------------------------------------------


def test_importing_twice_adds_nothing(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    furnish(source)
    exported(source, tmp_path / "a.jsonl")
    reports = [transcripts.read(tmp_path / "a.jsonl", store=target) for _ in range(2)]
    at_home = transcripts.read(tmp_path / "a.jsonl", store=source)

    assert [report.added for report in (*reports, at_home)] == [reports[0].entries, 0, 0]
    assert [report.unchanged for report in (*reports, at_home)] == [0, reports[0].entries, reports[0].entries]
    assert reports[1].forked == 0
    assert exported(target, tmp_path / "b.jsonl") == exported(source, tmp_path / "a.jsonl")


def test_a_session_that_grew_is_continued(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    session = source.new(id="x", key="k")
    session.append("one")
    exported(source, tmp_path / "a.jsonl")
    transcripts.read(tmp_path / "a.jsonl", store=target)
    session.extend(["two", "three"], key="call")
    session.rename("a title")
    session.record_usage(input=5)
    session.enqueue("waits")
    session.fork(2, id="y")
    grown = exported(source, tmp_path / "b.jsonl")
    report = transcripts.read(tmp_path / "b.jsonl", store=target)

    assert (report.added, report.unchanged, report.forked) == (2, 1, 0)
    assert exported(target, tmp_path / "c.jsonl") == grown
    assert target.verify().problems == []


def test_what_was_only_renamed_is_renamed(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    source.new(id="x").append("one")
    exported(source, tmp_path / "a.jsonl")
    transcripts.read(tmp_path / "a.jsonl", store=target)
    source.get("x").rename("a title")
    exported(source, tmp_path / "b.jsonl")
    transcripts.read(tmp_path / "b.jsonl", store=target)
    newer = target.get("x").info
    transcripts.read(tmp_path / "a.jsonl", store=target)

    assert newer.title == target.get("x").info.title == "a title"  # and an older file takes nothing back


def test_one_that_was_rewritten_becomes_a_fork_and_says_so(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    source.new(id="x", key="k").extend(["one", "two"])
    exported(source, tmp_path / "a.jsonl")
    transcripts.read(tmp_path / "a.jsonl", store=target)
    source.get("x").extend(["here"])
    target.get("x").extend(["there"])
    exported(source, tmp_path / "b.jsonl")
    first = transcripts.read(tmp_path / "b.jsonl", store=target)
    again = transcripts.read(tmp_path / "b.jsonl", store=target)
    source.get("x").append("more")
    exported(source, tmp_path / "c.jsonl")
    grown = transcripts.read(tmp_path / "c.jsonl", store=target)
    (fork,) = target.get("x").forks()

    assert (first.forked, first.added, again.added, grown.added) == (1, 1, 0, 1)
    assert first.sessions == again.sessions == grown.sessions == [fork.id]
    assert any("goes another way" in problem.what for problem in first.problems)
    assert [m.text for m in fork.messages()] == ["one", "two", "here", "more"]
    assert fork.info.origin == ("x", 2)
    assert [m.text for m in target.get("x").messages()] == ["one", "two", "there"]
    assert target.verify().problems == []


def test_another_session_of_the_same_name_comes_beside_it(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    source.new(id="x", key="k").append("one")
    target.new(id="x").append("theirs")
    target.new(id="y", key="k").append("theirs")
    exported(source, tmp_path / "a.jsonl")
    reports = [transcripts.read(tmp_path / "a.jsonl", store=target) for _ in range(2)]

    assert [report.added for report in reports] == [1, 0]
    assert [m.text for m in target.get(reports[0].sessions[0]).messages()] == ["one"]
    assert [m.text for m in target.get("x").messages()] == ["theirs"]
    assert target.verify().problems == []


def test_a_dry_run_says_what_would_be_and_writes_nothing(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    furnish(source)
    exported(source, tmp_path / "a.jsonl")
    before = exported(target, tmp_path / "b.jsonl")
    dry = transcripts.read(tmp_path / "a.jsonl", store=target, dry_run=True)
    nothing = exported(target, tmp_path / "b.jsonl")
    done = transcripts.read(tmp_path / "a.jsonl", store=target)

    assert nothing == before
    assert (dry.added, dry.sessions, dry.problems) == (done.added, done.sessions, [])


def test_what_was_redacted_stays_so_and_never_comes_back(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    session = source.new(id="x")
    session.extend(["keep", "a secret", "keep too"], key="call")
    before = exported(source, tmp_path / "before.jsonl")
    transcripts.read(tmp_path / "before.jsonl", store=target)
    session.redact(2, "asked for")
    after = exported(source, tmp_path / "after.jsonl")
    transcripts.read(tmp_path / "after.jsonl", store=target)
    redacted = [entry.redacted for entry in target.get("x").entries()]
    again = transcripts.read(tmp_path / "before.jsonl", store=target)

    assert b"a secret" in before
    assert b"a secret" not in after
    assert redacted == [None, "asked for", None]
    assert (again.added, again.forked) == (0, 0)
    assert "a secret" not in str(target.get("x").messages())
    assert chains(target) == chains(source)
    assert target.verify().problems == []


# -- damage --------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_off_is_gone_on_with_when_it_is_whole(
    open_store: Callable[[], Store], tmp_path: Path
) -> None:
    source = open_store()
    furnish(source)
    whole = exported(source, tmp_path / "a.jsonl")
    for at in Random(seed()).sample(range(len(whole)), scaled(12)):
        target = open_store()
        (tmp_path / "cut.jsonl").write_bytes(whole[:at])
        if whole[:at].count(b"\n") == 0:
            continue
        torn = transcripts.read(tmp_path / "cut.jsonl", store=target)
        halfway = target.verify().problems
        transcripts.read(tmp_path / "a.jsonl", store=target)

        assert torn.bytes_read == at == torn.bytes_imported + torn.bytes_reported
        assert torn.problems != []
        assert halfway == []
        assert exported(target, tmp_path / "b.jsonl") == whole


def test_every_changed_byte_is_found_and_the_rest_is_imported(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source = open_store()
    furnish(source)
    whole = exported(source, tmp_path / "a.jsonl")
    rng = Random(seed())
    for _ in range(scaled(12)):
        target, at = open_store(), rng.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        (tmp_path / "b.jsonl").write_bytes(damaged)
        report = transcripts.read(tmp_path / "b.jsonl", store=target)
        places = [(p.offset, p.offset + p.length) for p in report.problems if p.length]

        assert any(first <= at < last for first, last in places), at
        assert report.bytes_reported < 40_000
        assert report.bytes_read == report.bytes_imported + report.bytes_reported == len(whole)
        assert target.verify().problems == []
        assert transcripts.read(tmp_path / "b.jsonl", store=source).added == 0  # who has it all loses nothing
        again = transcripts.read(tmp_path / "b.jsonl", store=target)
        assert (again.added, again.forked) == (0, 0)


DAMAGE = {
    "a lost line": lambda lines: [*lines[:3], *lines[4:]],
    "a line twice": lambda lines: [*lines[:4], *lines[3:]],
    "lines in another order": lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
    "glued lines": lambda lines: [*lines[:3], lines[3].rstrip(b"\n"), *lines[4:]],
    "NUL bytes before a line": lambda lines: [*lines[:3], b"\0" * 4096 + lines[3], *lines[4:]],
    "a block of NUL bytes": lambda lines: [*lines[:3], b"\0" * 4096 + b"\n", *lines[4:]],
    "a line of somebody else": lambda lines: [*lines[:3], b"null\n", b'{"role":"user"}\n', b"\xff\n", *lines[3:]],
    "a lost first line": lambda lines: lines[1:],
    "a lost session line": lambda lines: [lines[0], *lines[2:]],
    "a damaged session line": lambda lines: [lines[0], b"x" + lines[1], *lines[2:]],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_reported_and_costs_what_it_hit(open_store: Callable[[], Store], tmp_path: Path, name: str) -> None:
    source, target = open_store(), open_store()
    session = source.new(id="x", title="a title")
    session.extend([f"message {n}" for n in range(8)])
    session.compact("the first", upto=3)
    session.append("last")
    source.new(id="y").append("untouched")
    lines = exported(source, tmp_path / "a.jsonl").splitlines(keepends=True)
    lines = lines if b'"x"' in lines[1] else [lines[0], *lines[3:-1], *lines[1:3], lines[-1]]
    (tmp_path / "b.jsonl").write_bytes(b"".join(DAMAGE[name](lines)))
    report = transcripts.read(tmp_path / "b.jsonl", store=target)
    texts = [e.message.text if e.message else e.kind for e in target.get("x").entries()]
    lost = {"a lost line": 1, "lines in another order": 1, "a block of NUL bytes": 1}.get(name, 0)

    assert [m.text for m in target.get("y").messages()] == ["untouched"]
    assert len(texts) == 10
    assert texts.count("lost") == lost
    assert texts[-1] == "last"
    assert (report.problems == []) is (name in ("glued lines", "a lost first line"))
    assert target.verify().problems == []
    assert exported(target, tmp_path / "c.jsonl")


def test_what_rests_on_a_lost_entry_is_set_aside_with_it(open_store: Callable[[], Store], tmp_path: Path) -> None:
    source, target = open_store(), open_store()
    session = source.new(id="x")
    session.extend([f"message {n}" for n in range(6)])
    session.compact("the first", upto=2)
    session.append("more")
    session.compact("the first and its summary", upto=4)
    session.append("last")
    lines = exported(source, tmp_path / "a.jsonl").splitlines(keepends=True)
    (tmp_path / "b.jsonl").write_bytes(b"".join(line for line in lines if b'"seq":7,' not in line))
    report = transcripts.read(tmp_path / "b.jsonl", store=target)

    assert [entry.kind for entry in target.get("x").entries()][6:] == ["lost", "message", "lost", "message"]
    assert any("cannot follow what stands before it" in problem.what for problem in report.problems)
    assert target.verify().problems == []


FORGED = {
    "no salt": {"salt": "xyz"},
    "a short tree": {"tree": "00"},
    "no status": {"status": "lost"},
    "no head": {"head": -1},
    "shares with a gap": {"shares": (("y", 2, 3),)},
    "shares of nobody": {"shares": (("nobody", 1, 1),)},
    "shares of itself": {"shares": (("x", 1, 1),)},
    "no id": {"id": ""},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_line_is_reported_and_keeps_no_other_out(
    open_store: Callable[[], Store], tmp_path: Path, name: str
) -> None:
    source, target = open_store(), open_store()
    source.new(id="x").append("one")
    source.new(id="y").append("two")
    lines = []
    for record in records.dump(source):
        forged = isinstance(record, records.SessionRecord) and record.id == "x"
        lines.append(records.encode(replace(record, **FORGED[name]) if forged else record))
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    report = transcripts.read(tmp_path / "a.jsonl", store=target)

    assert report.problems != []
    assert [m.text for m in target.get("y").messages()] == ["two"]
    assert target.verify().problems == []


def test_a_file_of_a_newer_version_is_left_alone_and_named(open_store: Callable[[], Store], tmp_path: Path) -> None:
    line = records.encode(records.FileRecord(records.VERSION + 1, masked=False))
    (tmp_path / "a.jsonl").write_bytes(line)
    report = transcripts.read(tmp_path / "a.jsonl", store=open_store())

    assert report.sessions == []
    assert "upgrade" in report.problems[0].what
    assert report.bytes_reported == len(line)


def test_what_the_store_itself_lost_is_named_in_the_file(open_store: Callable[[], Store], tmp_path: Path) -> None:
    import apsw

    source, target = open_store(), open_store()
    source.new(id="x").extend(["one", "two", "three"])
    source.close()
    damage = apsw.Connection(str(tmp_path / "0.db"))
    damage.execute("UPDATE entry SET body = CAST(replace(body, 'two', 'owt') AS BLOB) WHERE seq = 2")
    damage.close()
    with threadline.open(tmp_path / "0.db") as damaged:
        exported(damaged, tmp_path / "a.jsonl")
    report = transcripts.read(tmp_path / "a.jsonl", store=target)

    assert [m.text for m in target.get("x").messages()] == ["one", "three"]
    assert any("damaged before it was exported" in problem.what for problem in report.problems)


def test_an_export_is_whole_or_not_there(open_store: Callable[[], Store], tmp_path: Path) -> None:
    store = open_store()
    store.new().append("hi")
    (tmp_path / "a.jsonl").write_text("before")
    with pytest.raises(threadline.InvalidArgument), threadline.open(":memory:") as other:
        transcripts.write([store.latest(), other.new()], tmp_path / "a.jsonl", "jsonl")  # type: ignore[list-item]

    assert (tmp_path / "a.jsonl").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_an_export_while_others_write_is_one_moment_of_each_session(
    open_store: Callable[[], Store], tmp_path: Path
) -> None:
    source, target = open_store(), open_store()
    session = source.new(id="x")
    session.append("0")
    taken = 0
    with (tmp_path / "a.jsonl").open("wb") as file:
        for record in records.dump(source):
            file.write(records.encode(record))
            taken += 1
            session.append(f"{taken}", at=NOON + timedelta(seconds=taken))
    transcripts.read(tmp_path / "a.jsonl", store=target)

    assert [m.text for m in target.get("x").messages()] == ["0", "1"]
    assert target.verify().problems == []
