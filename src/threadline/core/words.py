"""From text to terms: what is indexed of a text, and what a question is taken apart into, by the same rules.

A term is a word in lower case without accents and English endings. `snake_case`, `CamelCase` and `a/path.py` become
their words, one after the other, so that any way of writing them finds any other; a word in CamelCase is a term as a
whole, too. Scripts without spaces become pairs of characters, each overlapping the next. Nothing is left out: which
words are too common to ask for is decided by those who ask."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache

from threadline.core.stems import stem

VERSION = 1  # of these rules: an index that was made by others is made anew

TERM_CHARS = 64  # a longer one is cut: more than any hash in hexadecimal
WORD_CHARS = 6  # of a word and the space after it, about
CAMEL_CHARS = 40  # longer mixtures of cases are nobody's words but base64
HEAD_CHARS, TAIL_CHARS = 150_000, 50_000  # of a longer text: how it begins and how it ends

# Scripts that write no spaces between words, and those whose marks `\w` does not know.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNSPACED += "\U00020000-\U0003ffff"
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_WORD = re.compile(r"(?:[^\W_]|[\u0900-\u109f\u1780-\u17ff])+")
_RUNS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?=[A-Z][a-z]))")
_SPAN: Callable[[re.Match[str]], tuple[int, int]] = re.Match.span
_ACCENTS = re.compile("[\u0300-\u036f]")

# Words that nearly every text has: a question is asked without them, as long as any other word is left.
_COMMON = """
a about after again all also am an and any are as at be because been before being both but by can could d did
do does doing don done down during each else ever few for from further get got had has have having he her here
hers him himself his how i if in into is it its itself just ll m me might mine more most much must my myself
no nor not now of off on once one only or other our ours out over own please re s same shall she should so
some such t tell than that the their theirs them themselves then there these they this those through to too
under until up us ve very was we were what when where whether which while who whom whose why will with would
you your yours
"""
STOPWORDS = frozenset(map(stem, _COMMON.split()))


def terms(text: str) -> list[str]:
    """The terms of a text in their order, and after them those of words in CamelCase as a whole."""
    parts, wholes = taken_apart(text)
    return parts + wholes


def taken_apart(text: str) -> tuple[list[str], list[str]]:
    """The terms of a text in their order, and those of words in CamelCase as a whole."""
    parts: list[str] = []
    wholes: list[str] = []
    for word in _words(text):
        found, whole = parts_of(word)
        parts += found
        if whole:
            wholes.append(whole)
    return parts, wholes


def _words(text: str) -> list[str]:
    return _ASCII_WORD.findall(text) if text.isascii() else _WORD.findall(unicodedata.normalize("NFC", text))


class Wanted:
    """Terms to look for in texts. Most words of a text are none of them, and their first letters tell: a stem is the
    beginning of its word, but for its last letters."""

    def __init__(self, terms: Iterable[str], beginnings: Iterable[str] = ()) -> None:
        self.beginnings = tuple(beginnings)
        self.terms = frozenset(terms)
        heads = {term[: min(6, max(1, len(term) - 2))] for term in (*self.terms, *self.beginnings) if term.isascii()}
        self._heads = "|".join(sorted(heads))

    @cached_property
    def _small(self) -> re.Pattern[str]:
        """Likely words of a text in lower case."""
        return re.compile(f"(?<![a-z0-9])(?:{self._heads})[a-z0-9]*")

    @cached_property
    def _mixed(self) -> re.Pattern[str]:
        """Likely words of a text that has words in CamelCase: their parts begin anywhere. It takes thrice as long."""
        humps = "[A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*|[A-Z]+[a-z][A-Za-z0-9]*"
        return re.compile(f"(?<![A-Za-z0-9])(?:(?i:{self._heads})[A-Za-z0-9]*|{humps})")

    def _likely(self, text: str) -> Iterator[tuple[int, int]]:
        """Where in an ASCII text there are words that may be among them."""
        humped = _HUMP.search(text) is not None
        return map(_SPAN, (self._mixed.finditer(text) if humped else self._small.finditer(text.lower())))

    def holds(self, term: str) -> bool:
        return term in self.terms or (bool(self.beginnings) and term.startswith(self.beginnings))

    def spots(self, text: str, length: int | None = None) -> tuple[dict[str, list[int]], int]:
        """Where in a text they stand, counted in terms, and how many terms it has, if that is not known. In plain ASCII
        only likely words are looked at: then distances are rough, but neighbours are neighbours."""
        if text.isascii():
            found = self._roughly(text)
            return found, len(_ASCII_WORD.findall(text)) if length is None else length
        found = {}
        at = 0
        for word in _words(text):
            at += self._note(found, word, at)
        return found, at

    def _roughly(self, text: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        at = end = 0
        for first, last in self._likely(text):
            if _ASCII_WORD.search(text, end, first):
                at += 1 + (first - end) // WORD_CHARS
            at += self._note(found, text[first:last], at)
            end = last
        return found

    def _note(self, found: dict[str, list[int]], word: str, at: int) -> int:
        """Write down which of them a word is, or its parts are; how many terms it has."""
        parts, whole = parts_of(word)
        for i, term in enumerate(parts):
            if self.holds(term):
                found.setdefault(term, []).append(at + i)
        if whole is not None and self.holds(whole):
            found.setdefault(whole, []).append(at)
        return len(parts)

    def places(self, text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Where in a text (normalised as `composed` does it) there are words of them, and their terms."""
        for start, end in self._likely(text) if text.isascii() else map(_SPAN, _WORD.finditer(text)):
            for first, last, word in _unjoined(text[start:end], start):
                parts, whole = parts_of(word)
                terms = tuple(filter(self.holds, (*parts, whole) if whole else parts))
                if terms:
                    yield first, last, terms


