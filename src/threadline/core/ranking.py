"""Which documents answer a question best, and which sessions.

A document is an entry, by a number that an index gave it. Of 64 numbers in a row, all are entries of one log, in their
order: a *stretch*, so that neighbours are neighbours. `first` ranks by which units a document has, from lists of
documents alone; `closer` looks into the texts of the best of them. What is said around an entry counts, too: one in
the midst of others that speak of the question answers it better than the same words elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from math import log1p
from operator import rshift
from typing import TypeAlias

from msgspec import Struct

from threadline.core.questions import Question, Unit
from threadline.core.words import Wanted

STRETCH_BITS = 6
STRETCH = 1 << STRETCH_BITS

K1, B = 1.2, 0.4  # Okapi BM25: how soon more of the same stops to count, and how much length does
NEAR = 0.1  # what the neighbours of an entry add to it
REACH = (1, 2)  # how far away they may be
SESSION = 0.2  # what the whole session adds
CLOSE = 0.6  # what units add that follow each other in the text as they do in the question
WINDOW = 8  # terms
FADING = (1.0, 0.3, 0.15)  # what the best entries of a session count for it


Spots: TypeAlias = tuple[Mapping[str, list[int]], int]  # where terms stand in a text, and how many it has in all


class Lists(Struct):
    """What an index knows: the documents of each unit (perhaps only the last of many), and how many there are in all.

    `counts` says how many documents have a unit, where the list is not all of them."""

    total: int
    average: float  # terms of a document
    documents: dict[Unit, Sequence[int]]
    counts: dict[Unit, int]

    def rarity(self, unit: Unit) -> float:
        """One that more than half of the documents have, or seem to have, counts as if half of them had it."""
        count = min(self.counts.get(unit, len(self.documents.get(unit, ()))), self.total / 2)
        return log1p((self.total - count + 0.5) / (count + 0.5))


class Scores(Struct):
    """Of documents, and of the stretches that they stand in."""

    documents: dict[int, float]
    stretches: dict[int, float]


def worth(question: Question, lists: Lists) -> dict[Unit, float]:
    """What each unit counts: its weight in the question times its rarity."""
    return {unit: weight * lists.rarity(unit) for unit, weight in question.weights.items()}


def first(question: Question, lists: Lists) -> Scores:
    """A first ranking, by which units a document has: no text is read for it."""
    documents: dict[int, float] = {}
    stretches: dict[int, float] = {}
    values = worth(question, lists)
    for unit in sorted(values, key=lambda unit: -len(lists.documents.get(unit, ()))):
        value, found = values[unit], lists.documents.get(unit, ())
        if documents:
            for document in found:
                documents[document] = documents.get(document, 0.0) + value
        else:  # the longest list, at once
            documents = dict.fromkeys(found, value)
        for stretch, count in Counter(map(rshift, found, repeat(STRETCH_BITS))).items():
            stretches[stretch] = stretches.get(stretch, 0.0) + value * count / (count + 0.5)
    for unit in question.required:
        having = set(lists.documents.get(unit, ()))
        documents = {document: score for document, score in documents.items() if document in having}
    return Scores(documents, stretches)


def evened(scores: Mapping[int, float], lengths: Mapping[int, int], average: float) -> dict[int, float]:
    """The scores with lengths taken into account: of two with the same units, the shorter one says more of them."""
    return {
        document: score * (K1 + 1) / (1 + K1 * (1 - B + B * lengths.get(document, average) / average))
        for document, score in scores.items()
    }


def wanted(question: Question) -> Wanted:
    beginnings = [unit.terms[-1] for unit in question.units if unit.begins]
    return Wanted((term for unit in question.units for term in unit.terms), beginnings)


def closer(question: Question, lists: Lists, texts: Mapping[int, Spots], around: Scores) -> dict[int, float]:
    """The final score of documents in which it is known where the terms stand."""
    values = worth(question, lists)
    own = {document: _bm25(values, spots, lists.average) for document, spots in texts.items()}
    best = max(own.values(), default=0.0)
    top = max(around.stretches.values(), default=0.0) or 1.0
    return {
        document: score
        + NEAR * _neighbours(document, around.documents)
        + SESSION * best * around.stretches.get(document >> STRETCH_BITS, 0.0) / top
        for document, score in own.items()
    }


def matches(question: Question, spots: Spots) -> bool:
    """Whether a text has what must be there, and anything of the question at all."""
    found, _ = spots
    return bool(found) and all(_occurrences(unit, found) for unit in question.required)


def _neighbours(document: int, scores: Mapping[int, float]) -> float:
    """What is said around it, the closer the better."""
    return sum(max(scores.get(document - step, 0.0), scores.get(document + step, 0.0)) / (step + 1) for step in REACH)


def _bm25(values: Mapping[Unit, float], spots: Spots, average: float) -> float:
    found, length = spots
    norm = K1 * (1 - B + B * length / max(average, 1.0))
    score = close = 0.0
    before: list[int] = []
    for unit, value in values.items():
        at = _occurrences(unit, found)
        if at:
            score += value * len(at) * (K1 + 1) / (len(at) + norm)
            if before and len(unit.terms) == 1 and _follow(before, at):
                close += value
            before = at
    return score + CLOSE * close


def _occurrences(unit: Unit, spots: Mapping[str, list[int]]) -> list[int]:
    *firsts, last = unit.terms
    ends = spots.get(last, [])
    if unit.begins:
        ends = [at for term, there in spots.items() if term.startswith(last) for at in there]
    for back, term in enumerate(reversed(firsts), 1):
        before = set(spots.get(term, ()))
        ends = [at for at in ends if at - back in before]
    return ends


def _follow(before: list[int], at: list[int]) -> bool:
    """Whether any of these stands soon after, or shortly before, any of those."""
    return any(abs(there - here) <= WINDOW for here in before[:16] for there in at[:16])


def has(unit: Unit, terms: Sequence[str]) -> bool:
    """Whether a text of these terms has the unit."""
    spots: dict[str, list[int]] = {}
    for i, term in enumerate(terms):
        spots.setdefault(term, []).append(i)
    return bool(_occurrences(unit, spots))


def together(scores: Iterable[float]) -> float:
    """The score of a session from those of its entries, the best of them first."""
    return sum(map(float.__mul__, FADING, scores))
