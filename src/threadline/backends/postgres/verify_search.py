"""Verify the search index: each document must be what can be found of its entry, and none may be missing.

The sums in `search_state` are not looked at: only ranking uses them, and no deletion changes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from threadline.backends.backend import Piece, Problem
from threadline.backends.log import PiecedLog
from threadline.backends.postgres.founding import ENDLESS
from threadline.backends.postgres.search import MEND, many, one, title_words, vector, words_of
from threadline.backends.postgres.statements import Connection, numbers
from threadline.backends.searching import readable
from threadline.core.redaction import is_redacted
from threadline.core.words import VERSION

PAGE = 500  # entries compared at once


def of_log(connection: Connection, log: PiecedLog, tree: bytes, own: Piece, name: str) -> Iterator[Problem]:
    """The documents of a session's own log, as far as they were made by our rules."""
    found = one(connection, "verify_log", (tree, own.log))
    if found is None:
        return
    realm, upto, titled = found
    rules = one(connection, "state", (realm,))  # apart: where the tables are distributed, it lies on another node
    if rules is None or rules[0] != VERSION:
        return
    here = {"tree": tree, "log": own.log, "realm": realm, "upto": upto}
    title = {0: title_words(connection, tree, own.log)} if titled else {}  # else it may have changed since
    yield from _compared(connection, here | {"first": 0, "last": 0}, title, [] if titled else [0], name)
    rows, first, last = log.rows(own.first, ENDLESS), own.first, 0
    while last < ENDLESS:
        page = [*islice(rows, PAGE)]
        last = page[-1].seq if len(page) == PAGE else ENDLESS
        told = {row.seq: readable(row) for row in page}
        words = {seq: words_of(it) for seq, it in told.items() if it is not None}
        unclear = [row.seq for row in page if told[row.seq] is None and not is_redacted(row)]  # damaged, perhaps
        yield from _compared(connection, here | {"first": first, "last": last}, words, unclear, name)
        first = last + 1


def _compared(
    connection: Connection, here: dict[str, Any], words: dict[int, list[str]], unclear: list[int], name: str
) -> Iterator[Problem]:
    """What is there beside what should be there; where that is unclear, nothing is said."""
    should = {seq: terms for seq, terms in words.items() if terms}
    values = here | {
        "seqs": numbers(should),
        "terms": numbers(map(len, should.values())),
        "words": [*map(vector, should.values())],
        "aside": numbers(unclear),
    }
    for (seq,) in many(connection, "verify_documents", values):
        yield Problem(name, seq or None, f"the search index does not hold what the log says: {MEND}")


def strays(connection: Connection) -> Iterator[Problem]:
    for count, kind in zip(one(connection, "verify_strays"), ("documents", "marks"), strict=True):
        if count:
            yield Problem(None, None, f"the search index holds {count} {kind} of no log: {MEND}")
