"""From working memory to the lasting one: promotion, the end of a session, archives.

Nothing preliminary is ever lost: what ends is promoted, or stays where it is, archived, until somebody asks for it to
be collected. Promotion joins what is already there and replaces nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from threadline.core import codec
from threadline.core.entries import moment, stored, text, text_or_none
from threadline.errors import NotFound
from threadline.memory.chains import ACTIVE, ARCHIVED, PRELIMINARY, Chain, chain_of, is_open, meta_of, with_meta
from threadline.memory.desk import Desk
from threadline.memory.nodes import About, Node, about_bytes, about_of, is_live, joined, merged, node_of
from threadline.memory.rows import (
    LASTING,
    ChainRow,
    Change,
    Extended,
    NodeRow,
    Shelf,
    Untold,
    WorkingRow,
    split_addrs,
)


class Promotion(Struct, frozen=True):
    """What was promoted: addresses of nodes, ids of chains. What was there already is among them: it was joined."""

    nodes: tuple[str, ...]
    chains: tuple[str, ...]


class Ending(Struct, frozen=True):
    """What became of a session's working memory, by address, and of its chains, by id: all of it is in one of them."""

    session: str
    promoted: tuple[str, ...]
    archived: tuple[str, ...]
    promoted_chains: tuple[str, ...]
    archived_chains: tuple[str, ...]


class Archive(Struct, frozen=True):
    """The working memory of a session, or of an agent in it, that has ended."""

    session: str
    agent: str | None
    started_at: datetime
    archived_at: datetime
    nodes: int
    chains: int


class Collection(Struct, frozen=True):
    """Which archives were collected, or would be, and how many nodes they held that are in no lasting memory."""

    archives: tuple[Archive, ...]
    lost: int
    dry_run: bool


class Summary(Struct, frozen=True):
    """Where a session's working memory stands: what is preliminary, what was promoted, and its chains."""

    session: str
    active: int
    preliminary: tuple[Node, ...]
    promoted: tuple[str, ...]
    chains: tuple[Chain, ...]
    ended: bool
    turns: int


# -- promotion -----------------------------------------------------------------------------------------


def promote(named: Any, scopes: tuple[bytes, ...] | None, now: int, shelf: Shelf) -> tuple[list[Change], Promotion]:
    """A chain with all its nodes, by its id or name, or a node, by its address, wherever it is preliminary."""
    desk = Desk(shelf, now)
    chain = _chain(desk, named, scopes)
    if chain is not None:
        return _told(desk, *_promote_chain(desk, chain))
    rows = [row for row in desk.copies(named) if scopes is None or row.scope in (LASTING, *scopes)]
    for row in rows:
        _promote_node(desk, row)
    return _told(desk, [rows[0].addr], [])


def _chain(desk: Desk, named: Any, scopes: tuple[bytes, ...] | None) -> ChainRow | None:
    """None where it is no chain, so that it must be a node."""
    name = getattr(named, "id", named)
    if hasattr(named, "addr") or not isinstance(name, str):
        return None
    if desk.chain(stored(name)) is None and not desk.chains_named(name):
        return None
    working = [row for row in desk.chains_named(name) if row.scope and is_open(row)]
    if scopes is None and len({row.scope for row in working}) == 1:  # of one name, the one that is to be promoted
        return max(working, key=lambda row: row.extended_at)
    return desk.find_chain(name, scopes)


def promote_all(session: str, agent: str | None, now: int, shelf: Shelf) -> tuple[list[Change], Promotion]:
    """All that is preliminary in a session, chains and nodes of no chain alike."""
    desk = Desk(shelf, now)
    nodes, chains = _promote_scopes(desk, _of(desk, session, agent))
    return _told(desk, nodes, chains, session=session)


