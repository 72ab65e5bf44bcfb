"""Claiming, compressing, superseding: deeds that make nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from threadline.core.entries import stored, text
from threadline.errors import Conflict, InvalidArgument
from threadline.memory.chains import ACTIVE, ARCHIVED, PRELIMINARY, SUPERSEDED, new_chain
from threadline.memory.desk import Desk
from threadline.memory.nodes import (
    COMPRESS,
    CONFIDENCE,
    LEAF,
    ROOT,
    SUPERSEDE,
    About,
    Node,
    about_bytes,
    about_of,
    address,
    joined,
    merged,
    node_of,
)
from threadline.memory.rows import LASTING, Change, NodeRow, Shelf, split_addrs, working_scope
from threadline.memory.words import words_of

COVERAGE_MIN = 0.6  # below it a summary says little of what it stands for
VALUES_MAX = 100  # numbers and names that a summary keeps beside its text
INHERITED_META = ("source", "links")


class Claim(Struct, frozen=True):
    """What a caller claims, checked. `shared` puts an agent's claim into the working memory of the whole session."""

    content: str
    domain: str = ""
    confidence: float | None = None
    priority: int = 0
    session: str | None = None
    agent: str | None = None
    preliminary: bool = False
    chain: str | None = None
    anchors: tuple[dict[str, Any], ...] = ()
    ttl_us: int | None = None
    meta: dict[str, Any] = {}
    shared: bool = False
    chain_id: str = ""  # for a chain that is made: drawn by the caller, because deeds throw no dice

    @property
    def scope(self) -> bytes:
        if not self.preliminary or self.session is None:
            return LASTING
        return working_scope(self.session, None if self.shared else self.agent)


def claim(claims: Sequence[Claim], now: int, shelf: Shelf) -> tuple[list[Change], list[Node]]:
    """All of them or none."""
    desk = Desk(shelf, now)
    rows = []
    for desk.now, one in enumerate(claims, now):  # a microsecond apart, so that they keep their order
        rows.append(_claimed(desk, one))
    return desk.changes, [node_of(desk.node(row.scope, row.addr) or row) for row in rows]


def _claimed(desk: Desk, one: Claim) -> NodeRow:
    _enter(desk, one)
    about = About(
        confidence=CONFIDENCE if one.confidence is None else one.confidence,
        priority=one.priority,
        anchors=list(one.anchors),
        meta=merged(one.meta, _sources(one.session, one.agent)),
    )
    row, fresh = _added(desk, _row(desk, one, LEAF, one.content, (), about))
    chain = None if one.chain is None else _chained(desk, one, row)
    desk.tell(
        "claimed" if fresh else "claimed again",
        (row.addr,),
        one.session,
        one.agent,
        domain=one.domain or None,
        chain=chain,
    )
    return row


def _enter(desk: Desk, one: Claim) -> None:
    if one.session is None:
        return
    owner = None if one.shared else one.agent
    if owner is not None:
        desk.enter(one.session, None, make=False)  # raises NotActive if the whole session has ended
    desk.enter(one.session, owner)


def _row(
    desk: Desk, one: Claim, type: str, content: str, inputs: Sequence[bytes], about: About, scope: bytes | None = None
) -> NodeRow:
    return NodeRow(
        scope=one.scope if scope is None else scope,
        addr=address(type, content, inputs),
        type=stored(type),
        active=1,
        created_at=desk.now,
        touched_at=desk.now,
        expires_at=None if one.ttl_us is None else desk.now + one.ttl_us,
        promoted_at=None,
        session=None if one.session is None else stored(one.session),
        agent=None if one.agent is None else stored(one.agent),
        domain=stored(one.domain),
        inputs=b"".join(inputs),
        about=about_bytes(about),
        content=stored(content),
    )


def _added(desk: Desk, row: NodeRow) -> tuple[NodeRow, bool]:
    """Put a node where it is not, or join it with the one that is there; whether it is new."""
    known = desk.node(row.scope, row.addr)
    return desk.put(row if known is None else joined(known, row)), known is None


def _sources(session: str | None, agent: str | None) -> dict[str, Any]:
    if session is None and agent is None:
        return {}
    named = {"session": session, "agent": agent}
    return {"sources": [{name: value for name, value in named.items() if value is not None}]}


