"""A conversation as a person reads it: who said what, tools folded to a line, what was folded or rewound marked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from json import dumps
from typing import Any, NamedTuple

from threadline import Entry, Media, Message, Other, Part, Reasoning, SessionInfo, Text, ToolCall, ToolResult, Tree
from threadline.cli import words
from threadline.cli.desk import Desk
from threadline.cli.ls import state_of
from threadline.cli.safe import one_line, plain
from threadline.cli.screen import Ink, Piece, Screen, cells, cut

INK = {"user": "bold green", "assistant": "bold blue", "system": "bold magenta", "tool": "bold yellow"}
FOLDED = 160  # characters of a tool's arguments or output that stay, also where the terminal has room for more
INDENT = "  "


class Aside(NamedTuple):
    """Something beside the conversation, at its place in the log: a rewind, a goal, a message that is never sent."""

    seq: int
    structural: bool
    pieces: tuple[Piece, ...]


class Teller:
    """Prints entries one after the other. `full` unfolds tools and reasoning; `spawned`: sub-agents by their call."""

    def __init__(self, desk: Desk, *, full: bool = False, spawned: dict[str, list[SessionInfo]] | None = None) -> None:
        self._desk = desk
        self._screen: Screen = desk.screen
        self._full = full
        self._spawned = spawned or {}
        self._names: dict[str, str] = {}  # of the tools that were called
        self._day = ""

    # -- entries ---------------------------------------------------------------------------------------

    def conversation(self, entries: Iterable[Entry], asides: Iterable[Aside] = ()) -> None:
        """Entries in reading order, each tool's result below its call, and asides where they happened."""
        shown, answers = [*entries], _Answers()
        for entry in shown:
            answers.gather(entry)
        left = deque(asides)  # in the order of the log
        for entry in shown:
            place, before = _place(entry), []
            while left and left[0].seq < place:
                before.append(left.popleft())
            self._asides(before)
            self.entry(entry, answers)
        self._asides([*left])

    def entry(self, entry: Entry, answers: _Answers | None = None) -> None:
        """One entry; without `answers` a result stands where it came, as when a session is followed."""
        message = entry.message
        if entry.kind == "compaction":
            self._compaction(entry)
        elif message is None:
            self._aside(aside_of(entry))
        elif answers is None or not answers.all_told(message):
            self._head(entry, message)
            for part in message.parts:
                self._part(part, answers)
            self._screen.say()

    def _head(self, entry: Entry, message: Message) -> None:
        hidden = " · never sent" if message.meta.get("hidden") else ""
        hidden += f" · redacted: {one_line(entry.redacted)}" if entry.redacted else ""
        role = Ink(one_line(message.role), INK.get(message.role, "bold cyan"))
        self._screen.line(role, Ink(f"  #{entry.seq} · {self._time(entry.at)}{hidden}", "dim"))

    def _compaction(self, entry: Entry) -> None:
        covers = (entry.data or {}).get("covers", [])
        about = f"  #{entry.seq} · {self._time(entry.at)} · stands for {spans(covers)}"
        self._screen.line(Ink("summary", "bold cyan"), Ink(about, "dim"))
        self._text(entry.message.text if entry.message else "", bar="│ ")
        self._screen.say()

    def _part(self, part: Part, answers: _Answers | None) -> None:
        match part:
            case Text(text):
                self._text(text)
            case Reasoning():
                self._reasoning(part)
            case ToolCall():
                self._call(part, answers)
            case ToolResult():
                if answers is None or not answers.is_told(part):
                    self._result(part, self._names.get(part.call_id))
            case Media() | Other():
                self._line(Ink(f"[{described(part)}]", "dim"))

    def _reasoning(self, part: Reasoning) -> None:
        if self._full:
            self._text(part.text or "(encrypted)", style="dim")
        elif part.text:
            self._folded("thought: ", part.text, "dim")
        else:
            self._line(Ink("thought: (encrypted)", "dim"))

    def _call(self, call: ToolCall, answers: _Answers | None) -> None:
        self._names[call.id] = call.name
        told = "" if self._full else f"  {arguments(call)}"
        self._line(Ink("▸ ", "yellow"), Ink(one_line(call.name), "yellow"), told)
        if self._full:
            self._text(call.args if isinstance(call.args, str) else _pretty(call.args), indent=INDENT * 2)
        for child in self._spawned.get(call.id, []):
            self._line(INDENT, *child_line(child))
        if answers is not None:
            result = answers.of(call)
            if result is None:
                self._line(INDENT, Ink("… no result yet", "yellow"))
            else:
                self._result(result, None)

    def _result(self, result: ToolResult, name: str | None) -> None:
        text = result.display if result.display is not None else readable(result)
        mark = Ink("✗ failed " if self._full else "✗ ", "red") if result.error else Ink("✓ ", "green")
        named: tuple[Piece, ...] = (Ink(f"{one_line(name)}: ", "yellow"),) if name else ()
        if self._full:
            self._line(INDENT, Ink(mark.text.rstrip(), mark.style), *named)
            self._text(text, indent=INDENT * 2)
            return
        lines = [line for line in text.splitlines() if line.strip()]
        more = f"  (+{words.count(len(lines) - 1, 'line')}, {words.size(len(text))})" if len(lines) > 1 else ""
        room = min(FOLDED, self._screen.width - 6 - cells(more) - sum(cells(plain(p[0])) for p in named))
        first = cut(lines[0], max(8, room)) if lines else "(nothing)"
        self._line(INDENT, mark, *named, first, Ink(more, "dim"))

    # -- asides ----------------------------------------------------------------------------------------

    def _asides(self, asides: list[Aside]) -> None:
        """Of several changes of the view in one place, the last tells what it is now."""
        structural = [aside for aside in asides if aside.structural]
        for aside in asides:
            if aside.structural and aside is not structural[-1]:
                continue
            self._aside(aside)

    def _aside(self, aside: Aside) -> None:
        self._screen.line(Ink("── ", "dim"), *aside.pieces)
        self._screen.say()

    # -- lines -----------------------------------------------------------------------------------------

    def _time(self, at: datetime) -> str:
        """The time of day, with the date where it is another than before."""
        day, _, time = words.local(at).partition(" ")
        shown, self._day = (time if day == self._day else f"{day} {time}"), day
        return shown

    def _folded(self, label: str, text: str, style: str) -> None:
        room = min(FOLDED, self._screen.width - cells(label) - len(INDENT))
        self._line(Ink(label + cut(text, max(8, room)), style))

    def _line(self, *pieces: Piece) -> None:
        self._screen.line(INDENT, *pieces)

    def _text(self, text: str, *, bar: str = "", indent: str = INDENT, style: str = "") -> None:
        for line in wrapped(text, self._screen.width - len(indent) - len(bar)):
            self._screen.say(indent, Ink(bar, "cyan"), Ink(line, style)) if line or bar else self._screen.say()


