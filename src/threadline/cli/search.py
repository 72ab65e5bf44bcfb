"""`threadline search`: where something was said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import click

from threadline import Hit
from threadline.cli import words
from threadline.cli.desk import Desk, command, complete_id, short_ids
from threadline.cli.safe import one_line, plain
from threadline.cli.screen import Ink, Piece, cells

MARKS = ("\x02", "\x03")  # no text that a person reads has them: what they enclose is what was found
_WORDS = re.compile(r"\s+|[^\s\u2e80-\U0010ffff]+|\S")  # scripts without spaces can be broken anywhere
TIMES = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])


@command(
    examples=[
        "threadline search why did the login test fail",
        "threadline search '\"connection reset\"' --role tool --since 2026-01-31",
        "threadline search parse_config --sessions --json | jq -r .session.id",
    ]
)
@click.argument("query", nargs=-1, required=True)
@click.option("--session", "id", metavar="ID", shell_complete=complete_id, help="Only in that session.")
@click.option("--role", metavar="ROLE", help="Only user, assistant, tool, system, summary, note, goal or title.")
@click.option("--agent", metavar="NAME", help="Only in sessions of that agent.")
@click.option("--cwd", metavar="FOLDER", help="Only in sessions of that folder.")
@click.option("--since", type=TIMES, metavar="TIME", help="Only from that day or time on (UTC).")
@click.option("--until", type=TIMES, metavar="TIME", help="Only before that day or time (UTC).")
@click.option("--sessions", "group", is_flag=True, help="Each session once, with its best entry.")
@click.option("--around", type=click.IntRange(0, 100), default=0, help="So many messages before and after [0].")
@click.option("--trashed", is_flag=True, help="In the trash, too.")
@click.option("--as-is", is_flag=True, help="Do not bring the index up to date first: read what it lacks.")
@click.option("-n", "--limit", type=click.IntRange(1), default=10, help="How many at most [10].")
def search(
    desk: Desk, query: tuple[str, ...], id: str | None, as_is: bool, around: int, limit: int, **filters: Any
) -> None:
    """Find where something was said: words, "quoted phrases", identifiers, paths, error codes, in any script.

    Messages, reasoning, tool calls and results, summaries, notes, goals and titles are looked through, also what was
    rewound or compacted away. QUERY may be a question.
    """
    for name in ("since", "until"):
        filters[name] = _utc(filters[name])
    with desk.store(write=not as_is) as store:
        session = None if id is None else desk.session(store, id)
        if not as_is:
            with desk.progress("indexing") as progress:
                store.index(progress=progress.told)
        hits = store.search(
            " ".join(query),
            session=session,
            around=around,
            limit=limit,
            marks=MARKS if desk.screen.colour and not desk.as_json else ("**", "**"),
            **filters,
        )
    with desk.paged():
        tell(desk, hits)
    if not hits:
        desk.hint("Nothing found. --trashed looks into the trash, too.")
    elif len(hits) == limit:
        desk.hint(
            f"The best {limit}. More with --limit; `threadline show ID --at ENTRY` shows what the model saw then."
        )


def tell(desk: Desk, hits: list[Hit]) -> None:
    shown = short_ids(hit.session.id for hit in hits)
    for hit in hits:
        if desk.as_json:
            desk.give(hit)
            continue
        desk.screen.line(*head(hit, shown[hit.session.id] if desk.screen.terminal else hit.session.id, desk))
        for message in hit.before:
            desk.screen.line(Ink(f"    {message.role}: {words_of(message.text)}", "dim"))
        for line in laid_out(marked(hit.snippet), desk.screen.width - 4):
            desk.say("    ", *line)
        for message in hit.after:
            desk.screen.line(Ink(f"    {message.role}: {words_of(message.text)}", "dim"))


def head(hit: Hit, id: str, desk: Desk) -> Iterator[Piece]:
    """Where it is; the title last: of all that does not fit, it can be spared."""
    yield Ink(id, "cyan")
    yield f" {hit.seq} " if hit.seq else " - "
    yield Ink(hit.role, "green")
    yield Ink(f" {words.ago(hit.at) if desk.screen.terminal else words.exact(hit.at)}", "dim")
    if hit.hidden:
        yield Ink("  hidden", "yellow")
    if hit.matches > 1:
        yield Ink(f"  {hit.matches:,} matches", "dim")
    if hit.session.title:
        yield Ink(f"  {one_line(hit.session.title)}", "bold")


def laid_out(pieces: Iterable[Piece], width: int) -> Iterator[list[Ink]]:
    """Pieces as lines of the terminal, broken between words."""
    line: list[Ink] = []
    left = room = max(16, width)
    for text, style in ((piece.text, piece.style) if isinstance(piece, Ink) else (piece, "") for piece in pieces):
        for word in _WORDS.findall(plain(text)):
            if cells(word) > left and line:
                yield _trimmed(line)
                line, left = [], room
            if line or not word.isspace():
                line.append(Ink(word, style))
                left -= cells(word)
    if line:
        yield _trimmed(line)


def _trimmed(line: list[Ink]) -> list[Ink]:
    return line[:-1] if line[-1].text.isspace() else line


def marked(snippet: str) -> Iterator[Piece]:
    """The pieces of a snippet, what was found in bold."""
    before, *rest = snippet.split(MARKS[0])
    yield before
    for piece in rest:
        found, _, after = piece.partition(MARKS[1])
        yield Ink(found, "bold yellow")
        yield after


def words_of(text: str, most: int = 120) -> str:
    """How a message begins, on one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[:most].rstrip() + "…"


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)
