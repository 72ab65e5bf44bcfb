"""Making sessions: first a place under their names (see places.py), then all of their rows in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from psycopg import errors

from threadline.backends.backend import NewSession, Piece, Ref, Written
from threadline.backends.postgres import places
from threadline.backends.postgres.places import Place, realm_of
from threadline.backends.postgres.rows import body_of, opened, opening_of, stored_or_none
from threadline.backends.postgres.statements import Connection, Statement, one
from threadline.backends.postgres.transactions import Transaction, about_now, log_of
from threadline.backends.postgres.writing import Writing
from threadline.core import holds
from threadline.core.about import About, inherited, opened_by
from threadline.core.digest import seal
from threadline.core.entries import Entry, stored, text
from threadline.core.fold import State, start, state_at
from threadline.core.ops import Op
from threadline.core.reading import NO_LOG
from threadline.errors import NotFound, StoreBusy

ENDLESS = 2**62  # the end of a log that still grows
ATTEMPTS = 10  # to find a place: each fails only if somebody else was quicker

T = TypeVar("T")


def create(
    connection: Connection,
    durable: bool,
    new: NewSession,
    ops: Sequence[Op] = (),
    expect: int | None = None,
    lease: int | None = None,
) -> Written:
    """Make a session and write to it. Raises Taken if its id or key has one."""
    wanted = places.place_of(new, new.salt)
    begin(wanted, new, ops, expect, lease)  # what would be refused reserves nothing

    def make(place: Place) -> Written:
        writing, entries = begin(place, new, ops, expect, lease)
        with Transaction(connection, durable=durable) as transaction:
            transaction.commit([*_root(writing, place, new)], writing.ref.id, 0)
        return Written(writing.ref, entries)

    return placed(connection, new, wanted, make, fixed=False)


def fork(connection: Connection, durable: bool, origin: Ref, at: int | None, new: NewSession) -> Ref:
    """Make a session that shares the log of its origin, in the same tree."""
    head = one(connection, "head", (origin.tree, origin.number))
    if head is None:
        raise NotFound("session", origin.id)
    end = State._make(head[5:]).head
    upto = end if at is None else at
    if not 0 <= upto <= end:
        raise NotFound("entry", upto, f"the log ends at {end}")

    def make(place: Place) -> Ref:
        with Transaction(connection, durable=durable) as transaction:
            transaction.lock(origin)
            ref, statements = _branch(connection, origin, upto, place, new)
            transaction.commit(statements, ref.id, 0)
        return ref

    return placed(connection, new, places.place_of(new, origin.tree), make, fixed=True)


def placed(connection: Connection, new: NewSession, wanted: Place, make: Callable[[Place], T], *, fixed: bool) -> T:
    """Reserve a place and make the session there; where somebody else was quicker, look again."""
    spoiled: set[Place] = set()
    for _ in range(ATTEMPTS):
        place = places.reserve(connection, new, wanted, fixed=fixed, spoiled=spoiled)
        try:
            return make(place)
        except errors.UniqueViolation:
            spoiled.add(place)
    raise StoreBusy("others are making the same session again and again: nothing was written, try again")


# -- roots ---------------------------------------------------------------------------------------------


def begin(
    place: Place, new: NewSession, ops: Sequence[Op], expect: int | None, lease: int | None
) -> tuple[Writing, list[list[Entry]]]:
    """The session as the ops leave it. Raises what speaks against them."""
    ref = Ref(place.session, text(place.id), new.key, (Piece(place.log, 1, ENDLESS),), place.tree)
    head = (realm_of(new.namespace), place.log, 0, 0, new.at, *start(new.salt))
    guard = partial(holds.check, None, lease, new.at, ref.id)  # nobody can have leased it
    writing = Writing(ref, head, NO_LOG, lambda key: None, expect, guard)
    return writing, [writing.run(op) for op in ops]


def _root(writing: Writing, place: Place, new: NewSession) -> Iterator[Statement]:
    about = new.about if writing.opening is None else opened(new.about, writing.opening)
    yield from session_rows(writing.ref, new, about)
    yield "insert_log", (place.tree, place.log, new.salt)
    yield from writing.statements()
    yield from writing.moved(new=True)


# -- forks ---------------------------------------------------------------------------------------------


def _branch(connection: Connection, origin: Ref, at: int, place: Place, new: NewSession) -> tuple[Ref, list[Statement]]:
    tree = origin.tree
    (salt,) = one(connection, "salt", (tree, origin.lineage[0].log))
    state = state_at(log_of(connection, origin), at, salt)
    about = inherited(about_now(connection, origin), new.about, origin.id, at)
    (nth,) = one(connection, "next_fork", (tree, origin.number))
    shared = (Piece(piece.log, piece.first, min(piece.last, at)) for piece in origin.lineage if piece.first <= at)
    ref = Ref(place.session, text(place.id), new.key, (*shared, Piece(place.log, at + 1, ENDLESS)), tree)
    head = (realm_of(new.namespace), place.log, 0, opened_by(about), new.at, *state)
    return ref, [
        *session_rows(ref, new, about, origin=origin.number, nth=nth),
        ("insert_log", (tree, place.log, salt)),
        *Writing(ref, head, NO_LOG, lambda key: None, None).moved(new=True),
    ]


# -- both ----------------------------------------------------------------------------------------------


def session_rows(
    ref: Ref, new: NewSession, about: About, *, origin: int | None = None, parent: int | None = None, nth: int = 0
) -> Iterator[Statement]:
    """What is said of a session, its tags and its lineage."""
    realm = realm_of(new.namespace)
    row = (
        ref.tree,
        ref.number,
        realm,
        stored(new.namespace),
        stored(ref.id),
        stored_or_none(ref.key),
        new.at,
        stored_or_none(about.cwd),
        stored_or_none(about.agent),
        origin,
        nth,
        parent,
        stored_or_none(about.call_id),
        body_of(about),
    )
    yield "insert_session", (*row, seal(*row), *opening_of(about))
    for tag in about.tags:
        yield "insert_tag", (ref.tree, ref.number, stored(tag), realm)
    for piece in ref.lineage:
        share = (ref.tree, ref.number, piece.first, piece.last, piece.log)
        yield "insert_share", (*share, seal(*share))
