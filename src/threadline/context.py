"""A context is the view fitted to a model: legal for its provider, within its budget, and kind to its prompt cache.

All of it is a pure function of the entries that were read: nothing here touches the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib import import_module
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from threadline.core import codec
from threadline.core.entries import USER, Line, moment, voice_of
from threadline.core.gists import sanitised
from threadline.core.legal import Mended, Said, is_legal, mend, said_of
from threadline.core.usage import UsageLike, usage_of
from threadline.core.window import (
    EXACT,
    Limits,
    Source,
    is_delivery,
    kept,
    starts_turn,
    starts_within,
    step_of,
    turn_starts,
)
from threadline.errors import BudgetTooSmall, InvalidArgument
from threadline.messages import Message, Part, Text, ToolResult

LARGE_CHARS = 1_000  # a result up to this size is never made smaller by keep_outputs
PREVIEW_CHARS = 400
CAPS = (*(2**n for n in range(17, 7, -1)), 0)  # characters per result, tried in turn when a turn is too big


_seq, _tokens = attrgetter("seq"), attrgetter("tokens")


class Context(Struct, frozen=True):
    """What to send to the model. `messages` are the provider's dicts, or Message values for format "threadline".

    `system` is never among them. `seqs` are the entries that the messages came from; `dropped` counts the visible ones
    that were left out; `repairs` says what had to be mended."""

    messages: list[Any]
    system: str | None
    tokens: int
    seqs: tuple[int, ...]
    dropped: int
    head: int
    repairs: list[str]
    format: str = "threadline"

    @property
    def start(self) -> int:
        """The first entry that the messages came from; 0 where there is none."""
        return self.seqs[0] if self.seqs else 0

    def fingerprint(self, n: int | None = None) -> str:
        """A digest of the first `n` messages as sent, or of all.

        `b.fingerprint(len(a.messages)) == a.fingerprint()` says that `a` is a prefix of `b`, so the cache holds."""
        if n is not None and (type(n) is not int or n < 0):
            raise InvalidArgument(f"n is a number of messages from 0 on, or None for all, not {n!r}")
        digest = sha256()
        for message in self.messages[: len(self.messages) if n is None else n]:
            body = codec.encode(message)
            digest.update(b"%d:" % len(body) + body)
        return digest.hexdigest()


class Difference(Struct, frozen=True):
    """Where two contexts part. `index` is the first message that differs; None where the system prompt already does.

    `before` and `after` are what stands there; None for a message that is not there any more."""

    index: int | None
    before: Any
    after: Any

    def __str__(self) -> str:
        if self.index is None:
            return "the system prompt differs"
        return f"message {self.index} {'is gone' if self.after is None else 'differs'}"


def diff_contexts(a: Context, b: Context) -> Difference | None:
    """The first difference on the way from `a` to `b`; None if `b` only goes on where `a` ended, so the cache holds."""
    if a.system != b.system:
        return Difference(None, a.system, b.system)
    for index, before in enumerate(a.messages):
        after = b.messages[index] if index < len(b.messages) else None
        if after is None or codec.encode(before) != codec.encode(after):
            return Difference(index, before, after)
    return None


def should_compact(usage: UsageLike | None, context_window: int, threshold: float = 0.8) -> bool:
    """Whether the last prompt, cached tokens included, filled that share of the context window.

    `usage` is ours or the provider's own; without one, or with a threshold of 0, never."""
    for name, value in (("context_window", context_window), ("threshold", threshold)):
        if not isinstance(value, int | float):
            raise InvalidArgument(f"{name} is a number, not {value!r}")
    if usage is None or context_window <= 0 or threshold <= 0:
        return False
    return usage_of(usage).prompt >= context_window * threshold


