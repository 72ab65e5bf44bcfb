"""Families on PostgreSQL: sub-agents' sessions, and what becomes of them when one is deleted.

Whoever changes what the sessions of a tree share (blobs, requests, who is whose child) holds a head row of that tree.
A deletion holds all of them: while it looks and removes, nobody can be about to refer to what goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from threadline.backends.backend import STATUSES, Birth, NewSession, Piece, Record, Ref
from threadline.backends.postgres import memory, places, usage
from threadline.backends.postgres.founding import ENDLESS, placed, session_rows
from threadline.backends.postgres.places import Place, name_of, realm_of
from threadline.backends.postgres.rows import record_of, said
from threadline.backends.postgres.statements import Connection, Statement, many, numbers, one, run
from threadline.backends.postgres.transactions import SAID, Transaction, about_now, set_about, set_status
from threadline.backends.postgres.writing import Writing
from threadline.core.about import DETACHED, About, Change, born, freed
from threadline.core.entries import stored, text, text_or_none
from threadline.core.fold import start
from threadline.core.reading import NO_LOG
from threadline.errors import Conflict, DepthExceeded, NotActive, NotFound, Stale

# All that belongs to a session, in one place: whoever adds a table that holds something of one says here what goes with
# it. REMOVALS take the tree and sessions that go, whose own rows go last; CUTS the logs that they read, for what nobody
# reads any more; REDACTIONS tree, log and seq of an entry that loses its content.
REMOVALS = (
    "forget_titles",
    "delete_tags",
    "delete_shares",
    "delete_inbox",
    "lock_drafts",  # whoever stores a piece of one now comes first, or finds it gone
    "delete_draft_chunks",
    "delete_drafts",
    "delete_heads",
)
CUTS = (
    "cut_entries",
    "recount_tombstones",
    "cut_keys",
    "cut_blob_uses",
    "delete_unused_blobs",
    "cut_search",
    "cut_search_logs",
    "close_logs",
)
REDACTIONS = ("delete_entry_blob_uses", "forget_entry")


def spawn(connection: Connection, durable: bool, parent: Ref, new: NewSession, birth: Birth) -> Ref:
    """Make a child, or find it. Raises Taken if somebody else made a session of its key meanwhile."""
    if (known := _known(connection, parent, new, birth)) is not None:
        return known
    head = one(connection, "head", (parent.tree, parent.number))
    if head is None:
        raise NotFound("session", parent.id)
    _born(connection, parent, new, birth, head[2])  # what would be refused reserves nothing
    make = partial(_make, connection, durable, parent, new, birth)
    return placed(connection, new, places.place_of(new, parent.tree), make, fixed=True)


def _born(connection: Connection, parent: Ref, new: NewSession, birth: Birth, status: int) -> About:
    if status:
        raise NotActive(parent.id, STATUSES[status])
    about = born(about_now(connection, parent), new.about, parent.id, birth.lifecycle, birth.call_id)
    if about.depth > birth.max_depth:
        raise DepthExceeded(about.depth, birth.max_depth)
    return about


def _make(connection: Connection, durable: bool, parent: Ref, new: NewSession, birth: Birth, place: Place) -> Ref:
    tree = parent.tree
    with Transaction(connection, durable=durable) as transaction:
        _, _, status, *_ = transaction.lock(parent)
        if (known := _by_call(connection, parent, birth)) is not None:  # somebody was quicker
            return _same(connection, parent, new, birth, known)
        about = _born(connection, parent, new, birth, status)
        (nth,) = one(connection, "next_child", (tree, parent.number))
        ref = Ref(place.session, text(place.id), new.key, (Piece(place.log, 1, ENDLESS),), tree)
        head = (realm_of(new.namespace), place.log, 0, 0, new.at, *start(new.salt))
        statements: list[Statement] = [
            *session_rows(ref, new, about, parent=parent.number, nth=nth),
            ("insert_log", (tree, place.log, new.salt)),
            *Writing(ref, head, NO_LOG, lambda key: None, None).moved(new=True, child=True),
        ]
        transaction.commit(statements, ref.id, 0)
    return ref


def _known(connection: Connection, parent: Ref, new: NewSession, birth: Birth) -> Ref | None:
    """The child that the same key or call made before. Raises Conflict where they name another session."""
    child = _by_call(connection, parent, birth)
    if child is None and new.key is not None:
        child = places.find(connection, new.namespace, key=new.key)
    return None if child is None else _same(connection, parent, new, birth, child)


def _by_call(connection: Connection, parent: Ref, birth: Birth) -> Ref | None:
    if birth.call_id is None:
        return None
    found = one(connection, "child_by_call", (parent.tree, parent.number, stored(birth.call_id)))
    return None if found is None else places.ref_at(connection, Place(parent.tree, found[0], b""))


def _same(connection: Connection, parent: Ref, new: NewSession, birth: Birth, child: Ref) -> Ref:
    about = about_now(connection, child)
    if new.key not in (None, child.key):
        raise Conflict(f"the call {birth.call_id!r} has a child already, with the key {child.key!r}: use that one")
    if about.parent != parent.id or birth.call_id not in (None, about.call_id):
        raise Conflict(f"the key {new.key!r} belongs to session {child.id!r} already: spawn with another one")
    return child


# -- reading -------------------------------------------------------------------------------------------


def must_exist(connection: Connection, ref: Ref) -> None:
    if one(connection, "head", (ref.tree, ref.number)) is None:
        raise NotFound("session", ref.id)


def parent(connection: Connection, ref: Ref) -> Ref | None:
    must_exist(connection, ref)
    found = one(connection, "parent", (ref.tree, ref.number))
    return None if found is None else places.ref_at(connection, Place(ref.tree, found[0], b""))


def relatives(connection: Connection, name: str, ref: Ref) -> list[Ref]:
    """The sessions of the tree that a statement finds: `children` or `forks`."""
    must_exist(connection, ref)
    numbers = many(connection, name, (ref.tree, ref.number))
    found = (places.ref_at(connection, Place(ref.tree, number, b"")) for (number,) in numbers)
    return [relative for relative in found if relative is not None]


def below(connection: Connection, ref: Ref) -> list[Record]:
    found = many(connection, "below", {"tree": ref.tree, "session": ref.number})
    if not found:
        raise NotFound("session", ref.id)
    return [record_of(row) for row in found]


# -- deletion ------------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A session of a family that a deletion looks at, and its row as `set_about` takes it."""

    ref: Ref
    namespace: str
    parent: int | None
    about: About
    row: tuple[Any, ...]


