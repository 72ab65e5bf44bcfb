"""The index of what was said, in the same file: made, caught up, read, forgotten and dropped, inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from threadline.backends import sql
from threadline.backends.backend import Piece, Record, Ref
from threadline.backends.blobs import MARKS, decompress, whole
from threadline.backends.log import PiecedLog
from threadline.backends.searching import FEW, Listing, Place, Reader, Spot, answers, find, readable, spot_in
from threadline.backends.sqlite import rows
from threadline.backends.sqlite.rows import Connection
from threadline.backends.sqlite.sessions import records_of
from threadline.backends.sqlite.transactions import ENDLESS
from threadline.core import codec
from threadline.core.about import decode as about_of
from threadline.core.entries import Row, row_of, stored, text, text_or_none
from threadline.core.questions import Unit
from threadline.core.ranking import STRETCH
from threadline.core.searching import Answer, Indexing, Search
from threadline.core.view import Spans, spans_after
from threadline.core.words import VERSION, terms
from threadline.errors import Damaged

SQL = sql.queries("sqlite", "search.sql")

STEP_ROWS, STEP_CHARS = 1_000, 1_000_000  # indexed in one transaction, so that writers wait for no more than a moment
MERGE_PAGES = 400  # merged in one step
MAKE = [name for name in SQL if name.startswith("make_") and name != "make_search_start"]
DROP = [name for name in SQL if name.startswith("drop_")]


def run(connection: Connection, name: str, values: rows.Values = ()) -> None:
    connection.execute(SQL[name], values)


def one(connection: Connection, name: str, values: rows.Values = ()) -> Any:
    return connection.execute(SQL[name], values).fetchone()


def many(connection: Connection, name: str, values: rows.Values = ()) -> list[Any]:
    return connection.execute(SQL[name], values).fetchall()


# -- catching up ---------------------------------------------------------------------------------------


def is_made(connection: Connection) -> bool:
    return one(connection, "there") is not None


def is_there(connection: Connection) -> bool:
    """Whether there is an index, and one of our rules."""
    return is_made(connection) and one(connection, "state")[0] == VERSION


def lag(connection: Connection) -> Indexing:
    last_entry, last_session = one(connection, "last_rows")
    if not is_there(connection):
        return Indexing(0, last_entry + last_session)
    _, entry, session, _, _ = one(connection, "state")
    return Indexing(entry + session, last_entry + last_session, bool(many(connection, "retitled", (1,))))


def refresh(connection: Connection) -> None:
    """Let FTS5 look whether others have written. A reader makes it, PRAGMA integrity_check does not: it would compare
    pages that are new with what it remembers of old ones, and take that for damage (SQLite 3.54.1)."""
    if is_made(connection):
        run(connection, "look")


def step(connection: Connection) -> Indexing:
    """Index some more of what there is. Whoever comes next goes on where this ended, in whichever process."""
    if not is_there(connection):
        drop(connection)
        make(connection)
    _index_entries(connection)
    _index_titles(connection)
    return lag(connection)


def make(connection: Connection) -> None:
    for name in MAKE:
        run(connection, name)
    run(connection, "make_search_start", (VERSION,))


def drop(connection: Connection) -> None:
    for name in DROP:
        run(connection, name)


def merge(connection: Connection) -> bool:
    """Do some of the work that makes looking up quick; False when there is none left."""
    if not is_there(connection):
        return False
    before = connection.total_changes()
    run(connection, "merge", (MERGE_PAGES,))
    return connection.total_changes() - before >= 2


def _index_entries(connection: Connection) -> None:
    _, upto, _, _, _ = one(connection, "state")
    found: dict[int, list[str]] = {}
    chars = 0
    for entry, log, *columns in connection.execute(SQL["rows_after"], (upto, STEP_ROWS)):
        upto = entry
        words = _terms_of(_whole(connection, log, row_of(columns)))
        if words:
            found[_number(connection, log, columns[0])] = words
            chars += sum(map(len, words))
        if chars >= STEP_CHARS:
            break
    for document in sorted(found):  # FTS5 would store each out of order by itself
        _insert(connection, document, found[document])
    run(connection, "set_entry", (upto, len(found), sum(map(len, found.values()))))


def _number(connection: Connection, log: int, seq: int) -> int:
    """The number of a document, new or known."""
    part, place = divmod(seq, STRETCH)
    found = one(connection, "stretch", (log, part))
    if found is None:
        run(connection, "insert_stretch", (log, part))
        return connection.last_insert_rowid() * STRETCH + place
    return int(found[0]) * STRETCH + place


def _insert(connection: Connection, document: int, words: list[str]) -> None:
    run(connection, "insert_words", (document, " ".join(dict.fromkeys(words))))
    run(connection, "insert_doc", (document, len(words)))


def _terms_of(row: Row) -> list[str] | None:
    """The terms of an entry, its role's first; None where there is nothing to find, or it is damaged."""
    told = readable(row)
    return None if told is None else [_role_term(told.role), *terms(told.text)]