class _Answers:
    """Which result belongs to which call: each is told with the call that it answers, and nowhere else."""

    def __init__(self) -> None:
        self._open: dict[str, list[int]] = {}
        self._results: dict[int, ToolResult] = {}  # by the identity of the call
        self._told: set[int] = set()

    def gather(self, entry: Entry) -> None:
        for part in () if entry.message is None else entry.message.parts:
            if isinstance(part, ToolCall):
                self._open.setdefault(part.id, []).append(id(part))
            elif isinstance(part, ToolResult) and self._open.get(part.call_id):
                self._results[self._open[part.call_id].pop(0)] = part
                self._told.add(id(part))

    def of(self, call: ToolCall) -> ToolResult | None:
        return self._results.get(id(call))

    def is_told(self, result: ToolResult) -> bool:
        return id(result) in self._told

    def all_told(self, message: Message) -> bool:
        """Whether nothing of the message is left to tell by itself."""
        return bool(message.parts) and all(
            isinstance(part, ToolResult) and self.is_told(part) for part in message.parts
        )


def _place(entry: Entry) -> int:
    """Where an entry stands among the others: a summary, where its originals stood."""
    covers: list[list[int]] = (entry.data or {}).get("covers", []) if entry.kind == "compaction" else []
    return min([entry.seq, *(first for first, _ in covers)])


