"""The search index on PostgreSQL: terms in a tsvector, found by its own index. Everything else is as on SQLite.

Entries have no order across sessions there, so the index follows each log by itself: sessions that changed since all
was indexed are found as followers find them (changes.py), and each is indexed from where its log was left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from threadline.backends import sql
from threadline.backends.backend import Piece, Record, Ref
from threadline.backends.log import PiecedLog
from threadline.backends.postgres import places
from threadline.backends.postgres.changes import LATE_US
from threadline.backends.postgres.founding import ENDLESS
from threadline.backends.postgres.places import realm_of
from threadline.backends.postgres.rows import row_of, said, stored_or_none
from threadline.backends.postgres.sessions import records_of
from threadline.backends.postgres.statements import SQL as QUERIES
from threadline.backends.postgres.statements import Connection, Values, numbers
from threadline.backends.postgres.transactions import log_of
from threadline.backends.searching import Listing, Place, Reader, Spot, answers, find, readable, spot_in
from threadline.core.about import About
from threadline.core.entries import Row, stored, text, text_or_none
from threadline.core.findable import Findable
from threadline.core.questions import Unit
from threadline.core.ranking import STRETCH
from threadline.core.searching import Answer, Indexing, Search
from threadline.core.view import Spans, spans_after
from threadline.core.words import VERSION, terms
from threadline.errors import Damaged

SQL = sql.queries("postgres", "search.sql")

STEP_ROWS, STEP_CHARS, STEP_SESSIONS = 500, 500_000, 200  # indexed in one transaction
LAGGING_MAX = 1_000  # sessions that are counted, where many lag
POSITIONS_MAX, POSITION_MAX = 255, 16_383  # of one term, and of all of them: PostgreSQL keeps no more
VECTOR_BYTES = 700_000  # of a document: PostgreSQL refuses a mebibyte
MEND = "`threadline index --rebuild` makes it anew; the log is not touched"
REST_US = 10_000_000  # how often it is written down that nothing happened


def one(connection: Connection, name: str, values: Values = ()) -> Any:
    return connection.execute(SQL[name], values, prepare=True, binary=True).fetchone()


def many(connection: Connection, name: str, values: Values = ()) -> list[Any]:
    return connection.execute(SQL[name], values, prepare=True, binary=True).fetchall()


def run(connection: Connection, name: str, values: Values = ()) -> None:
    connection.execute(SQL[name], values, prepare=True)


# -- catching up ---------------------------------------------------------------------------------------


def lag(connection: Connection, namespace: str) -> Indexing:
    realm = realm_of(namespace)
    _, at, done, _, _ = _state(connection, realm)
    lagging = _lagging(connection, realm, at, LAGGING_MAX)
    left = sum(head - upto for _, _, _, head, _, upto, _ in lagging)
    return Indexing(done, done + left, bool(lagging))


def _state(connection: Connection, realm: bytes, name: str = "state") -> tuple[int, int, int, int, int]:
    """Of other rules than ours: as if there were none."""
    found = one(connection, name, (realm,))
    return found if found is not None and found[0] == VERSION else (VERSION, 0, 0, 0, 0)


def _lagging(connection: Connection, realm: bytes, at: int, limit: int) -> list[Any]:
    return many(connection, "lagging", {"realm": realm, "at": at - LATE_US, "limit": limit})


def step(connection: Connection, namespace: str) -> Indexing:
    """Index some more of what there is. Whoever comes next goes on where this ended."""
    realm = realm_of(namespace)
    with connection.transaction():
        run(connection, "quickly")
        run(connection, "begin_state", (realm, VERSION))
        found = one(connection, "lock_state", (realm,))
        if found is not None and found[0] != VERSION:
            _drop(connection, realm)
            run(connection, "begin_state", (realm, VERSION))
        (now,) = one(connection, "now")
        _, at, _, _, _ = _state(connection, realm)
        _index(connection, realm, at, now)
    return lag(connection, namespace)


def _index(connection: Connection, realm: bytes, at: int, now: int) -> None:
    lagging = _lagging(connection, realm, at, STEP_SESSIONS)
    budget = _Budget()
    whole = len(lagging) < STEP_SESSIONS
    for tree, session, log, head, updated_at, _, _ in lagging:
        if budget.is_spent:
            whole = False
            break
        done = _index_session(connection, realm, tree, session, budget)
        if done:
            _index_title(connection, realm, tree, log, budget)
        run(connection, "set_upto", (tree, log, realm, head if done else 0, updated_at if done else 0))
        whole = whole and done
    if budget.rows or budget.documents:
        run(connection, "add_state", (budget.rows, budget.documents, budget.terms, realm))
    if whole and (lagging or now - at > REST_US):  # or else every search would look at all sessions since `at` again
        run(connection, "set_at", (now, realm))


class _Budget:
    """What one step may do, and what it did."""

    def __init__(self) -> None:
        self.rows = self.documents = self.terms = self.chars = 0

    @property
    def is_spent(self) -> bool:
        return self.rows >= STEP_ROWS or self.chars >= STEP_CHARS


def _index_session(connection: Connection, realm: bytes, tree: bytes, session: int, budget: _Budget) -> bool:
    """All that a session reads: also of the logs of others, who may be gone before they are indexed."""
    ref = ref_at(connection, tree, session)
    return ref is None or all(_index_log(connection, realm, ref, piece, budget) for piece in ref.lineage)


def _index_log(connection: Connection, realm: bytes, ref: Ref, piece: Piece, budget: _Budget) -> bool:
    """The entries of a log up to the end of a piece of it; False if there are more than fit in."""
    if not one(connection, "hold_log", (ref.tree, piece.log)):
        return True
    found = one(connection, "upto", (ref.tree, piece.log))
    upto = max(found[0] if found else 0, piece.first - 1)
    log = PiecedLog(Ref(0, ref.id, None, (Piece(piece.log, 0, piece.last),), ref.tree), log_of(connection, ref)._select)
    for row in log.rows(upto + 1, piece.last):
        if budget.is_spent:
            break
        upto = row.seq
        budget.rows += 1
        told = readable(row)
        if told is not None:
            _insert(connection, realm, ref.tree, piece.log, row.seq, words_of(told), budget)
    else:
        return True
    run(connection, "set_upto", (ref.tree, piece.log, realm, upto, 0))
    return False


def _insert(
    connection: Connection, realm: bytes, tree: bytes, log: int, seq: int, words: list[str], budget: _Budget
) -> None:
    run(connection, "insert", (tree, log, seq, realm, len(words), vector(words)))
    budget.documents += 1
    budget.terms += len(words)
    budget.chars += sum(map(len, words))


def _index_title(connection: Connection, realm: bytes, tree: bytes, log: int, budget: _Budget) -> None:
    words = title_words(connection, tree, log)
    known = one(connection, "length", (tree, log, 0))
    if known is not None:
        run(connection, "delete", (tree, log, 0))
        budget.documents -= 1
        budget.terms -= known[0]
    if words:
        _insert(connection, realm, tree, log, 0, words, budget)


def title_words(connection: Connection, tree: bytes, log: int) -> list[str]:
    """The terms of the title of the session whose own log it is; none where nobody gave it one."""
    about = _titled(connection, tree, log)
    words = terms(about[0].title or "") if about is not None and about[0].titled_by is not None else []
    return [_role_term("title"), *words] if words else []


def words_of(told: Findable) -> list[str]:
    """The terms of an entry, its role's first."""
    return [_role_term(told.role), *terms(told.text)]