def _role_term(role: str) -> str:
    """A term that no text has: words hold no underscore. Roles of others' making are spelled out."""
    return "_" + (role if role.isascii() and role.isalpha() and role.islower() else stored(role).hex())


def _whole(connection: Connection, log: int, row: Row) -> Row:
    """The row with its body as it was written. One that cannot be is left as it is: its digest tells."""
    if type(row.body) is not bytes or row.body[:1] not in MARKS:
        return row
    with suppress(Damaged):
        return row._replace(body=whole(row.body, partial(_blob, connection, log, row.seq)))
    return row


def _blob(connection: Connection, log: int, seq: int, name: bytes) -> bytes:
    found = one(connection, "blob", (log, seq, name))
    if found is None:
        raise Damaged(None, seq, "a large part of it is missing")
    return decompress(found[0])


def expected(connection: Connection) -> Iterator[tuple[int, int, int]]:
    """What the index should hold: log and seq of each document, and how many terms it has."""
    _, upto, _, _, _ = one(connection, "state")
    for entry, log, *columns in connection.execute(SQL["rows_after"], (0, -1)):
        if entry > upto:
            break
        if words := _terms_of(_whole(connection, log, row_of(columns))):
            yield log, columns[0], len(words)
    for log, title in many(connection, "titles"):
        yield log, 0, len(terms(text(title))) + 1


# -- titles --------------------------------------------------------------------------------------------


def _index_titles(connection: Connection) -> None:
    for (session,) in many(connection, "retitled", (STEP_ROWS,)):
        _index_title(connection, session)
        run(connection, "done_retitled", (session,))
    _, _, upto, _, _ = one(connection, "state")
    new = [session for (session,) in many(connection, "sessions_after", (upto, STEP_ROWS))]
    for session in new:
        _index_title(connection, session)
    if new:
        run(connection, "set_session", (new[-1],))


def _index_title(connection: Connection, session: int) -> None:
    found = one(connection, "said", (session,))
    about = None if found is None else about_of(found[0])
    title = about.title if about is not None and about.titled_by is not None else None
    if title is not None and one(connection, "title", (session,)) == (found[1], stored(title)):
        return
    forget_title(connection, session)
    words = terms(title or "")
    if title is not None and words:
        _insert(connection, _number(connection, found[1], 0), [_role_term("title"), *words])
        run(connection, "set_title", (session, found[1], stored(title)))
        run(connection, "set_entry", (one(connection, "state")[1], 1, len(words) + 1))


# -- forgetting ----------------------------------------------------------------------------------------


def forget(connection: Connection, log: int, first: int, last: int | None = None) -> None:
    """Remove the entries `first..last` of a log from the index, to the last byte. They must still be in the log.

    Where one of them cannot be read any more, nobody can tell which terms are its own: then the index goes as a whole,
    and the next search makes it anew."""
    if not is_made(connection):
        return
    for document, seq in many(connection, "docs_between", (log, first, ENDLESS if last is None else last)):
        found = one(connection, "row", (log, seq))
        words = None if found is None else _terms_of(_whole(connection, log, row_of(found[2:])))
        if words is None:
            drop(connection)
            return
        _delete(connection, document, words)
    run(connection, "delete_stretches", (log,))


def forget_title(connection: Connection, session: int) -> None:
    """Remove a session's title from the index, to the last byte."""
    if not is_made(connection):
        return
    found = one(connection, "title", (session,))
    if found is not None:
        log, title = found
        _delete(connection, _number(connection, log, 0), [_role_term("title"), *terms(text(title))])
        run(connection, "delete_title", (session,))
        run(connection, "delete_stretches", (log,))
    run(connection, "done_retitled", (session,))


