"""Reading a store record by record: sessions in one order on every engine, each with the entries that no earlier one
brought along.

Trees come in the order of their names. Within one, each session comes after the one that it was forked from or that
spawned it, forks before children, each in the order they were made. Nothing is held in memory but the sessions of one
tree and a page of their entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from threadline.backends.backend import Backend, KeyRow, Original, Ref
from threadline.backends.backend import Record as SessionNow
from threadline.core import codec
from threadline.core.about import About, freed
from threadline.core.digest import entry_digest, identity, link
from threadline.core.entries import Row, moment, stored, text_or_none
from threadline.core.inbox import Letter
from threadline.core.redaction import is_redacted, key_is_hidden
from threadline.core.spending import Charge
from threadline.core.streams import Stream
from threadline.errors import Damaged, InvalidArgument, NotFound
from threadline.records.memories import memory_records
from threadline.records.shapes import (
    NOTHING,
    VERSION,
    DamagedRecord,
    DraftRecord,
    EndRecord,
    EntryRecord,
    FileRecord,
    InboxRecord,
    Masking,
    Record,
    RequestRecord,
    SessionRecord,
)
from threadline.session import Session
from threadline.store import Store

PAGE = 500
FEW = 64  # rows that are read at once: those of a session full of pictures fit into memory, too
TRIES = 100  # to find a session that nobody changes between two looks


def dump(what: Store | Iterable[Session], *, mask: Masking | None = None) -> Iterator[Record]:
    """The records of a store, or of some of its sessions and their sub-agents: all lines of a file.

    A store within a namespace gives that namespace, any other all of them. An entry whose content is masked has another
    digest, and so all that follow it another chain: the file is whole in itself, and tells nothing of what it hides."""
    yield FileRecord(VERSION, mask is not None)
    if isinstance(what, Store):
        dumping, families = _Dumping(what._backend, mask), _families(what)
    elif sessions := list(what):
        dumping, families = _Dumping(sessions[0]._backend, mask), _chosen(sessions)
    else:
        yield EndRecord(0, 0)
        return
    for family in families:
        yield from dumping.family(family)
    if isinstance(what, Store):
        yield from dumping.memories(what.namespace)
    yield EndRecord(*dumping.counts)


# -- which sessions, and in which order ------------------------------------------------------------------


def _families(store: Store) -> Iterator[list[Original]]:
    last = b""
    while trees := store._backend.trees(last):
        for last in trees:
            family = store._backend.family(last)
            yield [one for one in in_order(family) if store.namespace in ("", one.namespace)]


def _chosen(sessions: list[Session]) -> Iterator[list[Original]]:
    """The sessions that were asked for, and all that they spawned."""
    backend = sessions[0]._backend
    wanted: dict[bytes, set[int]] = {}
    for session in sessions:
        if session._backend is not backend:
            raise InvalidArgument("these sessions are not of one store: export those of each by themselves")
        ref = session._made()
        wanted.setdefault(ref.tree, set()).update(record.number for record in backend.below(ref))
    for tree in sorted(wanted):
        yield [one for one in in_order(backend.family(tree)) if one.ref.number in wanted[tree]]


def in_order(family: list[Original]) -> list[Original]:
    """The sessions of a tree, each before its forks, and those before its children."""
    there = {one.ref.number for one in family}
    below: dict[int, list[Original]] = {}
    first: list[Original] = []
    for child in (False, True):
        for one in family:
            elder = one.parent if child else one.origin
            if elder in there and elder is not None:
                below.setdefault(elder, []).append(one)
            elif child and (one.origin is None or one.origin not in there):
                first.append(one)
    waiting = sorted(first, key=lambda one: (one.created_at, stored(one.ref.id)), reverse=True)
    found: list[Original] = []
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(below.get(found[-1].ref.number, ()))
    return found


class Carried(NamedTuple):
    """The entries `first..last` of a log stand in the file under that session."""

    first: int
    last: int
    id: str


def shares_of(ref: Ref, carried: dict[int, list[Carried]]) -> list[tuple[str, int, int]]:
    """Which entries of a session stand under earlier ones, from the first on and without a gap."""
    shares: list[tuple[str, int, int]] = []
    upto = 0
    for log, first, last in ref.lineage[:-1]:
        for piece in carried.get(log, ()):
            if piece.first <= upto + 1 <= min(piece.last, last) and first <= upto + 1:
                end = min(piece.last, last)
                if shares and shares[-1][0] == piece.id:
                    shares[-1] = (piece.id, shares[-1][1], end)
                else:
                    shares.append((piece.id, upto + 1, end))
                upto = end
        if upto < last:
            break
    return shares


# -- one session after another ---------------------------------------------------------------------------


class _Dumping:
    def __init__(self, backend: Backend, mask: Masking | None) -> None:
        self.counts = [0, 0, 0, 0, 0, 0]  # as in EndRecord
        self._backend = backend
        self._mask = mask
        self._chain = b""  # after the entry at hand, as it is in this file

    def memories(self, namespace: str) -> Iterator[Record]:
        """Memories in the order of their trees; those of one namespace, or all."""
        for place in sorted(self._backend.memories(), key=lambda place: place.tree):
            if namespace in ("", place.namespace):
                for record in memory_records(self._backend, place, self._mask):
                    self.counts[5] += 1
                    yield record

    def family(self, family: list[Original]) -> Iterator[Record]:
        carried: dict[int, list[Carried]] = {}
        plans: list[tuple[Original, list[tuple[str, int, int]]]] = []
        for one in family:
            shares = self._uncut(one.ref, shares_of(one.ref, carried))
            base = shares[-1][2] if shares else 0
            for log, first, last in one.ref.lineage:
                if last > base:
                    carried.setdefault(log, []).append(Carried(max(first, base + 1), last, one.ref.id))
            plans.append((one, shares))
        wanted = {(id, last) for _, shares in plans for id, _, last in shares}
        chains: dict[tuple[str, int], bytes] = {}  # where forks begin, as they are in this file
        depths: dict[str, int] = {}
        for one, shares in plans:
            yield from self._session(one, shares, wanted, chains, depths)

    def _uncut(self, ref: Ref, shares: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
        """The shares up to where no keyed call is cut in two: a session brings along the whole of it, or none."""
        if not shares or any(piece.last == shares[-1][2] for piece in ref.lineage[:-1]):
            return shares  # it ends where the fork was made, and so does what is left of the call
        log, end = self._backend.log(ref), shares[-1][2]
        with suppress(Damaged):
            while end and (key := log.row(end).key) is not None and log.row(end + 1).key == key:
                end -= 1
        return [(id, first, min(last, end)) for id, first, last in shares if first <= end]

    def _session(
        self,
        one: Original,
        shares: list[tuple[str, int, int]],
        wanted: set[tuple[str, int]],
        chains: dict[tuple[str, int], bytes],
        depths: dict[str, int],
    ) -> Iterator[Record]:
        try:
            now, letters, streams = self._now(one.ref)
        except NotFound:  # deleted since we looked
            return
        about = _standing(now.about, depths)
        depths[one.ref.id] = about.depth
        yield self._said(one, now, about, shares)
        self.counts[0] += 1
        base = shares[-1][2] if shares else 0
        self._chain = chains[shares[-1][0], base] if shares else one.salt
        for record in self._entries(one.ref, base, now.state.head):
            if (one.ref.id, record.seq) in wanted:
                chains[one.ref.id, record.seq] = self._chain
            yield record
        yield from (self._letter(one.ref.id, letter) for letter in letters)
        yield from (self._draft(one.ref.id, stream) for stream in streams)
        yield from self._requests(one.ref)

    def _now(self, ref: Ref) -> tuple[SessionNow, list[Letter], list[Stream]]:
        """The session and what waits beside its log, all of one moment."""
        for _ in range(TRIES):
            before = self._backend.record(ref)
            letters, streams = self._backend.inbox(ref), self._backend.streams(ref)
            now = self._backend.record(ref)
            if now.updated_at == before.updated_at:
                break
        return now, letters, streams

    def _said(self, one: Original, now: SessionNow, about: About, shares: list[tuple[str, int, int]]) -> SessionRecord:
        record = SessionRecord(
            one.ref.id,
            moment(one.created_at),
            moment(now.updated_at),
            now.state.head,
            one.salt.hex(),
            one.ref.tree.hex(),
            about,
            one.namespace,
            one.ref.key,
            now.status,
            tuple(shares),
        )
        return record if self._mask is None else replace(record, about=masked_about(about, self._mask))

    # -- entries -----------------------------------------------------------------------------------------

    def _entries(self, ref: Ref, base: int, head: int) -> Iterator[EntryRecord | DamagedRecord]:
        last = base
        for rows in _pages(self._backend.log(ref).rows(base + 1, head, page=FEW)):
            calls = self._calls(ref, rows)
            for row in rows:
                yield from _missing(ref.id, last + 1, row.seq)
                last = row.seq
                try:
                    row.check(ref.id)
                except Damaged as error:
                    self._chain = link(self._chain, row.seq, row.digest)
                    yield DamagedRecord(ref.id, row.seq, error.what)
                else:
                    yield self._entry(ref.id, row, calls.get(row.seq))
        yield from _missing(ref.id, last + 1, head + 1)
        self.counts[1] += max(0, head - base)

    def _calls(self, ref: Ref, rows: list[Row]) -> dict[int, KeyRow]:
        """The keyed calls that begin among the rows, by their first entry."""
        keyed: dict[bytes, Row] = {}
        for row in rows:
            if row.key is not None:
                keyed.setdefault(row.key, row)
        found = {call.key: call for call in self._backend.calls_named(ref, [*keyed])} if keyed else {}
        cut = (_cut_call(ref, row) for key, row in keyed.items() if key not in found)
        return {call.seq: call for call in (*found.values(), *cut) if call is not None}

    def _entry(self, id: str, row: Row, call: KeyRow | None) -> EntryRecord:
        body, usage, digest, stone = row.body, row.usage, row.digest, NOTHING
        named = None if call is None else (call.entries, call.identity.hex())
        if is_redacted(row):
            told = codec.encode(row.tombstone())
            body, stone = b"null", Raw(told if self._mask is None else self._mask.json(told))
        elif self._mask is not None:
            body, usage = self._mask.json(body), None if usage is None else self._mask.json(usage)
            if body is not row.body or usage is not row.usage:
                digest = entry_digest(row.kind, row.at, row.key, row.tokens, usage, body)
                # the identity would tell a guess of the secret from the secret
                named = None if named is None else (named[0], identity(b"masked", digest).hex())
        self._chain = row.chain if self._mask is None else link(self._chain, row.seq, digest)
        hidden = row.key if row.key is not None and key_is_hidden(row) else None
        return EntryRecord(
            id,
            row.seq,
            row.kind,
            moment(row.at),
            digest.hex(),
            self._chain.hex(),
            Raw(body),
            row.tokens,
            text_or_none(None if hidden else row.key),
            named,
            NOTHING if usage is None else Raw(usage),
            stone,
            None if hidden is None else hidden.hex(),
        )

    # -- what stands beside the log ------------------------------------------------------------------------

    def _letter(self, id: str, letter: Letter) -> InboxRecord:
        self.counts[2] += 1
        body = letter.body if self._mask is None else self._mask.json(letter.body)
        return InboxRecord(id, moment(letter.at), Raw(body), letter.tokens, text_or_none(letter.key))

    def _draft(self, id: str, stream: Stream) -> DraftRecord:
        self.counts[3] += 1
        text = stream.text if self._mask is None else self._mask.text(stream.text)
        return DraftRecord(id, stream.number, moment(stream.at), stream.role, text, stream.key)

    def _requests(self, ref: Ref) -> Iterator[RequestRecord]:
        for _, charges in groupby(charges_of(self._backend, ref), attrgetter("at")):
            for charge in sorted(charges, key=repr):  # engines number those of one moment differently
                self.counts[4] += 1
                names = (charge.id, charge.model, charge.agent)
                yield RequestRecord(ref.id, moment(charge.at), *names, *charge.tokens, charge.cost, charge.given)


def _standing(about: About, depths: dict[str, int]) -> About:
    """What is said of a session in a file: a child whose parent is not in it stands for itself."""
    if about.parent is None:
        return about
    if about.parent not in depths:
        return freed(about)
    return replace(about, depth=depths[about.parent] + 1)


def masked_about(about: About, mask: Masking) -> About:
    said = {name: getattr(about, name) for name in ("title", "preview", "system")}
    masked = {name: mask.text(value) for name, value in said.items() if value is not None}
    return replace(about, **masked, meta=codec.decode(mask.json(codec.encode(about.meta))))


def charges_of(backend: Backend, ref: Ref) -> Iterator[Charge]:
    """All that a session is charged for, oldest first."""
    after = (-(2**62), 0)
    while page := backend.charges(ref, after, PAGE):
        yield from (charge for _, charge in page)
        number, last = page[-1]
        after = (last.at, number)


def _cut_call(ref: Ref, row: Row) -> KeyRow | None:
    """What is left of a call in a fork that was made in the midst of it."""
    (piece,) = (piece for piece in ref.lineage if piece.first <= row.seq <= piece.last)
    if piece is ref.lineage[-1] or row.key is None:
        return None
    return KeyRow(row.key, row.seq, piece.last - row.seq + 1, identity(b"cut", row.digest))


def _missing(id: str, first: int, end: int) -> Iterator[DamagedRecord]:
    return (DamagedRecord(id, seq, "the entry is missing") for seq in range(first, end))


def _pages(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Rows in pages that end where the store's own do, more or less: few enough to hold, however large."""
    page: list[Row] = []
    size = 0
    for row in rows:
        page.append(row)
        size += len(row.body)
        if len(page) >= PAGE or size >= 2**22:
            yield page
            page, size = [], 0
    if page:
        yield page
