"""A session, said as simply as possible: the yardstick for stores, with none of their code.

The log is a list of lines. A moment is what is true right after a line: the entries in view, one by one and in reading
order, and the open calls. There are no spans, no running counts and no index: `moments` reads the whole log again for
every question, and everything else is a loop over what is visible then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from threadline.errors import (
    Conflict,
    InvalidArgument,
    KeyReused,
    LeaseHeld,
    NotFound,
    NothingToCompact,
    NotVisible,
    Stale,
)
from threadline.messages import Message, Text, ToolCall, ToolResult

Marks: TypeAlias = dict[tuple[int, str], int]  # the calls (entry, id) known to have started, and the entry that says so


class Line(NamedTuple):
    """One entry. `run` are the entries that a compaction or replacement stands for."""

    seq: int
    kind: str
    message: Message | None = None
    data: dict[str, Any] = {}  # noqa: RUF012
    run: tuple[int, ...] = ()
    key: str | None = None

    @property
    def visible(self) -> bool:
        return self.message is not None and not self.message.meta.get("hidden")

    @property
    def voice(self) -> str:
        """Who asks or answers. An assistant that calls a tool has not answered yet."""
        if not self.visible or self.message is None or self.kind == "compaction":
            return ""
        if self.message.role == "user":
            return "user" if any(type(part) is not ToolResult for part in self.message.parts) else ""
        return "assistant" if self.message.role == "assistant" and not self.message.calls else ""

    @property
    def placed(self) -> range:
        """The entries that a replacement put into the view before itself."""
        return range(self.seq - self.data["count"], self.seq) if self.kind == "replacement" else range(0)


class Waiting(NamedTuple):
    """An open call: its entry, the call, and the entry that says it started; 0 where none does."""

    seq: int
    call: ToolCall
    started: int


class Moment(NamedTuple):
    """What is true right after an entry: the seqs in view, silent ones too, and the open calls."""

    seen: list[int]
    open: list[Waiting]


@dataclass
class Model:
    """One session. The methods are those of Session and raise what a Session must raise."""

    count: Callable[[Message], int]
    log: list[Line] = field(default_factory=list)
    keys: dict[str, tuple[int, int, Any]] = field(default_factory=dict)  # key -> first seq, count, content
    inbox: list[tuple[Message, str | None]] = field(default_factory=list)
    holder: str | None = None  # of a lease
    fenced: bool = False  # whether the caller has no lease to show

    def fork(self, at: int) -> Model:
        if not 0 <= at <= self.head:
            raise NotFound("entry", at)
        keys = {key: call for key, call in self.keys.items() if call[0] + call[1] - 1 <= at}
        return Model(self.count, self.log[:at], keys)

    def trial(self) -> Model:
        """All of it once more, to see how something goes."""
        return Model(self.count, self.log, self.keys, list(self.inbox), self.holder, self.fenced)

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        return len(self.log)

    def line(self, seq: int) -> Line:
        return self.log[seq - 1]

    def moment(self, at: int | None = None) -> Moment:
        return moments(self.log)[self.head if at is None else at]

    def visible(self, at: int | None = None) -> list[Line]:
        return [line for line in map(self.line, self.moment(at).seen) if line.visible]

    def pending(self, at: int | None = None) -> list[Waiting]:
        return self.moment(at).open

    def unanswered(self, at: int | None = None) -> int:
        """The last user's entry with no assistant's after it; 0 where there is none."""
        spoke = [line for line in self.visible(at) if line.voice]
        return spoke[-1].seq if spoke and spoke[-1].voice == "user" else 0

    def tokens(self, at: int | None = None) -> int:
        return sum(map(self.tokens_of, self.visible(at)))

    def tokens_of(self, line: Line) -> int:
        if not line.visible or line.message is None:
            return 0
        return self.count(Message("user", line.message.parts) if line.kind == "compaction" else line.message)

    def state(self, at: int | None = None) -> dict[str, Any]:
        line = self._last("state", self.head if at is None else at)
        if line is None:
            return {}
        if "back" in line.data:
            return self.state(line.data["back"])
        kept = {**self.state(line.seq - 1), **line.data.get("set", {})}
        return {name: value for name, value in kept.items() if name not in line.data.get("remove", ())}

    def goal(self, at: int | None = None) -> dict[str, Any] | None:
        line = self._origin("goal", self.head if at is None else at)
        return None if line is None else line.data

    def _origin(self, kind: str, upto: int) -> Line | None:
        """The line that says what the state or goal is: the last one, or the one that it goes back to."""
        line = self._last(kind, upto)
        return self._origin(kind, line.data["back"]) if line is not None and "back" in line.data else line

    def _last(self, kind: str, upto: int) -> Line | None:
        found = [line for line in self.log[:upto] if line.kind == kind]
        return found[-1] if found else None

    def originals(self, seq: int) -> list[Line]:
        return [line for line in map(self.line, self._fold(seq).run) if line.visible]

    def landmarks(self, of: str) -> Sequence[Any]:
        match of:
            case "visible":
                return [line.seq for line in self.visible()]
            case "fold":
                return [line.seq for line in self.log if line.kind in ("compaction", "replacement")]
            case _:  # a call can be told from its twin of the same id in the same message by nobody: leave such out
                calls = [(w.call.id, self.line(w.seq).message) for w in self.pending()]
                return [id for id, said in calls if said and [call.id for call in said.calls].count(id) == 1]

    # -- writing ---------------------------------------------------------------------------------------

    def append(self, message: Message, *, key: str | None = None, expect: int | None = None) -> list[Line]:
        return self.extend([message], key=key, expect=expect)

    def extend(self, messages: Iterable[Message], *, key: str | None = None, expect: int | None = None) -> list[Line]:
        said = list(messages)
        return self._write(key, ("append", said), expect, lambda: self._messages(said)) if said else []

    def note(
        self, data: dict[str, Any], kind: str = "note", *, key: str | None = None, expect: int | None = None
    ) -> list[Line]:
        return self._write(key, ("note", kind, data), expect, lambda: [Line(self.head + 1, kind, None, data)])

    def compact(
        self,
        summary: str,
        *,
        since: int | None = None,
        upto: int | None = None,
        keep_turns: int | None = None,
        key: str | None = None,
        expect: int | None = None,
    ) -> list[Line]:
        if (upto is not None and keep_turns is not None) or (keep_turns or 0) < 0:
            raise InvalidArgument("the run must end in one way")
        content = ("compact", summary, since, upto, keep_turns)
        return self._write(key, content, expect, lambda: self._compaction(summary, self.run(since, upto, keep_turns)))

    def fold_exactly(
        self, summary: str, run: Sequence[int], said: Sequence[Message], *, planned_at: int | None = None
    ) -> list[Line]:
        """What compact does with a plan, or with a function of a run: that run with those messages, or nothing.

        A function is called at a known head, so that a change since then is Stale; a plan's head is not known."""
        return self._write(None, None, None, lambda: self._compaction(summary, self._planned(run, said, planned_at)))

    def replace(
        self,
        messages: Iterable[Message],
        *,
        since: int,
        upto: int,
        key: str | None = None,
        expect: int | None = None,
    ) -> list[Line]:
        said = list(messages)
        content = ("replace", since, upto, said)
        return self._write(key, content, expect, lambda: self._replacement(said, since, upto))

    def expand(self, seq: int, *, key: str | None = None, expect: int | None = None) -> list[Line]:
        return self._write(key, ("expand", seq), expect, lambda: self._expansion(seq))

    def rewind(self, to: int, *, state: bool = False, key: str | None = None, expect: int | None = None) -> list[Line]:
        return self._write(key, ("rewind", to, state), expect, lambda: self._rewind(to, state))

    def set_state(
        self, values: dict[str, Any], remove: Sequence[str] = (), *, key: str | None = None, expect: int | None = None
    ) -> list[Line]:
        if any(name in values for name in remove):
            raise InvalidArgument("set and removed at once")
        told = {"set": values, "remove": list(dict.fromkeys(remove))}
        data = {name: value for name, value in told.items() if value}
        content = ("set_state", values, sorted(set(remove)))
        return self._write(key, content, expect, lambda: [Line(self.head + 1, "state", None, data)])

    def set_goal(
        self, objective: str, summary: str | None = None, *, key: str | None = None, expect: int | None = None
    ) -> list[Line]:
        told = {} if summary is None else {"summary": summary}
        data = {"objective": objective, **told, "status": "active"}
        content = ("set_goal", objective, summary)
        return self._write(key, content, expect, lambda: [Line(self.head + 1, "goal", None, data)])

    def complete_goal(
        self, recap: str | None = None, *, key: str | None = None, expect: int | None = None
    ) -> list[Line]:
        return self._write(key, ("complete_goal", recap), expect, lambda: self._completion(recap))

    def enqueue(self, message: Message, key: str | None = None) -> None:
        waiting = [said for said, named in self.inbox if named == key]
        known = self.keys[key][2] if key in self.keys else ("append", waiting[:1]) if waiting else None
        if key is None or known is None:
            self.inbox.append((message, key))
        elif known != ("append", [message]):
            raise KeyReused(key, 0)

    def take(self, *, expect: int | None = None) -> list[Line]:
        before = list(self.inbox)
        while self.inbox:
            message, key = self.inbox.pop(0)
            if key is not None and key in self.keys:
                if self.keys[key][2] == ("append", [message]):
                    continue  # it has entered by another way
                key = None
            try:
                return self.append(message, key=key, expect=expect)
            except BaseException:
                self.inbox = before
                raise
        return []

    def clear(self, *, key: str | None = None, expect: int | None = None) -> list[Line]:
        return self._write(key, ("clear",), expect, lambda: [Line(self.head + 1, "clear")])

    def start_call(self, call_id: str, *, key: str | None = None, expect: int | None = None) -> list[Line]:
        return self._write(key, ("start_call", call_id), expect, lambda: self._start(call_id))

    def repair(self, *, key: str | None = None, expect: int | None = None) -> list[Line]:
        return self._write(key, ("repair",), expect, lambda: self._messages(map(_mended, self.pending())))

    def _write(self, key: str | None, content: Any, expect: int | None, lines: Callable[[], list[Line]]) -> list[Line]:
        """A known key first, then the expected head, then the call itself; the lines are written or they stand."""
        if key is not None and key in self.keys:
            first, count, known = self.keys[key]
            if known != content:
                raise KeyReused(key, first)
            return self.log[first - 1 : first - 1 + count]
        if self.holder is not None and self.fenced:
            raise LeaseHeld(self.holder, datetime.now(UTC))
        if expect is not None and expect != self.head:
            raise Stale(expect, self.head)
        wrote = lines()
        if not wrote or wrote[0].seq <= self.head:
            return wrote
        wrote = [line._replace(key=key) for line in wrote]
        self.log = [*self.log, *wrote]
        if key is not None:
            self.keys = {**self.keys, key: (wrote[0].seq, len(wrote), content)}
        return wrote

    # -- what each call writes -------------------------------------------------------------------------

    def _messages(self, said: Iterable[Message]) -> list[Line]:
        return [Line(seq, "message", message) for seq, message in enumerate(said, self.head + 1)]

    def _compaction(self, summary: str, run: Sequence[Line]) -> list[Line]:
        seq = self.head + 1
        message = Message("user", (Text(summary),), {"compaction": seq})
        covered = self._stretch(run[0].seq, run[-1].seq)
        return [Line(seq, "compaction", message, {"summary": summary}, covered)]

    def _planned(self, run: Sequence[int], said: Sequence[Message], planned_at: int | None) -> list[Line]:
        shown = self.visible()
        seqs = [line.seq for line in shown]
        for seq in (run[0], run[-1]):
            if seq not in seqs:
                raise NotVisible(seq)
        found = shown[seqs.index(run[0]) : seqs.index(run[-1]) + 1]
        if [line.message for line in found] != list(said):
            raise Conflict("the run changed") if planned_at is None else Stale(planned_at, self.head)
        if self.run(run[0], run[-1], None) != found:
            raise InvalidArgument("the plan splits a pair, or holds an open call")
        return found

    def _replacement(self, said: Sequence[Message], since: int, upto: int) -> list[Line]:
        shown = [line.seq for line in self.visible()]
        for seq in (since, upto):
            if seq not in shown:
                raise NotVisible(seq)
        covered = self._stretch(since, upto)
        if not covered:
            raise InvalidArgument("since stands after upto")
        placed = self._messages(said)
        own = self.head + len(placed) + 1
        return [*placed, Line(own, "replacement", None, {"count": len(placed)}, covered)]

    def _expansion(self, seq: int) -> list[Line]:
        self._fold(seq)
        if seq not in self.moment().seen:
            raise NotVisible(seq)
        return [Line(self.head + 1, "expansion", None, {"of": seq})]

    def _rewind(self, to: int, state: bool) -> list[Line]:
        if not 0 <= to <= self.head:
            raise NotFound("entry", to)
        moved = [kind for kind in ("state", "goal") if self._origin(kind, to) != self._origin(kind, self.head)]
        back = [(kind, {"back": to}) for kind in moved if state]
        told = [*back, ("rewind", {"to": to})]
        return [Line(seq, kind, None, data) for seq, (kind, data) in enumerate(told, self.head + 1)]

    def _completion(self, recap: str | None) -> list[Line]:
        goal = self.goal()
        if goal is None or goal["status"] != "active":
            raise NotFound("goal", "active")
        told = {} if recap is None else {"recap": recap}
        return [Line(self.head + 1, "goal", None, {**goal, "status": "completed", **told})]

    def _start(self, call_id: str) -> list[Line]:
        for waiting in reversed(self.pending()):
            if waiting.call.id == call_id:
                if waiting.started:
                    return [self.line(waiting.started)]
                return [Line(self.head + 1, "call_started", None, {"call": call_id, "seq": waiting.seq})]
        raise NotFound("pending call", call_id)

    def _fold(self, seq: int) -> Line:
        if 0 < seq <= self.head and self.line(seq).kind in ("compaction", "replacement"):
            return self.line(seq)
        raise NotFound("compaction or replacement", seq)

    def _stretch(self, since: int, upto: int) -> tuple[int, ...]:
        """What stands in the view from one entry to the other; nothing where they do not stand so."""
        seen = self.moment().seen
        return tuple(seen[seen.index(since) : seen.index(upto) + 1])

    # -- which run may be folded -----------------------------------------------------------------------

    def run(self, since: int | None, upto: int | None, keep_turns: int | None) -> list[Line]:
        """The first of the longest foldable runs within what is asked for: every run is tried."""
        shown = self.visible()
        seqs = [line.seq for line in shown]
        for seq in (since, upto):
            if seq is not None and seq not in seqs:
                raise NotVisible(seq)
        start = 0 if since is None else seqs.index(since)
        end = len(shown) if upto is None else seqs.index(upto) + 1
        if keep_turns:
            turns = [i for i, line in enumerate(shown) if line.voice == "user"]
            end = turns[-keep_turns] if keep_turns <= len(turns) else 0
        runs = [(i, j) for i in range(start, end) for j in range(i + 1, end + 1) if _foldable(shown, i, j)]
        if not runs:
            raise NothingToCompact("no run")
        longest = max(j - i for i, j in runs)
        i, j = next(run for run in runs if run[1] - run[0] == longest)
        return shown[i:j]