def _titled(connection: Connection, tree: bytes, log: int) -> tuple[About, int] | None:
    found = one(connection, "titled", (tree, log))
    return None if found is None else (said(*found[:4]), found[4])


def _role_term(role: str) -> str:
    return "_" + (role if role.isascii() and role.isalpha() and role.islower() else stored(role).hex())


def vector(words: Sequence[str]) -> str:
    """Terms as a tsvector is written. They hold letters and digits only: nothing in them is syntax."""
    spots: dict[str, list[str]] = {}
    size = 0
    for i, word in enumerate(words, 1):
        found = spots.setdefault(word, [])
        if len(found) < POSITIONS_MAX and size < VECTOR_BYTES:
            size += 2 + (0 if found else 6 + len(word.encode()))
            found.append(str(min(i, POSITION_MAX)))
    return " ".join(f"'{word}':{','.join(found)}" for word, found in spots.items() if found)


def drop(connection: Connection, namespace: str) -> None:
    with connection.transaction():
        _drop(connection, realm_of(namespace))


def _drop(connection: Connection, realm: bytes) -> None:
    for name in ("drop_state", "drop_documents", "drop_logs"):
        run(connection, name, (realm,))


# -- reading -------------------------------------------------------------------------------------------


def search(connection: Connection, asked: Search) -> list[tuple[Record, Answer]]:
    index = _Index(connection, asked)
    question, lists, found = find(index, asked)
    records = {record.number: record for record in index.records({finding.about.session for finding in found})}
    places = {ref.number: _place(connection, ref, records[ref.number]) for ref in index.refs(records)}
    found = [finding for finding in found if finding.about.session in places]  # others were deleted meanwhile
    return [(records[told.session], told) for told in answers(index, question, lists, found, asked, places)]


