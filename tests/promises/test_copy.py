"""Moving house: from a file to a server and back, every row the same, broken off and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from histories import Clock, loaded_dice, next_step

import threadline
from threadline import Message, Session, Store, ToolCall
from threadline.backends import copying
from threadline.testing import scaled, seed

STEPS = 60
ODD = [Message.user("\ud800\0"), Message.assistant(None, ToolCall("\ud800", "t"), ToolCall("b", "t"))]


@pytest.fixture(params=["file to server", "server to file", "file to file"])
def places(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> tuple[str, str]:
    """Where from, and where to."""
    names = {"file": str(tmp_path / "source.db"), "server": postgres_url}
    source, target = request.param.split(" to ")
    return names[source], names[target] if source != target else str(tmp_path / "target.db")


@pytest.fixture
def source(places: tuple[str, str]) -> Iterator[Store]:
    with threadline.open(places[0], durability="relaxed") as store:
        yield store


@pytest.fixture
def target(places: tuple[str, str]) -> Iterator[Store]:
    with threadline.open(places[1], durability="relaxed") as store:
        yield store


def lived(store: Store, steps: int, begin: int = 0) -> None:
    """A random history over several sessions, their forks, and another namespace."""
    rng = Random(f"{seed()} {begin}")
    clock = Clock()
    with loaded_dice():
        for number in range(begin + 1, begin + steps + 1):
            clock.step = number
            next_step(store, rng, number).run(store)


def everything(store: Store, namespaces: tuple[str, ...] = ("", "acme")) -> dict[Any, Any]:
    """All that a store holds, as the core knows it."""
    return {
        (name, info.id): portrait(store.within(name), info.id)
        for name in namespaces
        for info in store.within(name).sessions(status=None)
    }


def portrait(store: Store, id: str) -> tuple[Any, ...]:
    session = store.get(id)
    ref, backend = session._made(), session._backend
    rows = list(backend.log(ref).rows(1, session.head))
    shares = [(piece.first, piece.last) for piece in ref.lineage]
    keys = backend.keys(ref, 0)
    return ref.tree, ref.key, rows, shares, sorted(keys), backend.record(ref)._replace(number=0), forks_of(session)


def forks_of(session: Session) -> list[str | None]:
    return [fork.id for fork in session.forks()]


def furnish(store: Store) -> None:
    lived(store, scaled(STEPS))
    deep = store.within("acme").session("deep", tags=["red"], meta={"\ud800": "\0"})
    deep.extend(ODD, key="k")
    first = deep.fork(1, key="first")
    first.append(Message.tool("b", "done"))
    second = first.fork(1)
    second.append("second")
    third = deep.fork(2)
    third.append(Message.tool("\ud800", "done"), key="mine")
    third.fork(2)
    store.new(title="empty")
    store.archive(store.session("old").append("old").session)


def test_every_row_is_the_same_there(source: Store, target: Store) -> None:
    furnish(source)
    report = threadline.copy(source, target)

    assert report.problems == []
    assert everything(target) == everything(source)
    assert target.verify().problems == []
    assert target.stats()["entries"] == source.stats()["entries"]  # forks share: nothing was copied twice


def test_a_copy_goes_on_living(source: Store, target: Store) -> None:
    furnish(source)
    threadline.copy(source, target)
    for store in (source, target):
        session = store.within("acme").session("deep")
        session.append(Message.tool("b", "done"), key="on", at=Clock()())
        session.extend(ODD, key="k")
        session.fork(2, id="a fork").append("more", at=Clock()())

    assert target.verify().problems == []
    assert [e.message for e in target.within("acme").get("a fork").entries()] == [
        e.message for e in source.within("acme").get("a fork").entries()
    ]


def test_copying_again_adds_only_what_is_new(source: Store, target: Store) -> None:
    furnish(source)
    before = threadline.copy(source, target)
    session = source.within("acme").session("deep")
    session.append("new")
    session.fork(3, key="a new fork")
    source.restore(source.session("old"))

    report = threadline.copy(source, target)

    assert (report.sessions, report.made, report.entries) == (before.sessions + 1, 1, 1)
    assert everything(target) == everything(source)
    assert threadline.copy(source, target).entries == 0


def bereaved(store: Store) -> None:
    """Forks, and forks of forks, whose origins were deleted; what they share lies in logs that are nobody's own."""
    origin = store.new(id="origin")
    origin.extend([f"{n}" for n in range(1, 7)], key="k")
    origin.append("x" * 50_000)  # out of line
    near, far = origin.fork(3, id="near"), origin.fork(7, id="far")
    near.append("near", key="n")
    far.append("far")
    between = far.fork(8, id="between")
    between.append("between")
    last = between.fork(9, id="last")
    last.append("last")
    store.delete("origin")
    store.delete("between")