def _unjoined(word: str, start: int) -> Iterator[tuple[int, int, str]]:
    """A word, or where scripts without spaces take part in it, its pairs of characters one by one."""
    if word.isascii() or not _UNSPACED_RUN.search(word):
        yield start, start + len(word), word
        return
    for run in _RUNS.finditer(word):
        first, last = run.start() + start, run.end() + start
        if _UNSPACED_RUN.match(run.group()) and last - first > 1:
            yield from ((i, i + 2, word[i - start : i - start + 2]) for i in range(first, last - 1))
        else:
            yield first, last, run.group()


def composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@lru_cache(65_536)
def parts_of(word: str) -> tuple[tuple[str, ...], str | None]:
    """The terms of one word, and the term of the whole where it is one of several in CamelCase."""
    if not word.isascii():
        return _foreign(word), None
    if word.islower() or len(word) > CAMEL_CHARS or word.isupper():
        return (term_of(word),), None
    humps = [hump for hump in _HUMPS.split(word) if hump]
    if len(humps) == 1:
        return (term_of(word),), None
    return tuple(map(term_of, humps)), term_of(word)


def term_of(word: str) -> str:
    return stem(word.lower()[:TERM_CHARS])


def _foreign(word: str) -> tuple[str, ...]:
    found: list[str] = []
    for run in _RUNS.findall(unicodedata.normalize("NFKC", word)):
        if _UNSPACED_RUN.match(run):
            found += (run[i : i + 2] for i in range(len(run) - 1))
            found.append(run[-1])  # so that a single character is found at the end, too
        else:
            plain = _ACCENTS.sub("", unicodedata.normalize("NFD", run))
            found += (term_of(part) for part in _WORD.findall(unicodedata.normalize("NFC", plain)))
    return tuple(found)


def is_unspaced(text: str) -> bool:
    return _UNSPACED_RUN.match(text) is not None


def clipped(text: str) -> str:
    """What is indexed of a text: all of it, or how a very long one begins and ends."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
