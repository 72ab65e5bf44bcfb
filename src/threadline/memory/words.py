"""The words of a node, as an index holds them and as recall asks for them: the terms that search uses, each once."""

from __future__ import annotations

from threadline.core.words import STOPWORDS, clipped, is_unspaced, terms

WORDS_MAX = 4_000  # of one text: an index entry has an end


def words_of(text: str) -> list[str]:
    """Each once, in the order in which they come; those that nearly every text has are left out."""
    found = dict.fromkeys(terms(clipped(text)))
    return [word for word in found if word not in STOPWORDS][:WORDS_MAX]


def query_words(query: str) -> list[str]:
    """What to look for. Where nothing but common words is asked for, those; of a run without spaces its pairs."""
    words = words_of(query) or list(dict.fromkeys(terms(query)))
    pairs = any(len(word) > 1 and is_unspaced(word) for word in words)
    return [word for word in words if not (pairs and len(word) == 1 and is_unspaced(word))]
