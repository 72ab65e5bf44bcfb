"""Several writes to one session that happen together, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from types import TracebackType
from typing import Any, Literal

from threadline.core.compaction import Plan
from threadline.core.entries import Entry
from threadline.core.ops import Append, Op
from threadline.core.usage import COUNTS, UsageLike
from threadline.errors import InvalidArgument
from threadline.messages import Message
from threadline.pen import MessageLike, Pen


class Batch:
    """Writes that happen together, in order, when the block ends. `entries` then holds what they wrote."""

    def __init__(self, pen: Pen, write: Callable[[Sequence[Op]], list[list[Entry]]]) -> None:
        self._pen = pen
        self._write = write
        self._ops: list[Op] = []
        self._ended = False
        self.entries: list[Entry] = []

    def __repr__(self) -> str:
        return f"<Batch of {len(self._ops)} writes{', ended' if self._ended else ''}>"

    def append(
        self,
        message: MessageLike,
        *,
        key: str | None = None,
        usage: UsageLike | None = None,
        at: datetime | None = None,
        format: str | None = None,
    ) -> None:
        self._add(self._pen.append((message,), key, usage, at, format))

    def extend(
        self,
        messages: Iterable[MessageLike],
        *,
        key: str | None = None,
        usage: UsageLike | None = None,
        at: datetime | None = None,
        format: str | None = None,
    ) -> None:
        op = self._pen.append(several(messages), key, usage, at, format)
        if op.entries:
            self._add(op)

    def note(
        self, data: dict[str, Any], kind: str = "note", *, key: str | None = None, at: datetime | None = None
    ) -> None:
        self._add(self._pen.note(data, kind, key=key, at=at))

    def compact(
        self,
        summary: str,
        plan: Plan | None = None,
        *,
        upto: int | None = None,
        keep_turns: int | None = None,
        since: int | None = None,
        usage: UsageLike | None = None,
        key: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """As Session.compact, with text: a function would have to run inside the transaction."""
        op = self._pen.compact(
            summary, plan, upto=upto, keep_turns=keep_turns, since=since, usage=usage, key=key, at=at
        )
        self._add(op)

    def replace(
        self,
        messages: Iterable[MessageLike],
        *,
        since: int,
        upto: int,
        key: str | None = None,
        at: datetime | None = None,
    ) -> None:
        self._add(self._pen.replace(several(messages), since=since, upto=upto, key=key, at=at))

    def expand(self, seq: int, *, key: str | None = None, at: datetime | None = None) -> None:
        self._add(self._pen.expand(seq, key=key, at=at))

    def rewind(self, to: int, *, state: bool = False, key: str | None = None, at: datetime | None = None) -> None:
        self._add(self._pen.rewind(to, state=state, key=key, at=at))

    def clear(self, *, key: str | None = None, at: datetime | None = None) -> None:
        self._add(self._pen.clear(key=key, at=at))

    def start_call(self, call_id: str, *, key: str | None = None, at: datetime | None = None) -> None:
        self._add(self._pen.start_call(call_id, key=key, at=at))

    def repair(self, reason: str = "interrupted", *, key: str | None = None, at: datetime | None = None) -> None:
        self._add(self._pen.repair(reason, key=key, at=at))

    def set_state(
        self,
        values: Mapping[str, Any],
        remove: Iterable[str] = (),
        *,
        key: str | None = None,
        at: datetime | None = None,
    ) -> None:
        self._add(self._pen.set_state(values, remove, key=key, at=at))

    def set_goal(
        self, objective: str, summary: str | None = None, *, key: str | None = None, at: datetime | None = None
    ) -> None:
        self._add(self._pen.set_goal(objective, summary, key=key, at=at))

    def complete_goal(self, recap: str | None = None, *, key: str | None = None, at: datetime | None = None) -> None:
        self._add(self._pen.complete_goal(recap, key=key, at=at))

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
        counts = dict(zip(COUNTS, (input, output, cache_read, cache_write, reasoning), strict=True))
        self._add(self._pen.spend(counts, model=model, cost=cost, request_id=request_id, at=at, usage=usage))

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self._end(kind is None)
        return False

    def _end(self, well: bool) -> None:
        """Nothing can be added from here on; all of it is done now if the block ended well."""
        self._ended = True
        if well:
            self.commit()

    def commit(self) -> None:
        """Do all of it now. A `with` block does so at its end."""
        ops, self._ops = self._ops, []
        if ops:
            self.entries = [entry for entries in self._write(_joined(ops)) for entry in entries]

    def _add(self, op: Op) -> None:
        if self._ended:  # it would be collected, and lost
            raise InvalidArgument("this batch has ended with its block: session.batch() begins another one")
        self._ops.append(op)


def _joined(ops: list[Op]) -> list[Op]:
    """The ops with runs of bare appends as one each, which is quicker; not the first: its time may be the session's."""
    joined = ops[:1]
    for bare, run in groupby(ops[1:], _is_bare):
        some = [*run]
        joined += [_all_of(some)] if bare and len(some) > 1 else some
    return joined


def _is_bare(op: Op) -> bool:
    return type(op) is Append and op.key is None and op.spent is None


def _all_of(appends: Sequence[Op]) -> Append:
    entries = tuple(draft for op in appends if isinstance(op, Append) for draft in op.entries)
    return Append(at=max(op.at for op in appends), entries=entries)


def several(messages: Iterable[MessageLike]) -> Iterable[MessageLike]:
    """One message is not a list of messages, though a string and a dict can be walked through like one."""
    if isinstance(messages, str | dict | Message) or not isinstance(messages, Iterable):
        raise InvalidArgument("this takes a list of messages: put a single one into a list, or append() it")
    return messages
