"""How a question is answered, whatever engine holds the index: rare terms first, then wider, then a closer look.

An index can only list the documents of a unit. Lists of common units are cut, because reading all of them would cost
seconds in a large store; the texts of the best candidates are read in any case, and there every word counts. Only if
too little is found are the lists read farther, in the end wholly: nothing that matches is missed for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from threadline.backends.backend import Ref
from threadline.core import codec, ranking
from threadline.core.entries import MISTYPED, Row, moment
from threadline.core.findable import TITLE, Findable, findable
from threadline.core.questions import Question, Unit, question
from threadline.core.ranking import Lists, Scores
from threadline.core.redaction import is_redacted
from threadline.core.searching import Answer, Search
from threadline.core.snippets import snippet
from threadline.core.view import Log, Spans, holds
from threadline.errors import Damaged
from threadline.messages import Message

CUTS = (1_000, 8_000, 64_000, 1 << 40)  # how far lists are read, when less does not do
LOOKS = 40  # candidates whose texts are read, at least
BATCH = 40  # candidates whose sessions and texts are looked up at once
FEW = 50  # sessions that are looked at one by one, rather than all that match
BEGINNING_CHARS = 4  # a word that nobody said may be the beginning of one that somebody did
BEGINNING = 0.6  # what that counts


class Listing(NamedTuple):
    """The documents of a unit, the last first, and how many there are, about."""

    documents: list[int]
    total: int


class Spot(NamedTuple):
    """Where a document lies: a log, by whatever name the index has for it, and a seq; 0 is the title."""

    log: Any
    seq: int


class Reader(NamedTuple):
    """A session that reads the entries `first..last` of a log; `own` if they are written there."""

    session: int
    first: int
    last: int
    own: bool


class Document(NamedTuple):
    """What is known of a candidate when its text was read."""

    session: int
    seq: int
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

    def spots(self, documents: Sequence[int]) -> dict[int, Spot]:
        """Where documents lie; one that is not there any more is left out."""

    def readers(self, logs: Iterable[Any]) -> dict[Any, list[Reader]]:
        """The sessions that read each of these logs and may be found, the owner first."""

    def rows(self, spots: Sequence[Spot]) -> dict[Spot, Row]:
        """The entries that lie there, large strings included."""

    def title(self, spot: Spot) -> tuple[str, int] | None:
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
    common: dict[Unit, float] = {}
    whole: set[str] = set()  # words of identifiers that were found often enough as a whole: alone they can wait
    for unit, weight in sorted(asked.weights.items(), key=lambda asked: -len(asked[0].terms)):
        if whole.issuperset(unit.terms) and weight < 1.0 and cut == CUTS[0]:
            lists.documents[unit], lists.counts[unit] = [], total // 100
            common[unit] = weight
            continue
        most = cut if weight >= 1.0 else cut // 4  # a part of an identifier
        listing = index.documents(unit, most)
        if len(unit.terms) > 1 and len(listing.documents) >= LOOKS:
            whole.update(unit.terms)
        if not listing.documents and (longer := _beginning(unit)) and not _said(unit, tail):
            listing = index.documents(longer, most)
            asked = _instead(asked, unit, longer, weight * BEGINNING)
            unit = longer
        if len(listing.documents) >= most:
            common[unit] = weight
        late = [document for document, words in tail if ranking.has(unit, words)]
        lists.documents[unit] = [*late, *listing.documents]
        lists.counts[unit] = len(late) + listing.total
    rare = {document for unit in asked.units if unit not in common for document in lists.documents[unit]}
    shared = [unit for unit, weight in common.items() if weight >= 1.0]
    if len(shared) > 1 and len(rare) < LOOKS:
        _add_shared(index, lists, sorted(shared, key=lambda unit: lists.counts[unit]))
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
    best = nlargest(5 * LOOKS, scores.documents.items(), key=itemgetter(1, 0))
    lengths = index.lengths([document for document, _ in best])
    most = max(LOOKS, 2 * search.limit)
    wanted = ranking.wanted(asked)
    documents: dict[int, Document] = {}
    spots: dict[int, ranking.Spots] = {}
    for document, about in _admitted(index, _ordered(dict(best), lengths, scores, lists), search):
        there = wanted.spots(about.text, lengths.get(document))
        if ranking.matches(asked, there):
            documents[document], spots[document] = about, there
        if len(documents) >= most:
            break
    final = ranking.closer(asked, lists, spots, scores)
    counts = Counter(about.session for about in documents.values())
    if search.group:
        final = _grouped(final, documents)
    told = sorted(final, key=lambda document: (-final[document], -document))[: search.limit]
    return [Finding(it, final[it], counts[documents[it].session], documents[it]) for it in told]


def _ordered(best: dict[int, float], lengths: dict[int, int], scores: Scores, lists: Lists) -> Iterator[int]:
    """Candidates, the best first. Most searches end within the first few."""
    evened = ranking.evened(best, lengths, lists.average)
    yield from sorted(evened, key=lambda document: -evened[document])
    if len(scores.documents) > len(best):
        rest = (document for document in scores.documents if document not in evened)
        yield from sorted(rest, key=lambda document: -scores.documents[document])


def _admitted(index: Index, candidates: Iterator[int], search: Search) -> Iterator[tuple[int, Document]]:
    """Those that belong to a session that may be found, and their texts."""
    while batch := list(islice(candidates, BATCH)):
        spots = index.spots(batch)
        readers = index.readers({spot.log for spot in spots.values()})
        sessions = {document: _reader(spot.seq, readers.get(spot.log, ())) for document, spot in spots.items()}
        rows = index.rows([spot for document, spot in spots.items() if spot.seq and sessions[document] is not None])
        for document, session in sessions.items():
            spot = spots[document]
            about = None if session is None else _looked_at(index, spot, rows.get(spot), session, search)
            if about is not None:
                yield document, about


def _reader(seq: int, readers: Iterable[Reader]) -> int | None:
    """The session that a document is told of: who wrote it, or else the first that reads it."""
    fits = (it.session for it in readers if (it.first <= seq <= it.last if seq else it.own))
    return next(fits, None)


def _looked_at(index: Index, spot: Spot, row: Row | None, session: int, search: Search) -> Document | None:
    found = _told(row) if spot.seq else _titled(index, spot)
    if found is None:
        return None
    (role, text), at = found
    if search.role not in (None, role):
        return None
    if (search.since is not None and at < search.since) or (search.until is not None and at >= search.until):
        return None
    return Document(session, spot.seq, role, at, text)


def _titled(index: Index, spot: Spot) -> tuple[Findable, int] | None:
    found = index.title(spot)
    return None if found is None else (Findable(TITLE, found[0]), found[1])


def _told(row: Row | None) -> tuple[Findable, int] | None:
    told = None if row is None else readable(row)
    return None if row is None or told is None else (told, row.at)


def readable(row: Row) -> Findable | None:
    """Who said what in an entry; None for one that was redacted, and for one that is damaged: `verify` tells of it."""
    if is_redacted(row):
        return None
    try:
        row.check(None)
        return findable(row)
    except (Damaged, *MISTYPED, KeyError):
        return None


def _grouped(final: dict[int, float], documents: dict[int, Document]) -> dict[int, float]:
    """The best document of each session, with the score of the session."""
    sessions: dict[int, list[int]] = {}
    for document in sorted(final, key=lambda document: -final[document]):
        sessions.setdefault(documents[document].session, []).append(document)
    return {found[0]: ranking.together(final[it] for it in found) for found in sessions.values()}


# -- answers -------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """The session that a finding is told with: its log, its view, its head, and where its entries lie."""

    log: Log
    spans: Spans
    head: int
    spot: Callable[[int], Spot]


def answers(
    index: Index,
    asked: Question,
    lists: Lists,
    findings: list[Finding],
    search: Search,
    places: Mapping[int, Place],
) -> list[Answer]:
    """Findings as they are told, with what was said around them."""
    values, wanted = _term_values(asked, lists), ranking.wanted(asked)
    near = _near(index, findings, search.around, places)
    told = []
    for _, score, matches, (session, seq, role, at, text) in findings:
        there = places[session]
        before, after = _around(there, seq, search.around, near)
        told.append(
            Answer(
                session=session,
                seq=seq,
                at=moment(at),
                role=role,
                snippet=snippet(text, wanted, values, search.marks),
                score=round(score, 4),
                matches=matches,
                hidden=bool(seq) and not holds(there.spans, seq),
                before=before,
                after=after,
            )
        )
    return told


def _term_values(asked: Question, lists: Lists) -> dict[str, float]:
    values: dict[str, float] = {}
    for unit, value in ranking.worth(asked, lists).items():
        for term in unit.terms:
            values[term] = max(values.get(term, 0.0), value)
    return values


def _near(index: Index, findings: list[Finding], count: int, places: Mapping[int, Place]) -> dict[Spot, Row]:
    """The entries next to all findings, at once."""
    spots: set[Spot] = set()
    for finding in findings:
        place, seq = places[finding.about.session], finding.about.seq
        around = range(max(1, seq - count), min(place.head, seq + count) + 1)
        spots.update(place.spot(there) for there in around if there != seq)
    return index.rows([*spots]) if spots else {}


def _around(
    place: Place, seq: int, count: int, near: Mapping[Spot, Row]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The messages right before and right after an entry, in the order of the log. Mostly they are near."""
    before = _messages(place, range(seq - 1, max(0, seq - 1 - count), -1), near)
    after = _messages(place, range(seq + 1, min(place.head, seq + count) + 1), near)
    if len(before) < count < seq - 1:
        before = _farther(place.log.rows(1, seq - 1, reverse=True, page=32), count)
    if len(after) < count < place.head - seq:
        after = _farther(place.log.rows(seq + 1, place.head, page=32), count)
    return tuple(reversed(before)), tuple(after)


def _messages(place: Place, seqs: Iterable[int], near: Mapping[Spot, Row]) -> list[Message]:
    rows = (near.get(place.spot(seq)) for seq in seqs)
    return [message for row in rows if row is not None and (message := _message(row)) is not None]


def spot_in(ref: Ref, name: Callable[[int], Any], seq: int) -> Spot:
    """Where an entry of a session lies; `name` says what the index calls a log."""
    log = next((piece.log for piece in reversed(ref.lineage) if piece.first <= seq <= piece.last), 0)
    return Spot(name(log), seq)


def _farther(rows: Iterator[Row], count: int) -> list[Message]:
    return list(islice((message for row in rows if (message := _message(row)) is not None), count))


def _message(row: Row) -> Message | None:
    if row.kind != "message":
        return None
    try:
        return codec.decode_message(row.body) if row.looks_whole() else row.entry("").message
    except (Damaged, *MISTYPED):
        return None
