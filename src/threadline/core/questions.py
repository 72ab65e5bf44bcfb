"""A question, taken apart: which terms to look for, which of them side by side, and how much each of them counts.

Any text is a question; none is an error. What stands in quotation marks must be there, word by word. Everything else
may be: the more of it, and the rarer, the better. An identifier or a path is looked for as a whole first, and its words
count a little by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from threadline.core.words import STOPWORDS, composed, is_unspaced, taken_apart

UNITS_MAX = 48  # a longer question is asked by its first words
WHOLE = 1.5  # an identifier as a whole, beside 1 for a word
PART = 0.3  # one of its words
QUOTE = 2.0

_QUOTED = re.compile("[\"\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d]([^\"\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d]*)["
                     "\"\u201c\u201d\u00ab\u00bb\u300d]")  # fmt: skip
_OWNED = re.compile("['\u2019]s\\b")  # Ann's: nobody looks for the s


class Unit(Struct, frozen=True):
    """Terms that stand side by side, in this order. With `begins`, the last one may go on."""

    terms: tuple[str, ...]
    begins: bool = False


class Question(Struct, frozen=True):
    """What to look for: `weights` says what each unit counts, `required` which ones must be there."""

    weights: dict[Unit, float]
    required: tuple[Unit, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(self.weights)


def question(text: str) -> Question:
    weights: dict[Unit, float] = {}
    required: list[Unit] = []
    text = composed(text)
    for quoted in _QUOTED.findall(text):
        if parts := taken_apart(quoted)[0]:
            required.append(_unit(parts))
            weights[required[-1]] = QUOTE
    for word in _OWNED.sub("", _QUOTED.sub(" ", text)).split():
        for unit, weight in _asked(word):
            weights[unit] = max(weight, weights.get(unit, 0.0))
    return Question(_worth_asking(weights, required), tuple(dict.fromkeys(required)))


def _worth_asking(weights: dict[Unit, float], required: Iterable[Unit]) -> dict[Unit, float]:
    """Without what nearly every text has, unless there is nothing else."""
    common = {unit for unit in weights if STOPWORDS.issuperset(unit.terms)}.difference(required)
    kept = [unit for unit in weights if unit not in common] or list(weights)
    return {unit: weights[unit] for unit in kept[:UNITS_MAX]}


def _asked(word: str) -> Iterable[tuple[Unit, float]]:
    """The units of one word as it was typed: itself; or an identifier as a whole, and its parts."""
    parts, wholes = taken_apart(word)
    if not parts:
        return
    unit = _unit(parts)
    spaceless = is_unspaced(word)
    yield unit, 1.0 if spaceless or len(parts) == 1 else WHOLE
    for whole in wholes:
        yield Unit((whole,)), WHOLE
    if len(unit.terms) > 1:
        for part in unit.terms:
            if part not in STOPWORDS and len(part) > 1:
                yield Unit((part,)), 2 * PART if spaceless else PART


def _unit(parts: list[str]) -> Unit:
    """A single character may be the first of a pair; at the end of a run of pairs it says nothing that they do not."""
    if len(parts) == 1:
        return Unit(tuple(parts), begins=len(parts[0]) == 1 and is_unspaced(parts[0]))
    if len(parts[-1]) == 1 and is_unspaced(parts[-1]):
        parts = parts[:-1]
    return Unit(tuple(parts))