def _place(connection: Connection, ref: Ref, record: Record) -> Place:
    log, state = log_of(connection, ref), record.state
    spans: Spans = ((1, state.head),)
    with suppress(Damaged):
        spans = spans_after(log, state.view, state.head)
    return Place(log, spans, state.head, partial(spot_in, ref, partial(_named, ref.tree)))


def _named(tree: bytes, log: int) -> tuple[bytes, int]:
    return tree, log


def ref_at(connection: Connection, tree: bytes, session: int) -> Ref | None:
    return places.ref_at(connection, places.Place(tree, session, b""))


class _Index:
    """See `backends.searching.Index`. Documents are numbered as they come: rows have no numbers of their own."""

    def __init__(self, connection: Connection, asked: Search) -> None:
        self._connection = connection
        self._asked = asked
        self._realm = realm_of(asked.namespace)
        self._role = "" if asked.role is None else f" & '{_role_term(asked.role)}'"
        self._numbers: dict[tuple[bytes, int, int], int] = {}
        self._parts: list[tuple[bytes, int, int]] = []
        self._lengths: dict[int, int] = {}
        self.trees: dict[int, bytes] = {}
        self._name = "documents"
        self._where: dict[str, Any] = {"realm": self._realm}
        if asked.session is not None:
            pieces = many(connection, "pieces", (asked.tree, asked.session))
            self._name = "documents_within"
            self._where |= {"tree": asked.tree, "logs": numbers(log for log, _, _ in pieces)}

    def _document(self, tree: bytes, log: int, seq: int) -> int:
        part = (tree, log, seq // STRETCH)
        number = self._numbers.get(part)
        if number is None:
            number = self._numbers[part] = len(self._parts)
            self._parts.append(part)
        return number * STRETCH + seq % STRETCH

    def size(self) -> tuple[int, int]:
        _, _, _, docs, words = _state(self._connection, self._realm)
        return docs, words

    def documents(self, unit: Unit, limit: int) -> Listing:
        match = _match(unit)
        found = self._matching(f"({match}){self._role}", limit)
        return Listing(found, len(found) if len(found) < limit else max(len(found), self._estimated(match)))

    def documents_of_all(self, units: Sequence[Unit], limit: int) -> list[int]:
        return self._matching(" & ".join(f"({_match(unit)})" for unit in units) + self._role, limit)

    def _matching(self, match: str, limit: int) -> list[int]:
        values = self._where | {"match": match, "limit": min(limit, 1 << 30)}
        found = []
        for tree, log, seq, length in many(self._connection, self._name, values):
            found.append(self._document(tree, log, seq))
            self._lengths[found[-1]] = length
        return found

    def _estimated(self, match: str) -> int:
        (plan,) = self._connection.execute(SQL["estimate"], {"match": match}).fetchone() or ([],)
        return int(plan[0]["Plan"]["Plan Rows"]) if plan else 0

    def lengths(self, documents: Sequence[int]) -> dict[int, int]:
        return {document: self._lengths[document] for document in documents if document in self._lengths}

    def spots(self, documents: Sequence[int]) -> dict[int, Spot]:
        found = {}
        for document in documents:
            tree, log, part = self._parts[document // STRETCH]
            found[document] = Spot((tree, log), part * STRETCH + document % STRETCH)
        return found

    def readers(self, logs: Iterable[tuple[bytes, int]]) -> dict[tuple[bytes, int], list[Reader]]:
        named = [*logs]
        values = {
            "trees": [tree for tree, _ in named],
            "logs": numbers(log for _, log in named),
            "realm": self._realm,
            "trashed": self._asked.trashed,
            "session": self._asked.session,
            "cwd": stored_or_none(self._asked.cwd),
            "agent": stored_or_none(self._asked.agent),
        }
        found: dict[tuple[bytes, int], list[Reader]] = {}
        for tree, log, session, first, last, own in many(self._connection, "readers", values):
            self.trees[session] = tree
            found.setdefault((tree, log), []).append(Reader(session, first, last, own))
        return found

    def rows(self, spots: Sequence[Spot]) -> dict[Spot, Row]:
        values = {
            "trees": [tree for (tree, _), _ in spots],
            "logs": numbers(log for (_, log), _ in spots),
            "seqs": numbers(seq for _, seq in spots),
        }
        found = {}
        for tree, log, *columns in many(self._connection, "entries", values):
            ref = Ref(0, "", None, (Piece(log, 0, ENDLESS),), tree)
            found[Spot((tree, log), columns[0])] = log_of(self._connection, ref)._whole(row_of(columns))
        return found

    def title(self, spot: Spot) -> tuple[str, int] | None:
        found = _titled(self._connection, *spot.log)
        if found is None or found[0].titled_by is None or not found[0].title:
            return None
        return found[0].title, found[1]

    def records(self, sessions: Iterable[int]) -> list[Record]:
        found = self._connection.execute(QUERIES["records"], self._these(sessions), prepare=True, binary=True)
        return records_of(self._connection, found.fetchall())

    def refs(self, sessions: Iterable[int]) -> list[Ref]:
        found: dict[int, Ref] = {}
        for session, tree, id, key, *piece in many(self._connection, "refs", self._these(sessions)):
            known = found.get(session) or Ref(session, text(id), text_or_none(key), (), tree)
            found[session] = known._replace(lineage=(*known.lineage, Piece(*piece)))
        return [*found.values()]

    def _these(self, sessions: Iterable[int]) -> dict[str, Any]:
        these = [*sessions]
        return {"trees": [self.trees[session] for session in these], "sessions": numbers(these)}

    def tail(self) -> Iterator[tuple[int, Sequence[str]]]:
        """What is not indexed yet; where the index can be brought up to date, that is next to nothing."""
        if not self._asked.unindexed:
            return
        _, at, _, _, _ = _state(self._connection, self._realm)
        for tree, session, log, head, _, upto, _ in _lagging(self._connection, self._realm, at, 1 << 30):
            if self._asked.session in (None, session):
                yield from self._late(tree, session, log, head, upto)

    def _late(self, tree: bytes, session: int, own: int, head: int, upto: int) -> Iterator[tuple[int, Sequence[str]]]:
        ref = ref_at(self._connection, tree, session)
        if ref is None:
            return
        for row in log_of(self._connection, ref).rows(max(upto + 1, ref.lineage[-1].first), head):
            told = readable(row)
            if told is not None and self._asked.role in (None, told.role):
                yield self._document(tree, own, row.seq), words_of(told)
        about = _titled(self._connection, tree, own)
        if about is not None and about[0].titled_by and about[0].title and self._asked.role in (None, "title"):
            yield self._document(tree, own, 0), [_role_term("title"), *terms(about[0].title)]


def _match(unit: Unit) -> str:
    """A unit as a tsquery."""
    *firsts, last = unit.terms
    return " <-> ".join((*(f"'{term}'" for term in firsts), f"'{last}':*" if unit.begins else f"'{last}'"))
