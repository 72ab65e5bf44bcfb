"""mnemo: a tree of JSON files with the working memory of a project, read and written.

Its nodes become nodes of ours, with our addresses; what mnemo calls them, and all that we do not model, is kept in
`meta["mnemo"]`, so that the way back gives the same files. Addresses are computed anew and compared: a file that is not
what its address says is set aside. Indexes are not read: they follow from the nodes."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Raw

from threadline import Conflict, InvalidArgument, Memory, records
from threadline.records import ChainRecord, EventRecord, NodeRecord, WorkingRecord
from threadline.transcripts.desk import Desk
from threadline.transcripts.masking import Mask
from threadline.transcripts.sources import Damage, Source, is_folder

NAME = "mnemo"
FOLDER = ".mnemo"
GENESIS = "0" * 12
KINDS = ("leaf", "compress", "supersede", "root")
STATUSES = ("preliminary", "active", "stashed", "archived", "superseded")
ARCHIVE = re.compile(r"(?P<session>s_[0-9a-f]+|.+?)(?:_(?P<agent>.+))?_(?P<at>[0-9]{9,11})$")
PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def mnemo_address(kind: str, content: str, inputs: Iterable[str]) -> str:
    said = f"{kind}\n{content}\n{','.join(sorted(inputs))}"
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:12]


# -- reading -------------------------------------------------------------------------------------------


def claims(source: Source) -> bool:
    if not source.is_folder or not is_folder(source.path / "nodes"):
        return False
    return source.path.name == FOLDER or source.has("active.json") or source.has("chains.json")


class Shelf(NamedTuple):
    """One store of a tree: that of the project, or the working memory of a session or of an agent in it."""

    path: Path
    session: str | None = None
    agent: str | None = None
    ended_at: datetime | None = None

    @property
    def scope(self) -> str:
        return "" if self.session is None else records.scope_of(self.session, self.agent)


def bring(source: Source, desk: Desk) -> None:
    reading = _Reading(source, desk)
    for shelf in _shelves(source.path):
        reading.gather(shelf)
    reading.load()


def _shelves(top: Path) -> Iterator[Shelf]:
    yield Shelf(top)
    for folder in _folders(top / "sessions"):
        yield Shelf(folder, folder.name)
        for inner in _folders(folder):
            if is_folder(inner / "nodes"):
                yield Shelf(inner, folder.name, inner.name)
    for folder in _folders(top / "session_archive"):
        found = ARCHIVE.match(folder.name)
        at = _time(float(found["at"])) if found else None
        yield Shelf(folder, found["session"] if found else folder.name, found["agent"] if found else None, at)


def _folders(path: Path) -> list[Path]:
    return sorted(inner for inner in path.iterdir() if is_folder(inner)) if is_folder(path) else []


class _Reading:
    """One tree on its way into a memory."""

    def __init__(self, source: Source, desk: Desk) -> None:
        self._source, self._desk = source, desk
        home = source.path.parent if source.path.name == FOLDER else source.path
        own = None if home == Path.home() else home.name or None
        self._project = desk.project if desk.project is not None else own
        self._nodes: dict[str, dict[str, Any]] = {}  # by mnemo's address: content is the same wherever it stands
        self._ours: dict[str, str] = {}
        self._stood: list[tuple[Shelf, dict[str, Any], bool]] = []
        self._chains: list[tuple[Shelf, dict[str, Any]]] = []
        self._events: list[tuple[datetime, str, dict[str, Any]]] = []

    # -- what there is -----------------------------------------------------------------------------------

    def gather(self, shelf: Shelf) -> None:
        nodes = [*self._read_nodes(shelf)]
        active = self._active(shelf, nodes)
        self._nodes |= {node["addr"]: node for node in nodes}
        self._stood += ((shelf, node, node["addr"] in active) for node in nodes)
        self._chains += ((shelf, chain) for chain in self._read_chains(shelf, nodes))
        if shelf.session is None:
            self._read_logs(shelf.path)

    def _read_nodes(self, shelf: Shelf) -> Iterator[dict[str, Any]]:
        folder = shelf.path / "nodes"
        for path in sorted(folder.glob("*.json")) if is_folder(folder) else ():
            node = self._source.object(path)
            if node is None:
                continue
            if (why := _wrong(node)) is not None:
                self._source.report(path, 0, path.lstat().st_size, why)
            else:
                yield node

    def _active(self, shelf: Shelf, nodes: list[dict[str, Any]]) -> set[str]:
        """The live set; where its file is damaged, what nothing has taken the place of."""
        found = self._json(shelf.path / "active.json")
        if isinstance(found, list):
            return {addr for addr in found if isinstance(addr, str)}
        replaced = {addr for node in nodes if node["type"] in ("compress", "supersede") for addr in node["inputs"]}
        return {node["addr"] for node in nodes} - replaced

    def _read_chains(self, shelf: Shelf, nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The chains; where their file is damaged, as far as their nodes name them."""
        path = shelf.path / "chains.json"
        found = self._json(path)
        if isinstance(found, dict):
            for id, chain in found.items():
                if isinstance(chain, dict) and isinstance(chain.get("members"), list):
                    yield {"chain_id": id, **chain}
                else:
                    self._desk.remark(path, f"chain {id!r} is set aside: it has no members")
            return
        named: dict[str, list[str]] = {}
        for node in sorted(nodes, key=lambda node: node.get("created") or 0):
            for id in node["meta"].get("chains") or ():
                named.setdefault(str(id), []).append(node["addr"])
        for id, members in named.items():
            self._desk.remark(path, f"chain {id!r} is put together again from what its nodes say")
            yield {"chain_id": id, "members": members, "status": "active", "created": nodes[0].get("created")}

    def _json(self, path: Path) -> Any:
        """What a small file holds; None where there is none, or where it is damaged, which is reported."""
        body = self._source.text(path)
        if body is None:
            return None
        try:
            return json.loads(body)
        except ValueError as error:
            self._source.report(path, 0, len(body), f"not JSON: {error}")
            return None

    def _read_logs(self, top: Path) -> None:
        state = self._source.object(top / "session_state.json")
        if state is not None:
            self._events.append((_time(state.get("saved_at")), "mnemo session state", state))
        for path in sorted((top / "logs").glob("*.log")) if is_folder(top / "logs") else ():
            for line in self._source.lines(path):
                if not isinstance(line, Damage):
                    self._events.append((_time(line.value.get("ts")), str(line.value.get("event", "")), line.value))

    # -- into the memory ---------------------------------------------------------------------------------

    def load(self) -> None:
        loader = records.Loader(self._desk.store, dry_run=self._desk.dry_run)
        for record in self._records():
            if (why := loader.memory(record)) is not None:
                self._desk.remark(self._source.path, why)
        loader.memories.flush()
        self._desk.count(added=loader.memories.added, unchanged=loader.memories.known)

    def _records(self) -> Iterator[records.MemoryRecord]:
        for shelf, node, active in self._stood:
            yield self._node(shelf, node, active)
        for shelf, chain in self._chains:
            yield self._chain(shelf, chain)
        for shelf in dict.fromkeys(shelf for shelf, _, _ in self._stood if shelf.session is not None):
            times = [_time(node.get("created")) for mine, node, _ in self._stood if mine == shelf]
            yield WorkingRecord(
                shelf.scope, shelf.session or "", min(times), max(times), self._project, "", shelf.agent, shelf.ended_at
            )
        taken: set[int] = set()
        for at, what, detail in sorted(self._events, key=lambda event: event[0]):
            number = (at - EPOCH) // timedelta(microseconds=1)
            while number in taken:
                number += 1
            taken.add(number)
            yield EventRecord(number, what or "mnemo", _raw(detail), self._project)

    def _node(self, shelf: Shelf, node: dict[str, Any], active: bool) -> NodeRecord:
        meta, at = node["meta"], _time(node.get("created"))
        ttl = meta.get("ttl_days")
        about = {
            "confidence": _number(meta.get("confidence"), 0.8),
            "priority": int(_number(meta.get("priority"), 0)),
            "reinforced": int(_number(meta.get("reinforcement_count"), 0)),
            "anchors": [],
            "domains": [],
            "meta": {NAME: node},
        }
        return NodeRecord(
            self._address(node["addr"]),
            node["type"],
            node["content"],
            at,
            at,
            _raw(about),
            self._project,
            "",
            shelf.scope,
            active,
            at + timedelta(days=float(ttl)) if isinstance(ttl, int | float) and 0 < ttl < 10**5 else None,
            None,
            shelf.session,
            shelf.agent or _text(meta.get("agent_id")),
            _text(meta.get("domain")) or "",
            self._inputs(node),
        )

    def _chain(self, shelf: Shelf, chain: dict[str, Any]) -> ChainRecord:
        status, at = chain.get("status"), _time(chain.get("created"))
        extended = chain.get("last_extended")
        return ChainRecord(
            str(chain["chain_id"]),
            _text(chain.get("summary")) or str(chain["chain_id"]),
            status if status in STATUSES else "active",
            at,
            at if extended is None else _time(extended),
            _raw({NAME: chain} | ({"reason": chain["stash_reason"]} if chain.get("stash_reason") else {})),
            self._project,
            "",
            shelf.scope,
            shelf.session,
            shelf.agent or _text(chain.get("agent_id")),
            _text(chain.get("domain")) or "",
            tuple(self._address(str(addr)) for addr in dict.fromkeys(chain["members"])),
        )

    def _inputs(self, node: dict[str, Any]) -> tuple[str, ...]:
        return tuple(self._address(addr) for addr in node["inputs"] if addr != GENESIS)

    def _address(self, addr: str) -> str:
        """Our address of a node; for one that is not there, one that leads nowhere."""
        waiting = [addr]
        while waiting:
            last = waiting[-1]
            node = self._nodes.get(last)
            if node is None:
                self._ours[last] = sha256(b"mnemo:" + last.encode("utf-8", "surrogatepass")).hexdigest()
            elif left := [each for each in node["inputs"] if each != GENESIS and each not in self._ours]:
                waiting += left
                continue
            else:
                inputs = [self._ours[each] for each in node["inputs"] if each != GENESIS]
                self._ours[last] = records.address_of(node["type"], node["content"], inputs)
            waiting.pop()
        return self._ours[addr]


