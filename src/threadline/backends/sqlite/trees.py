"""Families on SQLite: sub-agents' sessions, and what becomes of them when one is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from threadline.backends.backend import STATUSES, Birth, NewSession, Piece, Record, Ref
from threadline.backends.lazily import Lazily
from threadline.backends.sqlite import usage
from threadline.backends.sqlite.rows import Connection, many, one, run
from threadline.backends.sqlite.sessions import find, records_of, ref_of
from threadline.backends.sqlite.transactions import ENDLESS, FOLD, about_now, change_about, create, head_of, set_about
from threadline.core.about import DETACHED, About, Change, born, freed
from threadline.core.entries import stored, text, text_or_none
from threadline.errors import Conflict, DepthExceeded, NotActive, NotFound, Stale

if TYPE_CHECKING:
    from threadline.backends.sqlite import memory, search
else:
    memory, search = Lazily("threadline.backends.sqlite.memory"), Lazily("threadline.backends.sqlite.search")


def spawn(connection: Connection, parent: Ref, new: NewSession, birth: Birth) -> Ref:
    if (known := _known(connection, parent, new, birth)) is not None:
        return known
    status = head_of(connection, parent)[2]
    if status:
        raise NotActive(parent.id, STATUSES[status])
    about = born(about_now(connection, parent), new.about, parent.id, birth.lifecycle, birth.call_id)
    if about.depth > birth.max_depth:
        raise DepthExceeded(about.depth, birth.max_depth)
    return create(connection, replace(new, about=about), parent)


def _known(connection: Connection, parent: Ref, new: NewSession, birth: Birth) -> Ref | None:
    """The child that the same key or call made before. Raises Conflict where they name another session."""
    child = None
    if birth.call_id is not None:
        found = one(connection, "child_by_call", (parent.number, stored(birth.call_id)))
        child = None if found is None else ref_of(connection, *found)
    if child is None and new.key is not None:
        child = find(connection, new.namespace, key=new.key)
    if child is None:
        return None
    about = about_now(connection, child)
    if new.key not in (None, child.key):
        raise Conflict(f"the call {birth.call_id!r} has a child already, with the key {child.key!r}: use that one")
    if about.parent != parent.id or birth.call_id not in (None, about.call_id):
        raise Conflict(f"the key {new.key!r} belongs to session {child.id!r} already: spawn with another one")
    return child


def parent(connection: Connection, ref: Ref) -> Ref | None:
    found = one(connection, "parent", (ref.number,))
    return None if found is None else ref_of(connection, *found)


def children(connection: Connection, ref: Ref) -> list[Ref]:
    found = many(connection, "children", (ref.number,))
    return [
        Ref(number, text(id), text_or_none(key), (Piece(log, 1, ENDLESS),), tree)
        for number, tree, id, key, log in found
    ]


def below(connection: Connection, ref: Ref) -> list[Record]:
    found = many(connection, "below", (ref.number,))
    if not found:
        raise NotFound("session", ref.id)
    return records_of(connection, found)


# All that belongs to a session, in one place: whoever adds a table that holds something of one says here what goes with
# it. REMOVALS take the number of a session that goes; CUTS a log, and the last entry of it that anybody still reads;
# REDACTIONS the log and the seq of an entry that loses its content.
REMOVALS = ("delete_inbox", "delete_draft_chunks", "delete_drafts", "delete_shares", "delete_head", "delete_session")
CUTS = ("cut_entries", "cut_keys", "cut_blob_uses", "recount_tombstones")
REDACTIONS = ("delete_entry_blob_uses",)


# -- deletion ------------------------------------------------------------------------------------------


def delete(connection: Connection, ref: Ref, cascade: bool, expect: int | None) -> int:
    head = head_of(connection, ref)[FOLD]
    if expect is not None and head != expect:
        raise Stale(expect, head)
    heir = parent(connection, ref)
    doomed, orphans = _fates(connection, ref, cascade)
    for orphan in orphans:
        _free(connection, orphan)
    for goner in doomed:
        usage.inherit(connection, goner.number, None if heir is None else heir.number)
        remove(connection, goner)
    return len(doomed)


def _fates(connection: Connection, ref: Ref, cascade: bool) -> tuple[list[Ref], list[Ref]]:
    """Who goes along, and who of those left behind becomes a root."""
    doomed: list[Ref] = [ref]
    orphans: list[Ref] = []
    for goner in doomed:  # grows while it is walked
        for child in children(connection, goner):
            stays = not cascade or about_now(connection, child).lifecycle == DETACHED
            (orphans if stays else doomed).append(child)
    return doomed, orphans


def _free(connection: Connection, ref: Ref) -> None:
    """Make a child a root, and all below it that much less deep."""
    about = about_now(connection, ref)
    set_about(connection, ref, freed(about))
    run(connection, "set_child", (0, ref.number))
    ranks: list[tuple[Ref, int]] = [(ref, 0)]
    for above, depth in ranks:
        for child in children(connection, above):
            set_about(connection, child, replace(about_now(connection, child), depth=depth + 1))
            ranks.append((child, depth + 1))


def remove(connection: Connection, ref: Ref) -> None:
    """All rows of a session, and of the logs that it read what nobody else reads."""
    (namespace,) = one(connection, "namespace_of", (ref.number,))
    memory.forget(connection, namespace, stored(ref.id))
    set_about(connection, ref, About())  # takes it out of all tags
    for statement in REMOVALS:
        run(connection, statement, (ref.number,))
    search.forget_title(connection, ref.number)
    for log, _, _ in ref.lineage:
        (reach,) = one(connection, "reach", (log,))
        search.forget(connection, log, (reach or 0) + 1)
        for statement in CUTS:
            run(connection, statement, (log, reach or 0))
        if reach is None:
            run(connection, "delete_log", (log,))
    run(connection, "delete_unused_blobs", (ref.tree,))
    search.clamp(connection)


def prune(connection: Connection, namespace: str, before: int, at: int) -> list[str]:
    """Put what is idle into the trash, all in one transaction: nobody changes it between the look and the move."""
    idle = idle_roots(connection, namespace, before)
    for ref in idle:
        change_about(connection, ref, Change(at=at, status="trashed"))
    return [ref.id for ref in idle]


def idle_roots(connection: Connection, namespace: str, before: int) -> list[Ref]:
    found = many(connection, "idle", (stored(namespace), before))
    return [Ref(number, text(id), text_or_none(key), (), tree) for number, tree, id, key in found]
