"""Chains: lines of reasoning, ordered, named, with a status. They order nodes and own none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from threadline.core import codec
from threadline.core.entries import moment, stored, text, text_or_none
from threadline.errors import Conflict, InvalidArgument
from threadline.memory.desk import Desk, ended
from threadline.memory.nodes import SUPERSEDE, merged
from threadline.memory.rows import LASTING, ChainRow, Change, Shelf, split_addrs, working_scope

PRELIMINARY, ACTIVE, STASHED, ARCHIVED, SUPERSEDED = STATUSES = (
    "preliminary",
    "active",
    "stashed",
    "archived",
    "superseded",
)
OPEN = (PRELIMINARY, ACTIVE)
ID_PREFIX = "ch_"


class Chain(Struct, frozen=True):
    """An ordered line of nodes. `members` are addresses, the first thought first. One that is not `lasting` stands in
    the working memory of its session."""

    id: str
    name: str
    status: str
    members: tuple[str, ...]
    domain: str
    session: str | None
    agent: str | None
    created_at: datetime
    extended_at: datetime
    meta: dict[str, Any]
    lasting: bool = True


def chain_of(row: ChainRow) -> Chain:
    return Chain(
        id=text(row.chain),
        name=text(row.name),
        status=text(row.status),
        members=tuple(addr.hex() for addr in split_addrs(row.members)),
        domain=text(row.domain),
        session=text_or_none(row.session),
        agent=text_or_none(row.agent),
        created_at=moment(row.created_at),
        extended_at=moment(row.extended_at),
        meta=meta_of(row),
        lasting=row.scope == LASTING,
    )


def meta_of(row: ChainRow) -> dict[str, Any]:
    return dict(codec.decode(row.about))


def with_meta(row: ChainRow, **values: Any) -> ChainRow:
    """With these values; None takes one away."""
    meta = meta_of(row) | values
    return row._replace(about=codec.encode({name: value for name, value in meta.items() if value is not None}))


def new_chain(
    id: str,
    name: str,
    scope: bytes,
    status: str,
    now: int,
    session: str | None = None,
    agent: str | None = None,
    domain: str = "",
    meta: dict[str, Any] | None = None,
) -> ChainRow:
    return ChainRow(
        scope=scope,
        chain=stored(id),
        name=stored(name),
        status=stored(status),
        created_at=now,
        extended_at=now,
        session=None if session is None else stored(session),
        agent=None if agent is None else stored(agent),
        domain=stored(domain),
        members=b"",
        about=codec.encode(meta or {}),
    )


# -- deeds ---------------------------------------------------------------------------------------------


def create(row: ChainRow, addrs: Sequence[Any], now: int, shelf: Shelf) -> tuple[list[Change], Chain]:
    desk = Desk(shelf, now)
    if row.scope:
        desk.enter(text(row.session or b""), _owner(row))
    if any(known.scope == row.scope and is_open(known) for known in desk.chains_named(text(row.name))):
        raise Conflict(f"a chain {text(row.name)!r} is there already: extend it, or choose another name")
    desk.put_chain(row)
    for addr in addrs:
        row = _extended(desk, row, addr)
    desk.tell("chain begun", tuple(split_addrs(row.members)), text_or_none(row.session), chain=text(row.chain))
    return desk.changes, chain_of(row)


def _owner(row: ChainRow) -> str | None:
    """The agent whose own working memory the chain stands in, if it is not the whole session's."""
    session, agent = text(row.session or b""), text_or_none(row.agent)
    return agent if agent is not None and row.scope == working_scope(session, agent) else None


def extend(
    chain: str, addr: Any, scopes: tuple[bytes, ...] | None, now: int, shelf: Shelf
) -> tuple[list[Change], Chain]:
    """Put a node at the end of a chain; one that is in it already stays where it is."""
    desk = Desk(shelf, now)
    row = _writable(desk, chain, scopes)
    longer = _extended(desk, row, addr)
    if longer is not row:
        desk.tell("extended", tuple(split_addrs(longer.members)[-1:]), text_or_none(row.session), chain=text(row.chain))
    return desk.changes, chain_of(longer)


def _extended(desk: Desk, row: ChainRow, addr: Any) -> ChainRow:
    node = desk.reach(addr, (row.scope,))
    if node.scope not in (row.scope, LASTING):
        raise InvalidArgument(
            f"node {node.addr.hex()[:12]} is preliminary in another working memory than chain {text(row.name)!r}: "
            "promote it first"
        )
    if node.addr in split_addrs(row.members):
        return row
    return desk.put_chain(row._replace(members=row.members + node.addr, extended_at=desk.now), (node.addr,))


def _writable(desk: Desk, chain: str, scopes: tuple[bytes, ...] | None) -> ChainRow:
    row = desk.find_chain(chain, scopes)
    _check_not_ended(desk, row)
    if not is_open(row) and row.status != stored(STASHED):
        raise Conflict(f"chain {text(row.name)!r} is {text(row.status)}: begin another one")
    return row


def _check_not_ended(desk: Desk, row: ChainRow) -> None:
    working = desk.working(row.scope) if row.scope else None
    if working is not None and working.ended_at is not None:
        raise ended(text(working.session))