def moments(log: Sequence[Line]) -> list[Moment]:
    """What was true after each entry, from entry 0 (nothing) to the last."""
    found = [Moment([], [])]
    for line in log:
        found.append(_after(log, found, line))
    return found


def _after(log: Sequence[Line], moments: Sequence[Moment], line: Line) -> Moment:
    seen, marks = moments[-1].seen, {(w.seq, w.call.id): w.started for w in moments[-1].open if w.started}
    match line.kind:
        case "clear":
            return moments[0]
        case "rewind":
            to: int = line.data["to"]
            return moments[to]
        case "compaction":
            seen = _put(seen, line.run, [line.seq])
        case "replacement":
            before = moments[line.placed.start - 1].seen
            seen = _put(before, line.run, [*line.placed, line.seq])
            marks = _marks_within(log, seen) | marks
        case "expansion":
            fold = log[line.data["of"] - 1]
            seen = _put([seq for seq in seen if seq not in fold.placed], (fold.seq,), fold.run)
            marks = _marks_within(log, seen) | marks
        case "call_started":
            seen = [*seen, line.seq]
            marks[line.data["seq"], line.data["call"]] = line.seq
        case _:
            seen = [*seen, line.seq]
    return Moment(seen, _open_calls(log, seen, marks))


def _put(seen: Sequence[int], run: Sequence[int], by: Sequence[int]) -> list[int]:
    """The view with `run`, which stands in it unbroken, replaced."""
    i = seen.index(run[0])
    assert tuple(seen[i : i + len(run)]) == tuple(run)
    return [*seen[:i], *by, *seen[i + len(run) :]]


