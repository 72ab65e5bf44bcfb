"""What happens inside a write transaction: each function is one operation, between BEGIN IMMEDIATE and COMMIT."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw
import msgspec

from threadline.backends.backend import STATUSES, NewSession, Piece, Ref, Target, Written
from threadline.backends.sqlite.log import SqliteLog
from threadline.backends.sqlite.rows import many, one, run
from threadline.backends.sqlite.sessions import decoded_about, find
from threadline.core import codec
from threadline.core.about import About, Change, changed, inherited, opening_words
from threadline.core.digest import seal
from threadline.core.entries import ASSISTANT, USER, Draft, Entry, stored, text
from threadline.core.fold import State, after, start, state_at
from threadline.core.ops import Op
from threadline.errors import Conflict, KeyReused, NotActive, NotFound, Stale

ENDLESS = 2**62  # the end of a log that still grows


def write(
    connection: apsw.Connection,
    *,
    target: Target,
    ops: Sequence[Op],
    expect: int | None,
    change: Change | None,
) -> Written:
    ref = target.ref or _find_or_create(connection, target.new)
    namespace, log_number, status, opened, updated_at, *fold = head_of(connection, ref)
    begin = state = State(*fold)
    log = SqliteLog(ref, partial(many, connection))
    entries: list[list[Entry]] = []
    for op in ops:
        if (known := _known(connection, ref, op)) is not None:
            entries.append([row.entry(ref.id) for row in log.rows(known[0], known[-1])])
            continue
        if status:
            raise NotActive(ref.id, STATUSES[status])
        if expect is not None and begin.head != expect:
            raise Stale(expect, begin.head)
        if standing := op.standing(state, log):
            entries.append([log.row(standing).entry(ref.id)])
            continue
        first = state.head + 1
        drafts = op.drafts(state, log)
        for draft in drafts:
            state, row = after(state, draft, log)
            run(connection, "insert_entry", (log_number, *row))
            if opened < 2 and draft.voice:
                opened = _open(connection, ref, draft, state.head, opened)
        if op.key is not None and drafts:
            key_row = (log_number, op.key, first, len(drafts), op.identity)
            run(connection, "insert_key", (*key_row, seal(*key_row)))
        entries.append([draft.entry(ref.id, seq) for seq, draft in enumerate(drafts, first)])
    if state is not begin:
        updated_at = max(max(op.at for op in ops), updated_at + 1)
        _move_head(connection, ref, namespace, (log_number, status, opened, updated_at, *state))
    if change is not None:
        change_about(connection, ref=ref, change=change)
    return Written(ref, entries)


def _known(connection: apsw.Connection, ref: Ref, op: Op) -> range | None:
    """The entries that an earlier call of the same key wrote. Raises KeyReused if it was another call."""
    if op.key is None:
        return None
    found = one(connection, "find_key", (op.key, ref.number))
    if found is None:
        return None
    seq, count, identity = found
    if identity != op.identity:
        raise KeyReused(text(op.key), seq)
    return range(seq, seq + count)


def head_of(connection: apsw.Connection, ref: Ref) -> tuple[Any, ...]:
    """namespace, log, status, opened, updated_at, and the fold at the head."""
    found: tuple[Any, ...] | None = one(connection, "head", (ref.number,))
    if found is None:
        raise NotFound("session", ref.id)
    return found


def _move_head(connection: apsw.Connection, ref: Ref, namespace: bytes, row: tuple[Any, ...]) -> None:
    run(connection, "move_head", (*row[2:], seal(ref.number, namespace, *row), ref.number))


def _open(connection: apsw.Connection, ref: Ref, draft: Draft, seq: int, opened: int) -> int:
    """Let the opening words be the session's title and preview: the user's, or the assistant's until there are some."""
    by = {USER: 2, ASSISTANT: 1}.get(draft.voice, 0)
    if by <= opened or draft.message is None or not (words := opening_words(draft.message)):
        return opened
    about = _about(connection, ref)
    _set_about(
        connection,
        ref,
        msgspec.structs.replace(about, preview=words, preview_seq=seq, preview_role=draft.message.role),
    )
    return by


def _find_or_create(connection: apsw.Connection, new: NewSession | None) -> Ref:
    assert new is not None
    found = find(connection, new.namespace, key=new.key) if new.key is not None else None
    return found or create(connection, new=new)


