"""What happens inside a write transaction: each function is one operation, between BEGIN IMMEDIATE and COMMIT."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

import apsw
import msgspec

from threadline.backends.backend import STATUSES, Kin, NewSession, Original, Piece, Portion, Ref, Target, Written
from threadline.backends.blobs import compress, pack, squeeze
from threadline.backends.log import PiecedLog
from threadline.backends.sqlite.leases import now_us
from threadline.backends.sqlite.rows import NOT_YET, Connection, many, one, run, run_many
from threadline.backends.sqlite.sessions import find
from threadline.backends.sqlite.usage import charge
from threadline.core import codec, holds
from threadline.core.about import About, Change, changed, inherited, opened_by, opening_words, unopened
from threadline.core.about import decode as about_of
from threadline.core.digest import seal
from threadline.core.entries import ASSISTANT, CALLER, OTHER, USER, Draft, Entry, Row, stored, text
from threadline.core.fold import TYPES, State, after, start, state_at, state_of
from threadline.core.ops import Op
from threadline.core.redaction import is_redacted
from threadline.core.spending import Charge, Spending, larger
from threadline.core.tombstones import hidden
from threadline.errors import Conflict, Damaged, KeyReused, NotActive, NotFound, Stale

ENDLESS = 2**62  # the end of a log that still grows

OPENED_BY = {ASSISTANT: 1, CALLER: 1, USER: 2}  # whose words open the session; the user's stay
OPENED_BY_USER = 2

LARGE_BYTES = 2_048  # longer strings go out of line; with those up to 4 KiB in their rows, a session takes a fifth more
SQUEEZE_BYTES = 512  # smaller bodies stay as they are: it would save 3 %, and every other row would have to be unpacked
MACHINES = frozenset({OTHER, CALLER})  # what calls tools, and what they answer

FOLD = 6  # where the fold begins in a head row


def write(
    connection: Connection,
    target: Target,
    ops: Sequence[Op],
    expect: int | None,
    change: Change | None = None,
    lease: int | None = None,
) -> Written:
    ref = target.ref or _find_or_create(connection, target.new)
    writing = _Writing(connection, ref, expect, lease)
    entries = [writing.run(op) for op in ops]
    head = writing.move_head()
    if change is not None:
        change_about(connection, ref, change)
        head = None
    connection.head, connection.head_of, connection.head_at = head, ref.number, NOT_YET
    return Written(ref, entries)


class _Writing(PiecedLog):
    """One session while a transaction writes to it: its log, and the fold as it moves on."""

    def __init__(self, connection: Connection, ref: Ref, expect: int | None, lease: int | None) -> None:
        self._ref = ref
        self._connection = connection
        self._expect = expect
        self._lease = lease
        head = _known_head(connection, ref) or _read_head(connection, ref)
        self._namespace, self._own, self._status, self._opened, self._updated_at, self._held, self._before = head
        self._state: State = self._before
        self._at = 0
        self._waiting: dict[int, Row] = {}  # written together: a batch of a thousand takes half the time so

    def _select(self, name: str, values: tuple[Any, ...]) -> list[Any]:
        self._flush()
        return many(self._connection, name, values)

    def row(self, seq: int) -> Row:
        return self._waiting[seq] if seq in self._waiting else super().row(seq)

    def _flush(self) -> None:
        if self._waiting:
            rows, self._waiting = [*self._waiting.values()], {}
            insert_entries(self._connection, self._ref.tree, self._own, rows)

    def run(self, op: Op) -> list[Entry]:
        """The entries that the op wrote, now or when its key was first used."""
        if op.key is not None and (known := self._known(op.key, op.identity)):
            return [row.entry(self._ref.id) for row in self.rows(known[0], known[-1])]
        if self._status:
            raise NotActive(self._ref.id, STATUSES[self._status])
        if (self._held is not None or self._lease is not None) and not op.free:
            holds.check(holds.decode(self._held), self._lease, now_us(), self._ref.id)
        if self._expect is not None and self._before.head != self._expect:
            raise Stale(self._expect, self._before.head)
        if standing := op.standing(self._state, self):
            return [self.row(standing).entry(self._ref.id)]
        entries = []
        for draft in op.drafts(self._state, self):
            self._insert(draft)
            entries.append(draft.entry(self._ref.id, self._state.head))
        if op.key is not None and entries:
            key_row = (self._own, op.key, entries[0].seq, len(entries), op.identity)
            run(self._connection, "insert_key", (*key_row, seal(*key_row)))
        if op.spent is not None:
            charge(self._connection, self._ref, self._namespace, op.spent)
        if op.at > self._at:
            self._at = op.at
        return entries

    def _known(self, key: bytes, identity: bytes) -> range | None:
        """The entries that an earlier call of the same key wrote. Raises KeyReused if it was another call."""
        found = find_key(self._connection, self._ref, key)
        if found is None:
            return None
        seq, count, named = found
        if named != identity:
            raise KeyReused(text(key), seq)
        return range(seq, seq + count)

    def _insert(self, draft: Draft) -> None:
        self._state, row = after(self._state, draft, self)
        self._waiting[row.seq] = row
        if self._opened < OPENED_BY_USER and draft.voice:
            self._open(draft)

    def _open(self, draft: Draft) -> None:
        """Let the opening words be title and preview: the user's, or the assistant's until there are some."""
        by = OPENED_BY.get(draft.voice, 0)
        if by <= self._opened or draft.message is None or not (words := opening_words(draft.message)):
            return
        about = about_now(self._connection, self._ref)
        opening = {"preview": words, "preview_seq": self._state.head, "preview_role": draft.message.role}
        set_about(self._connection, self._ref, msgspec.structs.replace(about, **opening))
        self._opened = by

    def move_head(self) -> tuple[Any, ...] | None:
        """What the head row says now, if it moved."""
        if self._state is self._before:
            return None
        self._flush()
        number, state = self._ref.number, self._state
        updated_at = self._at if self._at > self._updated_at else self._updated_at + 1
        told = (self._namespace, self._own, self._status, self._opened, updated_at)
        run(self._connection, "move_head", (self._opened, updated_at, *state, head_seal(number, *told), number))
        return *told, self._held, state


def find_key(connection: Connection, ref: Ref, key: bytes) -> tuple[int, int, bytes] | None:
    """The first entry of the call of that key, how many it wrote, and its identity."""
    found: tuple[int, int, bytes] | None = one(connection, "find_key", (key, hidden(key), ref.number))
    return found


def insert_entries(connection: Connection, tree: bytes, own: int, rows: Sequence[Row]) -> None:
    """Rows as small as they get without being slow to read."""
    if not all(map(_stays, rows)):
        rows = [_squeezed(row) for row in _without_large(connection, tree, own, rows)]
    if len(rows) == 1:
        run(connection, "insert_entry", (own, *rows[0]))
    else:
        run_many(connection, "insert_entry", [(own, *row) for row in rows])


def _without_large(connection: Connection, tree: bytes, own: int, rows: Sequence[Row]) -> Sequence[Row]:
    """Rows with their large strings out of line; one that the tree has already is not stored again."""
    if max(len(row.body) for row in rows) < LARGE_BYTES:
        return rows
    cut = [(row, *pack(row.body, LARGE_BYTES)) for row in rows]
    blobs = {name: content for _, _, found in cut for name, content in found.items()}
    new = [name for name in blobs if not many(connection, "has_blob", (tree, name))]
    run_many(connection, "insert_blob", [(tree, name, len(blobs[name]), compress(blobs[name])) for name in new])
    run_many(connection, "insert_blob_use", [(own, row.seq, tree, name) for row, _, found in cut for name in found])
    return [row if body is row.body else row._replace(body=body) for row, body, _ in cut]


def _stays(row: Row) -> bool:
    """Whether nothing of it is large, and nothing to be squeezed."""
    size = len(row.body)
    return size < SQUEEZE_BYTES or (size < LARGE_BYTES and row.voice not in MACHINES)


def _squeezed(row: Row) -> Row:
    """What tools are told and tell, compressed where it stands. What people and models say is left as it is: it is
    little of a log, and every append of it would take half as long again."""
    if len(row.body) < SQUEEZE_BYTES or row.voice not in MACHINES or row.kind != "message":
        return row
    if row.body[:1] != b"{":  # cut already, or a tombstone, which is known by its first byte
        return row
    return row._replace(body=squeeze(row.body))


def head_seal(number: int, namespace: bytes, own: int, status: int, opened: int, updated_at: int) -> bytes:
    """Over what does not follow from the log; the fold beside it is checked against the last entry."""
    row = (number, len(namespace), namespace, own, status, opened, updated_at)
    return sha256(b"%d|%d:%b|%d|%d|%d|%d" % row).digest()[:8]  # as `seal` does, in one go: every append makes one


def _known_head(connection: Connection, ref: Ref) -> tuple[Any, ...] | None:
    """What `_read_head` would find, if this connection wrote it and nobody has committed anything since."""
    known = connection.head_at == connection.data_version() and connection.head_of == ref.number
    return connection.head if known else None


def _read_head(connection: Connection, ref: Ref) -> tuple[Any, ...]:
    """namespace, log, status, opened, updated_at, lease, and the state at the head."""
    found = head_of(connection, ref)
    return *found[:FOLD], state_of(found[FOLD:])


def head_of(connection: Connection, ref: Ref) -> tuple[Any, ...]:
    """namespace, log, status, opened, updated_at, lease, and the fold at the head."""
    found: tuple[Any, ...] | None = one(connection, "head", (ref.number,))
    if found is None:
        raise NotFound("session", ref.id)
    if tuple(map(type, found[FOLD:])) != TYPES:
        raise Damaged(ref.id, None, "its head row is not what it was")
    return found


def _find_or_create(connection: Connection, new: NewSession | None) -> Ref:
    assert new is not None
    found = find(connection, new.namespace, key=new.key) if new.key is not None else None
    return found or create(connection, new)


def create(connection: Connection, new: NewSession, parent: Ref | None = None) -> Ref:
    run(connection, "insert_log", (new.salt,))
    log_number = connection.last_insert_rowid()
    tree = new.salt if parent is None else parent.tree
    number = _insert_session(connection, new, tree=tree, parent=None if parent is None else parent.number)
    lineage = (Piece(log_number, 1, ENDLESS),)
    _insert_head(connection, number, new, lineage, (log_number, 0, 0, new.at, *start(new.salt)))
    return Ref(number, new.id, new.key, lineage, tree)


def fork(connection: Connection, origin: Ref, at: int | None, new: NewSession) -> Ref:
    state = State(*head_of(connection, origin)[FOLD:])
    at = state.head if at is None else at
    if not 0 <= at <= state.head:
        raise NotFound("entry", at, f"the log ends at {state.head}")
    log = PiecedLog(origin, partial(many, connection))
    salt = one(connection, "salt", (origin.lineage[0].log,))[0]
    state = state_at(log, at, salt)
    about = inherited(about_now(connection, origin), new.about, origin.id, at)
    new = msgspec.structs.replace(new, about=about)
    run(connection, "insert_log", (salt,))
    log_number = connection.last_insert_rowid()
    number = _insert_session(connection, new, tree=origin.tree, origin=origin.number)
    shared = (Piece(piece.log, piece.first, min(piece.last, at)) for piece in origin.lineage if piece.first <= at)
    lineage = (*shared, Piece(log_number, at + 1, ENDLESS))
    _insert_head(connection, number, new, lineage, (log_number, 0, opened_by(about), new.at, *state))
    return Ref(number, new.id, new.key, lineage, origin.tree)


def _insert_session(
    connection: Connection, new: NewSession, *, tree: bytes, origin: int | None = None, parent: int | None = None
) -> int:
    about = new.about
    row = (
        tree,
        stored(new.namespace),
        stored(new.id),
        None if new.key is None else stored(new.key),
        new.at,
        None if about.cwd is None else stored(about.cwd),
        None if about.agent is None else stored(about.agent),
        origin,
        parent,
        None if about.call_id is None else stored(about.call_id),
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
        run(connection, "insert_tag", (row[1], stored(tag), number))
    return number


def _insert_head(
    connection: Connection, number: int, new: NewSession, lineage: tuple[Piece, ...], row: tuple[Any, ...]
) -> None:
    for piece in lineage:
        share = (number, piece.first, piece.last, piece.log)
        run(connection, "insert_share", (*share, seal(*share)))
    namespace = stored(new.namespace)
    mark = head_seal(number, namespace, *row[:4])
    run(connection, "insert_head", (number, namespace, new.about.parent is not None, *row, mark))


def change_about(connection: Connection, ref: Ref, change: Change) -> None:
    namespace, log_number, status, opened, updated_at, *_ = head_of(connection, ref)
    if change.status is not None:
        status = STATUSES.index(change.status)
    elif status:
        raise NotActive(ref.id, STATUSES[status])
    about = about_now(connection, ref)
    new = changed(about, change)
    if new != about:
        set_about(connection, ref, new)
    updated_at = max(change.at, updated_at + 1)
    mark = head_seal(ref.number, namespace, log_number, status, opened, updated_at)
    run(connection, "set_status", (status, updated_at, mark, ref.number))


def about_now(connection: Connection, ref: Ref) -> About:
    return about_of(_session_row(connection, ref)[-1])


def _session_row(connection: Connection, ref: Ref) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = one(connection, "about", (ref.number,))
    if found is None:
        raise NotFound("session", ref.id)
    return found


def set_about(connection: Connection, ref: Ref, about: About) -> None:
    """Say something else of a session; it loses its parent where `about` names none."""
    tree, namespace, id, key, created_at, origin, parent, before = _session_row(connection, ref)
    cwd, agent, call_id = (None if v is None else stored(v) for v in (about.cwd, about.agent, about.call_id))
    parent = None if about.parent is None else parent
    body = codec.encode(about)
    mark = seal(tree, namespace, id, key, created_at, cwd, agent, origin, parent, call_id, body)
    run(connection, "set_about", (cwd, agent, parent, call_id, body, mark, ref.number))
    old, new = set(about_of(before).tags), set(about.tags)
    for tag in old - new:
        run(connection, "delete_tag", (namespace, stored(tag), ref.number))
    for tag in new - old:
        run(connection, "insert_tag", (namespace, stored(tag), ref.number))


# -- copies of another store -----------------------------------------------------------------------------


def adopt(connection: Connection, original: Original, shared: tuple[Piece, ...], kin: Kin, base: State) -> Ref:
    """Make a session as another store holds it, with nothing of its own log yet."""
    _, id, key, _, tree = original.ref
    new = NewSession(original.namespace, id, key, original.salt, original.created_at, unopened(original.about))
    run(connection, "insert_log", (new.salt,))
    log_number = connection.last_insert_rowid()
    origin, parent = (None if elder is None else elder.number for elder in kin)
    number = _insert_session(connection, new, tree=tree, origin=origin, parent=parent)
    lineage = (*shared, Piece(log_number, base.head + 1, ENDLESS))
    _insert_head(connection, number, new, lineage, (log_number, 0, 0, new.at, *base))
    return Ref(number, id, key, lineage, tree)


def receive(connection: Connection, ref: Ref, portion: Portion) -> None:
    """Store rows as they are, and what is said of the session after them."""
    namespace, own, _, _, _, _, head, *_ = head_of(connection, ref)
    if portion.rows and portion.rows[0].seq != head + 1:
        raise Stale(portion.rows[0].seq - 1, head)
    if portion.rows:
        insert_entries(connection, ref.tree, own, portion.rows)
    if stones := sum(map(is_redacted, portion.rows)):
        run(connection, "count_tombstone", (stones, own))
    for key in portion.keys:
        run(connection, "insert_key", (own, *key, seal(own, *key)))
    set_about(connection, ref, portion.about)
    run(connection, "set_child", (portion.about.parent is not None, ref.number))
    opened, status = opened_by(portion.about), STATUSES.index(portion.status)
    mark = head_seal(ref.number, namespace, own, status, opened, portion.updated_at)
    run(connection, "move_head", (opened, portion.updated_at, *portion.state, mark, ref.number))
    run(connection, "set_status", (status, portion.updated_at, mark, ref.number))


def account(connection: Connection, ref: Ref, charges: Sequence[Charge]) -> None:
    """Charge a session for requests as another store holds them."""
    namespace = head_of(connection, ref)[0]
    for each in charges:
        charge(connection, ref, namespace, Spending(each), larger)
