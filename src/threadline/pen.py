"""The pen: what a caller asks for, checked and made into an op, before any transaction begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from time import time_ns
from typing import Any, TypeAlias

from threadline.core import codec, tokens
from threadline.core.calls import OpenCall
from threadline.core.compaction import Plan, check_bounds
from threadline.core.digest import identity
from threadline.core.entries import STRUCTURAL, Draft, data_draft, message_draft, micros, stored
from threadline.core.goals import begun
from threadline.core.legal import missing_result
from threadline.core.models import Model
from threadline.core.ops import (
    Answer,
    Append,
    Clear,
    Compact,
    CompleteGoal,
    Expand,
    Repair,
    Replace,
    Rewind,
    SetState,
    Spend,
    StartCall,
)
from threadline.core.spending import Prices, PriceTable, spending, told
from threadline.core.usage import UsageLike
from threadline.errors import InvalidArgument, InvalidMessage
from threadline.messages import Message, Part, Text

MessageLike: TypeAlias = Message | dict[str, Any] | str | Model
KEY_CHARS = 512
OUR_KINDS = STRUCTURAL | {"message", "call_started", "state", "goal", "system"}


class Pen:
    def __init__(
        self,
        clock: Callable[[], datetime] | None = None,
        count_tokens: Callable[[Message], int] | None = None,
        prices: PriceTable | None = None,
    ) -> None:
        for name, given in (("clock", clock), ("count_tokens", count_tokens)):
            if given is not None and not callable(given):
                raise InvalidArgument(f"{name} is a function, not {given!r}")
        self._clock = clock
        self._count = count_tokens or tokens.estimate
        self.prices = Prices(prices)

    @property
    def estimates(self) -> bool:
        """Whether tokens are estimated, not counted by the caller's own function."""
        return self._count is tokens.estimate

    def now(self) -> int:
        return time_ns() // 1_000 if self._clock is None else time_of(self._clock())

    def append(
        self,
        messages: Iterable[MessageLike],
        key: str | None = None,
        usage: UsageLike | None = None,
        at: datetime | None = None,
        format: str | None = None,
    ) -> Append:
        moment = self.now() if at is None else time_of(at)
        named = None if key is None else key_bytes(key)
        spent = None if usage is None else spending(usage, moment)
        drafts = self._drafts(messages, moment, named, usage, format)
        same = b"" if named is None else identity(b"append", *(codec.canonical(draft.message) for draft in drafts))
        return Append(at=moment, key=named, identity=same, entries=drafts, spent=spent)

    def note(
        self, data: dict[str, Any], kind: str = "note", *, key: str | None = None, at: datetime | None = None
    ) -> Append:
        if kind in OUR_KINDS:
            raise InvalidArgument(f"entries of kind {kind!r} are written by threadline itself: choose another name")
        if not check_name(kind, "kind", 64).isprintable():
            raise InvalidArgument(f"a kind is a printable name, not {kind!r}")
        return self.say(kind, data, key=key, at=at)

    def say(self, kind: str, data: dict[str, Any], *, key: str | None = None, at: datetime | None = None) -> Append:
        """An entry that the model never sees."""
        codec.check_object(data, "data")
        named, moment = key_bytes(key), self.now() if at is None else time_of(at)
        same = b"" if named is None else identity(b"note", kind.encode(), codec.canonical(data))
        draft = data_draft(kind, data, at=moment, key=named)
        return Append(at=moment, key=named, identity=same, entries=(draft,))

    def rewind(self, to: int, *, state: bool = False, key: str | None = None, at: datetime | None = None) -> Rewind:
        told = (to, True) if state else (to,)
        return Rewind(to=check_seq(to, "to"), state=bool(state), **self._call("rewind", key, at, *told))

    def set_state(
        self,
        values: Mapping[str, Any],
        remove: Iterable[str] = (),
        *,
        key: str | None = None,
        at: datetime | None = None,
    ) -> SetState:
        if not isinstance(values, Mapping):
            raise InvalidArgument(f"a state is a mapping of names to values, not {type(values).__name__}")
        codec.check_object(given := dict(values), "values")
        if isinstance(remove, str):
            raise InvalidArgument("remove is a list of names, not one string")
        gone = tuple(dict.fromkeys(remove))
        for name in gone:
            if not isinstance(name, str) or name in given:
                raise InvalidArgument(f"remove lists names that are not set in the same call, not {name!r}")
        return SetState(values=given, remove=gone, **self._call("set_state", key, at, given, sorted(gone)))

    def set_goal(
        self, objective: str, summary: str | None = None, *, key: str | None = None, at: datetime | None = None
    ) -> Append:
        if not isinstance(objective, str) or not objective.strip():
            raise InvalidArgument(f"an objective is a text that is not empty, not {objective!r}")
        call = self._call("set_goal", key, at, objective, _text_or_none(summary, "summary"))
        draft = data_draft("goal", begun(objective, summary, call["at"]), at=call["at"], key=call["key"])
        return Append(entries=(draft,), **call)

    def complete_goal(
        self, recap: str | None = None, *, key: str | None = None, at: datetime | None = None
    ) -> CompleteGoal:
        return CompleteGoal(recap=recap, **self._call("complete_goal", key, at, _text_or_none(recap, "recap")))

    def clear(self, *, key: str | None = None, at: datetime | None = None) -> Clear:
        return Clear(**self._call("clear", key, at))

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
        planned_at: int | None = None,
    ) -> Compact:
        if not isinstance(summary, str):
            raise InvalidArgument(f"a summary is text, not {type(summary).__name__}")
        check_bounds(upto, keep_turns, plan, since)
        run = (plan.since, plan.upto) if plan else (since, upto, keep_turns)
        call = self._call("compact", key, at, summary, *run)
        return Compact(
            summary=summary,
            tokens=self.tokens(Message("user", (Text(summary),))),
            since=since,
            upto=upto,
            keep_turns=keep_turns,
            plan=plan,
            planned_at=planned_at,
            usage=None if usage is None else _told(usage),
            spent=None if usage is None else spending(usage, call["at"]),
            **call,
        )

    def replace(
        self,
        messages: Iterable[MessageLike],
        *,
        since: int,
        upto: int,
        key: str | None = None,
        at: datetime | None = None,
    ) -> Replace:
        call = self._call("replace", key, at, since, upto)
        drafts = self._drafts(messages, call["at"], call["key"])
        call["identity"] = identity(call["identity"], *(codec.canonical(draft.message) for draft in drafts))
        return Replace(entries=drafts, since=check_seq(since, "since"), upto=check_seq(upto, "upto"), **call)

    def expand(self, seq: int, *, key: str | None = None, at: datetime | None = None) -> Expand:
        return Expand(of=check_seq(seq, "seq"), **self._call("expand", key, at, seq))

    def start_call(self, call_id: str, *, key: str | None = None, at: datetime | None = None) -> StartCall:
        return StartCall(call_id=call_id, **self._call("start_call", key, at, call_id))

    def repair(self, reason: str = "interrupted", *, key: str | None = None, at: datetime | None = None) -> Repair:
        if not isinstance(reason, str):
            raise InvalidArgument(f"a reason is text, not {reason!r}")
        call = self._call("repair", key, at, reason)

        def answer(open_call: OpenCall) -> Draft:
            message = missing_result(open_call.id, reason, open_call.started > 0)
            return message_draft(message, call["at"], self.tokens(message), call["key"])

        return Repair(answer=answer, **call)

    def answer(self, call_id: str, output: str | Sequence[Part], error: bool, key: str) -> Answer:
        """The result of a call, once for that key, with whatever content."""
        if not isinstance(output, str | Sequence) or type(error) is not bool:
            raise InvalidArgument(f"finish takes text or parts, and error=True or False, not {output!r} and {error!r}")
        at, named = self.now(), stored(key)
        message = Message.tool(call_id, output, error)
        codec.check_message(message, "output")
        draft = message_draft(message, at, self.tokens(message), named)
        return Answer(
            at=at, key=named, identity=identity(b"answer", codec.canonical(message)), call_id=call_id, result=draft
        )

    def spend(
        self,
        counts: dict[str, int],
        *,
        model: str | None,
        cost: float | None,
        request_id: str | None,
        at: datetime | None,
        usage: UsageLike | None,
    ) -> Spend:
        if usage is not None and (any(counts.values()) or cost is not None):
            raise InvalidArgument("give usage=, or the counts and the cost by their names, and not both")
        moment = self.now() if at is None else time_of(at)
        given: UsageLike = {**counts, "cost": cost} if usage is None else usage
        named = {name: value for name, value in (("model", model), ("request_id", request_id)) if value is not None}
        return Spend(at=moment, spent=spending({**_told(given), **named}, moment))

    # -- what they have in common ----------------------------------------------------------------------

    def _drafts(
        self,
        messages: Iterable[MessageLike],
        at: int,
        key: bytes | None,
        usage: UsageLike | None = None,
        format: str | None = None,
    ) -> tuple[Draft, ...]:
        drafts = []
        single = type(messages) is tuple and len(messages) == 1
        for i, message in enumerate(messages):
            place = "message" if single else f"messages[{i}]"
            if type(message) is not Message:
                message = as_message(message, format, place)
            codec.check_message(message, place)
            spent = None if usage is None else _told(usage)
            drafts.append(message_draft(message, at, self.tokens(message), key, spent))
            usage = None  # the usage of a call is counted once, on its first entry
        return tuple(drafts)

    def tokens(self, message: Message) -> int:
        """How many tokens a message takes, by the caller's count or by our estimate."""
        tokens = self._count(message)
        if type(tokens) is not int or tokens < 0:
            raise InvalidArgument(f"count_tokens gives a number of tokens from 0 on, not {tokens!r}")
        return tokens

    def _call(self, name: str, key: str | None, at: datetime | None, *arguments: Any) -> dict[str, Any]:
        named = key_bytes(key)
        same = b"" if named is None else identity(name.encode(), codec.canonical(arguments))
        return {"at": self.now() if at is None else time_of(at), "key": named, "identity": same}


