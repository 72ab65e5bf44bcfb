"""A store as a copy is made of it, and as one is made here: rows as they are stored, nothing folded anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from threadline.backends.backend import STATUSES, KeyRow, Kin, NewSession, Original, Piece, Portion, Ref
from threadline.backends.postgres import places, usage
from threadline.backends.postgres.blobs import entry_rows
from threadline.backends.postgres.founding import ENDLESS, placed, session_rows
from threadline.backends.postgres.places import Place
from threadline.backends.postgres.rows import key_seal, said
from threadline.backends.postgres.statements import Connection, Statement, many, one
from threadline.backends.postgres.transactions import Transaction, changed_about
from threadline.backends.postgres.writing import Writing
from threadline.core.about import opened_by, unopened
from threadline.core.entries import text
from threadline.core.fold import State
from threadline.core.reading import NO_LOG
from threadline.core.redaction import is_redacted
from threadline.core.spending import Charge
from threadline.errors import Stale


def trees(connection: Connection, after: bytes) -> list[bytes]:
    return [tree for (tree,) in many(connection, "trees", (after,))]


def originals(connection: Connection, tree: bytes) -> list[Original]:
    """The sessions of a tree, each after its origin, its parent and those whose logs it shares; forks and children of
    one in their order."""
    rows = sorted(many(connection, "originals", (tree,)), key=lambda row: row[6])
    waiting = {row[0]: _original(connection, tree, row) for row in rows}
    owners = {original.ref.lineage[-1].log: number for number, original in waiting.items()}
    ordered: list[Original] = []
    while waiting:
        ready = [number for number, original in waiting.items() if waiting.keys().isdisjoint(_elders(original, owners))]
        ordered += [waiting.pop(number) for number in ready or [*waiting]]  # only damage makes a circle of elders
    return ordered


def _elders(original: Original, owners: dict[int, int]) -> set[int | None]:
    return {original.origin, original.parent, *(owners.get(piece.log) for piece in original.ref.lineage[:-1])}


def _original(connection: Connection, tree: bytes, row: tuple[Any, ...]) -> Original:
    number, namespace, created_at, updated_at, status, origin, _, parent, *about = row
    ref = places.ref_at(connection, Place(tree, number, b""))
    assert ref is not None
    (salt,) = one(connection, "salt", (tree, ref.lineage[0].log))
    times = (created_at, updated_at)
    return Original(ref, text(namespace), salt, *times, STATUSES[status], said(*about), origin, parent)


def keys(connection: Connection, ref: Ref, after: int) -> list[KeyRow]:
    return [KeyRow(*found) for found in many(connection, "keys_after", (ref.tree, ref.lineage[-1].log, after))]


def calls_named(connection: Connection, ref: Ref, keys: Sequence[bytes]) -> list[KeyRow]:
    if not keys:
        return []
    found = {row[0]: KeyRow(*row) for row in many(connection, "find_keys", ([*keys], ref.tree, ref.number))}
    return [found[key] for key in keys if key in found]


def adopt(
    connection: Connection,
    durable: bool,
    original: Original,
    shared: tuple[Piece, ...],
    kin: Kin,
    base: State,
) -> Ref:
    """Make a session as another store holds it, with nothing of its own log yet. Raises Taken."""
    _, id, key, _, tree = original.ref
    new = NewSession(original.namespace, id, key, original.salt, original.created_at, unopened(original.about))
    make = partial(_make, connection, original, new, shared, kin, base, durable=durable)
    return placed(connection, new, places.copied_place_of(new, tree), make, fixed=True)


def _make(
    connection: Connection,
    original: Original,
    new: NewSession,
    shared: tuple[Piece, ...],
    kin: Kin,
    base: State,
    place: Place,
    *,
    durable: bool,
) -> Ref:
    tree = place.tree
    ref = Ref(place.session, text(place.id), new.key, (*shared, Piece(place.log, base.head + 1, ENDLESS)), tree)
    head = (places.realm_of(new.namespace), place.log, 0, 0, new.at, *base)
    with Transaction(connection, durable=durable) as transaction:
        nth = 0
        origin, parent = (None if elder is None else elder.number for elder in kin)
        if (elder := kin.origin or kin.parent) is not None:
            transaction.lock(elder)
            (nth,) = one(connection, "next_child" if kin.origin is None else "next_fork", (tree, elder.number))
        statements: list[Statement] = [
            *session_rows(ref, new, new.about, origin=origin, parent=parent, nth=nth),
            ("insert_log", (tree, place.log, original.salt)),
            *Writing(ref, head, NO_LOG, lambda key: None, None).moved(new=True, child=parent is not None),
        ]
        transaction.commit(statements, ref.id, 0)
    return ref


def receive(connection: Connection, durable: bool, ref: Ref, portion: Portion) -> None:
    """Store rows as they are, and what is said of the session after them."""
    with Transaction(connection, durable=durable) as transaction:
        writing = Writing(ref, transaction.lock(ref), NO_LOG, lambda key: None, None)
        head, own = writing.state.head, writing.own
        if portion.rows and portion.rows[0].seq != head + 1:
            raise Stale(portion.rows[0].seq - 1, head)
        statements: list[Statement] = [*entry_rows(ref.tree, own, portion.rows)]
        if stones := sum(map(is_redacted, portion.rows)):
            statements.append(("count_tombstones", (stones, ref.tree, own)))
        for key in portion.keys:
            columns = (ref.tree, own, *key)
            statements.append(("insert_key", (*columns, key_seal(*columns))))
        statements += changed_about(connection, ref, portion.about)
        writing.state, writing.opened = portion.state, opened_by(portion.about)
        writing.status, writing.updated_at = STATUSES.index(portion.status), portion.updated_at
        place, mark = (ref.tree, ref.number), writing.seal
        at = portion.updated_at
        statements.append(("move_head", (writing.opened, at, *portion.state, mark, at, *place)))
        statements.append(("set_status", (writing.status, at, mark, at, *place)))
        transaction.commit(statements, ref.id, head)


def account(connection: Connection, durable: bool, ref: Ref, charges: Sequence[Charge]) -> None:
    """Charge a session for requests as another store holds them."""
    with Transaction(connection, durable=durable) as transaction:
        realm, *_ = transaction.lock(ref)
        transaction.commit(usage.account(connection, ref, realm, charges), ref.id, 0)
