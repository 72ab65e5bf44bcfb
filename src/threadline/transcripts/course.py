"""A course: a timeline for sources that know places in a list, where we know seqs.

It keeps the list that the source's own code would show, as it grows, is folded and is cut; so that an index of theirs
leads to a place of ours."""

from __future__ import annotations

from array import array
from base64 import b64encode
from datetime import datetime
from hashlib import blake2b
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from threadline import Message, ToolCall, ToolResult
from threadline.transcripts.sources import Damage, Source
from threadline.transcripts.timeline import Timeline, UsageLike

RAW_MAX = 2**20  # of a damaged line that is kept as it was
WEIGHT = 2**48 - 1


class Shown(NamedTuple):
    """Something that the source shows. `place` stands in the view, unless it is a note; `to` is where to rewind to."""

    place: int
    to: int
    note: bool = False


class Course:
    """Told like a timeline; `shown` is what the source would show now.

    With `listed` False it is not kept, for a source that knows its places itself: a million take 100 MB."""

    def __init__(self, timeline: Timeline, *, listed: bool = True) -> None:
        self.timeline = timeline
        self._listed = listed
        self.shown: list[Shown] = []
        self._balances = array("q")  # by place: the calls that it makes, less those that it answers

    def append(
        self, message: Message, *, at: datetime | None = None, usage: UsageLike | None = None, raw: bytes | None = None
    ) -> int:
        place = self.timeline.append(message, at=at, usage=usage, raw=raw)
        if self._listed:
            if balance := _balance(message):
                self._weigh(place, balance)
            self.shown.append(Shown(place, place, note=bool(message.meta.get("hidden"))))
        return place

    def note(self, data: dict[str, Any], kind: str, *, at: datetime | None = None, shown: bool = False) -> int:
        """Something that is no message; `shown` if the source counts it among those."""
        place = self.timeline.note(data, kind, at=at)
        if shown and self._listed:
            self.shown.append(Shown(place, place, note=True))
        return place

    def fold(
        self,
        summary: str,
        run: list[Shown],
        *,
        at: datetime | None = None,
        usage: UsageLike | None = None,
    ) -> Shown:
        """A summary in the place of a run of what is shown. The list itself is left to the caller.

        A run that splits a call from its result is replaced: the source saw no harm in it, and a compaction would."""
        places = [shown.place for shown in run if not shown.note]
        if not places:
            place = self.timeline.append(standing(summary), at=at, usage=usage)
            return Shown(place, place)
        since, upto = places[0], places[-1]
        if self._splits_no_pair(places):
            place = self.timeline.compact(summary, since=since, upto=upto, at=at, usage=usage)
            return Shown(place, place)
        place = self.timeline.replace([standing(summary)], since=since, upto=upto, at=at)
        return Shown(place, place + 1)

    def moved(self, old: int, new: int) -> None:
        """A message stands in a new place: it was written again where a fold left it standing."""
        if balance := self._balance_at(old):
            self._weigh(new, balance)

    def cut(self, length: int, *, at: datetime | None = None) -> None:
        """Show only the first so many, as a slice of a list would."""
        self.shown = self.shown[:length]
        self.timeline.rewind(self.shown[-1].to if self.shown else None, at=at)

    def aside(self, name: str, damage: Damage) -> None:
        """Keep a damaged line as it is, unless it may still be written on: then the next import reads it."""
        if damage.last:
            return
        raw = kept(damage.raw) if len(damage.raw) <= RAW_MAX else {}
        self.timeline.note({"file": name, "offset": damage.offset, "what": damage.what, **raw}, "damaged_line")

    def _splits_no_pair(self, places: list[int]) -> bool:
        """Whether the calls and results of a run come to nothing, and it begins with a call and ends with a result."""
        found = [balance for balance in map(self._balance_at, places) if balance]
        return not sum(found) and (not found or found[0] > 0 > found[-1])

    def _weigh(self, place: int, balance: int) -> None:
        balances = self._balances
        if len(balances) <= place:
            balances.extend(repeat(0, place + 1 - len(balances)))
        balances[place] = balance

    def _balance_at(self, place: int) -> int:
        return self._balances[place] if place < len(self._balances) else 0


def _balance(message: Message) -> int:
    """A number for the calls that a message makes less one for those that it answers. Over a run that holds every call
    with its result they come to nothing, and hardly ever otherwise; a million of them take 8 MB."""
    balance = 0
    for part in message.parts:
        if type(part) is ToolCall:
            balance += hash(part.id) & WEIGHT
        elif type(part) is ToolResult:
            balance -= hash(part.call_id) & WEIGHT
    return balance


def standing(summary: str) -> Message:
    """A summary as a message of its own, where no compaction can stand."""
    return Message.user(summary, meta={"summary": True})


def splits_no_pair(messages: list[Message]) -> bool:
    """Whether every call among them has its result among them, and every result its call."""
    calls = sorted(call.id for message in messages for call in message.calls)
    return calls == sorted(result.call_id for message in messages for result in message.results)


def keep_output(timeline: Timeline, source: Source, path: Path, call_id: str, at: datetime | None) -> None:
    """The whole output of a tool, of which its result shows a part: kept as a note, once."""
    raw = source.text(path)
    if raw is None:
        return
    digest = blake2b(raw, digest_size=16).hexdigest()
    data = {"file": path.name, "call_id": call_id, **kept(raw)}
    timeline.settle(
        "output", [path.name, digest], lambda session, key: session.note(data, "tool_output", key=key, at=at)
    )


def kept(raw: bytes) -> dict[str, Any]:
    """Bytes as JSON can hold them: as text if they are any."""
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(raw).decode()}
