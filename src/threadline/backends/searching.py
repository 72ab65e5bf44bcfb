"""How a question is answered, whatever engine holds the index: rare terms first, then wider, then a closer look.

An index can only list the documents of a unit. Lists of common units are cut, because reading all of them would cost
seconds in a large store; the texts of the best candidates are read in any case, and there every word counts. Only if
too little is found are the lists read farther, in the end wholly: nothing that matches is missed for good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import nlargest
from itertools import islice
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from threadline.core import ranking
from threadline.core.entries import MISTYPED, Row, moment
from threadline.core.findable import TITLE, Findable, findable
from threadline.core.questions import Question, Unit, question
from threadline.core.ranking import LOG, SEQ_BITS, SEQS, Lists, Scores
from threadline.core.redaction import is_redacted
from threadline.core.searching import Answer, Search
from threadline.core.snippets import snippet
from threadline.core.view import Log, Spans, holds
from threadline.core.words import terms
from threadline.errors import Damaged
from threadline.messages import Message

CUTS = (2_000, 16_000, 128_000, 1 << 40)  # how far lists are read, when less does not do
LOOKS = 64  # candidates whose texts are read, at least
BATCH = 64  # candidates whose sessions and texts are looked up at once
FEW = 50  # sessions that are looked at one by one, rather than all that match
BEGINNING_CHARS = 4  # a word that nobody said may be the beginning of one that somebody did
BEGINNING = 0.6  # what that counts


class Listing(NamedTuple):
    """The documents of a unit, the last first, and how many there are, about."""

    documents: list[int]
    total: int


class Reader(NamedTuple):
    """A session that reads the entries `first..last` of a log; `own` if they are written there."""

    session: int
    first: int
    last: int
    own: bool


class Document(NamedTuple):
    """What is known of a candidate when its text was read."""

    session: int
    role: str
    at: int
    text: str


class Index(Protocol):
    """One search's view of an index: at one moment, of one namespace, restricted as the search says."""

    def size(self) -> tuple[int, int]:
        """How many documents there are, and how many terms they have."""

    def documents(self, unit: Unit, limit: int) -> Listing:
        """Those that have a unit."""

    def documents_of_all(self, units: Sequence[Unit], limit: int) -> list[int]:
        """Those that have all of these."""

    def lengths(self, documents: Sequence[int]) -> dict[int, int]:
        """How many terms each has."""

    def readers(self, logs: Iterable[int]) -> dict[int, list[Reader]]:
        """The sessions that read each of these logs and may be found, the owner first."""

    def rows(self, documents: Sequence[int]) -> dict[int, Row]:
        """The entries of documents, large strings included."""

    def title(self, document: int) -> tuple[str, int] | None:
        """The title that a document stands for, and when its session was made."""

    def tail(self) -> Iterator[tuple[int, Sequence[str]]]:
        """Documents that are not in the index yet, and their terms, if the search asks for `unindexed` ones."""


class Finding(NamedTuple):
    """A document with its score, and how many others of its session match."""

    document: int
    score: float
    matches: int
    about: Document


def find(index: Index, search: Search) -> tuple[Question, Lists, list[Finding]]:
    """The best documents, best first."""
    asked = question(search.text)
    lists = Lists(0, 1.0, {}, {})
    found: list[Finding] = []
    if not asked.units:
        return asked, lists, found
    tail = list(index.tail())
    for cut in CUTS:
        asked, lists, was_cut = _listed(index, asked, cut, tail)
        found = _closest(index, asked, lists, search)
        if len(found) >= search.limit or not was_cut:
            break
    return asked, lists, found


# -- lists ---------------------------------------------------------------------------------------------