def clamp(connection: Connection) -> None:
    """Rows of `entry` were removed: those that get their numbers next are not indexed yet."""
    if is_made(connection):
        run(connection, "clamp")


def _delete(connection: Connection, document: int, words: list[str]) -> None:
    run(connection, "delete_words", (document, " ".join(dict.fromkeys(words))))
    run(connection, "delete_doc", (document,))
    run(connection, "set_entry", (one(connection, "state")[1], -1, -len(words)))


# -- reading -------------------------------------------------------------------------------------------


def search(connection: Connection, asked: Search) -> list[tuple[Record, Answer]]:
    index = _Index(connection, asked)
    question, lists, found = find(index, asked)
    sessions = codec.encode(list({finding.about.session for finding in found})).decode()
    records = {record.number: record for record in records_of(connection, many(connection, "records", (sessions,)))}
    places = {ref.number: _place(connection, ref, records[ref.number]) for ref in _refs(connection, sessions)}
    return [(records[told.session], told) for told in answers(index, question, lists, found, asked, places)]


def _refs(connection: Connection, sessions: str) -> Iterator[Ref]:
    pieces: dict[int, list[Piece]] = {}
    for session, *piece in many(connection, "lineages", (sessions,)):
        pieces.setdefault(session, []).append(Piece(*piece))
    for session, tree, id, key in many(connection, "sessions", (sessions,)):
        yield Ref(session, text(id), text_or_none(key), tuple(pieces[session]), tree)


def _place(connection: Connection, ref: Ref, record: Record) -> Place:
    log, state = PiecedLog(ref, partial(rows.many, connection)), record.state
    spans: Spans = ((1, state.head),)
    with suppress(Damaged):
        spans = spans_after(log, state.view, state.head)
    return Place(log, spans, state.head, partial(spot_in, ref, int))