class Wish(Struct, frozen=True):
    """What a caller asks of a context. Raises InvalidArgument for what cannot be."""

    max_tokens: int | None = None
    max_messages: int | None = None
    format: str = "threadline"
    timestamps: bool = False
    keep_outputs: int | None = None

    def __post_init__(self) -> None:
        if self.format != "threadline":
            _formats("loading").check_format(self.format)
        for name, least in (("max_tokens", 1), ("max_messages", 1), ("keep_outputs", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise InvalidArgument(f"{name} is a number from {least} on, or None for no limit, not {value!r}")

    def limits(self, calibrated: bool = True) -> Limits:
        return Limits(self.max_tokens, self.max_messages, calibrated)


def _formats(room: str) -> Any:
    """A room of the formats, opened when it is needed: who takes our own values need not wait for them."""
    return import_module(f"threadline.formats.{room}")


def build(source: Source, wish: Wish, count: Callable[[Message], int]) -> Context:
    """The context. Raises BudgetTooSmall where even the newest turn does not fit, its results shortened."""
    return _Building(source, wish, count).context()


class _Building:
    """One context in the making: the turns that may go in, and what they cost."""

    def __init__(self, source: Source, wish: Wish, count: Callable[[Message], int]) -> None:
        self._source = source
        self._wish = wish
        self._count = count
        systems = {entry.seq for entry in source.front.systems}
        self._entries = [e for e in source.tail.entries if e.message is not None and e.seq not in systems]
        self._budget = wish.limits().estimated(source.front)

    def context(self) -> Context:
        entries, mended = self._fitted()
        messages, words = self._written(entries, mended)
        repairs = [] if mended is None else mended.repairs
        seqs = tuple(map(_seq, entries)) if mended is None else _seqs(entries, mended.said)
        return Context(
            messages,
            _joined(self._source),
            self._scaled(self._size(entries, mended)),
            seqs,
            self._source.messages - len(seqs),
            self._source.head,
            [*self._damage(), *repairs, *_last_word(entries, mended), *words],
            self._wish.format,
        )

    def _damage(self) -> list[str]:
        return [f"entry {seq}: damaged, left out" for seq in self._source.tail.damaged]

    def _written(self, entries: Sequence[Line], mended: Mended | None) -> tuple[list[Any], list[str]]:
        if mended is None:
            return [entry.message for entry in entries], []
        if self._wish.format == "threadline":
            return [each.message for each in mended.said], []
        written: tuple[list[Any], list[str]] = _formats("fitting").written(mended.said, self._wish.format)
        return written

    def _fitted(self) -> tuple[list[Line], Mended | None]:
        """The longest run of turns that fits, from one of the places where the window may begin."""
        limit = self._budget
        tokens = kept(self._source.tokens, limit)
        messages = kept(self._source.messages, self._wish.max_messages)
        starts = turn_starts(self._entries, self._source.tail.whole)
        while True:
            start = next(iter(starts_within(self._entries, starts, tokens, messages)), 0)
            entries = self._entries[start:]
            mended = self._mended(entries)
            if limit is None or self._size(entries, mended) <= limit:
                return entries, mended
            if start == (starts[-1] if starts else 0):
                return self._newest(entries, limit)
            tokens -= step_of(limit)

    def _newest(self, entries: list[Line], limit: int) -> tuple[list[Line], Mended | None]:
        """The newest turn with its largest results cut, no more than needed; `CAPS` makes that hold for a while."""
        if is_delivery(entries[0]) and any(map(starts_turn, entries[1:2])):
            entries = entries[1:]  # what the turn answers goes before the turn itself suffers
        size = 0
        for cap in (None, *CAPS):
            mended = self._mended(entries, cap)
            size = self._size(entries, mended)
            if size <= limit:
                return entries, mended
        raise BudgetTooSmall(self._scaled(size), self._wish.max_tokens or 0)

    def _mended(self, entries: Sequence[Line], cap: int | None = None) -> Mended | None:
        """What is sent of the entries; None where that is their own messages, and nothing had to be mended.

        Most histories are legal already: the gists tell, without a look at the messages."""
        wish = self._wish
        plain = cap is None and wish.keep_outputs is None and not wish.timestamps
        legal = plain and is_legal([entry.gist for entry in entries])
        if wish.format == "threadline":
            return None if legal else self._made_legal(entries, cap)
        mended = Mended(list(map(_said, entries)), []) if legal else self._made_legal(entries, cap)
        fitted = _formats("fitting").fit(mended.said, wish.format)
        return Mended(fitted.said, [*mended.repairs, *fitted.repairs])

    def _made_legal(self, entries: Sequence[Line], cap: int | None) -> Mended:
        said = list(map(_said, entries))
        if self._wish.keep_outputs is not None or cap is not None:
            said = _shortened(said, self._wish.keep_outputs, cap)
        said = list(map(_sanitised, said))
        if self._wish.timestamps:
            said = [_stamped(each, entry) for each, entry in zip(said, entries, strict=True)]
        return mend(said, self._source.started)

    def _size(self, entries: Sequence[Line], mended: Mended | None) -> int:
        """The tokens of what is sent: as counted at append where it is the entry's own message, else counted now."""
        if mended is None:
            return sum(map(_tokens, entries))
        known = {entry.seq: entry for entry in entries if not entry.redacted}
        return sum(
            entry.tokens if (entry := known.get(seq)) is not None and entry.message is message else self._count(message)
            for seq, message in mended.said
        )

    def _scaled(self, size: int) -> int:
        return -(-size * self._source.front.scale // EXACT)


def _said(entry: Line) -> Said:
    return said_of((entry.seq, entry.message))


def _seqs(entries: Sequence[Line], said: Sequence[Said]) -> tuple[int, ...]:
    sent = {each.seq for each in said}
    return tuple(entry.seq for entry in entries if entry.seq in sent)


def _last_word(entries: Sequence[Line], mended: Mended | None) -> list[str]:
    """A trailing assistant turn is left alone: some providers go on with it, others refuse it."""
    last = list(map(_said, entries[-1:])) if mended is None else mended.said[-1:]
    return [f"entry {seq}: the last message is the assistant's; kept" for seq, m in last if m.role == "assistant"]


def _joined(source: Source) -> str | None:
    """The system prompt: the session's own, the system messages that the view opens with, and the goal."""
    opening = (entry.message.text for entry in source.front.systems if entry.message is not None)
    return "\n\n".join(filter(None, (source.system, *opening, source.goal))) or None


# -- what changes on the way out -----------------------------------------------------------------------


def _sanitised(each: Said) -> Said:
    message = sanitised(each.message)
    return each if message is each.message else Said(each.seq, message)


def _stamped(each: Said, entry: Line) -> Said:
    """A user's turn with its time; an assistant's would teach the model to write one."""
    seq, message = each
    if entry.kind != "message" or voice_of(message) != USER:
        return each
    stamp = f"[{moment(entry.at):%Y-%m-%d %H:%M} UTC]"
    at = next((n for n, part in enumerate(message.parts) if type(part) is Text), None)
    if at is None:
        return Said(seq, replace(message, parts=(Text(stamp), *message.parts)))
    first = message.parts[at]
    assert type(first) is Text
    stamped = replace(first, text=f"{stamp}\n{first.text}")
    return Said(seq, replace(message, parts=(*message.parts[:at], stamped, *message.parts[at + 1 :])))


def _shortened(said: list[Said], keep: int | None, cap: int | None) -> list[Said]:
    """Every result within `cap` characters, and large ones as previews but for the last `keep` of all results.

    The old become previews a few at a time, so that what was sent stays as it was for a while."""
    old = 0 if keep is None else _old(sum(len(each.message.results) for each in said), keep)
    out = []
    for each in said:
        results = len(each.message.results)
        out.append(_with_short_results(each, old, cap) if results and (old > 0 or cap is not None) else each)
        old -= results
    return out


def _old(results: int, keep: int) -> int:
    """How many of so many results are old, in steps of a quarter of those that are kept, at least two."""
    step = max(2, -(-keep // 4)) if keep else 1
    return max(0, results - keep) // step * step


def _with_short_results(each: Said, old: int, cap: int | None) -> Said:
    seq, message = each
    parts: list[Part] = []
    for part in message.parts:
        if type(part) is ToolResult:
            part = _short(part, seq, old > 0, cap)
            old -= 1
        parts.append(part)
    return each if tuple(parts) == message.parts else Said(seq, replace(message, parts=tuple(parts)))


def _short(result: ToolResult, seq: int, old: bool, cap: int | None) -> ToolResult:
    text: str = _formats("attachments").readable(result.output)
    if old and len(text) > LARGE_CHARS:
        cap = PREVIEW_CHARS if cap is None else min(cap, PREVIEW_CHARS)
    return result if cap is None else _cut(result, text, cap, seq)


def _cut(result: ToolResult, text: str, cap: int, seq: int) -> ToolResult:
    """A result cut to its beginning and its end, with a word in between that says where all of it is."""
    marker = f"[{len(text) - cap:,} of {len(text):,} characters left out here; entry {seq} has them all]"
    if len(text) <= cap + len(marker):
        return result
    end = cap // 4
    return replace(result, output=f"{text[: cap - end]}\n{marker}\n{text[len(text) - end :]}" if cap else marker)