def _wrong(node: dict[str, Any]) -> str | None:
    """What is wrong with a node."""
    inputs, meta = node.setdefault("inputs", []), node.setdefault("meta", {})
    if node.get("type") not in KINDS or not isinstance(node.get("content"), str) or not isinstance(meta, dict):
        return "no node: it has no type, content or meta"
    if not isinstance(inputs, list) or not all(isinstance(addr, str) for addr in inputs):
        return "no node: its inputs are no addresses"
    if mnemo_address(node["type"], node["content"], inputs) != node.get("addr"):
        return "its address is not that of its content: set aside"
    return None


def _time(value: Any) -> datetime:
    """mnemo's times are seconds, or ISO in its logs."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return EPOCH + timedelta(microseconds=round(float(value) * 10**6))
    except (TypeError, ValueError, OverflowError):
        return EPOCH


def _number(value: Any, otherwise: float) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
    return value if fits else otherwise


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


# -- writing -------------------------------------------------------------------------------------------


def write_memory(memory: Memory, path: Path, mask: Mask, *, raw: bool) -> None:
    """Write a memory as a tree of mnemo's, at `path`, which must not be there yet."""
    if path.exists():
        raise Conflict(f"{path} is there already: mnemo's files are never written over; choose another folder")
    if not path.parent.is_dir():
        raise InvalidArgument(f"there is no folder {path.parent}")
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        _Writing(partial).write([*records.memory_of(memory, None if raw else mask)])
        partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


