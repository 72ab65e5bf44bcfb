"""Where a session stands: its tree and its number, reserved under its id and its key before it is made.

A reservation is a transaction of its own, because on a cluster the names lie on other shards than the trees. So it may
be left without a session, when a process dies in between or loses a race. That is a session that does not exist, and
whoever wants its name next uses the reserved place: then at most one session can ever be made of one name. Only where
that is impossible is the name given another place, and first the old one is closed for ever."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from psycopg import errors

from threadline.backends.backend import NewSession, Piece, Ref
from threadline.backends.postgres.statements import Connection, many, one, run
from threadline.core.digest import identity
from threadline.core.entries import stored, text, text_or_none

CLOSED = b""  # the salt of a log that keeps a place closed


class Place(NamedTuple):
    tree: bytes
    session: int
    id: bytes

    @property
    def log(self) -> int:
        """The number of its own log."""
        return _number(b"log", self.tree, b"%d" % self.session)


class Taken(Exception):
    """A session of that id or key exists."""

    def __init__(self, what: str, name: str | None) -> None:
        super().__init__(what, name)
        self.what = what
        self.name = name


def realm_of(namespace: str) -> bytes:
    """A namespace in an index, however long its name is."""
    return identity(b"namespace", stored(namespace))


def name_of(what: str, namespace: str, name: str) -> bytes:
    """What an id or a key is reserved under: a digest of all of it, so that two different ones never meet."""
    columns = (what.encode(), stored(namespace), stored(name))
    return sha256(b"\0".join(b"%d:%b" % (len(column), column) for column in columns)).digest()


def place_of(new: NewSession, tree: bytes) -> Place:
    """A place of its own for a new session: its salt is random, and so is its number."""
    return Place(tree, _number(b"session", new.salt), stored(new.id))


def copied_place_of(new: NewSession, tree: bytes) -> Place:
    """The place of a session that comes from another store: a fork has the salt of its origin, so its id must do."""
    return Place(tree, _number(b"copied", tree, stored(new.namespace), stored(new.id)), stored(new.id))


def _number(*parts: bytes) -> int:
    return int.from_bytes(identity(*parts)[:8], "big") >> 2  # below 2**62, where the cursor of a listing begins


def reserve(connection: Connection, new: NewSession, wanted: Place, *, fixed: bool, spoiled: set[Place]) -> Place:
    """The place for a new session: `wanted`, or what an earlier attempt reserved. Raises Taken if there is a session.

    The id comes first: then whoever finds a reserved key can rely on the id beside it. `fixed` ones stay in their
    tree; `spoiled` places were seen to be closed."""
    place = _reserved(connection, new, "id", new.id, wanted, fixed, spoiled)
    if new.key is None:
        return place
    return _reserved(connection, new, "key", new.key, place, fixed, spoiled)


def _reserved(
    connection: Connection, new: NewSession, what: str, named: str, wanted: Place, fixed: bool, spoiled: set[Place]
) -> Place:
    name = name_of(what, new.namespace, named)
    while True:
        if run(connection, "reserve", (name, realm_of(new.namespace), *wanted)):
            return wanted
        row = one(connection, "reserved", (name,))
        if row is None:
            continue
        found = Place(*row)
        occupant = ref_at(connection, found)
        if occupant is not None and getattr(occupant, what) == named:
            raise Taken(what, named)
        usable = occupant is None and found not in spoiled and (not fixed or found.tree == wanted.tree)
        if found == wanted or usable:
            return found
        if occupant is not None or found in spoiled or _close(connection, found):
            run(connection, "reserve_anew", (*wanted, name, found.tree, found.session))


def _close(connection: Connection, place: Place) -> bool:
    """Take the place of a session that does not exist, so that none will. False if it was made meanwhile."""
    try:
        run(connection, "insert_log", (place.tree, place.log, CLOSED))
    except errors.UniqueViolation:
        return bool(one(connection, "salt", (place.tree, place.log)) == (CLOSED,))
    return True


def find(connection: Connection, namespace: str, *, id: str | None = None, key: str | None = None) -> Ref | None:
    what, name = ("id", id) if id is not None else ("key", key or "")
    row = one(connection, "reserved", (name_of(what, namespace, name or ""),))
    ref = None if row is None else ref_at(connection, Place(*row), namespace)
    return ref if ref is not None and getattr(ref, what) == name else None


def ref_at(connection: Connection, place: Place, namespace: str | None = None) -> Ref | None:
    """The session at a place, if there is one (of that namespace)."""
    rows = many(connection, "ref", (place.tree, place.session))
    if not rows or (namespace is not None and rows[0][2] != stored(namespace)):
        return None
    id, key = rows[0][:2]
    return Ref(place.session, text(id), text_or_none(key), tuple(Piece(*row[3:]) for row in rows), place.tree)