def test_forks_of_deleted_sessions_are_copied_with_what_they_share(source: Store, target: Store) -> None:
    bereaved(source)
    report = threadline.copy(source, target)

    assert report.problems == []
    assert (report.sessions, report.made) == (3, 3)
    assert everything(target) == everything(source)
    assert target.verify().problems == []
    assert target.stats()["entries"] == source.stats()["entries"]
    assert threadline.copy(source, target).entries == 0
    assert target.get("far").extend([f"{n}" for n in range(1, 7)], key="k")[0].seq == 1


def test_a_copy_that_was_broken_off_leaves_no_stand_in_behind(
    source: Store, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bereaved(source)
    with monkeypatch.context() as patch:
        patch.setattr("threadline.backends.copying._Copying.dismiss", lambda copying: None)
        threadline.copy(source, target)
    assert len(target.sessions(root=False).items) > 3
    threadline.copy(source, target)

    assert everything(target) == everything(source)
    assert target.verify().problems == []


def family(store: Store) -> None:
    """Children, their children, a fork of one, requests with and without an id, and large content."""
    root = store.new(id="root", key="k", tags=["red"])
    root.append("hi", usage={"input": 3, "request_id": "r1", "model": "m"})
    child = root.spawn("sub", key="c", call_id="c1")
    child.append(Message.tool("x", "large" * 2_000), usage={"output": 5})
    child.spawn("deep", lifecycle="detached").record_usage(input=1, cost=0.5)
    root.spawn("second")
    child.fork().append("a fork of a child")


def kin(store: Store) -> dict[str, Any]:
    found = [store.get(info.id) for info in store.sessions(root=False)]
    return {str(s.id): (s.info, [c.id for c in s.children()], s.usage(children=True), s.requests()) for s in found}


def test_families_requests_and_large_content_go_along(source: Store, target: Store) -> None:
    family(source)
    reports = [threadline.copy(source, target) for _ in range(2)]

    assert [(report.problems, report.made) for report in reports] == [([], 5), ([], 0)]
    assert kin(target) == kin(source)
    assert everything(target) == everything(source)
    assert target.stats()["blobs"] == source.stats()["blobs"] == 1
    assert target.verify().problems == []


def test_what_waits_beside_a_log_goes_along(source: Store, target: Store) -> None:
    session = source.session("busy")
    session.append("hello")
    for text in ("two", "one", "two"):
        session.enqueue(text)
    session.enqueue("once", key="k")
    draft = session.draft()
    draft.write("half a sent")
    draft.let_go()
    source.archive(source.session("put away").append("done").session)
    reports = [threadline.copy(source, target) for _ in range(2)]
    there = target.session("busy")

    assert [report.problems for report in reports] == [[], []]
    assert there.queued() == session.queued()
    assert [(d.text, d.role, d.interrupted) for d in there.drafts] == [("half a sent", "assistant", True)]
    assert there.info == session.info
    assert target.verify().problems == []


def test_deleting_in_a_copy_is_deleting_in_the_original(source: Store, target: Store) -> None:
    family(source)
    threadline.copy(source, target)
    for store in (source, target):
        store.delete("root")

    assert kin(target) == kin(source)
    assert target.verify().problems == []


class Enough(Exception):
    pass


@pytest.mark.parametrize("stop", [1, 2, 5, 9, 14])
def test_a_copy_that_was_broken_off_is_gone_on_with(
    source: Store, target: Store, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    monkeypatch.setattr(copying, "PORTION", 7)
    furnish(source)
    seen = []

    def stop_there(progress: copying.CopyProgress) -> None:
        seen.append(progress)
        if len(seen) == stop:
            raise Enough

    with pytest.raises(Enough):
        threadline.copy(source, target, progress=stop_there)
    halfway = target.verify().problems
    threadline.copy(source, target)

    assert halfway == []  # what is there is whole, if not all of it
    assert everything(target) == everything(source)
    assert target.verify().problems == []


def test_progress_tells_how_far_it_is(source: Store, target: Store) -> None:
    furnish(source)
    told: list[copying.CopyProgress] = []
    report = threadline.copy(source, target, progress=told.append)

    assert (told[-1].sessions, told[-1].entries) == (report.sessions, report.entries)
    assert [p.entries for p in told] == sorted(p.entries for p in told)


def test_what_was_written_to_there_is_left_alone(source: Store, target: Store) -> None:
    source.session("ahead").append("one")
    threadline.copy(source, target)
    target.session("ahead").append("two")

    assert threadline.copy(source, target).problems == []
    assert [m.text for m in target.session("ahead").messages()] == ["one", "two"]


@pytest.mark.parametrize("name", ["both", "id", "key"])
def test_another_session_in_its_place_is_named_and_left_alone(source: Store, target: Store, name: str) -> None:
    """Both were written to since, or the id or the key belongs to somebody else there."""
    source.new(id="x", key="k").append("one")
    if name == "both":
        threadline.copy(source, target)
        source.get("x").append("here")
        target.get("x").append("there")
    else:
        target.new(**{name: {"id": "x", "key": "k"}[name]}).append("theirs")  # type: ignore[arg-type]
    source.new(id="y").append("two")
    theirs = target.sessions(order="created").items[-1].id
    before = target.get(theirs).messages()

    report = threadline.copy(source, target)

    assert [problem.session for problem in report.problems] == ["x"]
    assert target.get(theirs).messages() == before
    assert [m.text for m in target.get("y").messages()] == ["two"]  # the others are copied all the same
    assert target.verify().problems == []


def test_damage_is_named_and_does_not_go_along(tmp_path: Path, postgres_url: str) -> None:
    path = tmp_path / "damaged.db"
    with threadline.open(path) as store:
        session = store.new(id="x")
        session.extend(["one", "two", "three"])
        session.fork(1, id="early").append("fine")
        session.fork(3, id="late").append("lost")
    damage = apsw.Connection(str(path))
    damage.execute("UPDATE entry SET body = CAST(replace(body, 'two', 'owt') AS BLOB) WHERE seq = 2 AND log = 1")
    damage.close()
    with threadline.open(path) as source, threadline.open(postgres_url) as target:
        report = threadline.copy(source, target)

        assert {(problem.session, problem.seq) for problem in report.problems} == {("x", 2), ("late", 3)}
        assert [m.text for m in target.get("early").messages()] == ["one", "fine"]
        assert target.verify().problems == []


def test_a_backup_of_a_server_is_a_file_with_all_of_it(tmp_path: Path, postgres_url: str) -> None:
    with threadline.open(postgres_url, durability="relaxed") as server:
        furnish(server)
        server.backup(tmp_path / "backup.db")
        with threadline.open(tmp_path / "backup.db", read_only=True) as backup:
            assert everything(backup) == everything(server)
            assert backup.verify().problems == []

    assert sorted(path.name for path in tmp_path.iterdir() if "partial" in path.name) == []


def test_moving_out_and_back_again_leaves_the_same_store(tmp_path: Path, postgres_url: str) -> None:
    with (
        threadline.open(tmp_path / "a.db", durability="relaxed") as first,
        threadline.open(postgres_url, durability="relaxed") as server,
        threadline.open(tmp_path / "b.db", durability="relaxed") as last,
    ):
        furnish(first)
        threadline.copy(first, server)
        threadline.copy(server, last)

        assert everything(last) == everything(first)


# -- what was redacted ---------------------------------------------------------------------------------


def test_a_copy_has_the_tombstones(source: Store, target: Store) -> None:
    session, said = source.new(), ["secret", Message.tool("c", "secret" * 2_000)]
    session.extend(said, key="secret")
    for seq in (1, 2):
        session.redact(seq, "why")
    report = threadline.copy(source, target)

    assert report.problems == target.verify().problems == []
    there = target.get(str(session.id))
    assert [*there.entries()] == [*session.entries()]
    assert [entry.seq for entry in there.extend(["secret", Message.tool("c", "secret" * 2_000)], key="secret")] == [
        1,
        2,
    ]


def test_what_was_redacted_since_is_redacted_there_by_the_next_copy(source: Store, target: Store) -> None:
    session = source.new()
    session.append("secret", key="secret")
    session.append(Message.tool("c", "secret" * 2_000))
    session.set_state({"token": "secret"})
    session.set_state({"n": 1})
    fork = session.fork()
    fork.set_state({"m": 2})
    threadline.copy(source, target)
    for seq in (1, 2, 3):
        fork.redact(seq, "why")
    report = threadline.copy(source, target)
    there = [target.get(str(each.id)) for each in (session, fork)]

    assert report.problems == target.verify().problems == []
    assert [[*each.entries()] for each in there] == [[*each.entries()] for each in (session, fork)]
    assert "secret" not in repr([(each.info, [*each.entries()]) for each in there])
    assert target.stats()["blobs"] == 0
    assert there[1].append("secret", key="secret").seq == 1
    assert threadline.copy(source, target).entries == 0
