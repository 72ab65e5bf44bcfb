"""Taking records into a store: what is there already is compared and left alone, what is new is added as it was.

Entries keep their content, time, number and digest; all that follows from them is computed anew, so that nothing
in a file can make a store that does not hold together. A session that is there and goes another way in the file
becomes a fork. A missing entry leaves a mark in its place, so that all others keep their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from threadline.backends.backend import STATUSES, Backend, KeyRow, Kin, Original, Piece, Portion, Ref, Target
from threadline.core import codec
from threadline.core.about import About, freed, unopened
from threadline.core.audit import UNREADABLE, untrue
from threadline.core.digest import SIZE, entry_digest, identity, link
from threadline.core.entries import OTHER, SILENT, Draft, Row, content, data_draft, micros, stored, summary, voice_of
from threadline.core.fold import State, after, start, state_at
from threadline.core.inbox import Letter
from threadline.core.reading import NO_LOG
from threadline.core.spending import Charge, Tokens
from threadline.core.streams import Chunk, NewStream
from threadline.core.tombstones import MARK, Tombstone
from threadline.core.view import Log
from threadline.errors import Stale
from threadline.messages import Message
from threadline.records.dumping import charges_of
from threadline.records.memories import MemoryLoader
from threadline.records.shapes import (
    NOTHING,
    DraftRecord,
    EntryRecord,
    InboxRecord,
    MemoryRecord,
    RequestRecord,
    SessionRecord,
)
from threadline.store import Store

PORTION = 1_000  # entries of one transaction
PORTION_BYTES = 2**22
UNKNOWN = 2**62  # the head of a session whose own line was lost
LOST_MAX = 10_000  # entries in a row that may be missing: more is not a damaged file, but another one
LOST = "lost"  # the kind of the mark that stands for a missing entry
ID_CHARS = 500

# What a fold may stumble over in a file that was made to be read wrong.
NONSENSE = (*UNREADABLE, IndexError, OverflowError, RecursionError)


class Outcome(Struct, frozen=True):
    """What became of a session of the file: its id in the store, how many entries were added, and how.

    `how` is "made", "grown", "forked" (it goes another way than the one that is there), "unchanged" or "set aside"."""

    id: str
    entries: int
    how: str
    remarks: tuple[str, ...] = ()


class Loader:
    """Takes the records of a file, in their order: a session, what belongs to it, and `finish`; then the next one.

    Each method returns None, or what is wrong with the record, which is then set aside. With `dry_run` nothing is
    written, and the outcomes are what they would be."""

    def __init__(self, store: Store, *, dry_run: bool = False) -> None:
        self._store = store
        self._backend = store._backend
        self._dry_run = dry_run
        self._there: dict[tuple[str, str], _Place] = {}  # sessions of this file, by namespace and id
        self._loading: _Loading | None = None
        self.memories = MemoryLoader(self._backend, store.namespace, dry_run=dry_run)

    def memory(self, record: MemoryRecord) -> str | None:
        return self.memories.take(record)

    def session(self, record: SessionRecord) -> str | None:
        namespace = self._store.namespace or record.namespace
        self._loading = None
        if (why := _impossible(record)) is not None:
            return why
        try:
            self._loading = _Loading(self._backend, record, namespace, self._there, dry_run=self._dry_run)
        except _SetAside as reason:
            return str(reason)
        return None

    @property
    def id(self) -> str | None:
        """Of the session at hand, as it is in the file."""
        return None if self._loading is None else self._loading.id

    def recover(self, first: EntryRecord, namespace: str) -> str | None:
        """Begin the session of an entry whose own line was lost: its entries are all that is known of it."""
        salt = sha256(stored(first.session)).digest()[:SIZE].hex()
        about = About(meta={"recovered": "what was said of this session was lost in a damaged file"})
        return self.session(SessionRecord(first.session, first.at, first.at, UNKNOWN, salt, salt, about, namespace))

    def entry(self, record: EntryRecord) -> str | None:
        loading = self._loading  # as `_stranger` says, in one go: there are millions
        if loading is None or loading.id != record.session:
            return self._stranger(record.session)
        return loading.entry(record)

    def inbox(self, record: InboxRecord) -> str | None:
        if (why := self._stranger(record.session)) is None:
            self._at_hand.letters.append(record)
        return why

    def draft(self, record: DraftRecord) -> str | None:
        if (why := self._stranger(record.session)) is None:
            self._at_hand.drafts.append(record)
        return why

    def request(self, record: RequestRecord) -> str | None:
        if (why := self._stranger(record.session)) is None:
            self._at_hand.request(record)
        return why

    @property
    def _at_hand(self) -> _Loading:
        assert self._loading is not None
        return self._loading

    def _stranger(self, id: str) -> str | None:
        if self._loading is not None and self._loading.id == id:
            return None
        return f"it belongs to session {id!r}, which was set aside"

    def finish(self, *, cut_off: bool = False) -> Outcome | None:
        """The session is over; `cut_off` if the file ends in it, so that the rest may come another time."""
        loading, self._loading = self._loading, None
        return None if loading is None else loading.finish(cut_off)


class _SetAside(Exception):
    """Why a session cannot be taken in."""


class _Place(Struct, frozen=True):
    """Where a session of the file stands in the store; `whole` while its entries have the chain of the file."""

    ref: Ref | None
    head: int
    whole: bool


class _Loading:
    """One session of a file on its way into the store."""

    def __init__(
        self,
        backend: Backend,
        record: SessionRecord,
        namespace: str,
        there: dict[tuple[str, str], _Place],
        *,
        dry_run: bool,
    ) -> None:
        self.letters: list[InboxRecord] = []
        self.drafts: list[DraftRecord] = []
        self._requests: list[Charge] = []
        self._known: Counter[Charge] | None = None
        self._backend, self._record, self._namespace, self._places = backend, record, namespace, there
        self.id = record.id
        self._dry_run = dry_run
        self._about = record.about
        self._tree = _tree(record, namespace)
        self._remarks: list[str] = []
        self._added = 0
        self._how = "unchanged"
        carriers = (there.get((namespace, id)) for id, _, _ in record.shares)
        self._whole = record.head != UNKNOWN and all(place.whole for place in carriers if place is not None)
        self._seq = record.base  # the last entry that was seen
        self._exact: bytes | None = None  # the chain of the file there; None where it is not known
        self._stored: Iterator[Row] = iter(())
        self._log = _Overlay(NO_LOG)
        self._keys: list[KeyRow] = []
        self._buried: list[Row] = []
        self._size = 0
        self._open_call = 0  # the last entry of the keyed call that is under way
        self._before_call: State | None = None
        self._ref = backend.find(namespace, id=record.id)
        if self._ref is None:
            self._make(record.id, record.key)
            self._how = "made"
        else:
            self._compare(self._ref, self._seq + 1)

    # -- where it goes -----------------------------------------------------------------------------------

    def _compare(self, ref: Ref, first: int) -> None:
        """Entries from `first` on are compared with those that are there, until they end."""
        self._ref, self._state, self._was_there = ref, self._backend.state(ref), True
        self._stored = self._backend.log(ref).rows(first, self._state.head)
        self._log = _Overlay(self._backend.log(ref))
        self._comparing = self._state.head >= first
        about = self._backend.about(ref)
        kept = {name: getattr(about, name) for name in ("origin", "parent", "depth", "lifecycle", "call_id")}
        self._about = replace(self._record.about, **kept)

    def _make(self, id: str, key: str | None) -> None:
        """A session as the file has it, with nothing of its own yet."""
        self._join()
        pieces, whole = self._shared()
        salt = bytes.fromhex(self._record.salt)
        base = State(0, salt, *[0] * 8) if self._dry_run else _base(self._backend, self._tree, pieces, salt)
        known = whole and not self._dry_run and self._record.head != UNKNOWN
        self._exact = base.chain if known else None
        if key is not None and self._backend.find(self._namespace, key=key) is not None:
            self._remarks.append(f"its key {key!r} belongs to another session: it has none here")
            key = None
        self._about, kin = self._kin()
        self._begin(id, key, pieces, kin, base, salt)

    def _begin(self, id: str, key: str | None, pieces: tuple[Piece, ...], kin: Kin, base: State, salt: bytes) -> None:
        self._comparing = self._was_there = False
        self._state = base
        if self._dry_run:
            self._ref = None
            return
        blank = Ref(0, id, key, (), self._tree)
        created, updated = micros(self._record.created_at), micros(self._record.updated_at)
        original = Original(blank, self._namespace, salt, created, updated, self._record.status, self._about, None)
        self._ref = self._backend.adopt(original, pieces, kin, base)
        self._log = _Overlay(self._backend.log(self._ref))

    def _join(self) -> None:
        """Belong to the tree of whom it shares entries with, or of its parent: that may be a recovered one."""
        elder = self._record.shares[0][0] if self._record.shares else self._about.parent
        place = None if elder is None else self._places.get((self._namespace, elder))
        if place is not None and place.ref is not None:
            self._tree = place.ref.tree

    def _shared(self) -> tuple[tuple[Piece, ...], bool]:
        """What it shares, in the logs of this store, and whether that is as the file has it."""
        pieces: list[Piece] = []
        whole = True
        for id, first, last in self._record.shares:
            place = self._place(id)
            if place is None or place.head < last or (place.ref is not None and place.ref.tree != self._tree):
                raise _SetAside(f"it shares entries of session {id!r}, which are neither in the file nor in the store")
            whole = whole and place.whole
            if place.ref is not None:
                pieces += (Piece(p.log, max(p.first, first), min(p.last, last)) for p in place.ref.lineage)
        return tuple(piece for piece in pieces if piece.first <= piece.last), whole

    def _kin(self) -> tuple[About, Kin]:
        about = self._about
        origin = None if about.origin is None else self._relative(about.origin[0])
        parent = None if about.parent is None else self._relative(about.parent)
        if parent is not None:  # which may have another id or depth here than in the file
            about = replace(about, parent=parent.id, depth=self._backend.about(parent).depth + 1)
        elif about.parent is not None:
            about = freed(about)
        return about, Kin(origin, parent)

    def _relative(self, id: str) -> Ref | None:
        place = self._place(id)
        return None if place is None or place.ref is None or place.ref.tree != self._tree else place.ref

    def _place(self, id: str) -> _Place | None:
        """A session of the same tree: of this file, or else of the store."""
        if (known := self._places.get((self._namespace, id))) is not None:
            return known
        ref = self._backend.find(self._namespace, id=id)
        if ref is None or ref.tree != self._tree:
            return None
        return _Place(ref, self._backend.state(ref).head, True)

    def _fork(self, record: EntryRecord) -> None:
        """From here on the file goes another way than the store: it becomes a session of its own, always the same."""
        id = f"{self._record.id[:ID_CHARS]}~{record.chain[:8]}"
        there, at = self._ref, record.seq - 1
        assert there is not None
        if self._how != "forked":
            self._remarks.append(f"it goes another way than session {there.id!r} from entry {record.seq} on: {id!r}")
        self._how = "forked"
        if (known := self._backend.find(self._namespace, id=id)) is not None:
            self._compare(known, record.seq)
            return
        salt = bytes.fromhex(self._record.salt)
        self._about = replace(freed(self._about), lifecycle=None)
        if at == self._record.base == 0 or there.tree != self._tree:  # nothing in common: a session of the same name
            self._make(id, None)
            return
        self._about = replace(self._about, origin=(there.id, at))
        pieces = tuple(Piece(p.log, p.first, min(p.last, at)) for p in there.lineage if p.first <= at)
        base = state_at(self._backend.log(there), at, salt)
        self._begin(id, None, pieces, Kin(origin=there), base, salt)

    # -- entries -------------------------------------------------------------------------------------------

    def entry(self, record: EntryRecord) -> str | None:
        draft, why = _draft(record)
        if draft is None:
            return why
        if record.seq <= self._seq or record.seq > self._record.head:
            return f"entry {record.seq} does not belong here"
        if not self._follows(record, draft):
            return "it does not fit the chain: it stood elsewhere, or something before it was changed"
        if record.seq - self._seq > 1:
            if record.seq - self._seq - 1 > LOST_MAX:
                return f"more than {LOST_MAX:,} entries before it are missing"
            self._mend(record.seq)
        if self._comparing:
            self._look(record, draft)
        if not self._comparing and (why := self._append(record, draft)) is not None:
            return why
        self._seq, self._exact = record.seq, bytes.fromhex(record.chain)
        return None

    def _follows(self, record: EntryRecord, draft: Draft) -> bool:
        """Whether the chain of the file is right; behind a gap, and where a fork begins, it is taken as it is."""
        if self._exact is None or record.seq != self._seq + 1:
            return True
        if not self._comparing and not self._dry_run and self._exact == self._state.chain:
            return True  # the fold will say: it makes the same chain
        return link(self._exact, record.seq, draft.digest).hex() == record.chain

    def _look(self, record: EntryRecord, draft: Draft) -> None:
        """Compare an entry with the one that is there; go on by adding once those have ended."""
        row = next(self._stored, None)
        while row is not None and row.seq < record.seq:  # what is missing in the file is taken to be the same
            row = next(self._stored, None)
        if row is None or row.seq > record.seq:
            if record.seq <= self._state.head:
                return  # damaged there: `verify` says so, and nothing of ours goes there
            self._comparing = False
        elif row.digest != draft.digest and (self._whole or row.kind != LOST):
            self._fork(record)
            if self._comparing:
                self._look(record, draft)
        elif draft.body[:1] == MARK != row.body[:1] and row.digest == draft.digest:
            # what somebody took away there goes here, too; what was taken away here never comes back
            self._buried.append(row._replace(key=draft.key, usage=None, body=draft.body))

    def _append(self, record: EntryRecord, draft: Draft) -> str | None:
        if self._dry_run:
            self._count()
            return None
        if draft.key is not None and record.seq > self._open_call:
            self._name(draft.key, record, draft.digest)
        try:
            state, row = after(self._state, draft, self._log)
            why = None if row.kind == "message" else next(untrue(self._log, row), None)
            if self._exact == self._state.chain and row.chain.hex() != record.chain:
                why = "it does not fit the chain"
        except NONSENSE as error:
            why = str(error)
        if why is not None:
            return f"it cannot follow what stands before it: {why}"
        self._store(state, row)
        return None

    def _name(self, key: bytes, record: EntryRecord, digest: bytes) -> None:
        """Note the call of a key; where its first entry was lost, what is left of it."""
        entries, named = record.call or (0, "")
        last = self._keys[-1] if self._keys else None
        if entries > 0 and record.seq + entries - 1 <= self._record.head:
            self._keys.append(KeyRow(key, record.seq, entries, bytes.fromhex(named)))
            self._open_call, self._before_call = record.seq + entries - 1, self._state
        elif last is not None and last.key == key and last.seq + last.entries == record.seq:
            self._keys[-1] = last._replace(entries=last.entries + 1)
        else:
            self._keys.append(KeyRow(key, record.seq, 1, identity(b"cut", digest)))

    def _store(self, state: State, row: Row) -> None:
        full = len(self._log.pending) >= PORTION or self._size >= PORTION_BYTES
        if full and (row.key is None or row.key != self._log.pending[row.seq - 1].key):  # no call is split
            self._flush(self._keys_before(row.seq))
        self._state, self._log.pending[row.seq] = state, row
        self._size += len(row.body)
        self._count()

    def _keys_before(self, seq: int) -> list[KeyRow]:
        """Take the keys of calls before entry `seq`: that of the call which begins there waits for its entries."""
        before = [key for key in self._keys if key.seq < seq]
        self._keys = [key for key in self._keys if key.seq >= seq]
        return before

    def _count(self) -> None:
        self._added += 1
        if self._how == "unchanged":
            self._how = "grown"

    def _mend(self, end: int) -> None:
        """Marks for the entries before `end` that are missing in the file."""
        missing = end - self._seq - 1
        if missing and not (self._comparing and end - 1 <= self._state.head):
            named = f"entry {self._seq + 1} is" if missing == 1 else f"entries {self._seq + 1} to {end - 1} are"
            self._remarks.append(f"{named} missing in the file: a mark stands in their place")
        for seq in range(self._seq + 1, end):
            self._whole, self._exact = False, None
            self._seq = seq
            if self._comparing and seq > self._state.head:
                self._comparing = False
            if self._comparing:
                continue
            if self._dry_run:
                self._count()
                continue
            key = self._keys[-1].key if self._keys and seq <= self._open_call else None
            mark = data_draft(LOST, {"why": "missing in the file"}, at=micros(self._record.created_at), key=key)
            self._store(*after(self._state, mark, self._log))

    def _flush(self, keys: list[KeyRow], *, last: bool = False) -> None:
        rows = [*self._log.pending.values()]
        if self._dry_run or not (rows or last):
            return
        assert self._ref is not None
        known = {call.key for call in self._backend.calls_named(self._ref, [key.key for key in keys])} if keys else ()
        keys = [key for key in keys if key.key not in known]  # a key twice: nobody wrote that but by hand
        about, status = (self._about, self._record.status) if last else (unopened(self._about), STATUSES[0])
        portion = Portion(rows, keys, self._state, about, status, micros(self._record.updated_at))
        self._backend.receive(self._ref, portion)
        self._log.pending.clear()
        self._size = 0

    # -- the end -------------------------------------------------------------------------------------------

    def request(self, record: RequestRecord) -> None:
        tokens = Tokens(record.input, record.output, record.cache_read, record.cache_write, record.reasoning)
        at = micros(record.at)
        self._requests.append(Charge(record.id, at, record.model, record.agent, tokens, record.cost, record.given))
        if len(self._requests) >= PORTION:
            self._settle_log()
            self._account()

    def finish(self, cut_off: bool) -> Outcome:
        missing = self._record.head - self._seq if self._record.head != UNKNOWN else 0
        if missing > 0:
            self._remarks.append(f"the last {missing:,} of its {self._record.head:,} entries are missing")
            self._whole = False
            if not cut_off and missing <= LOST_MAX:
                self._mend(self._record.head + 1)
        try:
            self._settle_log()
            self._say()
            self._account()
        except Stale:
            self._remarks.append("somebody else writes to it: not all of it was added; import it again")
        id = self._record.id if self._ref is None else self._ref.id
        self._places[self._namespace, self._record.id] = _Place(self._ref, self._state.head, self._whole)
        if self._dry_run:
            self._places[self._namespace, self._record.id] = _Place(None, self._seq, self._whole)
        return Outcome(id, self._added, self._how, tuple(self._remarks))

    def _settle_log(self) -> None:
        """Store what is left. Of a call that is not all there, nothing is."""
        self._bury()
        if self._open_call > self._state.head and self._before_call is not None:
            first = self._before_call.head + 1
            lost = [seq for seq in self._log.pending if seq >= first]
            for seq in lost:
                del self._log.pending[seq]
            self._added -= len(lost)
            self._keys = [key for key in self._keys if key.seq < first]
            self._state, self._open_call = self._before_call, 0
        keys, self._keys = self._keys, []
        self._flush(keys)

    def _bury(self) -> None:
        """Redact here what is redacted in the file, as far as the session's own log goes."""
        rows, self._buried = self._buried, []
        if self._dry_run or self._ref is None or not rows:
            return
        own = [row for row in rows if row.seq >= self._ref.lineage[-1].first]
        if own:
            self._backend.bury(self._ref, own, max(row.tombstone().at for row in own))
            self._how = "grown" if self._how == "unchanged" else self._how

    def _say(self) -> None:
        """What is said of the session, and what waits beside its log, unless the store knows better."""
        if self._dry_run or self._ref is None:
            return
        now = self._backend.record(self._ref)
        updated_at = micros(self._record.updated_at)
        if self._was_there:
            if not self._added and (now.updated_at >= updated_at or now.state.head != self._record.head):
                return
            self._how = "grown" if self._how == "unchanged" else self._how
        self._carry()
        self._state = self._backend.state(self._ref)
        if self._about.preview_seq > self._state.head:
            self._about = unopened(self._about)
        self._flush([], last=True)

    def _carry(self) -> None:
        ref = self._ref
        assert ref is not None
        waiting = Counter(self._backend.inbox(ref))
        for record in self.letters:
            key = None if record.key is None else stored(record.key)
            letter = Letter(micros(record.at), record.tokens, key, bytes(record.body))
            if waiting[letter]:
                waiting[letter] -= 1
            else:
                self._backend.enqueue(Target(ref), letter)
        known = {stream.number for stream in self._backend.streams(ref)}
        for draft in self.drafts:
            if draft.number not in known:
                new = NewStream(draft.number, micros(draft.at), draft.role, draft.key)
                self._backend.begin_stream(Target(ref), new)
                self._backend.let_go(Chunk(ref.tree, draft.number, 1, draft.text))

    def _account(self) -> None:
        """Charge the session for the requests that the store does not know yet."""
        charges, self._requests = self._requests, []
        if self._dry_run or self._ref is None or not charges:
            return
        if self._known is None:
            fresh = self._how == "made"
            self._known = Counter() if fresh else Counter(charges_of(self._backend, self._ref))
        new = []
        for charge in charges:
            if self._known[charge] > 0:
                self._known[charge] -= 1
            else:
                new.append(charge)
        if new:
            self._backend.account(self._ref, new)