def _promote_scopes(desk: Desk, workings: Iterable[WorkingRow]) -> tuple[list[bytes], list[bytes]]:
    nodes: dict[bytes, None] = {}
    chains: list[bytes] = []
    for working in workings:
        for chain in desk.shelf.chains(working.scope):
            if text(chain.status) == PRELIMINARY:
                members, promoted = _promote_chain(desk, chain)
                nodes |= dict.fromkeys(members)
                chains += promoted
        for row in desk.shelf.nodes_in(working.scope, active=True):
            if row.promoted_at is None and is_live(row, desk.now):
                _promote_node(desk, desk.node(row.scope, row.addr) or row)
                nodes.setdefault(row.addr)
    return list(nodes), chains


def _promote_node(desk: Desk, row: NodeRow) -> None:
    if row.scope == LASTING or row.promoted_at is not None:
        return
    about = about_of(row)
    lasting = row._replace(scope=LASTING, promoted_at=None, active=1, about=about_bytes(_from(about, row, desk.now)))
    known = desk.node(LASTING, row.addr)
    desk.put(lasting if known is None else joined(known, lasting, again=False))
    desk.put(row._replace(promoted_at=desk.now))


def _from(about: About, row: NodeRow, now: int) -> About:
    """With where it was promoted from, and when."""
    where = {"session": text_or_none(row.session), "agent": text_or_none(row.agent), "at": moment(now).isoformat()}
    about.meta = merged(about.meta, {"promoted": [{name: value for name, value in where.items() if value is not None}]})
    return about


def _promote_chain(desk: Desk, row: ChainRow) -> tuple[list[bytes], list[bytes]]:
    """The nodes of the chain, and the chain: a lasting one, which the one in the session leads to from then on."""
    members = split_addrs(row.members)
    if row.scope == LASTING:
        return members, [row.chain]
    if (known := meta_of(row).get("promoted_to")) is not None and not is_open(row):
        return members, [stored(known)]
    for addr in members:
        node = desk.node(row.scope, addr)
        if node is not None:
            _promote_node(desk, node)
    return members, [_lasting_chain(desk, row).chain]


def _lasting_chain(desk: Desk, row: ChainRow) -> ChainRow:
    """The chain itself, lasting from now on; or the open lasting one of its name, longer now, to which it leads."""
    origin = {
        "session": text_or_none(row.session),
        "agent": text_or_none(row.agent),
        "at": moment(desk.now).isoformat(),
    }
    said = {"promoted": [{name: value for name, value in origin.items() if value is not None}]}
    known = [c for c in desk.chains_named(text(row.name)) if c.scope == LASTING and is_open(c)]
    if not known:
        lasting = with_meta(row, **merged(meta_of(row), said))
        return desk.put_chain(lasting._replace(scope=LASTING, status=stored(ACTIVE)))
    lasting = max(known, key=lambda chain: chain.extended_at)
    added = tuple(addr for addr in split_addrs(row.members) if addr not in split_addrs(lasting.members))
    lasting = with_meta(lasting, **merged(meta_of(lasting), {**meta_of(row), **said}))
    latest = max(lasting.extended_at, row.extended_at)
    lasting = desk.put_chain(lasting._replace(members=lasting.members + b"".join(added), extended_at=latest), added)
    desk.put_chain(with_meta(row, promoted_to=text(lasting.chain))._replace(status=stored(ARCHIVED)))
    return lasting


def _told(
    desk: Desk, nodes: list[bytes], chains: list[bytes], session: str | None = None
) -> tuple[list[Change], Promotion]:
    answer = Promotion(tuple(addr.hex() for addr in nodes), tuple(text(chain) for chain in chains))
    if not desk.changes:
        return [], answer
    desk.tell("promoted", tuple(nodes), session, chains=list(answer.chains))
    return desk.changes, answer


# -- the end of a session ------------------------------------------------------------------------------