def create(connection: apsw.Connection, *, new: NewSession) -> Ref:
    run(connection, "insert_log", (new.salt,))
    log_number = connection.last_insert_rowid()
    number = _insert_session(connection, new, origin=None)
    lineage = (Piece(log_number, 1, ENDLESS),)
    _insert_head(connection, number, new, lineage, (log_number, 0, 0, new.at, *start(new.salt)))
    return Ref(number, new.id, new.key, lineage)


def fork(connection: apsw.Connection, *, origin: Ref, at: int | None, new: NewSession) -> Ref:
    state = State(*head_of(connection, origin)[5:])
    at = state.head if at is None else at
    if not 0 <= at <= state.head:
        raise NotFound("entry", at, f"the log ends at {state.head}")
    log = SqliteLog(origin, partial(many, connection))
    salt = one(connection, "salt", (origin.lineage[0].log,))[0]
    state = state_at(log, at, salt)
    about = inherited(_about(connection, origin), new.about, origin.id, at)
    new = msgspec.structs.replace(new, about=about)
    run(connection, "insert_log", (salt,))
    log_number = connection.last_insert_rowid()
    number = _insert_session(connection, new, origin=origin.number)
    shared = (Piece(piece.log, piece.first, min(piece.last, at)) for piece in origin.lineage if piece.first <= at)
    lineage = (*shared, Piece(log_number, at + 1, ENDLESS))
    opened = {"user": 2, "assistant": 1}.get(about.preview_role or "", 0)
    _insert_head(connection, number, new, lineage, (log_number, 0, opened, new.at, *state))
    return Ref(number, new.id, new.key, lineage)


def _insert_session(connection: apsw.Connection, new: NewSession, *, origin: int | None) -> int:
    about = new.about
    row = (
        stored(new.namespace),
        stored(new.id),
        None if new.key is None else stored(new.key),
        new.at,
        None if about.cwd is None else stored(about.cwd),
        None if about.agent is None else stored(about.agent),
        origin,
        codec.encode(about),
    )
    try:
        run(connection, "insert_session", (*row, seal(*row)))
    except apsw.ConstraintError as error:
        taken = find(connection, new.namespace, id=new.id)
        name = f"id {new.id!r}" if taken else f"key {new.key!r}"
        raise Conflict(f"a session with {name} exists already: get it with store.get() or store.session()") from error
    number = connection.last_insert_rowid()
    for tag in about.tags:
        run(connection, "insert_tag", (row[0], stored(tag), number))
    return number


def _insert_head(
    connection: apsw.Connection, number: int, new: NewSession, lineage: tuple[Piece, ...], row: tuple[Any, ...]
) -> None:
    for piece in lineage:
        share = (number, piece.first, piece.last, piece.log)
        run(connection, "insert_share", (*share, seal(*share)))
    namespace = stored(new.namespace)
    run(connection, "insert_head", (number, namespace, *row, seal(number, namespace, *row)))


def change_about(connection: apsw.Connection, *, ref: Ref, change: Change) -> None:
    namespace, log_number, status, opened, updated_at, *fold = head_of(connection, ref)
    if change.status is not None:
        status = STATUSES.index(change.status)
    elif status:
        raise NotActive(ref.id, STATUSES[status])
    about = _about(connection, ref)
    new = changed(about, change)
    if new != about:
        _set_about(connection, ref, new)
    updated_at = max(change.at, updated_at + 1)
    row = (log_number, status, opened, updated_at, *fold)
    mark = seal(ref.number, namespace, *row)
    run(connection, "set_status", (status, updated_at, mark, ref.number))


def _about(connection: apsw.Connection, ref: Ref) -> About:
    return decoded_about(_session_row(connection, ref)[5])


def _session_row(connection: apsw.Connection, ref: Ref) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = one(connection, "about", (ref.number,))
    if found is None:
        raise NotFound("session", ref.id)
    return found


def _set_about(connection: apsw.Connection, ref: Ref, about: About) -> None:
    namespace, id, key, created_at, origin, before = _session_row(connection, ref)
    cwd = None if about.cwd is None else stored(about.cwd)
    agent = None if about.agent is None else stored(about.agent)
    body = codec.encode(about)
    mark = seal(namespace, id, key, created_at, cwd, agent, origin, body)
    run(connection, "set_about", (cwd, agent, body, mark, ref.number))
    old, new = set(decoded_about(before).tags), set(about.tags)
    for tag in old - new:
        run(connection, "delete_tag", (namespace, stored(tag), ref.number))
    for tag in new - old:
        run(connection, "insert_tag", (namespace, stored(tag), ref.number))