class _Writing:
    def __init__(self, top: Path) -> None:
        self._top = top
        self._theirs: dict[str, str] = {}
        self._nodes: dict[str, NodeRecord] = {}

    def write(self, found: list[records.MemoryRecord]) -> None:
        nodes = [record for record in found if isinstance(record, NodeRecord)]
        chains = [record for record in found if isinstance(record, ChainRecord)]
        self._nodes = {node.addr: node for node in nodes}
        working = {record.scope: record for record in found if isinstance(record, WorkingRecord)}
        scopes = [*(node.scope for node in nodes), *(chain.scope for chain in chains)]
        for scope in dict.fromkeys(["", *scopes]):
            folder = self._top if not scope else self._top / "sessions" / _path(scope, working.get(scope))
            mine = [node for node in nodes if node.scope == scope]
            self._shelf(folder, mine, [chain for chain in chains if chain.scope == scope])

    def _shelf(self, folder: Path, nodes: list[NodeRecord], chains: list[ChainRecord]) -> None:
        (folder / "nodes").mkdir(parents=True, exist_ok=True)
        for node in nodes:
            _put(folder / "nodes" / f"{self._address(node.addr)}.json", self._node(node, chains))
        _put(folder / "active.json", sorted({self._address(node.addr) for node in nodes if node.active}))
        _put(folder / "chains.json", {chain.chain: self._chain(chain) for chain in chains})
        if roots := [self._address(node.addr) for node in nodes if node.kind == "root"]:
            _put(folder / "roots.json", roots)

    def _node(self, node: NodeRecord, chains: list[ChainRecord]) -> dict[str, Any]:
        about = json.loads(bytes(node.about))
        was = about.get("meta", {}).get(NAME)
        theirs = was if isinstance(was, dict) else {}
        meta = {
            "domain": node.domain,
            "confidence": about.get("confidence", 0.8),
            "source": "threadline",
            **({"priority": about["priority"]} if about.get("priority") else {}),
            **(theirs.get("meta") or {}),
        }
        if named := [chain.chain for chain in chains if node.addr in chain.members]:
            meta["chains"] = list(dict.fromkeys([*(meta.get("chains") or []), *named]))
        return {
            "type": node.kind,
            "content": node.content,
            "inputs": self._inputs(node, theirs),
            "created": theirs.get("created", node.created_at.timestamp()),
            "meta": meta,
            "addr": self._address(node.addr),
        }

    def _chain(self, chain: ChainRecord) -> dict[str, Any]:
        was = json.loads(bytes(chain.about)).get(NAME)
        members = [self._address(addr) for addr in chain.members]
        return {
            "score": 0.0,
            "authority": 0.0,
            "stash_reason": None,
            "plan_root": False,
            "created": chain.created_at.timestamp(),
            "last_extended": chain.extended_at.timestamp(),
            **(was if isinstance(was, dict) else {}),
            "chain_id": chain.chain,
            "head": members[0] if members else None,
            "tail": members[-1] if members else None,
            "members": members,
            "domain": chain.domain,
            "summary": chain.name,
            "status": chain.status,
            "agent_id": chain.agent,
        }

    def _inputs(self, node: NodeRecord, theirs: dict[str, Any]) -> list[str]:
        genesis = [addr for addr in theirs.get("inputs") or () if addr == GENESIS]
        return [*genesis, *(self._address(addr) for addr in node.inputs)]

    def _address(self, addr: str) -> str:
        """mnemo's address of a node of ours."""
        waiting = [addr]
        while waiting:
            node = self._nodes.get(waiting[-1])
            if node is None:
                self._theirs[waiting[-1]] = waiting[-1][:12]
            elif left := [each for each in node.inputs if each not in self._theirs]:
                waiting += left
                continue
            else:
                was = json.loads(bytes(node.about)).get("meta", {}).get(NAME)
                inputs = self._inputs(node, was if isinstance(was, dict) else {})
                self._theirs[node.addr] = mnemo_address(node.kind, node.content, inputs)
            waiting.pop()
        return self._theirs[addr]


def _path(scope: str, working: WorkingRecord | None) -> Path:
    """Where a working memory goes: no name of ours leads out of the folder, or into its layout."""
    if working is None:
        return Path(f"s_{scope[:8]}")
    session = _plain(working.session, "s_")
    return Path(session) if working.agent is None else Path(session) / _plain(working.agent, "agent_")


def _plain(name: str, prefix: str) -> str:
    if PLAIN.fullmatch(name) and name not in ("nodes", "index"):
        return name
    return prefix + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _put(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=True, indent=2), encoding="utf-8")