def as_message(given: Any, format: str | None = None, place: str = "message") -> Message:
    """A message from what callers have: a Message, a dict or an SDK's object in a known format, or a user's text."""
    if format is None:
        if isinstance(given, str):
            return Message("user", (Text(given),))
        if isinstance(given, Message):
            return given
    from threadline import formats  # large, and most callers never need it

    if isinstance(given, str | Message):
        formats.loading.check_format(format)
        return as_message(given)
    return formats.read_one(given, format, place)


def time_of(moment: Any) -> int:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidArgument(f"a time is an aware datetime, such as datetime.now(UTC), not {moment!r}")
    return micros(moment.astimezone(UTC))


def key_bytes(key: str | None) -> bytes | None:
    return None if key is None else stored(check_name(key, "key"))


def check_name(name: Any, what: str, chars: int = KEY_CHARS) -> str:
    """A name is data: any non-empty string of bounded length."""
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"{_a(what)} is a non-empty string, not {name!r}")
    if len(name) > chars:
        raise InvalidArgument(f"{_a(what)} has up to {chars} characters, this one {len(name)}")
    return name


def is_number(value: Any) -> bool:
    """A number that can be reckoned with; for Python True is one as well."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeio" else f"a {what}"


def check_seq(seq: Any, what: str) -> int:
    if not isinstance(seq, int) or isinstance(seq, bool):
        raise InvalidArgument(f"{what} is the number of an entry, not {seq!r}")
    return seq


def check_seq_or_none(seq: Any, what: str) -> int | None:
    return None if seq is None else check_seq(seq, what)


def _text_or_none(text: Any, what: str) -> str | None:
    if not isinstance(text, str | None):
        raise InvalidArgument(f"a {what} is text or None, not {text!r}")
    return text


def _told(usage: UsageLike) -> dict[str, Any]:
    """A usage as its entry keeps it."""
    kept = told(usage)
    try:
        codec.check_object(kept, "usage")
    except InvalidMessage as error:
        raise InvalidArgument(str(error)) from error
    return kept
