"""Legality: what any provider asks of a conversation, made true of any list of messages.

Every call is answered exactly once, right behind the turn that made it, nothing answers a call that is not there,
nobody is silent, and the user speaks first. What is legal already comes out as it went in, the very same values; what
was mended is said in words. Nothing that a user said is ever left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from threadline.core import codec
from threadline.core.gists import (
    NOT_OTHERS,
    ROLES,
    Gist,
    asks,
    gist_of,
    is_blank,
    is_clean,
    is_clean_result,
    is_silent,
)
from threadline.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult

OPENING = "(The assistant spoke first.)"


class Said(NamedTuple):
    """A message and the entry that it came from; 0 for what we say ourselves."""

    seq: int
    message: Message


said_of: Callable[[tuple[int, Message | None]], Said] = partial(tuple.__new__, Said)  # as Said._make, in C


class Mended(NamedTuple):
    said: list[Said]
    repairs: list[str]


def mend(said: Sequence[Said], started: Collection[tuple[int, str]] = ()) -> Mended:
    """A legal conversation of what was said, and what had to be mended.

    `started` are the open calls, as entry and id, whose tools are known to have begun."""
    repairs: list[str] = []
    clean = _cleaned(said, repairs)
    if not in_order(gist_of(message) for _, message in clean):
        clean = _Rounds(clean, started, repairs).in_order()
    return Mended(opened(clean, repairs), repairs)


def is_legal(gists: Sequence[Gist | None]) -> bool:
    """Whether messages of these gists are sent as they are, so that nobody need look at them: `mend` would leave them
    alone, and so would whoever tidies up what an assistant copied."""
    whole = [gist for gist in gists if gist is not None and gist.sound]
    return len(whole) == len(gists) and in_order(whole) and (not whole or whole[0].role == "user")


def missing_result(call_id: str, reason: str, started: bool) -> Message:
    """The answer to a call that nobody answered: an error that says what is known."""
    known = "it had started, so its effects are uncertain" if started else "no start was recorded"
    return Message.tool(call_id, f"Error: {reason} ({known}).", error=True, meta={"repair": reason})


# -- each message by itself ----------------------------------------------------------------------------


def _cleaned(said: Sequence[Said], repairs: list[str]) -> list[Said]:
    """Each message with a known role and only parts that its role may say; silent ones left out."""
    out: list[Said] = []
    for each in said:
        if is_clean(each.message):
            out.append(each)
        else:
            out += _clean(each, repairs)
    return out


def _clean(each: Said, repairs: list[str]) -> Iterator[Said]:
    """The message as far as its role may say it; an assistant's results follow as a tool's."""
    seq, message = each
    parts = tuple(_plain(part) for part in message.parts if not is_blank(part))
    assistant = message.role == "assistant"
    if not assistant and any(type(part) in NOT_OTHERS for part in parts):
        repairs.append(f"entry {seq}: only an assistant thinks and calls; what the {message.role} did is told as text")
        parts = tuple(told for part in parts if not is_silent(told := _told(part)))
    own = tuple(part for part in parts if not (assistant and type(part) is ToolResult))
    if own:
        yield Said(seq, replace(message, role=_role(message.role, own), parts=own))
    elif not parts:
        repairs.append(f"entry {seq}: an empty message left out")
    if len(own) < len(parts):
        repairs.append(f"entry {seq}: results inside an assistant message moved behind it")
        yield Said(seq, Message("tool", tuple(part for part in parts if type(part) is ToolResult)))


def _plain(part: Part) -> Part:
    """A result without the blank texts in it."""
    if type(part) is not ToolResult or is_clean_result(part):
        return part
    return replace(part, output=tuple(inner for inner in part.output if not is_blank(inner)))  # type: ignore[arg-type]


def _told(part: Part) -> Part:
    """A thought or a call as text."""
    if type(part) is Reasoning:
        return Text(part.text)
    if type(part) is not ToolCall:
        return part
    args = part.args if isinstance(part.args, str) else codec.encode(part.args).decode("utf-8", "surrogatepass")
    return Text(f"[a call of {part.name}: {args}]")


def _role(role: str, parts: tuple[Part, ...]) -> str:
    """Its own role where providers know it; who only carries results is a tool, everyone else a user."""
    if role in ROLES and (role != "tool" or all(type(part) is ToolResult for part in parts)):
        return role
    return "user"


# -- calls and their results ---------------------------------------------------------------------------


def in_order(gists: Iterable[Gist]) -> bool:
    """Whether every call is answered once, right behind its turn, and no id is open twice."""
    waiting: set[str] = set()
    for gist in gists:
        if gist.calls:
            if waiting or gist.results or gist.role != "assistant":
                return False
            waiting = set(gist.calls)
            if len(waiting) < len(gist.calls):
                return False
        elif gist.results:
            for id in gist.results:
                if id not in waiting:
                    return False
                waiting.remove(id)
            if waiting and gist.besides:  # somebody speaks before all results are in
                return False
        elif waiting:
            return False
    return not waiting


class _Call:
    """One call as it is sent, and the result that answers it."""

    __slots__ = ("answer", "call", "made_up", "place", "seq")

    def __init__(self, seq: int, call: ToolCall) -> None:
        self.seq = seq
        self.call = call
        self.place = (0, 0)  # of its result: which message, which part of it
        self.answer: ToolResult | None = None
        self.made_up = False  # by a repair, so that a real result still wins

    def take(self, place: tuple[int, int], result: ToolResult, made_up: bool) -> None:
        renamed = result if result.call_id == self.call.id else replace(result, call_id=self.call.id)
        self.place, self.answer, self.made_up = place, renamed, made_up


class _Rounds:
    """A conversation whose calls and results do not match, put in order."""

    def __init__(self, said: Sequence[Said], started: Collection[tuple[int, str]], repairs: list[str]) -> None:
        self._said = said
        self._started = started
        self._repairs = repairs
        self._ids = {call.id for _, message in said for call in message.calls}
        self._calls: dict[int, list[_Call | None]] = {}  # by the message that makes them; None for what is not sent
        self._open: dict[str, list[_Call]] = defaultdict(list)
        self._known: dict[str, _Call] = {}  # the latest call of each id
        self._early: dict[str, list[tuple[tuple[int, int], ToolResult]]] = defaultdict(list)
        self._match()

    # Who answers whom: the latest open call of an id gets the next result, as in the log's own count of open calls.

    def _match(self) -> None:
        turn: dict[str, ToolCall] = {}  # the calls of the assistant's turn so far
        for at, (seq, message) in enumerate(self._said):
            if message.role == "assistant":
                self._calls[at] = [self._meet(seq, call, turn) for call in message.calls]
                continue
            turn = {}
            if asks(message):
                self._forget_early()
            for nth, part in enumerate(message.parts):
                if type(part) is ToolResult:
                    self._take((at, nth), part, "repair" in message.meta)
        self._forget_early()

    def _forget_early(self) -> None:
        """Results that came before any call of theirs do not wait beyond their turn: what a turn is made of does not
        depend on the turns before it, which a window may leave out."""
        for results in self._early.values():
            for place, result in results:
                self._say(place, f"the result for {result.call_id!r} answers no call; left out")
        self._early.clear()

    def _meet(self, seq: int, call: ToolCall, turn: dict[str, ToolCall]) -> _Call | None:
        id, before = call.id, turn.get(call.id)
        if before is not None:
            if (before.name, before.args) == (call.name, call.args):
                self._repairs.append(f"entry {seq}: the call {id!r} stands there twice; sent once")
                return None
            call = replace(call, id=self._fresh(id))
            self._repairs.append(f"entry {seq}: two calls have the id {id!r}; the second is sent as {call.id!r}")
        turn[call.id] = call
        made = self._known[id] = _Call(seq, call)
        if early := self._early[id]:
            made.take(*early.pop(0), made_up=False)
        else:
            self._open[id].append(made)
        return made

    def _fresh(self, id: str) -> str:
        """An id that no call has."""
        turn = 2
        while (fresh := f"{id}_{turn}") in self._ids:
            turn += 1
        self._ids.add(fresh)
        return fresh

    def _take(self, place: tuple[int, int], result: ToolResult, made_up: bool) -> None:
        id = result.call_id
        if waiting := self._open[id]:
            waiting.pop().take(place, result, made_up)
        elif (known := self._known.get(id)) is None:
            self._early[id].append((place, result))
        elif known.made_up and not made_up:
            known.take(place, result, False)
            self._say(place, f"the late result for {id!r} takes the place of the error that stood in for it")
        else:
            self._say(place, f"a second result for {id!r} left out")

    def _say(self, place: tuple[int, int], what: str) -> None:
        self._repairs.append(f"entry {self._said[place[0]].seq}: {what}")

    # What stands where: the results of a turn right behind it, everything else in its order.

    def in_order(self) -> list[Said]:
        out: list[Said] = []
        turn: list[_Call] = []
        whole: set[int] = set()  # messages that are sent with all that is in them
        for at, each in enumerate(self._said):
            if each.message.role == "assistant":
                if turn and (type(each.message.parts[0]) is Reasoning or _all_in(turn, at)):  # it saw what came before
                    out += self._results(turn, at, whole)
                    turn = []
                out += self._spoken(at)
                turn += filter(None, self._calls[at])
            else:
                out += self._results(turn, at, whole)
                turn = []
                out += [] if at in whole else _without_results(each)
        return out + self._results(turn, len(self._said), whole)

    def _spoken(self, at: int) -> list[Said]:
        """An assistant's message with its calls as they are sent; nothing where nothing is left of it."""
        seq, message = self._said[at]
        sent = iter(self._calls[at])
        parts = tuple(_sent(part, next(sent)) if type(part) is ToolCall else part for part in message.parts)
        if all(after is before for after, before in zip(parts, message.parts, strict=True)):
            return [self._said[at]]
        left = tuple(part for part in parts if part is not None)
        return [Said(seq, replace(message, parts=left))] if left else []

    def _results(self, turn: list[_Call], behind: int, whole: set[int]) -> list[Said]:
        """The results of a turn, in the order they came, and an error for each call that got none.

        A user who speaks right behind the turn (`behind`), and brings all of its results, is left whole."""
        answered = sorted((made for made in turn if made.answer is not None), key=lambda made: made.place)
        dangling = [self._closed(made) for made in turn if made.answer is None]
        if not dangling and self._brings(behind, answered):
            whole.add(behind)
            return [self._said[behind]]
        out: list[Said] = []
        for at, group in groupby(answered, lambda made: made.place[0]):
            seq, message = self._said[at]
            results = tuple(made.answer for made in group if made.answer is not None)
            if results == message.parts:
                whole.add(at)
            out.append(self._said[at] if results == message.parts else Said(seq, Message("tool", results)))
        return out + dangling

    def _brings(self, at: int, answered: list[_Call]) -> bool:
        """Whether a message holds just these results, whatever it says besides."""
        here = [made.answer for made in answered if made.place[0] == at]
        return bool(here) and len(here) == len(answered) and tuple(here) == self._said[at].message.results

    def _closed(self, made: _Call) -> Said:
        started = (made.seq, made.call.id) in self._started
        self._repairs.append(f"entry {made.seq}: the call {made.call.id!r} has no result; an error stands in for it")
        return Said(made.seq, missing_result(made.call.id, "interrupted", started))


def _all_in(turn: list[_Call], at: int) -> bool:
    """Whether all calls of a turn were answered before a message: their results came even before the calls."""
    return all(made.answer is not None and made.place[0] < at for made in turn)


def _sent(call: ToolCall, made: _Call | None) -> ToolCall | None:
    return None if made is None else made.call


def _without_results(each: Said) -> list[Said]:
    """What a message says besides results: those are sent where they belong, or not at all."""
    seq, message = each
    parts = tuple(part for part in message.parts if type(part) is not ToolResult)
    if len(parts) == len(message.parts):
        return [each]
    return [Said(seq, replace(message, parts=parts))] if parts else []


# -- the ends ------------------------------------------------------------------------------------------


def opened(said: list[Said], repairs: list[str]) -> list[Said]:
    """The user speaks first. Who speaks last is left alone."""
    if said and said[0].message.role != "user":
        repairs.append(f"entry {said[0].seq}: the {said[0].message.role} spoke first; a user message stands before it")
        said = [Said(0, Message.user(OPENING)), *said]
    return said
