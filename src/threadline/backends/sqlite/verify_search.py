"""Verify the search index: it must hold exactly what can be found of the log up to where it says it is."""

from __future__ import annotations

from collections.abc import Iterator

from threadline.backends.backend import Problem
from threadline.backends.sqlite.rows import Connection
from threadline.backends.sqlite.search import expected, is_there, many, one

MEND = "`threadline index --rebuild` makes it anew; the log is not touched"


def index(connection: Connection) -> Iterator[Problem]:
    if not is_there(connection):
        return
    found = many(connection, "verify_docs")
    _, _, _, docs, terms = one(connection, "state")
    if (docs, terms) != (len(found), sum(length for _, _, length in found)):
        yield Problem(None, None, f"the search index does not hold what it counts: {MEND}")
    if {*expected(connection)} != {*found}:
        yield Problem(None, None, f"the search index does not hold what the log says: {MEND}")
