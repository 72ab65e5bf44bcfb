"""mnemo's trees: read into working memory, and written so that its addresses are right."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import threadline
from threadline import Store, transcripts


def address(kind: str, content: str, inputs: list[str]) -> str:
    """As mnemo's own code computes it."""
    return sha256(f"{kind}\n{content}\n{','.join(sorted(inputs))}".encode()).hexdigest()[:12]


class Tree:
    """A tree of files as mnemo writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "nodes").mkdir(parents=True)
        self.active: list[str] = []
        self.chains: dict[str, Any] = {}

    def node(
        self, content: str, kind: str = "leaf", inputs: tuple[str, ...] = (), *, live: bool = True, **meta: Any
    ) -> str:
        addr = address(kind, content, [*inputs])
        node = {
            "type": kind,
            "content": content,
            "inputs": [*inputs],
            "created": 1794767200.5,
            "meta": meta,
            "addr": addr,
        }
        (self.path / "nodes" / f"{addr}.json").write_text(json.dumps(node))
        self.active += [addr] if live else []
        return addr

    def chain(self, id: str, *members: str, **more: Any) -> None:
        self.chains[id] = {
            "chain_id": id, "head": members[0], "tail": members[-1], "members": [*members], "domain": "architecture",
            "summary": "storage choice", "score": 0.0, "last_extended": 1794767300.25, "created": 1794767200.5,
            "status": "active", "agent_id": None, "authority": 0.0, "stash_reason": None, "plan_root": False, **more,
        }  # fmt: skip

    def close(self) -> None:
        (self.path / "active.json").write_text(json.dumps(sorted(self.active)))
        (self.path / "chains.json").write_text(json.dumps(self.chains))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a memory: claims, a chain, a compression, a session's own, an archive, and a log."""
    tree = Tree(tmp_path / "shop" / ".mnemo")
    one = tree.node(
        "uses sqlite", live=False, domain="architecture", confidence=0.9, chains=["ch_52e2d184cf16"], odd={"x": [1]}
    )
    two = tree.node("tests use pytest", live=False, ttl_days=7)
    tree.node("sqlite and pytest", "compress", (one, two), coverage_score=0.8)
    tree.chain("ch_52e2d184cf16", one, two)
    tree.chain("ch_000000000001", one, status="stashed", stash_reason="later")
    tree.close()
    mine = Tree(tree.path / "sessions" / "s_a7f3c2d1")
    mine.node("a hunch", preliminary=True)
    mine.close()
    agent = Tree(tree.path / "sessions" / "s_a7f3c2d1" / "coder")
    agent.node("mine alone")
    agent.close()
    old = Tree(tree.path / "session_archive" / "s_00000001_1794760000")
    old.node("from before")
    old.close()
    (tree.path / "session_state.json").write_text(json.dumps({"session_turns": 3, "saved_at": 1794767200.6}))
    (tree.path / "logs").mkdir()
    log = tree.path / "logs" / "20261115_182640_ab12cd.log"
    log.write_text('{"ts": 1794767200.7, "event": "claim", "summary": "x"}\n')
    return tmp_path / "shop"


def test_a_tree_becomes_the_memory_of_its_project(store: Store, project: Path) -> None:
    report = transcripts.read(project, store=store)
    again = transcripts.read(project, store=store)
    memory = store.memory("shop")
    (node,) = memory.active()

    assert (report.problems, report.added, again.added, again.unchanged) == ([], 6, 0, 6)
    assert (node.content, node.type) == ("sqlite and pytest", "compress")
    assert {found.content for found in memory.provenance(node)} >= {"uses sqlite", "tests use pytest"}
    assert memory.get(node.inputs[0]).meta["mnemo"]["meta"]["odd"] == {"x": [1]}
    assert memory.get(node.inputs[0]).confidence == 0.9
    assert [
        (chain.name, chain.status, len(chain.members)) for chain in memory.chains() if chain.id == "ch_52e2d184cf16"
    ] == [("storage choice", "active", 2)]
    assert {archive.session for archive in memory.archives()} == {"s_00000001"}
    assert "a hunch" in {found.content for found in memory.active(session="s_a7f3c2d1")}
    assert {event.what for event in memory.events()} >= {"claim", "mnemo session state"}
    assert store.verify().problems == []