def _listed(
    index: Index, asked: Question, cut: int, tail: list[tuple[int, Sequence[str]]]
) -> tuple[Question, Lists, bool]:
    """The documents of each unit, up to a number; and whether that left some out."""
    total, size = index.size()
    total, size = total + len(tail), size + sum(len(words) for _, words in tail)
    lists = Lists(total, max(1.0, size / max(1, total)), {}, {})
    for unit, weight in [*asked.weights.items()]:
        listing = index.documents(unit, cut)
        if not listing.documents and (longer := _beginning(unit)) and not _said(unit, tail):
            listing = index.documents(longer, cut)
            asked = _instead(asked, unit, longer, weight * BEGINNING)
            unit = longer
        late = [document for document, words in tail if ranking.has(unit, words)]
        lists.documents[unit] = [*late, *listing.documents]
        lists.counts[unit] = len(late) + listing.total
    common = [unit for unit in asked.units if len(lists.documents[unit]) >= cut]
    rare = {document for unit in asked.units if unit not in common for document in lists.documents[unit]}
    if len(common) > 1 and len(rare) < LOOKS:
        _add_shared(index, lists, sorted(common, key=lambda unit: lists.counts[unit]))
    return asked, lists, bool(common)


def _beginning(unit: Unit) -> Unit | None:
    word = unit.terms[0]
    return Unit(unit.terms, begins=True) if len(unit.terms) == 1 and len(word) >= BEGINNING_CHARS else None


def _said(unit: Unit, tail: list[tuple[int, Sequence[str]]]) -> bool:
    return any(ranking.has(unit, words) for _, words in tail)


def _instead(asked: Question, unit: Unit, other: Unit, weight: float) -> Question:
    weights = {(other if it == unit else it): (weight if it == unit else was) for it, was in asked.weights.items()}
    return replace(asked, weights=weights)


def _add_shared(index: Index, lists: Lists, common: list[Unit]) -> None:
    """All units are common: those documents count that have many of them, so leave out the most common, one by one."""
    while len(common) > 1:
        shared = index.documents_of_all(common, LOOKS * 8)
        for unit in common:
            lists.documents[unit] = [*dict.fromkeys((*shared, *lists.documents[unit]))]
        if len(shared) >= LOOKS:
            return
        common = common[:-1]


# -- candidates ----------------------------------------------------------------------------------------


def _closest(index: Index, asked: Question, lists: Lists, search: Search) -> list[Finding]:
    scores = ranking.first(asked, lists)
    wanted = max(LOOKS, 3 * search.limit)
    documents: dict[int, Document] = {}
    words: dict[int, list[str]] = {}
    for document, about in _admitted(index, _ordered(index, scores, lists), search):
        documents[document] = about
        words[document] = terms(about.text)
        if len(documents) >= wanted:
            break
    final = ranking.closer(asked, lists, words, scores)
    matches = _matches(final, documents)
    if search.group:
        final = _grouped(final, documents)
    best = sorted(final, key=lambda document: (-final[document], -document))[: search.limit]
    return [Finding(it, final[it], matches[documents[it].session], documents[it]) for it in best]


def _ordered(index: Index, scores: Scores, lists: Lists) -> Iterator[int]:
    """Candidates, the best first. Most searches end within the first thousand."""
    best = nlargest(1_000, scores.documents, key=lambda document: (scores.documents[document], document))
    evened = ranking.evened({it: scores.documents[it] for it in best}, index.lengths(best), lists.average)
    yield from sorted(best, key=lambda document: -evened[document])
    if len(scores.documents) > len(best):
        seen = {*best}
        rest = (document for document in scores.documents if document not in seen)
        yield from sorted(rest, key=lambda document: -scores.documents[document])


def _admitted(index: Index, candidates: Iterator[int], search: Search) -> Iterator[tuple[int, Document]]:
    """Those that belong to a session that may be found, and their texts."""
    while batch := list(islice(candidates, BATCH)):
        readers = index.readers({document >> SEQ_BITS for document in batch})
        readable_by = {document: _reader(document, readers.get(document >> SEQ_BITS, ())) for document in batch}
        rows = index.rows([document for document in batch if document & SEQS and readable_by[document] is not None])
        for document, session in readable_by.items():
            about = None if session is None else _looked_at(index, document, rows.get(document), session, search)
            if about is not None:
                yield document, about