def delete(connection: Connection, durable: bool, ref: Ref, cascade: bool, expect: int | None) -> list[Member]:
    """Who is gone: their names are still to be freed."""
    with Transaction(connection, durable=durable) as transaction:
        head = transaction.lock_tree(ref.tree).get(ref.number)
        if head is None:
            raise NotFound("session", ref.id)
        if expect is not None and head != expect:
            raise Stale(expect, head)
        family = _family(connection, ref)
        doomed, orphans = _fates(family, cascade)
        goners = numbers(member.ref.number for member in doomed)
        statements = [
            *(statement for orphan in orphans for statement in _freed(family, orphan)),
            *usage.fates(ref.tree, goners, family[0].parent),
            *removals(connection, ref.tree, [(member.ref, member.namespace) for member in doomed]),
        ]
        transaction.commit(statements, ref.id, head)
    return doomed


def removals(connection: Connection, tree: bytes, gone: Sequence[tuple[Ref, str]]) -> Iterator[Statement]:
    """What removes sessions, and of the logs that they read what nobody else reads."""
    goners = numbers(ref.number for ref, _ in gone)
    logs = numbers(log for (log,) in many(connection, "logs_of", (tree, goners)))
    yield "lock_logs", {"tree": tree, "logs": logs}
    yield from ((name, (tree, goners)) for name in REMOVALS)
    yield from ((name, {"tree": tree, "logs": logs}) for name in CUTS)
    yield "delete_sessions", (tree, goners)
    yield from memory.forgetting(connection, gone[0][1], [ref.id for ref, _ in gone])


def _family(connection: Connection, ref: Ref) -> list[Member]:
    """The session and all below it, parents first."""
    found = []
    for number, *row in many(connection, "family", {"tree": ref.tree, "session": ref.number}):
        _, namespace, id, key, _, _, _, above, *_ = row
        member = Ref(number, text(id), text_or_none(key), (), ref.tree)
        found.append(Member(member, text(namespace), above, said(*row[SAID:]), tuple(row)))
    return found


def _fates(family: list[Member], cascade: bool) -> tuple[list[Member], list[Member]]:
    """Who goes along, and who of those left behind becomes a root."""
    doomed, orphans = family[:1], []
    going = {family[0].ref.number}
    for member in family[1:]:
        if member.parent in going:
            if not cascade or member.about.lifecycle == DETACHED:
                orphans.append(member)
            else:
                doomed.append(member)
                going.add(member.ref.number)
    return doomed, orphans


def _freed(family: list[Member], orphan: Member) -> Iterator[Statement]:
    """Make a child a root, and all below it that much less deep."""
    yield from set_about(orphan.ref, orphan.row, freed(orphan.about))
    depths = {orphan.ref.number: 0}
    for member in family:
        if member.parent in depths:
            depths[member.ref.number] = depths[member.parent] + 1
            yield from set_about(member.ref, member.row, replace(member.about, depth=depths[member.ref.number]))


def free_names(connection: Connection, durable: bool, gone: Sequence[tuple[Ref, str]]) -> None:
    """Let ids and keys lead nowhere. They are free in any case: whoever wants one finds its place closed for ever."""
    for ref, namespace in gone:
        for what, name in (("id", ref.id), ("key", ref.key)):
            if name is not None:
                run(connection, "free_name", (name_of(what, namespace, name), ref.tree, ref.number))


# -- pruning -------------------------------------------------------------------------------------------


def idle(connection: Connection, namespace: str, before: int) -> list[Ref]:
    """Roots that were not changed since, nor anything below them, oldest first."""
    found = many(connection, "idle", (realm_of(namespace), before))
    return [
        Ref(number, text(id), None, (), tree)
        for tree, number, id, is_parent in found
        if not is_parent or _youngest(connection, tree, number) < before
    ]


def _youngest(connection: Connection, tree: bytes, number: int) -> int:
    (at,) = one(connection, "youngest_below", {"tree": tree, "session": number})
    return int(at)


def prune(connection: Connection, durable: bool, namespace: str, before: int, at: int) -> list[str]:
    """Put what is idle into the trash, all in one transaction; what is changed while it waits for it stays."""
    found = idle(connection, namespace, before)
    with Transaction(connection, durable=durable) as transaction:
        heads = transaction.lock_each(sorted(found, key=lambda ref: (ref.tree, ref.number)))
        statements: list[Statement] = []
        trashed = []
        for ref in found:
            head = heads.get(ref.number)
            if head is None or head[2] or head[4] >= before:
                continue
            trashed.append(ref.id)
            writing = Writing(ref, head, NO_LOG, lambda key: None, None)
            statements += set_status(writing, Change(at=at, status="trashed"))
        transaction.commit(statements, None, 0)
    return trashed
