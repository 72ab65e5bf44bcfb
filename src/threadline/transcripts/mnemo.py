"""mnemo: a tree of small files that holds a project's working memory; read into a memory, and written from one.

A node is a file named by its address: twelve digits of a SHA-256 over its type, its content and its inputs, sorted. A
file whose address is not that of its content is damaged: it is reported and left alone. Our own addresses are longer
and mind the order, so every reference is translated; what mnemo says of a node or a chain stays beside it as it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from threadline import Chain, Conflict, InvalidArgument, Memory, Node, Working
from threadline.transcripts.desk import Desk
from threadline.transcripts.masking import Mask
from threadline.transcripts.sources import Damage, Refused, Source, decode, is_folder, is_regular

NAME = "mnemo"
ADDR = re.compile(r"[0-9a-f]{12,64}")
ADDR_CHARS = 12
GENESIS = "0" * ADDR_CHARS  # mnemo's name for "nothing came before"
ARCHIVED = re.compile(r"(?P<session>s_[0-9a-z]+|.+?)(?:_(?P<agent>.+))?_(?P<at>\d{9,11})")
OURS = ("nodes", "index", "sessions", "session_archive", "logs")  # folders with a meaning of their own
REBUILT = "an index of mnemo's own, which follows from its nodes: not imported"
STATUSES = ("preliminary", "active", "stashed", "archived", "superseded")


# -- reading -------------------------------------------------------------------------------------------


def claims(source: Source) -> bool:
    """A folder with nodes, and something that says which of them count."""
    if not source.is_folder or not is_folder(source.path / "nodes"):
        return False
    return any(is_regular(source.path / name) for name in ("active.json", "chains.json")) or any(
        ADDR.fullmatch(path.stem) for path in (source.path / "nodes").glob("*.json")
    )


def bring(source: Source, desk: Desk) -> None:
    memory = desk.store.memory(_project(source.path, desk.project), root=source.path.parent)
    _Tree(source, desk, memory).bring()


def _project(path: Path, wanted: str | None) -> str | None:
    """The memory that a tree goes to: the one that was asked for, else that of the folder that holds it."""
    if wanted is not None:
        return wanted
    if path.name == ".mnemo" and path.resolve().parent == Path.home():
        return None
    return path.resolve().parent.name if path.name == ".mnemo" else path.name


class _Tree:
    """One tree on its way in."""

    def __init__(self, source: Source, desk: Desk, memory: Memory) -> None:
        self.source = source
        self.desk = desk
        self.memory = memory
        self.taken: set[str] = set()  # ids of chains: in a session's folder a promoted one has the same again
        self.lasting: dict[str, str] = {}

    def bring(self) -> None:
        top = self.source.path
        self.lasting = self._store(top, None)
        state = self.source.object(top / "session_state.json") or {}
        for folder, session, agent, ended in _working_folders(top):
            saved = _time(state.get("saved_at")) if state.get("session_id") == session else None
            turns = state.get("session_turns") if state.get("session_id") == session else 0
            began, used = _ages(folder)
            working = Working(session, agent, began, saved or used, ended, turns if type(turns) is int else 0)
            self._store(folder, working)
        self._events(top / "logs", state)
        self._set_aside(top)

    def _store(self, folder: Path, working: Working | None) -> dict[str, str]:
        """The nodes and chains of one folder; mnemo's addresses and ours."""
        raw = dict(self._nodes(folder / "nodes"))
        ours = _addresses(raw)
        active = self._active(folder, raw)
        chains = self._chains(folder, raw, ours, working)
        known = self._known(working)
        given = []
        unchanged = 0
        for addr, node in sorted(raw.items(), key=lambda item: (item[1].get("created") or 0, item[0])):
            one = _node(node, ours, addr in active, working)
            if known.get(ours[addr]) == one["meta"][NAME]:
                unchanged += 1
            else:
                given.append(one)
        self._adopt(given, chains, working, unchanged)
        return ours

    def _known(self, working: Working | None) -> dict[str, Any]:
        """What was imported before, as mnemo said it then."""
        scope = {} if working is None else {"session": working.session, "agent": working.agent}
        return {node.addr: node.meta.get(NAME) for node in self.memory.nodes(**scope)}

    def _adopt(self, nodes: list[Any], chains: list[Any], working: Working | None, unchanged: int) -> None:
        if not self.desk.dry_run and (nodes or chains or working is not None):
            self.memory.adopt(nodes, chains, working=working)
        self.desk.count(added=len(nodes), unchanged=unchanged)

    def _nodes(self, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        """The nodes that are what their addresses say, by mnemo's addresses."""
        for path in self.source.listed(folder):
            found = self.source.object(path) if path.suffix == ".json" else None
            if found is None:
                if path.suffix != ".json":
                    self._aside(path, "not a node")
                continue
            size = path.lstat().st_size
            if (wrong := _flaw(found, path.stem)) is not None:
                self.source.report(path, 0, size, wrong)
                continue
            yield path.stem, found

    def _active(self, folder: Path, raw: dict[str, dict[str, Any]]) -> set[str]:
        """The nodes that count. Where the list is damaged: those that nothing has superseded or compressed."""
        found = self.source.text(folder / "active.json")
        if found is not None:
            try:
                listed = decode(found)
                if isinstance(listed, list):
                    return {addr for addr in listed if isinstance(addr, str)}
                self.source.report(folder / "active.json", 0, len(found), "not a list of addresses")
            except ValueError as error:
                self.source.report(folder / "active.json", 0, len(found), f"not JSON: {error}")
        used = {addr for node in raw.values() if node["type"] in ("compress", "supersede") for addr in node["inputs"]}
        return {addr for addr, node in raw.items() if addr not in used and node["type"] != "root"}

    def _chains(
        self, folder: Path, raw: dict[str, dict[str, Any]], ours: dict[str, str], working: Working | None
    ) -> list[dict[str, Any]]:
        path = folder / "chains.json"
        made = []
        found = self.source.object(path)
        if found is None and os.path.lexists(path):
            found = self._put_together(path, raw)
        for id, chain in (found or {}).items():
            if not isinstance(chain, dict) or not isinstance(chain.get("members"), list):
                self.source.report(path, 0, 0, f"chain {id!r} has no members: set aside")
                continue
            there = f"{id}@{working.session}" if working is not None and id in self.taken else id
            self.taken.add(there)
            made.append(_chain(there, chain, {**self.lasting, **ours}, working))
        return made

    def _put_together(self, path: Path, raw: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """The chains of a torn list, as far as their nodes name them."""
        found: dict[str, Any] = {}
        for addr, node in sorted(raw.items(), key=lambda item: (item[1].get("created") or 0, item[0])):
            named = node.get("meta", {}).get("chains")
            for id in named if isinstance(named, list) else ():
                chain = found.setdefault(str(id), {"members": [], "created": node.get("created"), "status": "active"})
                chain["members"].append(addr)
                chain["last_extended"] = node.get("created")
        for id in found:
            self.desk.remark(path, f"chain {id!r} is put together again from what its nodes say")
        return found

    def _events(self, folder: Path, state: dict[str, Any]) -> None:
        """The log of what was done. Addresses that lead nowhere stay in the detail."""
        found: list[dict[str, Any]] = []
        if (saved := _time(state.get("saved_at"))) is not None:
            found.append({"at": saved, "what": "mnemo session state", "detail": {NAME: state}})
        for path in self.source.listed(folder):
            if path.suffix != ".log":
                self._aside(path, "not a log")
                continue
            for line in self.source.lines(path):
                if isinstance(line, Damage):
                    continue
                if (event := _event(line.value, self.lasting)) is None:
                    self.source.report(path, line.offset, line.length, "no event with a time")
                else:
                    found.append(event)
        if found and not self.desk.dry_run:
            self.memory.adopt(events=found)

    def _set_aside(self, top: Path) -> None:
        """What else lies there is named: indexes that follow from the nodes, and what newer versions write."""
        known = {"active.json", "chains.json", "session_state.json"}
        for path in self.source.listed(top):
            if path.name == "roots.json":
                self._checked_roots(path)
            elif path.name not in known:
                self._aside(path, "a file of mnemo's that holds no node and no chain: not imported")
        for folder in sorted(path for path in top.iterdir() if is_folder(path)):
            if folder.name in OURS and folder.name != "index":
                continue
            for path in sorted(path for path in folder.rglob("*") if is_regular(path)):
                self._aside(path, REBUILT if folder.name == "index" else "of a kind that we do not know: not imported")

    def _checked_roots(self, path: Path) -> None:
        """The history of roots: those are nodes, in the order of their times."""
        found = self.source.text(path)
        try:
            fine = found is None or isinstance(decode(found), list)
        except ValueError:
            fine = False
        if not fine:
            self.source.report(path, 0, len(found or b""), "not a list of addresses")

    def _aside(self, path: Path, what: str) -> None:
        try:
            self.source.open(path).close()
        except Refused as refused:
            self.source.report(path, 0, 0, str(refused))
            return
        size = path.lstat().st_size
        self.source.count(path, size)
        self.source.report(path, 0, size, what)


def _flaw(node: dict[str, Any], stem: str) -> str | None:
    """What is wrong with a node, or None."""
    type, content, inputs = node.get("type"), node.get("content"), node.get("inputs", [])
    if not isinstance(type, str) or not type or not isinstance(content, str) or not content:
        return "no node: it has no type and content"
    if not isinstance(inputs, list) or not all(isinstance(addr, str) for addr in inputs):
        return "no node: its inputs are no list of addresses"
    if not isinstance(node.get("meta", {}), dict):
        return "no node: its meta is no object"
    if not ADDR.fullmatch(stem) or not mnemo_address(type, content, inputs).startswith(stem):
        return "damaged: its address is not that of its content"
    return None


def mnemo_address(type: str, content: str, inputs: list[str]) -> str:
    """mnemo's digest, whole; its addresses are the first twelve digits."""
    payload = f"{type}\n{content}\n{','.join(sorted(inputs))}"
    return sha256(payload.encode("utf-8", "surrogatepass")).hexdigest()


def _addresses(raw: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Our address for each of mnemo's: inputs first, however deep. One that is missing leads nowhere."""
    ours: dict[str, str] = {}
    for start in raw:
        line = [start]
        while line:
            addr = line[-1]
            wanted = [one for one in raw[addr].get("inputs", []) if one in raw and one not in ours]
            if wanted and len(line) <= len(raw):
                line += wanted
                continue
            if addr not in ours:
                ours[addr] = Memory.address(raw[addr]["type"], raw[addr]["content"], _translated(raw[addr], ours))
            line.pop()
    return ours


def _translated(node: dict[str, Any], ours: dict[str, str]) -> list[str]:
    inputs = [addr for addr in node.get("inputs", []) if addr != GENESIS]
    return [ours.get(addr) or _nowhere(addr) for addr in inputs]


def _nowhere(addr: str) -> str:
    return sha256(f"mnemo {addr}".encode("utf-8", "surrogatepass")).hexdigest()


def _node(node: dict[str, Any], ours: dict[str, str], active: bool, working: Working | None) -> dict[str, Any]:
    meta = node.get("meta", {})
    raw = {"created": node.get("created"), "inputs": node.get("inputs", []), "active": active, "meta": meta}
    confidence, priority = meta.get("confidence"), meta.get("priority")
    sure = type(confidence) in (int, float) and 0 <= confidence <= 1
    given = {
        "type": node["type"],
        "content": node["content"],
        "inputs": _translated(node, ours),
        "created_at": _time(node.get("created")),
        "touched_at": _time(meta.get("last_reinforced")),
        "active": active,
        "domain": meta.get("domain") if isinstance(meta.get("domain"), str) else "",
        "confidence": confidence if sure else 0.8,
        "priority": priority if type(priority) is int and abs(priority) <= 100 else 0,
        "reinforced": _count(meta.get("reinforcement_count")),
        "anchors": [one for one in meta.get("anchors") or [] if isinstance(one, dict)],
        "session": _name(meta.get("session_id")) or (working.session if working else None),
        "agent": _name(meta.get("agent_id")) or (working.agent if working else None),
        "meta": {NAME: raw} | {name: meta[name] for name in ("source", "links") if name in meta},
    }
    return {name: value for name, value in given.items() if value is not None}


def _chain(id: str, chain: dict[str, Any], ours: dict[str, str], working: Working | None) -> dict[str, Any]:
    members = [addr for addr in chain["members"] if isinstance(addr, str)]
    status = chain.get("status")
    meta = {NAME: chain} | {
        name: chain[name] for name in ("plan_root", "stash_reason") if chain.get(name) not in (None, False)
    }
    given = {
        "id": id,
        "name": _name(chain.get("summary")) or id,
        "status": status if status in STATUSES else "archived",
        "members": [ours.get(addr) or _nowhere(addr) for addr in members],
        "domain": chain.get("domain") if isinstance(chain.get("domain"), str) else "",
        "session": working.session if working else None,
        "agent": _name(chain.get("agent_id")) or (working.agent if working else None),
        "created_at": _time(chain.get("created")),
        "extended_at": _time(chain.get("last_extended")),
        "meta": meta,
    }
    return {name: value for name, value in given.items() if value is not None}


def _event(line: dict[str, Any], ours: dict[str, str]) -> dict[str, Any] | None:
    at, what = _time(line.get("ts")), line.get("event")
    if at is None or not isinstance(what, str) or not what:
        return None
    named = line.get("addresses")
    addrs = [ours[addr] for addr in named if addr in ours] if isinstance(named, list) else []
    return {"at": at, "what": what, "addrs": addrs, "detail": {NAME: line}}


def _working_folders(top: Path) -> Iterator[tuple[Path, str, str | None, datetime | None]]:
    """Every folder of a session, and of an agent in one: where, whose, and when it was archived."""
    for folder in _folders(top / "sessions"):
        yield from _with_agents(folder, unquote(folder.name), None, None)
    for folder in _folders(top / "session_archive"):
        found = ARCHIVED.fullmatch(folder.name)
        session, agent = (found["session"], found["agent"]) if found else (folder.name, None)
        ended = _time(int(found["at"])) if found else None
        yield from _with_agents(folder, unquote(session), agent and unquote(agent), ended or _ages(folder)[1])


def _with_agents(
    folder: Path, session: str, agent: str | None, ended: datetime | None
) -> Iterator[tuple[Path, str, str | None, datetime | None]]:
    if is_folder(folder / "nodes") or is_regular(folder / "chains.json"):
        yield folder, session, agent, ended
    for below in _folders(folder):
        if below.name not in OURS and (is_folder(below / "nodes") or is_regular(below / "chains.json")):
            yield below, session, unquote(below.name), ended


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if is_folder(path)) if is_folder(folder) else []


def _ages(folder: Path) -> tuple[datetime, datetime]:
    """From when to when a folder was worked in, as its files tell."""
    times = [path.lstat().st_mtime for path in (folder, *folder.rglob("*.json"))]
    return datetime.fromtimestamp(min(times), UTC), datetime.fromtimestamp(max(times), UTC)


def _time(seconds: Any) -> datetime | None:
    """A time as mnemo writes it: seconds since 1970, or ISO 8601 in its logs."""
    try:
        if isinstance(seconds, str):
            found = datetime.fromisoformat(seconds)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(seconds, int | float) and not isinstance(seconds, bool):
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 10**9 else 0


def _name(value: Any) -> str | None:
    return value[:512] if isinstance(value, str) and value else None


# -- writing -------------------------------------------------------------------------------------------


def write_memory(memory: Memory, path: Path, mask: Mask, *, raw: bool) -> None:
    """A memory as a tree that mnemo reads, in a new folder: lasting, working and archived."""
    if os.path.lexists(path):
        raise Conflict(f"{path} is there already: a tree is never written over; choose another folder")
    if not is_folder(path.parent):
        raise InvalidArgument(f"there is no folder {path.parent}")
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        _write_tree(memory, partial, mask)
        partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _write_tree(memory: Memory, path: Path, mask: Mask) -> None:
    chains, workings = memory.chains(), memory.workings()
    theirs = _write_store(path, memory.nodes(), [chain for chain in chains if chain.lasting], mask, {})
    roots = [node for node in memory.nodes() if node.type == "root"]
    if roots:
        _dump(path / "roots.json", [theirs[node.addr] for node in roots])
    for working in workings:
        nodes = memory.nodes(session=working.session, agent=working.agent)
        own = [chain for chain in chains if _is_of(chain, working, workings)]
        _write_store(path / _folder(working), nodes, own, mask, theirs)


def _is_of(chain: Chain, working: Working, workings: list[Working]) -> bool:
    """Whether a chain stands in that working memory: its agent's own where there is one, else the whole session's."""
    if chain.lasting or chain.session != working.session:
        return False
    agents = {one.agent for one in workings if one.session == working.session}
    return working.agent == (chain.agent if chain.agent in agents else None)


def _folder(working: Working) -> Path:
    """Names are data: what could mean something in a path is written otherwise."""
    session, agent = _quoted(working.session), None if working.agent is None else _quoted(working.agent)
    if working.ended_at is None:
        return Path("sessions", session) if agent is None else Path("sessions", session, agent)
    at = int(working.ended_at.timestamp())
    return Path("session_archive", f"{session}_{at}" if agent is None else f"{session}_{agent}_{at}")


def _quoted(name: str) -> str:
    plain = quote(name, safe="", errors="surrogatepass").replace(".", "%2E")
    return f"%{ord(plain[0]):02X}{plain[1:]}" if plain in OURS else plain


def _write_store(
    folder: Path, nodes: list[Node], chains: list[Chain], mask: Mask, others: dict[str, str]
) -> dict[str, str]:
    """The files of one store; our addresses and mnemo's."""
    theirs = dict(others)
    by_addr = {node.addr: node for node in nodes}
    for node in nodes:
        _their_address(node, by_addr, theirs, mask)
    for node in nodes:
        addr = theirs[node.addr]
        _dump(folder / "nodes" / f"{addr}.json", _written(node, theirs, addr, mask, chains))
    for name in ("nodes", "index"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _dump(folder / "active.json", sorted(theirs[node.addr] for node in nodes if node.active))
    _dump(folder / "chains.json", {chain.id: _written_chain(chain, theirs, mask) for chain in chains})
    return theirs


def _their_address(node: Node, by_addr: dict[str, Node], theirs: dict[str, str], mask: Mask) -> str:
    line = [node]
    while line:
        one = line[-1]
        wanted = [by_addr[addr] for addr in one.inputs if addr in by_addr and addr not in theirs]
        if wanted:
            line += wanted
            continue
        theirs[one.addr] = mnemo_address(one.type, mask.text(one.content), _their_inputs(one, theirs))[:ADDR_CHARS]
        line.pop()
    return theirs[node.addr]


def _their_inputs(node: Node, theirs: dict[str, str]) -> list[str]:
    """As mnemo named them, where it did: also those that are lost."""
    told = node.meta.get(NAME, {}).get("inputs")
    if not isinstance(told, list):
        return [theirs.get(addr, addr[:ADDR_CHARS]) for addr in node.inputs]
    own = iter(node.inputs)
    return [addr if addr == GENESIS else theirs.get(next(own, ""), addr) for addr in map(str, told)]


def _written(node: Node, theirs: dict[str, str], addr: str, mask: Mask, chains: list[Chain]) -> dict[str, Any]:
    told = node.meta.get(NAME, {})
    meta = dict(told.get("meta", {})) if isinstance(told.get("meta"), dict) else {}
    meta |= {"domain": node.domain, "confidence": node.confidence}
    facts = {
        "priority": node.priority,
        "reinforcement_count": node.reinforced,
        "anchors": list(node.anchors),
        "chains": [chain.id for chain in chains if node.addr in chain.members],
        "session_id": node.session,
        "agent_id": node.agent,
    }
    meta |= {name: value for name, value in facts.items() if value}
    created = told.get("created")
    return {
        "type": node.type,
        "content": mask.text(node.content),
        "inputs": _their_inputs(node, theirs),
        "created": created if isinstance(created, int | float) else node.created_at.timestamp(),
        "meta": mask.value(meta),
        "addr": addr,
    }


def _written_chain(chain: Chain, theirs: dict[str, str], mask: Mask) -> dict[str, Any]:
    told = chain.meta.get(NAME, {})
    members = [theirs.get(addr, addr[:ADDR_CHARS]) for addr in chain.members]
    if isinstance(told, dict) and (told.get("members"), told.get("status")) == (members, chain.status):
        return dict(mask.value(told))  # nothing happened to it here
    return (
        {"score": 0.0, "authority": 0.0, "plan_root": bool(chain.meta.get("plan_root"))}
        | (mask.value(told) if isinstance(told, dict) else {})
        | {
            "chain_id": chain.id,
            "head": members[-1] if members else None,
            "tail": members[0] if members else None,
            "members": members,
            "domain": chain.domain,
            "summary": mask.text(chain.name),
            "last_extended": chain.extended_at.timestamp(),
            "created": chain.created_at.timestamp(),
            "status": chain.status,
            "agent_id": chain.agent,
            "stash_reason": chain.meta.get("stash_reason"),
        }
    )


def _dump(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
