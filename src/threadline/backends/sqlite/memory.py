"""Working memory on SQLite, inside a transaction, and the index of words, which may lag behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from threadline.backends.shelf import SqlShelf, Statement, drops, node_words, writes
from threadline.backends.sqlite.rows import Connection, many, one, run
from threadline.core.digest import seal
from threadline.core.entries import text
from threadline.core.words import VERSION
from threadline.memory import promotion
from threadline.memory.rows import Deed, Place

T = TypeVar("T")

INDEXED_AT_ONCE = 2_000  # nodes whose words enter the index in one transaction


def act(connection: Connection, place: Place, deed: Deed[T]) -> T:
    """Run a deed and write what it changes."""
    here = shelf(connection, place)
    changes, answer = deed(here)
    if not changes:
        return answer
    tree, namespace, project = place.row
    if not here.last and one(connection, "memory_there", (tree,)) is None:
        run(connection, "memory_begin", (tree, namespace, project, seal(tree, namespace, project)))
    _write(connection, writes(here, changes, lambda row: ()))
    return answer


def _write(connection: Connection, statements: Iterable[Statement]) -> None:
    for name, values in statements:
        run(connection, name, values)
        if name == "memory_drop_nodes":
            run(connection, "memory_unindex_gone")


def shelf(connection: Connection, place: Place) -> SqlShelf:
    return SqlShelf(partial(many, connection), place, place.row[1], _asked, _listed, lags=True)


def forget(connection: Connection, namespace: bytes, session: bytes) -> int:
    """Remove the working memory of a session from every memory of its namespace; how many there were."""
    found = many(connection, "memory_working_anywhere", (namespace, session))
    for tree, scope in found:
        _write(connection, drops(partial(many, connection), tree, scope))
    return len(found)


def unname(connection: Connection, namespace: bytes, session: str) -> None:
    """Let nothing in any memory name a session that is to be erased; its working memory is removed with it."""
    for _, project in many(connection, "memories_of", (namespace,)):
        act(connection, Place(text(namespace), text(project) or None), partial(promotion.unname, session))


def places(connection: Connection, after: bytes) -> list[Place]:
    """A page of memories, by their trees."""
    found = many(connection, "memory_places", (after,))
    return [Place(text(namespace), text(project) or None) for namespace, project in found]


# -- the index of words --------------------------------------------------------------------------------


def lags(connection: Connection) -> bool:
    upto, version, last = one(connection, "memory_lag")
    return bool(upto < last or version != VERSION)


def catch_up(connection: Connection) -> bool:
    """Put the next nodes into the index of words; whether there may be more."""
    upto, version, last = one(connection, "memory_lag")
    if version != VERSION:  # other rules made it
        run(connection, "memory_unindex")
        upto = 0
    found = many(connection, "memory_unindexed", (upto, INDEXED_AT_ONCE))
    for node, tree, domain, content in found:
        run(connection, "memory_index", (node, " ".join(terms_of(tree, node_words(domain, content)))))
    is_all = len(found) < INDEXED_AT_ONCE
    run(connection, "memory_indexed", (last if is_all else found[-1][0], VERSION))
    return not is_all


def _asked(tree: bytes, words: Sequence[str]) -> str:
    """In the language of FTS5. Words hold letters and digits only, so that nothing in them is syntax."""
    return " AND ".join(terms_of(tree, words))


def _listed(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def terms_of(tree: bytes, words: Sequence[str]) -> list[str]:
    """Words as the index holds them. Those of another tree that begins the same are told apart by their nodes."""
    place = f"t{tree[:4].hex()}"
    return [place + word for word in words]
