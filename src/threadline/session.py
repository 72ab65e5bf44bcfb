"""A session is an append-only log of entries.

What the model sees is a fold over that log; nothing else is state. No method changes what was written: compactions,
rewinds, clears and repairs are entries themselves, so each can be undone and audited."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from threadline.backends.backend import Birth, NewSession, Ref, Target
from threadline.batch import Batch, several
from threadline.core.about import EPHEMERAL, LIFECYCLES, LINKED, About, Change
from threadline.core.calls import OpenCall, walk
from threadline.core.compaction import Plan, check_bounds, plan_run, seen
from threadline.core.entries import Entry, calls_and_results
from threadline.core.fold import nodes
from threadline.core.fold import state_at as fold_at
from threadline.core.goals import Goal, goal_at
from threadline.core.inbox import Queued, letter
from threadline.core.ops import Op, fold_row
from threadline.core.reading import Entries, View, read_view
from threadline.core.receipts import Receipt
from threadline.core.session_state import state_at
from threadline.core.spending import Request, Spending, charged, total
from threadline.core.streams import NewStream, Settling, Stream
from threadline.core.usage import COUNTS, NOTHING, Usage, UsageLike
from threadline.core.view import Log, spans_after, spans_at, stored_spans
from threadline.core.window import FRONT, Front, Source, Tail, read_source
from threadline.drafts import Draft, DraftWriter, kept_message
from threadline.errors import Damaged, InvalidArgument, KeyReused, NotFound
from threadline.following import Follow
from threadline.info import SessionInfo, Tree, check_about, info_of
from threadline.leases import Holding, Lease, take, terms
from threadline.messages import Message, Part, ToolCall, content_of
from threadline.pen import MessageLike, Pen, check_name, check_seq, check_seq_or_none, key_bytes, time_of

if TYPE_CHECKING:
    from threadline.context import Context, Wish
    from threadline.store import Store

REQUESTS_PAGE = 1_000  # read at once: no reader holds up a checkpoint

Summary = str | Callable[[list[Message]], str]


class PendingCall(Struct, frozen=True):
    """A tool call of the view without a result; `started` if `start_call` recorded that it began."""

    call: ToolCall
    seq: int
    started: bool


class Session:
    """One conversation. Made by a Store; a handle is cheap, thread-safe and never stale."""

    def __init__(self, store: Store, ref: Ref | None, new: NewSession | None = None) -> None:
        self._store = store
        self._backend = store._backend
        self._pen: Pen = store._pen
        self._ref = ref  # None until it is made
        self._new = new  # what it is made from
        self._front: tuple[int, Front | None] = (-1, None)  # what the front of its view told, and of which view

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Session cannot be pickled: send its id, and store.get(id) in the other process")

    def __repr__(self) -> str:
        return f"<Session {self.key or self.id!r}{'' if self._ref else ' (not made yet)'}>"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        """An ephemeral child is gone when its block ends; to any other session nothing happens."""
        with suppress(NotFound):  # deleted already
            if self._ref is not None and self._backend.about(self._ref).lifecycle == EPHEMERAL:
                self._backend.delete(self._ref, True, None)

    @property
    def id(self) -> str | None:
        """Its id; None until it is made, at the first append."""
        return None if self._ref is None else self._ref.id

    @property
    def key(self) -> str | None:
        known = self._ref or self._new
        return None if known is None else known.key

    @property
    def head(self) -> int:
        """The seq of the last entry; 0 when there is none."""
        ref = self._found()
        return 0 if ref is None else self._backend.state(ref).head

    @property
    def info(self) -> SessionInfo:
        """Everything that is said of it, as it is now. Raises NotFound while it is not made."""
        return info_of(self._backend.record(self._made()), self._pen.prices)

    # -- writing ---------------------------------------------------------------------------------------

    def append(
        self,
        message: MessageLike,
        *,
        key: str | None = None,
        expect: int | None = None,
        usage: UsageLike | None = None,
        at: datetime | None = None,
        format: str | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Append one message: a Message, a dict in a known format, or text that the user said.

        It is on disk when this returns. With `key` the call is idempotent for ever: the same again returns the first
        entry, other content raises KeyReused. With `expect` it raises Stale, and writes nothing, if the head moved."""
        return self._write((self._pen.append((message,), key, usage, at, format),), expect, lease)[0][0]

    def extend(
        self,
        messages: Iterable[MessageLike],
        *,
        key: str | None = None,
        expect: int | None = None,
        usage: UsageLike | None = None,
        at: datetime | None = None,
        format: str | None = None,
        lease: Holding | None = None,
    ) -> list[Entry]:
        """Append several messages, all or none, with consecutive seqs. An empty list writes nothing."""
        op = self._pen.append(several(messages), key, usage, at, format)
        return self._write((op,), expect, lease)[0] if op.entries else []

    def note(
        self,
        data: dict[str, Any],
        kind: str = "note",
        *,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Record something for people and tools that the model never sees."""
        return self._one(self._pen.note(data, kind, key=key, at=at), expect, lease)

    def batch(self, expect: int | None = None, lease: Holding | None = None) -> Batch:
        """Collect writes and do them in one transaction when the block ends; on an exception, none.

        >>> with session.batch(expect=view.head) as b:
        ...     b.rewind(12)
        ...     b.append("edited")
        """
        return Batch(self._pen, partial(self._write, expect=expect, lease=lease))

    # -- the view --------------------------------------------------------------------------------------

    def view(self, at: int | None = None, last: int | None = None) -> View:
        """What the model sees now, or saw right after entry `at`; only the `last` so many entries if given."""
        if last is not None and check_seq(last, "last") < 0:
            raise InvalidArgument(f"last is a number of entries, not {last}")
        ref = self._found()
        if ref is None:
            return View((), _moment(at, 0))
        log, state = self._backend.log(ref), self._backend.state(ref)
        head = _moment(at, state.head)
        last = None if last is None else min(last, head)
        spans = spans_after(log, state.view, head) if at is None else spans_at(log, head)
        return read_view(log, spans, head, ref.id, last)

    def messages(self, at: int | None = None) -> list[Message]:
        """The messages of the view: `view(at).messages`."""
        return self.view(at).messages

    def context(
        self,
        *,
        max_tokens: int | None = None,
        max_messages: int | None = None,
        format: str = "threadline",
        timestamps: bool = False,
        keep_outputs: int | None = None,
        at: int | None = None,
    ) -> Context:
        """The view fitted to a model: always legal for the provider of `format`, whatever the log holds.

        Never above `max_tokens` or `max_messages`: whole turns are dropped from the front, a quarter of the budget at
        a time, so that the provider's prompt cache holds in between. The newest turn always stays; if it alone is too
        big, its largest tool results are shortened, and if that does not do, BudgetTooSmall is raised.
        `keep_outputs`: older large tool results only as previews. `timestamps`: user turns tell their time."""
        from threadline.context import Wish, build  # with all formats: who only appends need not wait for it

        wish = Wish(max_tokens, max_messages, format, timestamps, keep_outputs)
        return build(self._source(wish, at), wish, self._pen.tokens)

    def compact(
        self,
        summary: Summary,
        plan: Plan | None = None,
        *,
        upto: int | None = None,
        keep_turns: int | None = None,
        since: int | None = None,
        usage: UsageLike | None = None,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Fold a run of the view into one summary that stands in its place. The originals stay in the log.

        The run goes from the front (or `since`) up to `upto`, or to all but the last `keep_turns` user turns, or is
        that of `plan`. It shrinks until it splits no tool call from its result and holds no open call. `summary` is
        text, or a function of the run's messages, called outside any transaction: exactly what it saw is folded,
        or Stale is raised."""
        if callable(summary):
            if key is not None and (done := self._compacted(key)) is not None:
                return done
            planned_at, plan = self._planned(plan, since=since, upto=upto, keep_turns=keep_turns)
            text = summary(list(plan.messages))
            return self._compact_planned(
                text, plan, planned_at, usage=usage, key=key, expect=expect, at=at, lease=lease
            )
        op = self._pen.compact(
            summary, plan, upto=upto, keep_turns=keep_turns, since=since, usage=usage, key=key, at=at
        )
        return self._one(op, expect, lease)

    def replace(
        self,
        messages: Iterable[MessageLike],
        *,
        since: int,
        upto: int,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Put any messages, or none, where the run from entry `since` to entry `upto` stands. The originals stay."""
        op = self._pen.replace(several(messages), since=since, upto=upto, key=key, at=at)
        return self._write((op,), expect, lease)[0][-1]

    def originals(self, seq: int) -> list[Entry]:
        """What a compaction or replacement stands for, one level."""
        ref = self._made()
        log = self._backend.log(ref)
        covers = stored_spans(fold_row(log, check_seq(seq, "seq"), self.head), "covers")
        return list(read_view(log, covers, self.head, ref.id).entries)

    def expand(
        self,
        seq: int,
        *,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Put back into the view what a compaction or replacement stands for, one level."""
        return self._one(self._pen.expand(seq, key=key, at=at), expect, lease)

    def rewind(
        self,
        to: int,
        *,
        state: bool = False,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Make the view what it was right after entry `to`; 0 empties it. Going forward again is a rewind, too.

        With `state`, the state and the goal go back as well, in the same transaction."""
        return self._write((self._pen.rewind(to, state=state, key=key, at=at),), expect, lease)[0][-1]

    def clear(
        self,
        *,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Empty the view. Title, state and log stay."""
        return self._one(self._pen.clear(key=key, at=at), expect, lease)

    def fork(
        self,
        at: int | None = None,
        *,
        key: str | None = None,
        title: str | None = None,
        meta: dict[str, Any] | None = None,
        id: str | None = None,
    ) -> Session:
        """A session that shares everything up to entry `at` (default: the head), without copying it.

        Its numbering goes on at `at + 1`, and neither side sees what the other writes later."""
        check_about({"title": title}, meta)
        about = About(title=title, titled_by=None if title is None else "person", meta=meta or {})
        new = self._store._new_session(id=id, key=key, about=about)
        return Session(self._store, self._backend.fork(self._made(), check_seq_or_none(at, "at"), new))

    def forks(self) -> list[Session]:
        """The sessions that were forked from this one, oldest first."""
        ref = self._found()
        return [] if ref is None else [Session(self._store, fork) for fork in self._backend.forks(ref)]

    # -- sub-agents ------------------------------------------------------------------------------------

    def spawn(
        self,
        agent: str | None = None,
        *,
        key: str | None = None,
        call_id: str | None = None,
        lifecycle: str = LINKED,
        model: str | None = None,
        meta: dict[str, Any] | None = None,
        title: str | None = None,
        system: str | None = None,
        id: str | None = None,
        at: datetime | None = None,
    ) -> Session:
        """A session for a sub-agent. The same key, or the same call, gives the same child, whoever asks first.

        Deleting this session deletes an "ephemeral" or "linked" child along with it, and makes a "detached" one a
        root. An ephemeral one is also gone at the end of a `with` block; what it spent stays here. It works in the
        same folder, with the same tags, and with the same model unless told otherwise."""
        if lifecycle not in LIFECYCLES:
            raise InvalidArgument(f"lifecycle is one of {', '.join(LIFECYCLES)}, not {lifecycle!r}")
        check_about({"agent": agent, "model": model, "title": title, "system": system}, meta)
        titled_by = None if title is None else "person"
        about = About(title=title, titled_by=titled_by, agent=agent, model=model, system=system, meta=meta or {})
        new = self._store._new_session(id=id, key=key, about=about, at=at)
        call = None if call_id is None else check_name(call_id, "call_id")
        birth = Birth(lifecycle, call, self._store._max_depth)
        return Session(self._store, self._backend.spawn(self._made(), new, birth))

    def finish(self, output: str | Sequence[Part], error: bool = False, *, lease: Holding | None = None) -> Entry:
        """Answer the call that spawned this child, in its parent, exactly once; returns the parent's entry.

        The same again returns the first answer, another one raises KeyReused. Raises NotFound if the call does not
        wait for an answer any more, or the parent is gone. `lease` is that of the parent, while somebody holds one."""
        ref = self._made()
        call_id = self._backend.about(ref).call_id
        if call_id is None:
            raise InvalidArgument(f"session {ref.id!r} was not spawned with a call_id=: nobody waits for its output")
        op = self._pen.answer(call_id, output, error, f"threadline:finish:{ref.id}")
        parent = self._backend.parent(ref)
        if parent is None:
            raise NotFound("parent of session", ref.id)
        return Session(self._store, parent)._write([op], None, lease)[0][0]

    @property
    def parent(self) -> Session | None:
        """The session that spawned it; None for a root."""
        ref = self._found()
        parent = None if ref is None else self._backend.parent(ref)
        return None if parent is None else Session(self._store, parent)

    def children(self) -> list[Session]:
        """The sessions that it spawned, oldest first."""
        ref = self._found()
        return [] if ref is None else [Session(self._store, child) for child in self._backend.children(ref)]

    def tree(self) -> Tree:
        """Itself and all below it. Raises NotFound while it is not made."""
        infos = [info_of(record, self._pen.prices) for record in self._backend.below(self._made())]
        trees = {info.id: Tree(info, []) for info in infos}
        for info in infos[1:]:
            if info.parent not in trees:
                raise Damaged(info.id, None, "what is said of it names no parent")
            trees[info.parent].children.append(trees[info.id])
        return trees[infos[0].id]

    # -- usage -----------------------------------------------------------------------------------------

    def record_usage(
        self,
        input: int = 0,
        output: int = 0,
        cache_read: int = 0,
        cache_write: int = 0,
        reasoning: int = 0,
        model: str | None = None,
        cost: float | None = None,
        request_id: str | None = None,
        at: datetime | None = None,
        usage: UsageLike | None = None,
    ) -> None:
        """Count what a request took, without an entry; by names, or as `usage`, which a provider's own dict may be.

        A `request_id` counts once among a session, its forks and sub-agents, and for each count the largest that was
        said of it. The model is that of the session unless said."""
        counts = dict(zip(COUNTS, (input, output, cache_read, cache_write, reasoning), strict=True))
        op = self._pen.spend(counts, model=model, cost=cost, request_id=request_id, at=at, usage=usage)
        self._write((op,), None, None)

    def usage(self, children: bool = False) -> Usage:
        """All that it spent, rewound turns and compactions included; with `children`, all below it, too.

        What it shares with its origin is not counted again. Costs the number of models and days, not of requests."""
        ref = self._found()
        return NOTHING if ref is None else total(self._backend.spent(ref, bool(children)), self._pen.prices)

    def requests(self) -> list[Request]:
        """Every request that was recorded here, and those of deleted children, oldest first."""
        ref = self._found()
        found: list[Request] = []
        after, page = (-(2**62), 0), []
        while ref is not None and (page := self._backend.charges(ref, after, REQUESTS_PAGE)):
            found += (charge.request(self._pen.prices) for _, charge in page)
            after = (page[-1][1].at, page[-1][0])
        return found

    # -- open ends -------------------------------------------------------------------------------------

    @property
    def pending(self) -> list[PendingCall]:
        """The tool calls of the view that have no result, in the order they were made."""
        ref = self._found()
        if ref is None:
            return []
        log, top = self._backend.log(ref), self._backend.state(ref).open
        waiting = list(walk(top, nodes(log)))[::-1]
        calls = {call.seq: _left_open(log, ref, call.seq) for call in waiting}
        return [PendingCall(_pick(calls[call.seq], call), call.seq, call.started > 0) for call in waiting]

    @property
    def unanswered(self) -> Entry | None:
        """The last user entry of the view while no assistant has answered it; calling tools is not answering yet."""
        ref = self._found()
        asked = 0 if ref is None else self._backend.state(ref).asked
        return self.entry(asked) if asked else None

    def start_call(
        self,
        call_id: str,
        *,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Record that a tool began, so that after a crash one knows whose effects are uncertain. Once per call."""
        return self._one(self._pen.start_call(call_id, key=key, at=at), expect, lease)

    def repair(
        self,
        reason: str = "interrupted",
        *,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> list[Entry]:
        """Keep interrupted drafts, and answer every pending call with an error result that says what is known.

        Nothing to mend: nothing written."""
        ref = self._found()
        if ref is None:
            return []
        op = self._pen.repair(reason, key=key, at=at)
        if all(stream.live for stream in self._backend.streams(ref)):
            return self._write([op], expect, lease)[0]

        def mend(streams: Sequence[Stream]) -> Sequence[Op]:
            kept = [kept_message(stream) for stream in streams if stream.text]
            return [self._pen.append(kept, at=at), op]

        wrote = self._settle(ref, Settling(None, mend), expect, lease)
        return [entry for entries in wrote for entry in entries]

    # -- who may write ---------------------------------------------------------------------------------

    def lease(self, holder: str, ttl: float = 30, wait: float = 0) -> Lease:
        """The right to write alone, for `ttl` seconds from now or from the last `renew()`.

        While it lives, entries are written only with `lease=`; all else, the inbox too, stays open. Raises LeaseHeld
        if somebody else still holds it after `wait` seconds. The end of a `with` block gives it back."""
        asked = terms(holder, ttl, wait)
        return take(self._backend, self._ensured(), asked)

    # -- drafts and the inbox --------------------------------------------------------------------------

    def draft(self, role: str = "assistant", key: str | None = None, lease: Holding | None = None) -> DraftWriter:
        """A message that is durable while it streams: at most a quarter of a second, or 4 KiB, behind.

        >>> with session.draft("assistant") as d:
        ...     for token in stream:
        ...         d.write(token)
        ...     d.finish(message, usage=usage)

        It becomes one entry at the end, and is in no view before. After a crash `drafts` has the text."""
        return DraftWriter(self, role, key, lease)

    @property
    def drafts(self) -> list[Draft]:
        """The messages that are streaming, or were until their writer was gone; the oldest first."""
        ref = self._found()
        return [] if ref is None else [Draft(self, ref, stream) for stream in self._backend.streams(ref)]

    def enqueue(
        self,
        message: MessageLike,
        key: str | None = None,
        *,
        at: datetime | None = None,
        format: str | None = None,
    ) -> Queued:
        """Put a message into the inbox, where it waits to be taken. It is on disk when this returns.

        No lease keeps anybody out. With `key` it enters once, ever: the same again, or an append of the same message
        with the same key, does not enter it again; another message raises KeyReused."""
        op = self._pen.append((message,), key, None, at, format)
        target = Target(self._ref) if self._ref is not None else Target(None, self._newly(op.at))
        self._ref, found = self._backend.enqueue(target, letter(op))
        return found.queued()

    def queued(self) -> list[Queued]:
        """The messages in the inbox, in the order in which they will be taken."""
        ref = self._found()
        return [] if ref is None else [waiting.queued() for waiting in self._backend.inbox(ref)]

    def take(
        self, *, expect: int | None = None, at: datetime | None = None, lease: Holding | None = None
    ) -> Entry | None:
        """Move the first message of the inbox into the log, in one transaction; None if the inbox is empty.

        The entry has the time when the message came."""
        ref = self._found()
        if ref is None:
            return None
        moment = self._pen.now() if at is None else time_of(at)
        expected = check_seq_or_none(expect, "expect")
        written = self._backend.take(ref, moment, expected, self._token(lease))
        return written.entries[0][0] if written.entries[0] else None

    # -- state and goal --------------------------------------------------------------------------------

    @property
    def state(self) -> Mapping[str, Any]:
        """Names and values that are kept with the session, as they are now; to be read only."""
        ref = self._found()
        return MappingProxyType({} if ref is None else state_at(self._backend.log(ref), self.head))

    def state_at(self, seq: int) -> Mapping[str, Any]:
        """The state right after entry `seq`. Costs the same however long the log is."""
        ref, head = self._found(), self.head
        if not 0 <= check_seq(seq, "seq") <= head:
            raise NotFound("entry", seq, f"the log ends at {head}")
        return MappingProxyType({} if ref is None else state_at(self._backend.log(ref), seq))

    def set_state(
        self,
        values: Mapping[str, Any],
        remove: Iterable[str] = (),
        *,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Set the names in `values`, and take away those in `remove`. Every other name stays as it is."""
        return self._one(self._pen.set_state(values, remove, key=key, at=at), expect, lease)

    @property
    def goal(self) -> Goal | None:
        """What the session works towards, or worked towards last; None if there never was anything."""
        ref = self._found()
        return None if ref is None else goal_at(self._backend.log(ref), self.head)

    def set_goal(
        self,
        objective: str,
        summary: str | None = None,
        *,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Set the goal. There is one at a time: it takes the place of one that is still active."""
        return self._one(self._pen.set_goal(objective, summary, key=key, at=at), expect, lease)

    def complete_goal(
        self,
        recap: str | None = None,
        *,
        key: str | None = None,
        expect: int | None = None,
        at: datetime | None = None,
        lease: Holding | None = None,
    ) -> Entry:
        """Complete the active goal; `recap` says how it went. Raises NotFound if none is active."""
        return self._one(self._pen.complete_goal(recap, key=key, at=at), expect, lease)

    # -- the raw log -----------------------------------------------------------------------------------

    def entries(
        self,
        after: int = 0,
        before: int | None = None,
        kinds: Iterable[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Entries:
        """The raw log between two seqs, both exclusive; a page at a time, holding no transaction in between.

        A damaged entry raises Damaged in its turn, and `next()` goes on after it."""
        for name, value in (("after", after), ("before", before), ("limit", limit)):
            check_seq_or_none(value, name)
        if limit is not None and limit < 0:
            raise InvalidArgument(f"limit is a number of entries from 0 on, or None for all, not {limit!r}")
        if not isinstance(kinds, Iterable | None):
            raise InvalidArgument(f"kinds is a list of kinds of entries, or one, not {kinds!r}")
        ref, head = self._found(), self.head
        first, last = max(after, 0) + 1, head if before is None else min(before - 1, head)
        if ref is None:
            return Entries.none()
        wanted = None if kinds is None else frozenset((kinds,) if isinstance(kinds, str) else kinds)
        return Entries(self._backend.log(ref), ref.id, first, last, kinds=wanted, limit=limit, reverse=reverse)

    def follow(self, after: int = 0, timeout: float | None = None) -> Follow:
        """The entries after `after`, and then every new one as it is written, by whatever process; none twice.

        Ends after `timeout` seconds without an entry, when the store is closed, when the session is deleted."""
        check_seq(after, "after")
        self._store._hub.must_be_open()  # later it ends a follower; to begin with, it is a mistake
        return Follow(self, max(after, 0), timeout)

    def entry(self, seq: int | None = None, *, key: str | None = None) -> Entry:
        """One entry, by its seq or by the idempotency key of the call that wrote it (the first one it wrote)."""
        if (seq is None) == (key is None):
            raise InvalidArgument("give a seq or a key=, and not both")
        if key is not None:
            found = self._keyed(key)
            if found is None:
                raise NotFound("entry with the key", key)
            return found
        ref, head = self._made(), self.head
        if not 1 <= check_seq(seq, "seq") <= head:
            raise NotFound(
                "entry", seq, f"the log of {ref.id!r} has entries 1 to {head}" if head else "the log is empty"
            )
        return self._backend.log(ref).row(int(seq or 0)).entry(ref.id)

    def read(self, seq: int, part: int = 0, start: int = 0, length: int | None = None) -> str | bytes:
        """A slice of one part of an entry's message: characters of its text, or bytes of its media."""
        message = self.entry(seq).message
        parts = () if message is None else message.parts
        if not 0 <= check_seq(part, "part") < len(parts):
            raise NotFound("part", part, f"entry {seq} has {len(parts)}")
        for name, value in (("start", start), ("length", length)):
            if value is not None and check_seq(value, name) < 0:
                raise InvalidArgument(f"{name} is a number from 0 on, not {value}")
        whole = content_of(parts[part])
        return whole[start : None if length is None else start + length]

    # -- what is said of it ----------------------------------------------------------------------------

    def redact(self, seq: int, reason: str) -> Receipt:
        """Take the content of one entry away, for good: no byte of it is left, or the receipt says which.

        A tombstone keeps its place, its digest and the chain; `Entry.redacted` is the reason. It goes for all who share
        the entry, and from what was taken from it: title and preview, the state, an idempotency key of its own. Later
        texts that tell of it, such as summaries, are entries of their own."""
        why = check_name(reason, "reason")
        return self._backend.redact(self._made(), check_seq(seq, "seq"), why, self._pen.now())

    def rename(self, title: str, auto: bool = False, *, at: datetime | None = None) -> None:
        """Give it a title. With `auto` (a machine's title) a person's is left alone."""
        if not isinstance(title, str):
            raise InvalidArgument(f"a title is text, not {title!r}")
        self._change(at, title=title, titled_by="machine" if auto else "person")

    def tag(self, *tags: str) -> None:
        self._change(tag=tuple(check_name(tag, "tag") for tag in tags))

    def untag(self, *tags: str) -> None:
        self._change(untag=tags)

    def update(
        self,
        *,
        agent: str | UnsetType | None = UNSET,
        model: str | UnsetType | None = UNSET,
        provider: str | UnsetType | None = UNSET,
        cwd: str | os.PathLike[str] | UnsetType | None = UNSET,
        system: str | UnsetType | None = UNSET,
        meta: dict[str, Any] | None = None,
        lease: Holding | None = None,
        at: datetime | None = None,
    ) -> None:
        """Change what is given. `meta` is merged (None removes a name from it); a new `system` is also an entry."""
        given: dict[str, Any] = {"agent": agent, "model": model, "provider": provider, "cwd": cwd, "system": system}
        fields = check_about({name: value for name, value in given.items() if value is not UNSET}, meta)
        change = Change(at=self._pen.now() if at is None else time_of(at), fields=fields, meta=meta or {})
        ops = [self._pen.say("system", {"system": system}, at=at)] if system is not UNSET else []
        self._backend.write(Target(self._made()), ops, change=change, lease=self._token(lease))

    # -- how it gets there -----------------------------------------------------------------------------

    def _one(self, op: Op, expect: int | None, lease: Holding | None) -> Entry:
        return self._write((op,), expect, lease)[0][0]

    def _write(self, ops: Sequence[Op], expect: int | None, lease: Holding | None) -> list[list[Entry]]:
        """All writes go through here: one transaction, which makes the session if it is not there yet."""
        if expect is not None:
            check_seq(expect, "expect")
        token = None if lease is None else self._token(lease)
        for op in ops:
            if op.spent is not None:
                ops = self._charged(ops)
                break
        if self._ref is not None:
            return self._backend.write(Target(self._ref), ops, expect, None, token).entries
        written = self._backend.write(Target(None, self._newly(ops[0].at)), ops, expect, None, token)
        self._ref = written.ref
        return written.entries

    def _token(self, lease: Holding | None) -> int | None:
        """What tells a lease from an older one. Raises InvalidArgument for that of another session."""
        if lease is None:
            return None
        if not isinstance(lease, Holding) or lease.session != self._made().id:
            raise InvalidArgument(f"not a lease on this session: {lease!r}; take it with session.lease(holder)")
        return lease.token

    def _begin_stream(self, new: NewStream, lease: Holding | None) -> Ref:
        token = self._token(lease)
        target = Target(self._ref) if self._ref is not None else Target(None, self._newly(new.at))
        self._ref = self._backend.begin_stream(target, new, token)
        return self._ref

    def _settle(
        self, ref: Ref, settling: Settling, expect: int | None = None, lease: Holding | None = None
    ) -> list[list[Entry]]:
        expected = check_seq_or_none(expect, "expect")
        return self._backend.settle(ref, settling, expected, self._token(lease)).entries

    def _newly(self, at: int) -> NewSession:
        assert self._new is not None
        return self._new if self._new.at else replace(self._new, at=at)

    def _ensured(self) -> Ref:
        """The session in the store, made now if it is not there yet."""
        ref = self._found()
        if ref is None:
            ref = self._ref = self._backend.write(Target(None, self._newly(self._pen.now())), ()).ref
        return ref

    def _charged(self, ops: Sequence[Op]) -> list[Op]:
        """The same ops, with agent, model and price of what they spent, as they are now."""
        ref = self._found()
        about = self._backend.about(ref) if ref is not None else self._new.about if self._new else About()
        known = partial(charged, agent=about.agent, model=about.model, prices=self._pen.prices)
        return [op if op.spent is None else _spent_so(op, known(op.spent)) for op in ops]

    def _change(self, at: datetime | None = None, **what: Any) -> None:
        self._backend.change(self._made(), Change(at=self._pen.now() if at is None else time_of(at), **what))

    def _found(self) -> Ref | None:
        """The session in the store, looked up until it is there: another process may have made it."""
        if self._ref is None and self._new is not None:
            self._ref = self._backend.find(self._store.namespace, key=self._new.key)
        return self._ref

    def _made(self) -> Ref:
        ref = self._found()
        if ref is None:
            raise NotFound("session", self.key, "it is made at its first append, or at once by store.new(key=…)")
        return ref

    def _keyed(self, key: str) -> Entry | None:
        ref = self._found()
        found = range(0) if ref is None else self._backend.keyed(ref, key_bytes(key) or b"")
        return self.entry(found[0]) if found else None

    def _source(self, wish: Wish, at: int | None) -> Source:
        """What a context is made of. The front of a long view is read once: it stays while the view has that shape."""
        ref = self._found()
        if ref is None:
            _moment(at, 0)
            return Source(Tail((), whole=True), system=None if self._new is None else self._new.about.system)
        record, log = self._backend.record(ref, spent=False), self._backend.log(ref)
        state = record.state if at is None else fold_at(log, _moment(at, record.state.head), b"")
        view, known = self._front
        source = read_source(
            log,
            state,
            wish.limits(self._pen.estimates),
            system=record.about.system,
            front=known if view == state.view else None,
        )
        if state.messages > FRONT:
            self._front = (state.view, source.front)
        return source

    def _compacted(self, key: str) -> Entry | None:
        """The compaction that a call of that key made. A function has no content to compare: its kind must do."""
        done = self._keyed(key)
        if done is not None and done.kind != "compaction":
            raise KeyReused(key, done.seq)
        return done

    def _compact_planned(
        self,
        summary: str,
        plan: Plan,
        planned_at: int,
        *,
        usage: UsageLike | None,
        key: str | None,
        expect: int | None,
        at: datetime | None,
        lease: Holding | None,
    ) -> Entry:
        """Fold exactly the run that was summarised."""
        return self._one(
            self._pen.compact(summary, plan, usage=usage, key=key, at=at, planned_at=planned_at), expect, lease
        )

    def _planned(
        self, plan: Plan | None, *, since: int | None, upto: int | None, keep_turns: int | None
    ) -> tuple[int, Plan]:
        """The head as it is now, and the run to fold: that of the plan, or the one that the bounds give."""
        check_bounds(upto, keep_turns, plan, since)
        ref, head = self._found(), self.head
        if plan is not None:
            return head, plan
        log = None if ref is None else self._backend.log(ref)
        shown = [] if log is None else seen(log, spans_at(log, head))
        return head, plan_run(shown, since=since, upto=upto, keep_turns=keep_turns)


def _spent_so(op: Any, spent: Spending) -> Op:
    changed: Op = replace(op, spent=spent)
    return changed


def _moment(at: int | None, head: int) -> int:
    """The entry to look back to: `at`, or the head."""
    if at is None:
        return head
    if not 0 <= check_seq(at, "at") <= head:
        raise NotFound("entry", at, f"the log ends at {head}")
    return at


def _pick(calls: list[ToolCall], open_call: OpenCall) -> ToolCall:
    """Take out the first call of that id: a message may make two of one id, and the later is answered first."""
    for at, call in enumerate(calls):
        if call.id == open_call.id:
            return calls.pop(at)
    raise Damaged(None, open_call.seq, "the call that is said to be open is not in it")


def _left_open(log: Log, ref: Ref, seq: int) -> list[ToolCall]:
    """The calls that a message leaves open: it may answer some itself."""
    message = log.row(seq).entry(ref.id).message
    left: list[ToolCall] = []
    for part in () if message is None else calls_and_results(message):
        if isinstance(part, ToolCall):
            left.append(part)
        elif own := [i for i, call in enumerate(left) if call.id == part.call_id]:
            del left[own[-1]]
    return left