def _chained(desk: Desk, one: Claim, row: NodeRow) -> str:
    """Extend the chain of that name in the claim's scope, or begin it."""
    assert one.chain is not None
    known = desk.chain(stored(one.chain))
    if known is not None and known.scope != row.scope:
        raise InvalidArgument(
            f"chain {one.chain!r} belongs to another memory than this claim: claim with the same session=, agent= and "
            "preliminary=, or promote the chain first"
        )
    if known is None:
        here = [chain for chain in desk.chains_named(one.chain) if chain.scope == row.scope]
        live = [chain for chain in here if chain.status not in (stored(ARCHIVED), stored(SUPERSEDED))]
        known = max(live, key=lambda chain: chain.extended_at) if live else None
    if known is None:
        status = PRELIMINARY if row.scope else ACTIVE
        begun = new_chain(one.chain_id, one.chain, row.scope, status, desk.now, one.session, one.agent, one.domain)
        desk.put_chain(begun._replace(members=row.addr), (row.addr,))
        return text(begun.chain)
    if known.status in (stored(ARCHIVED), stored(SUPERSEDED)):
        raise Conflict(f"chain {one.chain!r} is {text(known.status)}: claim into another one")
    if row.addr not in split_addrs(known.members):
        desk.put_chain(known._replace(members=known.members + row.addr, extended_at=desk.now), (row.addr,))
    return text(known.chain)


# -- compress ------------------------------------------------------------------------------------------


def compress(addrs: Sequence[Any], content: str, one: Claim, now: int, shelf: Shelf) -> tuple[list[Change], Node]:
    """One node in the place of several: they stay readable, and leave the active set."""
    desk = Desk(shelf, now)
    _enter(desk, one)
    scopes = None if one.session is None else (one.scope, working_scope(one.session, None))
    inputs = [desk.reach(addr, scopes) for addr in addrs]
    made = _compressed(desk, inputs, content, one)
    return desk.changes, node_of(made)


def _compressed(desk: Desk, inputs: list[NodeRow], content: str, one: Claim) -> NodeRow:
    if len({row.addr for row in inputs}) < len(inputs):
        raise InvalidArgument("an address stands twice among those to compress: give each one once")
    scope = _common_scope(inputs)
    about = _summed_up([text(row.content) for row in inputs], content)
    for row in inputs:
        about.anchors = [*about.anchors, *(a for a in about_of(row).anchors if a not in about.anchors)]
    about.confidence = min(about_of(row).confidence for row in inputs)
    about.priority = max([one.priority, *(about_of(row).priority for row in inputs)])
    about.meta = merged(about.meta | one.meta, _sources(one.session, one.agent))
    domains = {row.domain for row in inputs}
    made = _row(desk, one, COMPRESS, content, [row.addr for row in inputs], about, scope)
    made = made._replace(
        domain=stored(one.domain) if one.domain else domains.pop() if len(domains) == 1 else b"",
        session=made.session or inputs[0].session if scope else made.session,
        agent=made.agent or inputs[0].agent if scope else made.agent,
    )
    made, _ = _added(desk, made)
    for row in inputs:
        if row.scope == scope:
            desk.put(row._replace(active=0))
    desk.tell("compressed", (made.addr, *(row.addr for row in inputs)), one.session, one.agent, **_coverage(about))
    return made


def _coverage(about: About) -> dict[str, Any]:
    return {"coverage": about.meta.get("coverage")}


def _common_scope(rows: Iterable[NodeRow]) -> bytes:
    scopes = {row.scope for row in rows if row.scope != LASTING}
    if len(scopes) > 1:
        raise InvalidArgument(
            "these nodes belong to the working memories of different sessions or agents: promote them first"
        )
    return scopes.pop() if scopes else LASTING


def _summed_up(texts: list[str], content: str) -> About:
    """Numbers and names of the originals, kept beside the summary, and how much of them the summary itself says."""
    values = list(dict.fromkeys(value for text in texts for value in values_of(text)))
    meta: dict[str, Any] = {"coverage": coverage(texts, content), "values": values[:VALUES_MAX]}
    if meta["coverage"] < COVERAGE_MIN:
        meta["warning"] = (
            "the summary says less than 60 % of what it stands for: mem.provenance(addr) has the originals"
        )
    return About(meta=meta)


_VALUES = re.compile(
    r"(?<![\w.])[-+]?\d(?:[\d_,.:/-]*\d)?%?(?:\s?[a-zA-Zµ]{1,3}\b)?"  # numbers, with units
    r"|\b[A-Za-z_]\w*(?:[_.:/-]+\w+)+\b"  # identifiers, paths
    r"|\b[A-Z]\w*[A-Z]\w*\b|\b[a-z]+[A-Z]\w*\b"  # ACRONYMS, camelCase
    r"|(?<=[a-z,;:] )[A-Z][a-z]\w+"  # names within a sentence
)


