"""The words of a text, as an index holds them and as a query asks for them.

Identifiers and paths give their parts and the whole without its marks; scripts without spaces give pairs of characters
and single ones; English endings go. Each word holds letters and digits only, so that any index takes it as it is."""

from __future__ import annotations

import re
import unicodedata

WORD_CHARS = 64
WORDS_MAX = 4_000  # of one text: an index entry has an end

_RUNS = re.compile(r"[^\W_]+(?:[_./:@#\\-]+[^\W_]+)*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0e7f\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)

# What nearly every English sentence holds says nothing of what it is about.
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "not",
        "of",
        "on",
        "or",
        "our",
        "so",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "you",
        "your",
    ]
)


def words_of(text: str) -> list[str]:
    """All words, each once, in the order in which they come; stop words left out."""
    found: dict[str, None] = {}
    plain = unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode())
    for run in _RUNS.findall(plain):
        for word in _words_of_run(run):
            found.setdefault(word[:WORD_CHARS])
        if len(found) > WORDS_MAX:
            break
    return [word for word in found if word not in STOP_WORDS][:WORDS_MAX]


def query_words(query: str) -> list[str]:
    """The words of a query; where nothing but stop words is asked for, those. Of a CJK run only the pairs count."""
    words = words_of(query) or [run.lower() for run in _RUNS.findall(query) if run.isalnum()]
    unspaced = [word for word in words if _UNSPACED.fullmatch(word)]
    if any(len(word) > 1 for word in unspaced):
        return [word for word in words if not (len(word) == 1 and word in unspaced)]
    return words


def _words_of_run(run: str) -> list[str]:
    """Of `fooBar_baz.py`: foobarbazpy, foo, bar, baz, py."""
    unspaced = _UNSPACED.findall(run)
    if unspaced:
        words = [piece for chunk in unspaced for piece in _grams(chunk)]
        rest = _UNSPACED.sub(" ", run)
        return words + [word for part in _RUNS.findall(rest) for word in _words_of_run(part)]
    parts = [part.lower() for part in _PARTS.findall(run)]
    whole = "".join(char for char in run.lower() if char.isalnum())
    if len(parts) <= 1:
        return [_stem(whole)]
    return [whole, *(_stem(part) for part in parts)]


def _grams(chunk: str) -> list[str]:
    pairs = [chunk[i : i + 2] for i in range(len(chunk) - 1)]
    return [*pairs, *chunk]


def _stem(word: str) -> str:
    """Without an English ending, where enough is left to tell words apart."""
    if not word.isascii() or not word.isalpha() or len(word) < 4:
        return word
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + instead
            break
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if doubled or (word.endswith("e") and len(word) > 4) else word