def end(session: str, agent: str | None, promoting: bool, now: int, shelf: Shelf) -> tuple[list[Change], Ending]:
    """Promote all that is preliminary, unless told not to, and archive the rest."""
    desk = Desk(shelf, now)
    known = _of(desk, session, agent)
    workings = [row for row in known if row.ended_at is None]
    if not known and (begun := desk.enter(session, agent)) is not None:  # it has ended all the same
        workings = [begun]
    nodes, chains = _promote_scopes(desk, workings) if promoting else ([], [])
    archived: dict[bytes, None] = {}
    archived_chains = []
    for working in workings:
        desk.put_working(working._replace(ended_at=now))
        for row in shelf.nodes_in(working.scope, active=False):
            latest = desk.node(row.scope, row.addr) or row
            if latest.promoted_at is None:
                archived.setdefault(row.addr)
        for chain in shelf.chains(working.scope):
            latest_chain = desk.chain(chain.chain) or chain
            if latest_chain.scope != LASTING and "promoted_to" not in meta_of(latest_chain):
                archived_chains.append(text(chain.chain))
    answer = Ending(
        session,
        tuple(addr.hex() for addr in nodes),
        tuple(addr.hex() for addr in archived),
        tuple(text(chain) for chain in chains),
        tuple(archived_chains),
    )
    if workings:
        desk.tell("ended", tuple(nodes), session, agent, archived=len(archived))
    return desk.changes, answer


def _of(desk: Desk, session: str, agent: str | None) -> list[WorkingRow]:
    """The working memories of a session, or of one agent in it."""
    found = desk.workings(session)
    return found if agent is None else [row for row in found if row.agent == stored(agent)]


def summary(session: str, agent: str | None, now: int, shelf: Shelf) -> tuple[list[Change], Summary]:
    desk = Desk(shelf, now)
    workings = _of(desk, session, agent)
    rows = [row for working in workings for row in shelf.nodes_in(working.scope, active=False)]
    chains = [chain_of(row) for working in workings for row in shelf.chains(working.scope)]
    return [], Summary(
        session=session,
        active=sum(is_live(row, now) and row.promoted_at is None for row in rows),
        preliminary=tuple(node_of(row) for row in rows if row.promoted_at is None),
        promoted=tuple(row.addr.hex() for row in rows if row.promoted_at is not None),
        chains=tuple(chains),
        ended=bool(workings) and all(row.ended_at is not None for row in workings),
        turns=max((row.turns for row in workings), default=0),
    )


# -- archives ------------------------------------------------------------------------------------------


def archives(shelf: Shelf) -> tuple[list[Change], list[Archive]]:
    """What has ended, the oldest end first."""
    ended = sorted((row for row in shelf.workings() if row.ended_at is not None), key=lambda row: row.ended_at or 0)
    found = [_archive(row, shelf)[0] for row in ended]
    return [], [archive for archive in found if archive.nodes or archive.chains]


def _archive(row: WorkingRow, shelf: Shelf) -> tuple[Archive, int]:
    nodes = [node for node in shelf.nodes_in(row.scope, active=False) if node.promoted_at is None]
    lost = sum(shelf.node(LASTING, node.addr) is None for node in nodes)
    found = Archive(
        text(row.session),
        text_or_none(row.agent),
        moment(row.started_at),
        moment(row.ended_at or 0),
        len(nodes),
        len(shelf.chains(row.scope)),
    )
    return found, lost


def recover(session: str, agent: str | None, now: int, shelf: Shelf) -> tuple[list[Change], list[Node]]:
    """Bring back what was archived, whole: the nodes that are preliminary again."""
    desk = Desk(shelf, now)
    workings = [row for row in _of(desk, session, agent) if row.ended_at is not None]
    if not workings:
        raise NotFound("archive of session", session, "mem.archives() lists them")
    for working in workings:
        desk.put_working(working._replace(ended_at=None, touched_at=now))
    rows = [row for working in workings for row in shelf.nodes_in(working.scope, active=False)]
    back = [row for row in rows if row.promoted_at is None]
    desk.tell("recovered", tuple(row.addr for row in back), session, agent)
    return desk.changes, [node_of(row) for row in back]


