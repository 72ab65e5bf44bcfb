"""Verify what lives beside the logs: leases, inboxes and drafts. What one look tells is of one moment."""

from __future__ import annotations

from collections.abc import Iterator

from threadline.backends.backend import Problem
from threadline.backends.postgres.statements import Connection, many, one
from threadline.backends.postgres.streams import by_draft, flaws
from threadline.core import codec, holds
from threadline.core.digest import seal
from threadline.errors import Damaged

STRAYS = ("messages in the inbox of no session", "drafts of no session", "pieces of no draft")


def of_session(connection: Connection, tree: bytes, number: int, name: str) -> Iterator[Problem]:
    yield from _head(connection, tree, number, name)
    for *columns, mark in many(connection, "queued", (tree, number)):
        if seal(*columns) != mark:
            yield Problem(name, None, "a message in its inbox does not match its seal")
        else:
            codec.decode_message(columns[-1])
    for draft, chunks in by_draft(many(connection, "drafts", (tree, number))):
        for flaw in flaws(draft, chunks):
            yield Problem(name, None, flaw)


def _head(connection: Connection, tree: bytes, number: int, name: str) -> Iterator[Problem]:
    """What the head row says of the lease and of the inbox."""
    for lease, queued, found in many(connection, "verify_lease", {"tree": tree, "session": number}):
        try:
            holds.decode(lease)
        except (Damaged, ValueError) as error:
            yield Problem(name, None, f"its lease cannot be read: {error}")
        if queued != found:
            yield Problem(name, None, f"its inbox holds {found} messages, and its head row says {queued}")


def strays(connection: Connection) -> Iterator[Problem]:
    for count, kind in zip(one(connection, "verify_life_strays"), STRAYS, strict=True):
        if count:
            yield Problem(None, None, f"{count} {kind}")