def _marks_within(log: Sequence[Line], seen: Sequence[int]) -> Marks:
    """The starts that stand in a view; where one call has several, the first."""
    marks: Marks = {}
    for seq in seen:
        line = log[seq - 1]
        if line.kind == "call_started":
            marks.setdefault((line.data["seq"], line.data["call"]), seq)
    return marks


def _open_calls(log: Sequence[Line], seen: Sequence[int], marks: Marks) -> list[Waiting]:
    """Read the view from its beginning: a result closes the latest open call of its id."""
    waiting: list[Waiting] = []
    for seq in seen:
        line = log[seq - 1]
        for part in line.message.parts if line.visible and line.message else ():
            if type(part) is ToolCall:
                waiting.append(Waiting(seq, part, marks.get((seq, part.id), 0)))
            elif type(part) is ToolResult:
                of_its_id = [w for w in waiting if w.call.id == part.call_id]
                waiting = [w for w in waiting if not of_its_id or w is not of_its_id[-1]]
    return waiting


def _foldable(shown: Sequence[Line], start: int, end: int) -> bool:
    """Whether no pair is cut at either edge of a run, and no call in it is open."""
    pairs: list[tuple[int, int]] = []
    waiting: list[tuple[int, str]] = []
    for i, line in enumerate(shown):
        for part in line.message.parts if line.message else ():
            if type(part) is ToolCall:
                waiting.append((i, part.id))
            elif type(part) is ToolResult and (calls := [w for w in waiting if w[1] == part.call_id]):
                waiting.reverse()
                waiting.remove(calls[-1])
                waiting.reverse()
                pairs.append((calls[-1][0], i))
    cut = any(call < edge <= result for call, result in pairs for edge in (start, end))
    return not cut and not any(start <= i < end for i, _ in waiting)


def _mended(waiting: Waiting) -> Message:
    known = "it had started, so its effects are uncertain" if waiting.started else "no start was recorded"
    text = f"Error: interrupted ({known})."
    return Message.tool(waiting.call.id, text, error=True, meta={"repair": "interrupted"})