def test_the_way_back_gives_the_same_nodes_and_chains(store: Store, project: Path, tmp_path: Path) -> None:
    transcripts.read(project, store=store)
    transcripts.write(store.memory("shop"), tmp_path / "out", "mnemo")
    before, after = project / ".mnemo", tmp_path / "out"

    for part in ("", "sessions/s_a7f3c2d1", "sessions/s_a7f3c2d1/coder"):
        names = [path.name for path in (before / part / "nodes").iterdir()]
        for name in ("active.json", *(f"nodes/{name}" for name in names)):
            was, now = (json.loads((top / part / name).read_text()) for top in (before, after))
            if isinstance(was, dict):  # of a node, more may be said than before
                now["meta"] = {key: now["meta"][key] for key in was["meta"] if key != "chains"}
                was["meta"].pop("chains", None)
            assert now == was
    assert json.loads((after / "chains.json").read_text()) == json.loads((before / "chains.json").read_text())


def test_what_is_read_again_from_what_was_written_is_the_same_memory(store: Store, tmp_path: Path) -> None:
    memory = store.memory("shop")
    first = memory.claim("one", chain="line", domain="d")
    memory.supersede(memory.claim("two"), "three")
    memory.claim("hunch", session=memory.session(), preliminary=True)
    transcripts.write(memory, tmp_path / "out", "mnemo")
    with threadline.open(":memory:") as other:
        transcripts.read(tmp_path / "out", store=other, project="shop")
        there = other.memory("shop")

        assert {node.addr for node in there.active()} == {node.addr for node in memory.active()}
        assert there.chain("line").members == (first.addr,)
        assert other.verify().problems == []


def test_damaged_files_are_reported_and_the_rest_is_imported(store: Store, project: Path) -> None:
    top = project / ".mnemo"
    (top / "chains.json").write_text('{"ch_52e2')
    (top / "active.json").write_text("")
    (top / "nodes" / "ffffffffffff.json").write_text(
        json.dumps(
            {"type": "leaf", "content": "changed", "inputs": [], "created": 1, "meta": {}, "addr": "ffffffffffff"}
        )
    )
    (top / "nodes" / "eeeeeeeeeeee.json").write_text("[]")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    report = transcripts.read(project, store=store)
    said = " ".join(problem.what for problem in report.problems)

    assert "its address is not that of its content" in said
    assert "put together again" in said
    assert {problem.path.rpartition("/")[2] for problem in report.problems} == {
        "chains.json", "active.json", "ffffffffffff.json", "eeeeeeeeeeee.json"
    }  # fmt: skip
    assert [node.content for node in store.memory("shop").active()] == ["sqlite and pytest"]
    assert report.bytes_read == report.bytes_imported + report.bytes_reported
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_mnemo_takes_a_memory_and_writes_over_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(threadline.InvalidArgument, match="memory"):
        transcripts.write(store.new(), tmp_path / "out", "mnemo")
    with pytest.raises(threadline.Conflict):
        transcripts.write(store.memory("x"), tmp_path, "mnemo")
    with pytest.raises(threadline.InvalidArgument, match="mnemo takes a memory"):
        transcripts.write(store.memory("x"), tmp_path / "out", "html")


@pytest.mark.parametrize("name", ["../../escape", "nodes", "index", ".", "a/b", "\ud800"])
def test_no_name_leads_out_of_the_folder(store: Store, tmp_path: Path, name: str) -> None:
    memory = store.memory("x")
    memory.claim("hunch", session=store.new(id=name), agent=name, preliminary=True)
    transcripts.write(memory, tmp_path / "out", "mnemo")
    inside = {path.relative_to(tmp_path / "out").parts[0] for path in (tmp_path / "out").rglob("*.json")}

    assert inside <= {"sessions", "active.json", "chains.json", "nodes"}
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith("store.db")} == {"out"}
