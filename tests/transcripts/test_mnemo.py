"""mnemo's trees: read whole or reported, read again without doubling, written so that mnemo would read them."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import threadline
from threadline import Conflict, InvalidArgument, Memory, Store, transcripts

BEGAN = 1_794_767_200.5


class Tree:
    """A store of mnemo, made as mnemo makes it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.active: set[str] = set()
        self.chains: dict[str, Any] = {}
        for name in ("nodes", "index"):
            (root / name).mkdir(parents=True)

    def put(self, content: str, type: str = "leaf", inputs: tuple[str, ...] = (), **meta: Any) -> str:
        payload = f"{type}\n{content}\n{','.join(sorted(inputs))}"
        addr = sha256(payload.encode()).hexdigest()[:12]
        at = BEGAN + len(self.active)
        node = {"type": type, "content": content, "inputs": [*inputs], "created": at, "meta": meta, "addr": addr}
        (self.root / "nodes" / f"{addr}.json").write_text(json.dumps(node, indent=2))
        self.active.add(addr)
        return addr

    def chain(self, id: str, *members: str, **more: Any) -> None:
        self.chains[id] = {
            "chain_id": id, "head": members[-1], "tail": members[0], "members": [*members], "domain": "", "summary": "",
            "score": 0.0, "last_extended": BEGAN + 60, "created": BEGAN, "status": "active", "agent_id": None,
            "authority": 0.0, "stash_reason": None, "plan_root": False,
        } | more  # fmt: skip

    def save(self) -> Path:
        (self.root / "active.json").write_text(json.dumps(sorted(self.active), indent=2))
        (self.root / "chains.json").write_text(json.dumps(self.chains, indent=2))
        return self.root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project with lasting nodes, a session at work, an agent in it, and an archive."""
    top = Tree(tmp_path / "shop" / ".mnemo")
    one = top.put("uses sqlite", domain="storage", confidence=0.9, source="live", chains=["ch_1"])
    two = top.put("the queue holds 512 jobs", reinforcement_count=4, anchors=[{"file": "a.py", "grep": "queue"}])
    both = top.put("sqlite and a queue of 512", "compress", (one, two), preserved_values=[{"fragment": "512"}])
    newer = top.put("uses postgres", "supersede", (one,))
    lost = top.put("made of what is gone", "compress", ("0" * 11 + "1",))
    top.put("root of all", "root", (both, newer, lost))
    top.active -= {one, two}
    top.chain("ch_1", one, newer, summary="storage choice", domain="storage")
    top.save()
    (top.root / "roots.json").write_text(json.dumps(["x"]))
    (top.root / "index" / "by_file.json").write_text("{}")
    state = {"session_id": "s_a7f3c2d1", "session_turns": 3, "saved_at": BEGAN + 99}
    (top.root / "session_state.json").write_text(json.dumps(state))
    logged = [{"ts": BEGAN, "event": "claim", "summary": "x", "addresses": [one, "gone"]}, {"no": "time"}]
    (top.root / "logs").mkdir()
    (top.root / "logs" / "20261115_182640_ab12cd.log").write_text("".join(json.dumps(line) + "\n" for line in logged))
    session = Tree(top.root / "sessions" / "s_a7f3c2d1")
    session.chain("ch_1", session.put("uses sqlite"), status="archived")
    session.chain("ch_2", session.put("perhaps redis"), status="preliminary", summary="cache")
    session.save()
    agent = Tree(top.root / "sessions" / "s_a7f3c2d1" / "scout")
    agent.put("the scout's own")
    agent.save()
    archive = Tree(top.root / "session_archive" / f"s_b91e4d3f_{int(BEGAN)}")
    archive.put("put away")
    archive.save()
    return top.root


@pytest.fixture
def memory(store: Store, tree: Path) -> Memory:
    transcripts.read(tree, store=store)
    return store.memory("shop")


def contents(nodes: Any) -> list[str]:
    return sorted(node.content for node in nodes)


def test_a_tree_becomes_the_memory_of_its_folder(memory: Memory, store: Store) -> None:
    active = {node.content: node for node in memory.active()}

    assert {*active} == {"sqlite and a queue of 512", "uses postgres", "made of what is gone", "root of all"}
    assert contents(memory.provenance(active["sqlite and a queue of 512"]))[1:] == [
        "the queue holds 512 jobs", "uses sqlite",
    ]  # fmt: skip
    old = memory.provenance(active["uses postgres"])[1]
    assert (old.domain, old.confidence, old.active, old.meta["source"]) == ("storage", 0.9, False, "live")
    assert old.created_at.timestamp() == BEGAN
    assert [node.reinforced for node in memory.nodes() if "queue holds" in node.content] == [4]
    assert store.verify().problems == []


def test_chains_sessions_agents_and_archives_come_along(memory: Memory) -> None:
    chain = memory.chain("storage choice")

    assert (chain.status, len(chain.members), chain.id) == ("active", 2, "ch_1")
    assert contents(memory.nodes(session="s_a7f3c2d1")) == ["perhaps redis", "uses sqlite"]
    assert contents(memory.nodes(session="s_a7f3c2d1", agent="scout")) == ["the scout's own"]
    assert memory.chain("cache").status == "preliminary"
    assert [archive.session for archive in memory.archives()] == ["s_b91e4d3f"]
    assert memory.archives()[0].archived_at.timestamp() == int(BEGAN)
    assert contents(memory.recover("s_b91e4d3f")) == ["put away"]
    turns = {(working.session, working.agent): working.turns for working in memory.workings()}
    assert turns == {("s_a7f3c2d1", None): 3, ("s_a7f3c2d1", "scout"): 3, ("s_b91e4d3f", None): 0}
    assert [event.what for event in memory.events()] == ["recovered", "mnemo session state", "claim"]


def test_every_byte_is_imported_or_reported(store: Store, tree: Path) -> None:
    report = transcripts.read(tree, store=store)
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())

    assert report.bytes_read == size
    assert report.bytes_read == report.bytes_imported + report.bytes_reported
    assert (report.added, report.unchanged, report.sessions) == (10, 0, [])
    assert {Path(problem.path).name for problem in report.problems} == {"by_file.json", "20261115_182640_ab12cd.log"}


def test_importing_again_adds_what_is_new_and_wakes_nothing(store: Store, tree: Path) -> None:
    transcripts.read(tree, store=store)
    memory = store.memory("shop")
    memory.retire(next(node for node in memory.active() if node.content == "uses postgres"), "changed our mind")
    again = transcripts.read(tree, store=store)
    with_more = Tree(tree / "more")
    content = "one more"
    addr = with_more.put(content)
    os.rename(tree / "more" / "nodes" / f"{addr}.json", tree / "nodes" / f"{addr}.json")
    more = transcripts.read(tree, store=store)

    assert (again.added, again.unchanged) == (0, 10)
    assert (more.added, more.unchanged) == (1, 10)
    assert "uses postgres" not in contents(memory.active())
    assert store.verify().problems == []


def test_a_dry_run_writes_nothing(store: Store, tree: Path) -> None:
    report = transcripts.read(tree, store=store, dry_run=True, project="p")

    assert report.added == 10
    assert store.memory("p").nodes() == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw.replace(b"512", b"513"),
        lambda raw: raw[: len(raw) // 2],
        lambda raw: b"[]",
        lambda raw: b"\x00" * len(raw),
        lambda raw: raw.replace(b'"leaf"', b"7"),
    ],
)
def test_a_damaged_node_is_reported_and_left_alone(store: Store, tree: Path, spoil: Any) -> None:
    (victim,) = [p for p in (tree / "nodes").iterdir() if b"queue holds 512" in p.read_bytes()]
    victim.write_bytes(spoil(victim.read_bytes()))
    before = victim.read_bytes()
    report = transcripts.read(tree, store=store)

    assert str(victim) in {problem.path for problem in report.problems}
    assert victim.read_bytes() == before
    assert "the queue holds 512 jobs" not in contents(store.memory("shop").nodes())
    assert "uses postgres" in contents(store.memory("shop").active())
    assert report.bytes_read == report.bytes_imported + report.bytes_reported


@pytest.mark.parametrize("name", ["active.json", "chains.json", "roots.json", "session_state.json"])
def test_a_torn_list_costs_nothing_but_itself(store: Store, tree: Path, name: str) -> None:
    (tree / name).write_bytes((tree / name).read_bytes()[:-3])
    report = transcripts.read(tree, store=store)

    assert {problem.path for problem in report.problems if name in problem.path} == {str(tree / name)}
    assert len(store.memory("shop").nodes()) == 6
    assert {"sqlite and a queue of 512", "uses postgres"} <= {*contents(store.memory("shop").active())}


def test_what_was_written_is_read_again_the_same(store: Store, memory: Memory, tmp_path: Path) -> None:
    memory.claim("our own", session="../../x", agent="nodes", preliminary=True, chain="idea")
    memory.end("s_a7f3c2d1", promote=False, agent="scout")
    transcripts.write(memory, tmp_path / "out", "mnemo")
    report = transcripts.read(tmp_path / "out", store=store, project="again")
    again = store.memory("again")

    assert [problem for problem in report.problems if "index" not in problem.path] == []
    assert sorted(node.addr for node in again.active()) == sorted(node.addr for node in memory.active())
    for working in memory.workings():
        mine, theirs = (m.nodes(session=working.session, agent=working.agent) for m in (memory, again))
        assert contents(mine) == contents(theirs), working
    names = {chain.name: (chain.status, len(chain.members)) for chain in memory.chains()}
    assert {chain.name: (chain.status, len(chain.members)) for chain in again.chains()} == names
    assert all(path.resolve().is_relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*"))


def test_mnemo_finds_every_node_where_it_looks(memory: Memory, tree: Path, tmp_path: Path) -> None:
    """The same files as mnemo itself wrote, each under the address that it would compute."""
    transcripts.write(memory, tmp_path / "out", "mnemo")

    for path in (tree / "nodes").iterdir():
        before, after = (json.loads((folder / "nodes" / path.name).read_text()) for folder in (tree, tmp_path / "out"))
        assert {name: after[name] for name in ("type", "content", "inputs", "created", "addr")} == {
            name: before[name] for name in ("type", "content", "inputs", "created", "addr")
        }
        assert before["meta"].items() <= after["meta"].items()
    assert json.loads((tmp_path / "out" / "active.json").read_text()) == json.loads((tree / "active.json").read_text())


def test_secrets_are_masked_and_a_folder_in_use_is_refused(store: Store, tmp_path: Path) -> None:
    memory = store.memory("p")
    memory.claim("the key is sk-ant-api03-" + "A" * 80)
    transcripts.write(memory, tmp_path / "masked", "mnemo")
    with pytest.raises(Conflict):
        transcripts.write(memory, tmp_path / "masked", "mnemo")
    with pytest.raises(InvalidArgument):
        transcripts.write(store.new(), tmp_path / "session", "mnemo")

    assert not any("A" * 80 in path.read_text() for path in (tmp_path / "masked").rglob("*.json"))


def test_links_are_not_followed(store: Store, tree: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (tree / "nodes" / "abcdefabcdef.json").symlink_to(secret)
    report = transcripts.read(tree, store=store)

    assert any("link" in problem.what for problem in report.problems)


def test_a_node_of_a_memory_can_be_taken_over_with_its_times(store: Store) -> None:
    memory = store.memory("p")
    addr = Memory.address("note", "hi", ())
    done = memory.adopt([{"type": "note", "content": "hi", "active": False}])

    assert (done.added, memory.get(addr).active, memory.adopt([{"type": "note", "content": "hi"}]).added) == (
        1,
        False,
        1,
    )
    for wrong in ({"content": ""}, {"content": "x", "inputs": ["abc"]}, {"content": "x", "confidence": 7}):
        with pytest.raises(threadline.InvalidArgument):
            memory.adopt([wrong])