class _Overlay:
    """A log in the store, and rows that are on their way there."""

    def __init__(self, log: Log) -> None:
        self.pending: dict[int, Row] = {}
        self._log = log

    def row(self, seq: int) -> Row:
        return self.pending[seq] if seq in self.pending else self._log.row(seq)

    def rows(
        self, first: int, last: int, *, shown: bool = False, reverse: bool = False, page: int = 256
    ) -> Iterator[Row]:
        border = min(self.pending, default=last + 1)
        new = [row for seq, row in self.pending.items() if first <= seq <= last and (row.voice or not shown)]
        old = self._log.rows(first, min(last, border - 1), shown=shown, reverse=reverse, page=page)
        if reverse:
            yield from reversed(new)
        yield from old
        if not reverse:
            yield from new

    def last(self, kind: str, upto: int) -> int:
        new = [seq for seq, row in self.pending.items() if row.kind == kind and seq <= upto]
        return new[-1] if new else self._log.last(kind, upto)


def _draft(record: EntryRecord) -> tuple[Draft | None, str | None]:
    """The entry before it has a place, or what is wrong with it."""
    body, usage = bytes(record.body), None if record.usage is NOTHING else bytes(record.usage)
    key = None if record.key is None else stored(record.key)
    at = micros(record.at)
    try:
        if record.redacted is not NOTHING:
            return _redacted(record), None
        digest = entry_digest(record.kind, at, key, record.tokens, usage, body)
        if digest.hex() != record.digest:
            return None, "its content does not match its digest"
        message, data, voice = _content(record.kind, record.seq, body)
    except NONSENSE as error:
        return None, f"it is no entry: {error}"
    return Draft(record.kind, at, body, digest, record.tokens, voice, key, usage, message, data), None


