"""A session as people read it: its entries in the order of the view, each call with its result, each compaction with
its originals, each sub-agent where it was called. `markdown` and `html` put this on paper."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from threadline import (
    Damaged,
    Entry,
    Media,
    Message,
    NotFound,
    NothingToCompact,
    Part,
    Session,
    SessionInfo,
    ToolCall,
    ToolResult,
)

DEPTH_MAX = 8  # of compactions in compactions, and of sub-agents


class Said(NamedTuple):
    """A message without the results that are shown with their calls."""

    entry: Entry
    role: str
    parts: tuple[Part | Call, ...]


class Call(NamedTuple):
    """A call with its result, if there is one, and the sub-agent that worked on it."""

    call: ToolCall
    result: ToolResult | None
    child: Page | None


class Fold(NamedTuple):
    """A compaction: the summary, and what it stands for."""

    entry: Entry
    summary: str
    originals: tuple[Said | Fold, ...]
    covers: int  # so many entries


class Page(NamedTuple):
    """A session, its entries, and the sub-agents that no call names."""

    info: SessionInfo
    items: tuple[Said | Fold, ...]
    children: tuple[Page, ...]
    unseen: int  # entries of the log that are not in the view: rewound, cleared, or never meant for the model
    damaged: tuple[int, ...]


def page_of(session: Session, depth: int = 0) -> Page:
    view, info = session.view(), session.info
    children = {} if depth >= DEPTH_MAX else _children(session, depth)
    seen: set[int] = set()
    items = _items(session, view.entries, children, seen)
    left = tuple(page for pages in children.values() for page in pages)
    return Page(info, items, left, max(0, view.head - len(seen)), view.damaged)


def _children(session: Session, depth: int) -> dict[str | None, deque[Page]]:
    """The pages of the sub-agents, by the call that they answer."""
    found: dict[str | None, deque[Page]] = defaultdict(deque)
    for child in session.children():
        found[child.info.call_id].append(page_of(child, depth + 1))
    return found


def _items(
    session: Session, entries: Sequence[Entry], children: dict[str | None, deque[Page]], seen: set[int], depth: int = 0
) -> tuple[Said | Fold, ...]:
    seen.update(entry.seq for entry in entries)
    results: dict[str, deque[ToolResult]] = defaultdict(deque)
    calls: dict[str, int] = defaultdict(int)
    for entry in entries:
        for result in _results(entry):
            results[result.call_id].append(result)
        for call in entry.message.calls if entry.message is not None else ():
            calls[call.id] += 1
    found: list[Said | Fold] = []
    for entry in entries:
        if entry.kind == "compaction":
            found.append(_fold(session, entry, children, seen, depth))
        elif entry.message is not None:
            found.append(Said(entry, entry.message.role, tuple(_parts(entry.message, results, calls, children))))
    return tuple(item for item in found if isinstance(item, Fold) or item.parts)


def _fold(session: Session, entry: Entry, children: dict[str | None, deque[Page]], seen: set[int], depth: int) -> Fold:
    summary = "" if entry.message is None else entry.message.text
    originals: Sequence[Entry] = ()
    if depth < DEPTH_MAX:
        try:
            originals = session.originals(entry.seq)
        except (Damaged, NotFound, NothingToCompact):
            originals = ()
    return Fold(entry, summary, _items(session, originals, children, seen, depth + 1), len(originals))


def _parts(
    message: Message,
    results: dict[str, deque[ToolResult]],
    calls: dict[str, int],
    children: dict[str | None, deque[Page]],
) -> Iterator[Part | Call]:
    for part in message.parts:
        if isinstance(part, ToolCall):
            waiting, pages = results[part.id], children.get(part.id)
            yield Call(part, waiting.popleft() if waiting else None, pages.popleft() if pages else None)
        elif not isinstance(part, ToolResult):
            yield part
        elif calls[part.call_id] > 0:  # it stands with its call
            calls[part.call_id] -= 1
        else:
            yield part


def _results(entry: Entry) -> tuple[ToolResult, ...]:
    return () if entry.message is None else entry.message.results


def outputs(result: ToolResult) -> Iterator[str | Media]:
    """What a result holds, in pieces: text and media. What a person was shown comes instead of it, if there is such."""
    if result.display is not None:
        yield result.display
        return
    if isinstance(result.output, str):
        yield result.output
        return
    for part in result.output:
        if isinstance(part, Media):
            yield part
        else:
            yield Message.tool("", [part]).text or str(getattr(part, "raw", ""))