def _reader(document: int, readers: Iterable[Reader]) -> int | None:
    """The session that a document is told of: who wrote it, or else the first that reads it."""
    seq = document & SEQS
    fits = (it.session for it in readers if (it.first <= seq <= it.last if seq else it.own))
    return next(fits, None)


def _looked_at(index: Index, document: int, row: Row | None, session: int, search: Search) -> Document | None:
    found = _told(row) if document & SEQS else _titled(index, document)
    if found is None:
        return None
    (role, text), at = found
    if search.role not in (None, role):
        return None
    if (search.since is not None and at < search.since) or (search.until is not None and at >= search.until):
        return None
    return Document(session, role, at, text)


def _titled(index: Index, document: int) -> tuple[Findable, int] | None:
    found = index.title(document)
    return None if found is None else (Findable(TITLE, found[0]), found[1])


def _told(row: Row | None) -> tuple[Findable, int] | None:
    told = None if row is None else readable(row)
    return None if row is None or told is None else (told, row.at)


def readable(row: Row) -> Findable | None:
    """Who said what in an entry; None for one that was redacted, and for one that is damaged: `verify` tells of it."""
    if is_redacted(row):
        return None
    with suppress(Damaged, *MISTYPED, KeyError):
        row.check(None)
        return findable(row)
    return None


def _matches(final: dict[int, float], documents: dict[int, Document]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for document in final:
        session = documents[document].session
        counts[session] = counts.get(session, 0) + 1
    return counts


def _grouped(final: dict[int, float], documents: dict[int, Document]) -> dict[int, float]:
    """The best document of each session, with the score of the session."""
    sessions: dict[int, list[int]] = {}
    for document in sorted(final, key=lambda document: -final[document]):
        sessions.setdefault(documents[document].session, []).append(document)
    return {found[0]: ranking.together(final[it] for it in found) for found in sessions.values()}


# -- answers -------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """The session that a finding is told with: its log, its view, its head."""

    log: Log
    spans: Spans
    head: int


def answers(
    asked: Question, lists: Lists, findings: list[Finding], search: Search, place: Callable[[int], Place]
) -> list[Answer]:
    """Findings as they are told, with what was said around them."""
    values = _term_values(asked, lists)
    places: dict[int, Place] = {}
    told = []
    for document, score, matches, (session, role, at, text) in findings:
        if session not in places:
            places[session] = place(session)
        there, seq = places[session], document & SEQS
        told.append(
            Answer(
                session=session,
                seq=seq,
                at=moment(at),
                role=role,
                snippet=snippet(text, asked, values, search.marks),
                score=round(score, 4),
                matches=matches,
                hidden=bool(seq) and not holds(there.spans, seq),
                before=_around(there, seq, search.around, -1) if seq else (),
                after=_around(there, seq, search.around, 1),
            )
        )
    return told


def _term_values(asked: Question, lists: Lists) -> dict[str, float]:
    values: dict[str, float] = {}
    for unit, value in ranking.worth(asked, lists).items():
        for term in unit.terms:
            values[term] = max(values.get(term, 0.0), value)
    return values


def _around(place: Place, seq: int, count: int, step: int) -> tuple[Message, ...]:
    """The messages next to an entry, in the order of the log."""
    first, last = (1, seq - 1) if step < 0 else (seq + 1, place.head)
    found: list[Message] = []
    if count < 1 or first > last:
        return ()
    for row in place.log.rows(first, last, reverse=step < 0, page=max(4, 2 * count)):
        if row.kind == "message":
            with suppress(Damaged, *MISTYPED):
                message = row.entry("").message
                assert message is not None
                found.append(message)
        if len(found) >= count:
            break
    return tuple(reversed(found) if step < 0 else found)


def document_of(log: int, seq: int) -> int:
    return log * LOG + seq
