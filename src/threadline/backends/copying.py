"""Moving house: all sessions of one store into another, from a file to a server and back.

Rows go over as they are stored, so digests, chains, views and keys are the same there, and forks share as they did.
Each row is checked on the way. A copy can be broken off and made again: what is there already is compared by its chain
and left alone, and only what is new is added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from threadline.backends.backend import Backend, KeyRow, Kin, Original, Piece, Portion, Problem, Ref, Target
from threadline.core.about import About, unopened
from threadline.core.digest import identity, link
from threadline.core.entries import Row
from threadline.core.fold import State, state_at
from threadline.core.spending import Charge
from threadline.core.streams import Chunk, NewStream
from threadline.core.view import Log
from threadline.errors import Conflict, Damaged, NotActive
from threadline.memory import copies
from threadline.memory.audit import named
from threadline.memory.rows import Place

PORTION = 500  # rows of one transaction
EVENTS_END = 2**62
BEFORE_ALL = (-(2**62), 0)  # a time and a number


class CopyProgress(Struct, frozen=True):
    """How far a copy has come: the session at hand, and how many sessions and entries are done."""

    session: str
    sessions: int
    entries: int


class CopyReport(Struct, frozen=True):
    """What a copy did: `sessions` were looked at, `made` of them were new, `entries` were added, and so many `nodes` of
    memories were new or changed.

    `problems` name sessions that could not be copied whole: damaged here, or written to there."""

    sessions: int
    made: int
    entries: int
    problems: list[Problem]
    nodes: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems


OnCopied: TypeAlias = Callable[[CopyProgress], object]


def copy_sessions(source: Backend, target: Backend, on_progress: OnCopied | None = None) -> CopyReport:
    """Copy all sessions of all namespaces. Raises what the stores raise; calling it again goes on from there."""
    copying = _Copying(source, target, on_progress)
    for original in source.originals():
        copying.copy(original)
    copying.dismiss()
    for place in source.memories():
        copying.copy_memory(place)
    return CopyReport(copying.sessions, copying.made, copying.entries, copying.problems, copying.nodes)


class _Copying:
    def __init__(self, source: Backend, target: Backend, on_progress: OnCopied | None) -> None:
        self.sessions = self.made = self.entries = self.nodes = 0
        self.problems: list[Problem] = []
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._there: dict[int, Ref] = {}  # sessions by their number in the source
        self._logs: dict[int, tuple[int, int]] = {}  # logs by their number in the source: the number there, and how far
        self._owned: set[int] = set()  # logs of sessions that were looked at: any other that is shared is nobody's own
        self._standing: dict[str, Ref] = {}  # stand-ins in the target, by their id

    def copy(self, original: Original) -> None:
        try:
            self._copy(original)
        except Damaged as error:
            self.problems.append(Problem(original.ref.id, error.seq, error.what))
        except (Conflict, NotActive) as error:
            self.problems.append(Problem(original.ref.id, None, str(error)))
        self.sessions += 1
        self._tell(original)

    def _copy(self, original: Original) -> None:
        here, goal = original.ref, self._source.state(original.ref)
        log = self._source.log(here)
        self._owned.add(here.lineage[-1].log)
        self._notice_stand_ins(original)
        there = self._target.find(original.namespace, id=here.id) or self._adopted(original, log)
        own, reached = here.lineage[-1].log, self._target.state(there)
        self._there[here.number] = there
        self._logs[own] = (there.lineage[-1].log, min(reached.head, goal.head))
        _check_same(self._target.log(there), reached, log, goal, original.salt, here.id)
        if reached.head > goal.head:  # it was written to since, which is none of our business
            return
        self._bury(here, there, reached.head)
        self._carry(here, there)  # first: what is put away in the end takes nothing any more
        for portion in self._portions(original, log, reached, goal):
            self._target.receive(there, portion)
            self.entries += len(portion.rows)
            self._logs[own] = (there.lineage[-1].log, portion.state.head)
            self._tell(original)
        self._account(here, there)

    def _bury(self, here: Ref, there: Ref, reached: int) -> None:
        """What was redacted here since it was copied."""
        known = {row.seq: row.body for row in self._target.tombstones(there)}
        rows = [row for row in self._source.tombstones(here) if row.seq <= reached and known.get(row.seq) != row.body]
        if rows:
            self._target.bury(there, rows, max(row.tombstone().at for row in rows))

    def _carry(self, here: Ref, there: Ref) -> None:
        """What waits beside the log: the messages of the inbox, and drafts as far as they are stored."""
        waiting = Counter(self._target.inbox(there))
        for letter in self._source.inbox(here):
            if waiting[letter]:
                waiting[letter] -= 1
            else:
                self._target.enqueue(Target(there), letter)
        known = {stream.number for stream in self._target.streams(there)}
        for number, at, role, key, text, _ in self._source.streams(here):
            if number not in known:
                self._target.begin_stream(Target(there), NewStream(number, at, role, key))
                self._target.let_go(Chunk(there.tree, number, 1, text))

    def _account(self, here: Ref, there: Ref) -> None:
        """Requests that are charged to the session here and, as they are, not there."""
        known = Counter(_charges(self._target, there))
        missing = [*(Counter(_charges(self._source, here)) - known).elements()]
        for first in range(0, len(missing), PORTION):
            self._target.account(there, missing[first : first + PORTION])

    def _adopted(self, original: Original, log: Log) -> Ref:
        """The session there, with what it shares and nothing of its own."""
        *shared, own = original.ref.lineage
        for n, piece in enumerate(shared):
            if piece.log not in self._owned:
                self._stand_in(original, log, shared[:n], piece)
            if self._logs.get(piece.log, (0, 0))[1] < piece.last:
                raise Damaged(original.ref.id, piece.last, "it shares entries that could not be copied")
        pieces = self._pieces(shared)
        base = state_at(log, own.first - 1, original.salt)
        kin = Kin(*(None if elder is None else self._there.get(elder) for elder in (original.origin, original.parent)))
        if original.parent is not None and kin.parent is None:
            raise Damaged(original.ref.id, None, "its parent could not be copied")
        self.made += 1
        return self._target.adopt(original, pieces, kin, base)

    def _pieces(self, shared: Sequence[Piece]) -> tuple[Piece, ...]:
        """What is shared, in the logs of the target."""
        return tuple(Piece(self._logs[piece.log][0], piece.first, piece.last) for piece in shared)

    def _stand_in(self, original: Original, log: Log, before: Sequence[Piece], piece: Piece) -> None:
        """Bring over a log whose session was deleted, as far as this fork shares it.

        A log comes into a store with a session only: one stands in for the session that is gone, and is deleted as that
        was when all forks are there."""
        id = _stand_in_id(original.ref.tree, piece.log)
        there = self._standing.get(id) or self._target.adopt(
            replace(original, ref=Ref(0, id, None, (), original.ref.tree), about=About(), origin=None, parent=None),
            self._pieces(before),
            Kin(),
            state_at(log, piece.first - 1, original.salt),
        )
        self._standing[id], reached = there, self._target.state(there)
        self._logs[piece.log] = (there.lineage[-1].log, reached.head)
        owner = Ref(0, id, None, (*before, piece), original.ref.tree)
        keys = {key.key: key for key in self._source.keys(owner, reached.head)}
        walk = _Walk(log.rows(reached.head + 1, piece.last), reached, original.ref.id)
        for rows in walk:
            state = state_at(log, rows[-1].seq, original.salt)
            self._target.receive(
                there, Portion(rows, _keys_of(rows, keys), state, About(), "active", original.updated_at)
            )
            self.entries += len(rows)
            self._logs[piece.log] = (there.lineage[-1].log, state.head)
            self._tell(original)

    def _notice_stand_ins(self, original: Original) -> None:
        """Those that a copy left behind which was broken off."""
        for piece in original.ref.lineage[:-1]:
            id = _stand_in_id(original.ref.tree, piece.log)
            if piece.log not in self._owned and id not in self._standing:
                found = self._target.find(original.namespace, id=id)
                self._standing |= {} if found is None else {id: found}

    def dismiss(self) -> None:
        """Delete the stand-ins: what forks share of their logs stays."""
        for ref in self._standing.values():
            self._target.delete(ref, False, None)

    def _portions(self, original: Original, log: Log, reached: State, goal: State) -> Iterator[Portion]:
        """The rest of the log, and at its end all that is said of the session."""
        keys = {key.key: key for key in self._source.keys(original.ref, reached.head)}
        walk = _Walk(log.rows(reached.head + 1, goal.head), reached, original.ref.id)
        for rows in walk:
            named, last = _keys_of(rows, keys), rows[-1].seq
            if last == goal.head:
                yield Portion(rows, named, goal, original.about, original.status, original.updated_at)
            else:
                state = state_at(log, last, original.salt)
                yield Portion(rows, named, state, unopened(original.about), "active", original.updated_at)
        walk.must_have_come_to(goal.head)
        if reached.head == goal.head:
            yield Portion((), (), goal, original.about, original.status, original.updated_at)

    def copy_memory(self, place: Place) -> None:
        """A memory, portion by portion, joined with what is there."""
        before = EVENTS_END
        while True:
            others = self._source.consult(place, partial(copies.rest, before, PORTION))
            self._target.remember(place, partial(copies.adopt, (), others))
            if not others.events:
                break
            before = others.events[-1].number
        self._copy_nodes(place)

    def _copy_nodes(self, place: Place) -> None:
        after: tuple[bytes, bytes] | None = copies.START
        while after is not None:
            nodes, damaged, after = self._source.consult(place, partial(copies.portion, after, PORTION))
            self.nodes += self._target.remember(place, partial(copies.adopt, nodes, copies.NOTHING_ELSE))
            for addr in damaged:
                what = f"{named(place)}: node {addr.hex()[:12]} is not what was written"
                self.problems.append(Problem(None, None, what))

    def _tell(self, original: Original) -> None:
        if self._on_progress is not None:
            self._on_progress(CopyProgress(original.ref.id, self.sessions, self.entries))


def _check_same(there: Log, reached: State, log: Log, goal: State, salt: bytes, id: str) -> None:
    """Raise Conflict unless the shorter of the two is the beginning of the longer."""
    common = min(reached.head, goal.head)
    mine = salt if common == 0 else log.row(common).chain
    theirs = reached.chain if reached.head == common else there.row(common).chain if common else salt
    if mine != theirs:
        raise Conflict(f"another session of the id {id!r} is there already, or one of the two was written to since")


class _Walk:
    """Sound rows in portions, up to the first that is not what was written or not where it was."""

    def __init__(self, rows: Iterator[Row], reached: State, id: str) -> None:
        self._rows = rows
        self._chain, self._seq = reached.chain, reached.head
        self._id = id
        self._damage: Damaged | None = None

    def __iter__(self) -> Iterator[list[Row]]:
        portion: list[Row] = []
        for row in self._rows:
            self._damage = self._flaw(row)
            ends = self._damage is not None or len(portion) >= PORTION
            if ends and portion and (row.key is None or row.key != portion[-1].key):  # no call is split
                yield portion
                portion = []
            if self._damage is not None:
                return
            portion.append(row)
        if portion:
            yield portion

    def _flaw(self, row: Row) -> Damaged | None:
        self._seq += 1
        if row.seq != self._seq:
            return Damaged(self._id, self._seq, "the entry is missing")
        try:
            row.check(self._id)
        except Damaged as error:
            return error
        self._chain = link(self._chain, self._seq, row.digest)
        return None if self._chain == row.chain else Damaged(self._id, self._seq, "it does not fit the chain")

    def must_have_come_to(self, head: int) -> None:
        if self._damage is not None:
            raise self._damage
        if self._seq != head:
            raise Damaged(self._id, self._seq + 1, "the entry is missing")


def _stand_in_id(tree: bytes, log: int) -> str:
    return f"threadline:copy:{identity(b'log', tree, b'%d' % log).hex()}"


def _charges(backend: Backend, ref: Ref) -> Iterator[Charge]:
    """All that a session is charged for, oldest first."""
    after = BEFORE_ALL
    while page := backend.charges(ref, after, PORTION):
        yield from (charge for _, charge in page)
        number, last = page[-1]
        after = (last.at, number)


def _keys_of(rows: list[Row], keys: dict[bytes, KeyRow]) -> list[KeyRow]:
    names = dict.fromkeys(row.key for row in rows if row.key is not None)
    return [keys[name] for name in names if name in keys]