def _redacted(record: EntryRecord) -> Draft:
    """An entry whose content was taken away. Its digest is that of what stood there: the chain vouches for it."""
    told = codec.decode(bytes(record.redacted))
    message = None if told.get("message") is None else codec.message_of(told["message"])
    stone = Tombstone(told["reason"], told["at"], message, told.get("data"))
    key = bytes.fromhex(record.hidden) if record.hidden else None if record.key is None else stored(record.key)
    at, digest = micros(record.at), bytes.fromhex(record.digest)
    bare = Row(record.seq, record.kind, at, record.tokens, 0, 0, 0, 0, 0, 0, digest, b"", key, None, None, b"")
    row = bare.buried(stone)
    said, data = content(row)
    voice = OTHER if record.kind == "compaction" else SILENT if said is None else voice_of(said)
    return Draft(record.kind, at, row.body, digest, record.tokens, voice, key, None, said, data)


def _content(kind: str, seq: int, body: bytes) -> tuple[Message | None, dict[str, Any] | None, int]:
    """What a body says, and who speaks in it."""
    if kind == "message":
        message = codec.decode_message(body)
        return message, None, voice_of(message)
    data = codec.decode(body)
    if not isinstance(data, dict):
        raise ValueError("its data is no object")
    return (summary(data, seq), data, OTHER) if kind == "compaction" else (None, data, SILENT)


def _impossible(record: SessionRecord) -> str | None:
    """What nobody exported: a line that was written by hand."""
    try:
        sizes = {len(bytes.fromhex(name)) for name in (record.salt, record.tree)}
    except ValueError:
        return "its salt or its tree is no digest"
    starts = [first for _, first, _ in record.shares]
    ends = [0, *(last for _, _, last in record.shares)]
    if sizes != {SIZE} or record.status not in STATUSES or not record.id or record.head < ends[-1]:
        return "its salt, tree, status, id or head cannot be right"
    if starts != [last + 1 for last in ends[:-1]] or any(last < first for _, first, last in record.shares):
        return "what it shares has gaps"
    return None


def _base(backend: Backend, tree: bytes, pieces: tuple[Piece, ...], salt: bytes) -> State:
    if not pieces:
        return start(salt)
    log = backend.log(Ref(0, "", None, pieces, tree))
    return state_at(log, pieces[-1].last, salt)


def _tree(record: SessionRecord, namespace: str) -> bytes:
    """Its tree; in another namespace another one, so that neither knows of the other's requests."""
    tree = bytes.fromhex(record.tree)
    if namespace == record.namespace:
        return tree
    return sha256(tree + stored(namespace)).digest()[:SIZE]
