"""The window: from which entry on a context tells the conversation.

A budget is met by dropping whole turns from the front. The window moves in steps of a quarter of the budget, so that
for many turns each context begins with the same messages as the one before, and the provider's prompt cache holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from math import inf
from operator import attrgetter

from msgspec import Struct

from threadline.core import codec
from threadline.core.calls import walk
from threadline.core.entries import Line, Row
from threadline.core.fold import State, nodes
from threadline.core.goals import goal_at, goal_text
from threadline.core.reading import complete, missing
from threadline.core.usage import usage_of
from threadline.core.view import Log, Spans, spans_after
from threadline.errors import Damaged, InvalidArgument

FRONT = 64  # entries at the front of a view: they tell the system's words, and how the provider counts
PAGE = 128

EXACT = 8  # eighths
TELLING = 400  # estimated tokens between requests that are enough to compare with


class Tail(Struct, frozen=True):
    """The last entries of a view; `whole` if they are all of it."""

    entries: tuple[Line, ...]
    whole: bool
    damaged: tuple[int, ...] = ()


class Front(Struct, frozen=True):
    """What the front of a view tells: the system messages that it opens with, and how the provider counts."""

    systems: tuple[Line, ...] = ()
    scale: int = EXACT

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.systems)


class Source(Struct, frozen=True):
    """What a context is made of. `messages` and `tokens` count the whole view but for the system messages that it
    opens with; `started` are the open calls, as entry and id, whose tools are known to have begun."""

    tail: Tail
    front: Front = Front()
    system: str | None = None
    goal: str = ""
    head: int = 0
    messages: int = 0
    tokens: int = 0
    started: frozenset[tuple[int, str]] = frozenset()


class Limits(Struct, frozen=True):
    """The budget of a context; `calibrated` where tokens are estimated and the provider's own counts say how well."""

    tokens: int | None = None
    messages: int | None = None
    calibrated: bool = True

    def estimated(self, front: Front) -> int | None:
        """The budget in tokens as we estimate them."""
        return None if self.tokens is None else self.tokens * EXACT // front.scale


# -- reading -------------------------------------------------------------------------------------------


def read_source(log: Log, state: State, limits: Limits, *, system: str | None, front: Front | None = None) -> Source:
    """All that a context within the limits needs, read once; `front` if it is known from an earlier reading."""
    spans = spans_after(log, state.view, state.head)
    if state.messages <= FRONT:
        tail = read_tail(log, spans)
        front = front_of(tail.entries, limits)
    else:
        front = _still(log, front) or front_of(read_front(log, spans), limits)
        tail = read_tail(log, spans, *_rooms(state, limits, front))
    return Source(
        tail,
        front,
        system,
        _goal(log, state),
        state.head,
        state.messages - len(front.systems),
        state.tokens - front.tokens,
        _started(log, state),
    )


def _still(log: Log, front: Front | None) -> Front | None:
    """What is known of the front, unless one of its entries was redacted since."""
    try:
        same = front is not None and all(log.row(entry.seq).line() == entry for entry in front.systems)
    except Damaged:
        same = False
    return front if same else None


def _rooms(state: State, limits: Limits, front: Front) -> tuple[int | None, int | None]:
    """How far back to read: what the limits leave of the view, the system's opening words aside."""
    tokens, messages = limits.estimated(front), limits.messages
    return (
        None if tokens is None else kept(state.tokens - front.tokens, tokens) + front.tokens,
        None if messages is None else kept(state.messages - len(front.systems), messages) + len(front.systems),
    )


def _goal(log: Log, state: State) -> str:
    with suppress(Damaged):  # verify names it; the conversation can go on without its goal
        return goal_text(goal_at(log, state.head))
    return ""


def _started(log: Log, state: State) -> frozenset[tuple[int, str]]:
    with suppress(Damaged):  # likewise: then no start is known
        if state.open:
            return frozenset((call.seq, call.id) for call in walk(state.open, nodes(log)) if call.started)
    return frozenset()


def read_tail(log: Log, spans: Spans, tokens: int | None = None, messages: int | None = None) -> Tail:
    """The entries from the end back to where the budget is spent, at least a whole turn, and one before.

    Costs what it returns, however long the log is."""
    reader = _Reader(tokens, messages)
    for low, high in reversed(spans):
        if reader.done:
            break
        found = reader.take(log.rows(low, high, shown=True, reverse=True, page=_page(messages)))
        floor = found[-1].seq if reader.done else low
        if not complete(log, found[::-1], floor, high):
            reader.damaged += missing(log, floor, high)
    return Tail(tuple(reversed(reader.entries)), not reader.done, tuple(sorted(reader.damaged)))