class _Index:
    """See `backends.searching.Index`."""

    def __init__(self, connection: Connection, asked: Search) -> None:
        self._connection = connection
        self._there = is_there(connection)
        self._role = "" if asked.role is None else f' AND "{_role_term(asked.role)}"'
        self._session = asked.session
        self._unindexed = asked.unindexed
        self._values: dict[str, Any] = {
            "namespace": stored(asked.namespace),
            "trashed": asked.trashed,
            "session": asked.session,
            "cwd": None if asked.cwd is None else stored(asked.cwd),
            "agent": None if asked.agent is None else stored(asked.agent),
            "few": FEW + 1,
        }
        self._titles: dict[int, tuple[str, int]] = {}
        self._late: dict[int, Spot] = {}
        self._pieces: list[Piece] = []
        self._stretches = self._few_stretches()

    def size(self) -> tuple[int, int]:
        if not self._there:
            return 0, 0
        _, _, _, docs, words = one(self._connection, "state")
        return docs, words

    def documents(self, unit: Unit, limit: int) -> Listing:
        return Listing(*self._matching(f"({_match(unit)}){self._role}", limit))

    def documents_of_all(self, units: Sequence[Unit], limit: int) -> list[int]:
        return self._matching(" AND ".join(f"({_match(unit)})" for unit in units) + self._role, limit)[0]

    def _matching(self, match: str, limit: int) -> tuple[list[int], int]:
        """Documents, the last first, and how many there are, about."""
        if not self._there:
            return [], 0
        if self._stretches is None:
            found = [document for (document,) in many(self._connection, "documents", (match, limit))]
            return found, len(found) if len(found) < limit else self._estimated(found)
        lists = (many(self._connection, "documents_between", (match, *between, limit)) for between in self._stretches)
        found = [document for there in lists for (document,) in there]
        return found, len(found)

    def _estimated(self, found: list[int]) -> int:
        """How many there are, if they stand as close together everywhere as among the last of them."""
        first, last = one(self._connection, "extent")
        return max(len(found), int(len(found) * (last - first + 1) / (last - found[-1] + 1)))

    def lengths(self, documents: Sequence[int]) -> dict[int, int]:
        return dict(many(self._connection, "lengths", (codec.encode(documents).decode(),))) if self._there else {}

    def spots(self, documents: Sequence[int]) -> dict[int, Spot]:
        wanted = codec.encode(list({document // STRETCH for document in documents})).decode()
        there = many(self._connection, "stretches", (wanted,)) if self._there else []
        parts = {stretch: (log, part * STRETCH) for stretch, log, part in there}
        found = {}
        for document in documents:
            if document < 0:
                found[document] = self._late[document]
            elif document // STRETCH in parts:
                log, first = parts[document // STRETCH]
                found[document] = Spot(log, first + document % STRETCH)
        return found

    def readers(self, logs: Iterable[int]) -> dict[int, list[Reader]]:
        found: dict[int, list[Reader]] = {}
        values = self._values | {"logs": codec.encode([*logs]).decode()}
        for log, session, first, last, own in many(self._connection, "readers", values):
            found.setdefault(log, []).append(Reader(session, first, last, bool(own)))
        return found

    def rows(self, spots: Sequence[Spot]) -> dict[Spot, Row]:
        found = {}
        for log, *columns in many(self._connection, "rows_at", (codec.encode(spots).decode(),)):
            found[Spot(log, columns[0])] = _whole(self._connection, log, row_of(columns))
        return found

    def title(self, spot: Spot) -> tuple[str, int] | None:
        if spot.log in self._titles:
            return self._titles[spot.log]
        found = one(self._connection, "title_of_log", (spot.log,)) if self._there else None
        if found is None:
            return None
        title, session = found
        return text(title), rows.one(self._connection, "record", (session,))[5]

    def _few_stretches(self) -> list[tuple[int, int]] | None:
        """The documents of the sessions that are meant, where they are few; None where all are to be looked through."""
        if self._session is not None:
            return self._stretches_of([self._session])
        for name in ("agent", "cwd"):
            if self._values[name] is not None:
                found = many(self._connection, f"few_by_{name}", self._values)
                if len(found) <= FEW:
                    return self._stretches_of([session for (session,) in found])
        return None

    def _stretches_of(self, sessions: list[int]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for session in sessions:
            pieces = [Piece(*piece) for piece in many(self._connection, "pieces", (session,))]
            for log, first, last in [*pieces, *(Piece(piece.log, 0, 0) for piece in pieces[-1:])]:
                self._pieces.append(Piece(log, first, last))
                there = many(self._connection, "stretches_between", (log, first, last)) if self._there else []
                found += ((n * STRETCH, n * STRETCH + STRETCH - 1) for n, _ in there)
        return _apart(sorted(set(found)))

    def tail(self) -> Iterator[tuple[int, Sequence[str]]]:
        """What is not indexed yet, read row by row; its numbers are negative."""
        if not self._unindexed:
            return
        state = one(self._connection, "state") if self._there else (0, 0, 0)
        for _, log, *columns in self._connection.execute(SQL["rows_after"], (state[1], -1)):
            row = row_of(columns)
            words = _terms_of(_whole(self._connection, log, row)) if self._within(log, row.seq) else None
            if words and (not self._role or self._role.endswith(f'"{words[0]}"')):
                yield self._late_number(log, row.seq), words
        yield from self._late_titles(state[2])

    def _late_number(self, log: int, seq: int) -> int:
        number = -(len(self._late) * STRETCH) - 1  # apart, so that none is taken for a neighbour
        self._late[number] = Spot(log, seq)
        return number

    def _late_titles(self, after: int) -> Iterator[tuple[int, Sequence[str]]]:
        late = many(self._connection, "sessions_after", (after, -1))
        late += many(self._connection, "retitled", (-1,)) if self._there else []
        for (session,) in late:
            found = one(self._connection, "said", (session,))
            about = None if found is None else about_of(found[0])
            if about is not None and about.titled_by is not None and about.title:
                log = found[1]
                self._titles[log] = (about.title, rows.one(self._connection, "record", (session,))[5])
                if self._within(log, 0) and self._role in ("", ' AND "_title"'):
                    yield self._late_number(log, 0), [_role_term("title"), *terms(about.title)]

    def _within(self, log: int, seq: int) -> bool:
        return self._stretches is None or any(it.log == log and it.first <= seq <= it.last for it in self._pieces)


def _apart(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches that do not overlap: forks share what came before."""
    out: list[tuple[int, int]] = []
    for first, last in stretches:
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return out


def _match(unit: Unit) -> str:
    """A unit in FTS5's words: all of its terms, in whatever order; where they stand is looked up in the texts.

    Terms hold letters and digits only, so nothing in them can be taken for syntax."""
    *firsts, last = unit.terms
    return " AND ".join((*(f'"{term}"' for term in firsts), f'"{last}" *' if unit.begins else f'"{last}"'))
