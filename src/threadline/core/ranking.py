"""Which documents answer a question best, and which sessions.

A document is an entry, by a number: its log's number times `LOG`, plus its seq. So entries of one log stand together,
and neighbours are neighbours. `first` ranks by which units a document has and how long it is, from lists of documents
alone; `closer` looks into the texts of the best of them. A session counts, too: an entry of one that speaks of all of
the question, before it or after it, answers better than the same words elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log1p

from msgspec import Struct

from threadline.core.questions import Question, Unit

SEQ_BITS = 26  # 67 million entries in one log
LOG = 1 << SEQ_BITS
SEQS = LOG - 1

K1, B = 1.2, 0.6  # Okapi BM25: how soon more of the same stops to count, and how much length does
NEAR = 0.35  # what the neighbours of an entry add to it
REACH = (1, 2)  # how far away they may be
SESSION = 0.45  # what the whole session adds
CLOSE = 0.3  # what units add that follow each other in the text as they do in the question
WINDOW = 8  # terms
FADING = (1.0, 0.3, 0.15)  # what the best entries of a session count for it


class Lists(Struct):
    """What an index knows: the documents of each unit (perhaps only the last of many), and how many there are in all.

    `counts` says how many documents have a unit, where the list is not all of them."""

    total: int
    average: float  # terms of a document
    documents: dict[Unit, Sequence[int]]
    counts: dict[Unit, int]

    def rarity(self, unit: Unit) -> float:
        count = self.counts.get(unit, len(self.documents.get(unit, ())))
        return log1p((self.total - min(count, self.total) + 0.5) / (count + 0.5))


class Scores(Struct):
    """Of documents, and of the logs that they stand in."""

    documents: dict[int, float]
    logs: dict[int, float]


def worth(question: Question, lists: Lists) -> dict[Unit, float]:
    """What each unit counts: its weight in the question times its rarity."""
    return {unit: weight * lists.rarity(unit) for unit, weight in question.weights.items()}


def first(question: Question, lists: Lists) -> Scores:
    """A first ranking, by which units a document has: no text is read for it."""
    documents: dict[int, float] = {}
    logs: dict[int, float] = {}
    for unit, value in worth(question, lists).items():
        found = lists.documents.get(unit, ())
        for document in found:
            documents[document] = documents.get(document, 0.0) + value
        for log, count in _by_log(found).items():
            logs[log] = logs.get(log, 0.0) + value * count / (count + 0.5)
    for unit in question.required:
        having = set(lists.documents.get(unit, ()))
        documents = {document: score for document, score in documents.items() if document in having}
    return Scores(documents, logs)


def _by_log(documents: Iterable[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for document in documents:
        log = document >> SEQ_BITS
        counts[log] = counts.get(log, 0) + 1
    return counts


def evened(scores: Mapping[int, float], lengths: Mapping[int, int], average: float) -> dict[int, float]:
    """The scores with lengths taken into account: of two with the same units, the shorter one says more of them."""
    return {
        document: score * (K1 + 1) / (1 + K1 * (1 - B + B * lengths.get(document, average) / average))
        for document, score in scores.items()
    }


def closer(question: Question, lists: Lists, texts: Mapping[int, Sequence[str]], around: Scores) -> dict[int, float]:
    """The final score of documents whose terms are at hand. Those that do not match any more are left out."""
    values = worth(question, lists)
    own = {document: _bm25(values, terms, lists.average) for document, terms in texts.items()}
    best = max(own.values(), default=0.0)
    top = max(around.logs.values(), default=0.0) or 1.0
    return {
        document: score
        + NEAR * _neighbours(document, around.documents)
        + SESSION * best * around.logs.get(document >> SEQ_BITS, 0.0) / top
        for document, score in own.items()
        if score and all(has(unit, texts[document]) for unit in question.required)
    }


def _neighbours(document: int, scores: Mapping[int, float]) -> float:
    """What is said around it, the closer the better."""
    return sum(max(scores.get(document - step, 0.0), scores.get(document + step, 0.0)) / (step + 1) for step in REACH)


def _bm25(values: Mapping[Unit, float], terms: Sequence[str], average: float) -> float:
    wanted = {term for unit in values for term in unit.terms}
    spots: dict[str, list[int]] = {}
    begins = [unit for unit in values if unit.begins]
    for i, term in enumerate(terms):
        if term in wanted:
            spots.setdefault(term, []).append(i)
    norm = K1 * (1 - B + B * len(terms) / max(average, 1.0))
    score = close = 0.0
    before: list[int] = []
    for unit, value in values.items():
        at = _occurrences(unit, spots) if unit not in begins else _beginning(unit, terms)
        if at:
            score += value * len(at) * (K1 + 1) / (len(at) + norm)
            if before and len(unit.terms) == 1 and _follow(before, at):
                close += value
            before = at
    return score + CLOSE * close


def _occurrences(unit: Unit, spots: Mapping[str, list[int]]) -> list[int]:
    first = spots.get(unit.terms[0], [])
    if len(unit.terms) == 1 or not first:
        return first
    rest = [set(spots.get(term, ())) for term in unit.terms[1:]]
    return [at for at in first if all(at + i in there for i, there in enumerate(rest, 1))]


def _beginning(unit: Unit, terms: Sequence[str]) -> list[int]:
    last = unit.terms[-1]
    size = len(unit.terms)
    return [
        i - size + 1
        for i, term in enumerate(terms)
        if term.startswith(last) and i >= size - 1 and tuple(terms[i - size + 1 : i]) == unit.terms[:-1]
    ]


def _follow(before: list[int], at: list[int]) -> bool:
    """Whether any of these stands soon after, or shortly before, any of those."""
    return any(abs(there - here) <= WINDOW for here in before[:16] for there in at[:16])


def has(unit: Unit, terms: Sequence[str]) -> bool:
    """Whether a text has the unit."""
    if unit.begins:
        return bool(_beginning(unit, terms))
    wanted = {*unit.terms}
    spots: dict[str, list[int]] = {}
    for i, term in enumerate(terms):
        if term in wanted:
            spots.setdefault(term, []).append(i)
    return bool(_occurrences(unit, spots))


def together(scores: Iterable[float]) -> float:
    """The score of a session from those of its entries, the best of them first."""
    return sum(map(float.__mul__, FADING, scores))