def _page(messages: int | None) -> int:
    return PAGE if messages is None else max(16, min(256, messages + 2))


class _Reader:
    """Takes entries backwards, and is done one behind the first whole turn that spends the budget."""

    def __init__(self, tokens: int | None, messages: int | None) -> None:
        self._tokens: float = inf if tokens is None else tokens
        self._messages: float = inf if messages is None else messages
        self._turned = False
        self.entries: list[Line] = []
        self.damaged: list[int] = []
        self.done = False

    def take(self, rows: Iterator[Row]) -> list[Row]:
        """The rows that were taken."""
        taken: list[Row] = []
        entries, tokens, messages, turned = self.entries, self._tokens, self._messages, self._turned
        for row in rows:
            taken.append(row)
            self.done = done = turned and (tokens < 0 or messages < 0)
            try:
                entry = row.line()
            except Damaged:
                self.damaged.append(row.seq)
            else:
                entries.append(entry)
                turned = turned or starts_turn(entry)
                tokens -= entry.tokens
                messages -= 1
            if done:
                break
        self._tokens, self._messages, self._turned = tokens, messages, turned
        return taken


def read_front(log: Log, spans: Spans) -> list[Line]:
    """The first entries of a view, those that can be read."""
    entries: list[Line] = []
    for low, high in spans:
        for row in log.rows(low, high, shown=True, page=FRONT):
            if len(entries) == FRONT:
                return entries
            try:
                entries.append(row.line())
            except Damaged:
                continue  # verify tells of it, and the tail if it stands there
    return entries


def front_of(entries: Sequence[Line], limits: Limits) -> Front:
    """What the first entries of a view tell."""
    systems = []
    for entry in entries:
        if entry.message is None or entry.message.role != "system":
            break
        systems.append(entry)
    return Front(tuple(systems), scale_of(entries[:FRONT]) if limits.calibrated else EXACT)


def scale_of(entries: Sequence[Line]) -> int:
    """How many eighths of a token of ours one of the provider's is, told by the usage that was recorded.

    What the prompt grew by from one request to the next is what the entries between them really took: the system prompt
    and the tools, which we do not know, are in both. Rounded up to eighths and told from the front, so that it
    does not change with every turn."""
    estimated = real = count = 0
    before: tuple[int, int] | None = None
    for entry in entries:
        prompt = _prompt(entry)
        if prompt and before is not None and prompt > before[0]:
            real, estimated = real + prompt - before[0], estimated + count - before[1]
        if prompt:
            before = (prompt, count)
        count += entry.tokens
    if estimated < TELLING:
        return EXACT
    return max(EXACT // 2, min(EXACT * 3, -(-real * EXACT // estimated)))


def _prompt(entry: Line) -> int:
    """The tokens that the provider counted in the prompt that this entry answers; 0 where it did not say."""
    try:
        return usage_of(codec.decode(entry.usage)).prompt if entry.usage else 0
    except InvalidArgument:  # somebody's own shape: stored as it is, and no help here
        return 0


# -- choosing ------------------------------------------------------------------------------------------


def kept(total: int, limit: int | None) -> int:
    """How much of a total a limit leaves: all of it, or what is left after dropping whole steps."""
    if limit is None or total <= limit:
        return total
    step = step_of(limit)
    return total - -(-(total - limit) // step) * step


def step_of(limit: int) -> int:
    return max(1, limit // 4)


def turn_starts(entries: Sequence[Line], whole: bool) -> list[int]:
    """Where a window may begin: at a user's turn, or at the delivery that it answers; at the front of a whole view."""
    starts = [0] if whole and entries else []
    for at in [at for at, entry in enumerate(entries) if entry.gist is not None and entry.gist.asks]:
        if starts_turn(entries[at]):
            start = at - 1 if at > 0 and is_delivery(entries[at - 1]) else at
            if start not in starts[-1:]:
                starts.append(start)
    return starts


def starts_turn(entry: Line) -> bool:
    return entry.gist is not None and entry.gist.asks and entry.kind == "message"


def is_delivery(entry: Line) -> bool:
    """Whether the assistant spoke of its own accord: words that the next turn may answer."""
    return entry.gist is not None and entry.gist.delivers


def starts_within(entries: Sequence[Line], starts: Sequence[int], tokens: int, messages: int) -> Sequence[int]:
    """The starts from which so many tokens and messages suffice; the newest turn in any case."""
    sizes = list(accumulate(map(_tokens, reversed(entries))))  # of the last entry, the last two, and so on
    fitting = [at for at in starts if sizes[-1 - at] <= tokens and len(entries) - at <= messages]
    return fitting or starts[-1:]


_tokens = attrgetter("tokens")
