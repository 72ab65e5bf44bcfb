"""The few words of a text that answer a question, with those that were asked for marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from threadline.core.searching import MARKS
from threadline.core.words import Wanted, composed

CHARS = 160
LOOK_CHARS = 40_000  # of a very long text: beyond that, nobody waits for the best place
JOINTS = frozenset("_./-:\\")  # between words of one identifier or path

Span = tuple[int, int]


def snippet(text: str, wanted: Wanted, values: dict[str, float], marks: tuple[str, str] = MARKS) -> str:
    """About `CHARS` characters around the place that has most of what is wanted, on one line.

    `values` says what a term counts."""
    text = composed(text)
    spots = list(_spots(text, wanted, values))
    start, end = _window(text, spots)
    marked = _marked(text, start, end, _joined(text, ((first, last) for first, last, _ in spots)), marks)
    return f"{'…' if start else ''}{' '.join(marked.split())}{'…' if end < len(text) else ''}"


def _spots(text: str, wanted: Wanted, values: dict[str, float]) -> Iterator[tuple[int, int, float]]:
    for first, last, found in wanted.places(text[:LOOK_CHARS]):
        yield first, last, max(values.get(term, 1.0) for term in found)


def _window(text: str, spots: list[tuple[int, int, float]]) -> Span:
    """The best `CHARS` characters: those with the largest sum of different finds."""
    if len(text) <= CHARS:
        return 0, len(text)
    best, start = -1.0, 0
    for i, (first, _, _) in enumerate(spots[:2_000]):
        inside: dict[str, float] = {}
        for there, last, value in spots[i : i + 40]:
            if last > first + CHARS * 3 // 4:
                break
            inside[text[there:last].lower()] = value
        if sum(inside.values()) > best:
            best, start = sum(inside.values()), first
    start = _at_word(text, max(0, min(start - CHARS // 5, len(text) - CHARS)))
    end = min(len(text), start + CHARS)
    if end < len(text) and (space := text.rfind(" ", start + CHARS // 2, end)) > 0:
        end = space
    return start, end


def _at_word(text: str, start: int) -> int:
    """The beginning of the next word, if it is near."""
    space = text.find(" ", start, start + 20) if start else -1
    return space + 1 if space >= 0 else start


def _joined(text: str, spans: Iterable[Span]) -> list[Span]:
    """Spans that touch or overlap, as one: pairs of characters of one run, words of one identifier."""
    out: list[Span] = []
    for first, last in spans:
        if out and (first <= out[-1][1] or text[out[-1][1] : first] in JOINTS):
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return out


def _marked(text: str, start: int, end: int, spans: list[Span], marks: tuple[str, str]) -> str:
    parts: list[str] = []
    done = start
    for first, last in spans:
        if first >= start and last <= end:
            parts += (text[done:first], marks[0], text[first:last], marks[1])
            done = last
    return "".join((*parts, text[done:end]))