def aside_of(entry: Entry) -> Aside:
    """What an entry that is no message of the conversation says."""
    data = entry.data or {}
    at = f"  #{entry.seq} · {words.local(entry.at)}"
    said: tuple[Piece, ...]
    match entry.kind:
        case "rewind":
            to = data.get("to")
            said = (Ink(f"rewound to entry {to}" if to else "rewound to the beginning", "bold magenta"),)
        case "clear":
            said = (Ink("cleared: nothing before this is seen", "bold magenta"),)
        case "expansion":
            said = (Ink(f"entry {data.get('of')} unfolded again", "bold magenta"),)
        case "replacement":
            said = (Ink(f"{spans(data.get('covers', []))} replaced", "bold magenta"),)
        case "goal":
            said = (Ink("goal " + str(data.get("status")), "bold"), f": {data.get('recap') or data.get('objective')}")
        case "system":
            said = (Ink("system prompt", "bold"), f": {data.get('system') or '(none)'}")
        case "call_started":
            said = (f"call {data.get('call')} of entry {data.get('seq')} began",)
        case _:
            said = (Ink(entry.kind, "bold"), ": ", dumps(data, ensure_ascii=False))
    structural = entry.kind in ("rewind", "clear", "expansion", "replacement")
    return Aside(entry.seq, structural, (*said, Ink(at, "dim")))


def hidden_aside(entry: Entry) -> Aside:
    text = entry.message.text if entry.message else ""
    return Aside(entry.seq, False, (Ink("never sent", "bold"), f": {text}", Ink(f"  #{entry.seq}", "dim")))


# -- a family ------------------------------------------------------------------------------------------


def tree_lines(tree: Tree, before: str = "") -> Iterator[tuple[Piece, ...]]:
    """The sub-agents below a session, as a tree."""
    for child in tree.children:
        last = child is tree.children[-1]
        yield (Ink(before + ("└─ " if last else "├─ "), "dim"), *child_line(child.info))
        yield from tree_lines(child, before + ("   " if last else "│  "))


def child_line(info: SessionInfo) -> tuple[Piece, ...]:
    said = [words.count(info.messages, "message")] + ([words.money(info.cost)] if info.cost else [])
    named = [info.agent or "sub-agent"] + ([f"“{one_line(info.title)}”"] if info.title else [])
    state = state_of(info)
    more = (Ink(f" · {state.text}", state.style),) if state.text else ()
    return (Ink(info.id[:8], "cyan"), "  ", " ".join(named), Ink(f"  {' · '.join(said)}", "dim"), *more)


# -- text ----------------------------------------------------------------------------------------------


def arguments(call: ToolCall) -> str:
    """`suite="all" n=3`: the arguments of a call on one line."""
    if isinstance(call.args, str):
        return cut(call.args, FOLDED)
    return cut(" ".join(f"{name}={dumps(value, ensure_ascii=False)}" for name, value in call.args.items()), FOLDED)


def readable(result: ToolResult) -> str:
    if isinstance(result.output, str):
        return result.output
    return "\n".join(part.text if isinstance(part, Text) else f"[{described(part)}]" for part in result.output)


def described(part: Part) -> str:
    """A part that is no text, in words."""
    match part:
        case Media():
            held = words.size(len(part.data)) if part.data is not None else part.uri or ""
            return " ".join(filter(None, (part.mime, part.name, held)))
        case Other():
            return f"a part of the kind {part.raw.get('type', 'unknown')!r}"
        case Text(text) | Reasoning(text):
            return text
    return type(part).__name__


def spans(covers: Any) -> str:
    """`entries 1-4, 9`: what a summary stands for."""
    told = [f"{first}-{last}" if first != last else str(first) for first, last in covers]
    return ("entry " if len(told) == 1 and "-" not in told[0] else "entries ") + ", ".join(told)


def wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of a text, none wider than that, broken between words where that is possible."""
    for line in plain(text).expandtabs(4).split("\n"):
        yield from [line.rstrip()] if cells(line) <= width else _broken(line.rstrip(), max(8, width))


def _broken(line: str, width: int) -> Iterator[str]:
    margin = line[: len(line) - len(line.lstrip())][: width // 2]
    row = ""
    for word in line.lstrip().split(" "):
        longer = f"{row} {word}" if row else margin + word
        if cells(longer) <= width:
            row = longer
            continue
        if row:
            yield row
        row = margin + word
        while cells(row) > width:
            head = cut(row, width + 1)[:-1] or row[:1]
            yield head
            row = margin + row[len(head) :]
    yield row


def _pretty(value: object) -> str:
    return dumps(value, ensure_ascii=False, indent=2)