def collect(before: int, dry_run: bool, now: int, shelf: Shelf) -> tuple[list[Change], Collection]:
    """Remove the archives of sessions that ended before a time. Lasting nodes stay."""
    desk = Desk(shelf, now)
    old = [row for row in shelf.workings() if row.ended_at is not None and row.ended_at < before]
    found = [_archive(row, shelf) for row in old]
    answer = Collection(tuple(archive for archive, _ in found), sum(lost for _, lost in found), dry_run)
    if dry_run or not old:
        return [], answer
    for row in old:
        desk.drop(row.scope)
    desk.tell("collected", (), sessions=[text(row.session) for row in old])
    return desk.changes, answer


# -- working sessions ----------------------------------------------------------------------------------


def working_session(
    agent: str | None, after: int, fresh: str, unusable: frozenset[str], now: int, shelf: Shelf
) -> tuple[list[Change], str]:
    """The id of the session that an agent used last, not before a time and not ended; else the fresh one, begun."""
    desk = Desk(shelf, now)
    own = [row for row in shelf.workings() if text_or_none(row.agent) == agent and row.ended_at is None]
    for row in sorted(own, key=lambda row: row.touched_at, reverse=True):
        if row.touched_at < after:
            break
        whole = next((w for w in desk.workings(text(row.session)) if w.agent is None), None)
        if text(row.session) not in unusable and (whole is None or whole.ended_at is None):
            desk.enter(text(row.session), agent)
            return desk.changes, text(row.session)
    desk.enter(fresh, agent)
    desk.tell("session begun", (), fresh, agent)
    return desk.changes, fresh


def count_turn(session: str, agent: str | None, now: int, shelf: Shelf) -> tuple[list[Change], tuple[int, list[Node]]]:
    """One turn more: how many there were since the last summary, and what is preliminary and active."""
    desk = Desk(shelf, now)
    row = desk.enter(session, agent)
    assert row is not None
    row = desk.put_working(row._replace(turns=row.turns + 1))
    nodes = [node for node in shelf.nodes_in(row.scope, active=True) if node.promoted_at is None and is_live(node, now)]
    return desk.changes, (row.turns - row.folded, [node_of(node) for node in nodes])


def mark_folded(session: str, agent: str | None, now: int, shelf: Shelf) -> tuple[list[Change], None]:
    desk = Desk(shelf, now)
    row = desk.enter(session, agent)
    assert row is not None
    desk.put_working(row._replace(folded=row.turns))
    return desk.changes, None


# -- a session that is erased --------------------------------------------------------------------------


def unname(session: str, shelf: Shelf) -> tuple[list[Change], None]:
    """Let nothing lasting name a session any more, nor the events; what was promoted from it stays."""
    name = stored(session)
    changes: list[Change] = [Untold(name)]
    for row in shelf.nodes_in(LASTING, active=False):
        about = about_of(row)
        about.meta = _without(about.meta, session)
        anonymous = row._replace(session=None if row.session == name else row.session, about=about_bytes(about))
        changes += [anonymous] if anonymous != row else []
    for chain in shelf.chains(LASTING):
        meta = _without(meta_of(chain), session)
        other = chain._replace(session=None if chain.session == name else chain.session, about=codec.encode(meta))
        changes += [Extended(other, ())] if other != chain else []
    return changes, None


def _without(meta: dict[str, Any], session: str) -> dict[str, Any]:
    """Without where it comes from, as far as that is the session."""
    kept = dict(meta)
    for name in ("sources", "promoted"):
        if isinstance(meta.get(name), list):
            kept[name] = [one for one in meta[name] if not (isinstance(one, dict) and one.get("session") == session)]
    return {name: value for name, value in kept.items() if value != [] or meta[name] == []}