def values_of(text: str) -> list[str]:
    """Numbers, identifiers and names: what a summary must not blur."""
    return list(dict.fromkeys(found.strip(".,:/-") for found in _VALUES.findall(text)))


def coverage(texts: list[str], content: str) -> float:
    """The share of the originals' words, numbers and names that the content says, from 0 to 1."""
    said = set(words_of(content))
    wanted = {word for text in texts for word in words_of(text)}
    values = {value for text in texts for value in values_of(text)}
    total = len(wanted) + len(values)
    if not total:
        return 1.0
    kept = len(wanted & said) + sum(value.lower() in content.lower() for value in values)
    return round(kept / total, 3)


# -- supersede -----------------------------------------------------------------------------------------


def supersede(addr: Any, content: str, one: Claim, now: int, shelf: Shelf) -> tuple[list[Change], Node]:
    """Another claim in the place of an old one, which stays readable. It inherits what matters."""
    desk = Desk(shelf, now)
    _enter(desk, one)
    old = desk.reach(addr, None if one.session is None else (one.scope, working_scope(one.session, None)))
    _check_no_circle(desk, old, content)
    before = about_of(old)
    about = About(
        confidence=before.confidence if one.confidence is None else one.confidence,
        priority=max(one.priority, before.priority),
        reinforced=before.reinforced,
        anchors=[*before.anchors, *(a for a in one.anchors if a not in before.anchors)],
        domains=before.domains,
        meta=merged(_inherited(before) | one.meta, _sources(one.session, one.agent)),
    )
    made = _row(desk, one, SUPERSEDE, content, [old.addr], about, old.scope)
    made, _ = _added(
        desk,
        made._replace(
            domain=made.domain or old.domain,
            session=made.session or old.session,
            agent=made.agent or old.agent,
            expires_at=made.expires_at or old.expires_at,
        ),
    )
    desk.put(old._replace(active=0))
    for chain in desk.chains_with(old.addr):  # what took its place goes on where it stood
        open_ = chain.status not in (stored(ARCHIVED), stored(SUPERSEDED))
        if open_ and chain.scope == made.scope and made.addr not in split_addrs(chain.members):
            desk.put_chain(chain._replace(members=chain.members + made.addr, extended_at=now), (made.addr,))
    desk.tell("superseded", (made.addr, old.addr), one.session, one.agent)
    return desk.changes, node_of(made)


def _inherited(before: About) -> dict[str, Any]:
    return {name: before.meta[name] for name in INHERITED_META if name in before.meta}


def _check_no_circle(desk: Desk, old: NodeRow, content: str) -> None:
    """A claim is not superseded by itself, nor by one that it has superseded."""
    seen, line = set[bytes](), [old]
    for row in line:  # grows while it is walked
        if text(row.content) == content:
            raise Conflict(
                f"{old.addr.hex()[:12]} would be superseded by what it says or has replaced ({row.addr.hex()[:12]}): "
                "mem.claim(content) makes that active again, and mem.retire(addr) takes this one out"
            )
        if row.type != stored(SUPERSEDE):
            continue
        for addr in split_addrs(row.inputs):
            above = desk.node(row.scope, addr) or desk.node(LASTING, addr)
            if above is not None and addr not in seen:
                seen.add(addr)
                line.append(above)


def retire(addr: Any, reason: str | None, now: int, shelf: Shelf) -> tuple[list[Change], Node]:
    """Take a node out of the active set, wherever it is; it stays readable."""
    desk = Desk(shelf, now)
    rows = [desk.put(row._replace(active=0)) for row in desk.copies(addr)]
    desk.tell("retired", (rows[0].addr,), reason=reason)
    return desk.changes, node_of(rows[0])


def reroot(content: str, now: int, shelf: Shelf) -> tuple[list[Change], Node]:
    """A node over all that is active: what the memory holds at this moment, under one address."""
    desk = Desk(shelf, now)
    rows = [row for row in shelf.nodes_in(LASTING, active=True) if row.type != stored(ROOT)]
    if not rows:
        raise InvalidArgument("nothing is active here: claim something before you make a root of it")
    made = _row(desk, Claim(content), ROOT, content, [row.addr for row in rows], About())
    made, _ = _added(desk, made._replace(active=0))
    made = desk.put(made._replace(active=0))
    desk.tell("rooted", (made.addr,), nodes=len(rows))
    return desk.changes, node_of(made)
