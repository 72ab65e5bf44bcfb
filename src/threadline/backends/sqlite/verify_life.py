"""Verify what lives beside the logs: leases, inboxes and drafts."""

from __future__ import annotations

from collections.abc import Iterator

from threadline.backends.backend import Problem
from threadline.backends.sqlite.rows import SQL, Connection, many, one
from threadline.core import codec, holds
from threadline.core.digest import seal
from threadline.core.entries import text_or_none
from threadline.errors import Damaged


def leases(connection: Connection) -> Iterator[Problem]:
    for id, lease in many(connection, "verify_leases"):
        try:
            holds.decode(lease)
        except (Damaged, ValueError, TypeError) as error:
            yield Problem(text_or_none(id), None, f"its lease cannot be read: {error}")


def inboxes(connection: Connection) -> Iterator[Problem]:
    for id, *columns, mark in connection.execute(SQL["verify_inbox"]):
        if seal(*columns) != mark:
            yield Problem(text_or_none(id), None, "a message in its inbox does not match its seal")
        else:
            codec.decode_message(columns[5])
    for id, said, found in many(connection, "verify_queued"):
        yield Problem(text_or_none(id), None, f"its inbox holds {found} messages, and its head row says {said}")


def drafts(connection: Connection) -> Iterator[Problem]:
    for id, *columns, mark, chunks, last in connection.execute(SQL["verify_drafts"]):
        if seal(*columns) != mark:
            yield Problem(text_or_none(id), None, "a draft does not match its seal")
        if chunks != last:
            yield Problem(text_or_none(id), None, "a piece of a draft is missing")
    for id, *columns, mark in connection.execute(SQL["verify_chunks"]):
        if seal(*columns) != mark:
            yield Problem(text_or_none(id), None, "a piece of a draft does not match its seal")


def strays(connection: Connection) -> Iterator[Problem]:
    kinds = ("messages in the inbox of no session", "drafts of no session", "pieces of no draft")
    for count, kind in zip(one(connection, "verify_life_strays"), kinds, strict=True):
        if count:
            yield Problem(None, None, f"{count} {kind}")


ALL = (leases, inboxes, drafts, strays)