def is_open(row: ChainRow) -> bool:
    return text(row.status) in OPEN


def stash(
    chain: str, reason: str, scopes: tuple[bytes, ...] | None, now: int, shelf: Shelf
) -> tuple[list[Change], Chain]:
    """Put a chain aside: its nodes leave the active set, unless another open chain holds them."""
    desk = Desk(shelf, now)
    row = _writable(desk, chain, scopes)
    if row.status == stored(STASHED):
        return [], chain_of(row)
    put_aside = _lain_down(desk, row)
    row = with_meta(row, stash_reason=reason, stashed=[addr.hex() for addr in put_aside])
    row = desk.put_chain(row._replace(status=stored(STASHED)))
    desk.tell("stashed", tuple(put_aside), text_or_none(row.session), chain=text(row.chain), reason=reason)
    return desk.changes, chain_of(row)


def _lain_down(desk: Desk, row: ChainRow, keep: Sequence[bytes] = ()) -> list[bytes]:
    """Take the members that no other open chain holds out of the active set."""
    done = []
    for addr in split_addrs(row.members):
        node = desk.node(row.scope, addr)
        held = any(is_open(other) and other.chain != row.chain for other in desk.chains_with(addr))
        if node is not None and node.active and not held and addr not in keep:
            desk.put(node._replace(active=0))
            done.append(addr)
    return done


def pop(chain: str, scopes: tuple[bytes, ...] | None, now: int, shelf: Shelf) -> tuple[list[Change], Chain]:
    """Take a stashed chain up again, and all nodes that went with it and were not superseded meanwhile."""
    desk = Desk(shelf, now)
    row = desk.find_chain(chain, scopes)
    _check_not_ended(desk, row)
    if is_open(row):
        return [], chain_of(row)
    if row.status != stored(STASHED):
        raise Conflict(f"chain {text(row.name)!r} is {text(row.status)}, not stashed: there is nothing to pop")
    back = []
    for addr in map(bytes.fromhex, meta_of(row).get("stashed", [])):
        node = desk.node(row.scope, addr)
        if node is not None and not _replaced(desk, row.scope, addr):
            desk.put(node._replace(active=1))
            back.append(addr)
    row = with_meta(row, stash_reason=None, stashed=None)
    row = desk.put_chain(row._replace(status=stored(PRELIMINARY if row.scope else ACTIVE)))
    desk.tell("popped", tuple(back), text_or_none(row.session), chain=text(row.chain))
    return desk.changes, chain_of(row)


def _replaced(desk: Desk, scope: bytes, addr: bytes) -> bool:
    kinds = (stored(SUPERSEDE), b"compress")
    return any(node.scope == scope and node.type in kinds for node in desk.shelf.consumers(addr))


def archive(chain: str, scopes: tuple[bytes, ...] | None, now: int, shelf: Shelf) -> tuple[list[Change], Chain]:
    """Close a chain: it takes no more nodes. Its nodes stay as they are."""
    desk = Desk(shelf, now)
    row = desk.find_chain(chain, scopes)
    if row.status == stored(ARCHIVED):
        return [], chain_of(row)
    row = desk.put_chain(with_meta(row, archived_at=moment(now).isoformat())._replace(status=stored(ARCHIVED)))
    desk.tell("chain archived", (), text_or_none(row.session), chain=text(row.chain))
    return desk.changes, chain_of(row)


def supersede(
    old: str, new: str, scopes: tuple[bytes, ...] | None, now: int, shelf: Shelf
) -> tuple[list[Change], Chain]:
    """One chain in the place of another, whose nodes leave the active set unless the new one has them. The new one."""
    desk = Desk(shelf, now)
    before, after = desk.find_chain(old, scopes), desk.find_chain(new, scopes)
    _check_no_circle(desk, before, after)
    if before.status == stored(SUPERSEDED) and meta_of(before).get("superseded_by") == text(after.chain):
        return [], chain_of(after)
    gone = _lain_down(desk, before, keep=split_addrs(after.members))
    desk.put_chain(with_meta(before, superseded_by=text(after.chain))._replace(status=stored(SUPERSEDED)))
    lines = merged({"supersedes": meta_of(after).get("supersedes", [])}, {"supersedes": [text(before.chain)]})
    after = desk.put_chain(with_meta(after, **lines))
    desk.tell(
        "chain superseded", tuple(gone), text_or_none(after.session), chain=text(after.chain), old=text(before.chain)
    )
    return desk.changes, chain_of(after)


def _check_no_circle(desk: Desk, old: ChainRow, new: ChainRow) -> None:
    row: ChainRow | None = new
    seen: set[bytes] = set()
    while row is not None and row.chain not in seen:
        if row.chain == old.chain:
            raise Conflict(
                f"chain {text(old.name)!r} would be superseded by itself, or by one that it has superseded: "
                "begin a new chain instead"
            )
        seen.add(row.chain)
        after = meta_of(row).get("superseded_by")
        row = None if after is None else desk.chain(stored(after))
    if new.status == stored(SUPERSEDED):
        raise Conflict(f"chain {text(new.name)!r} is superseded itself: name the one that took its place")
