"""`threadline log ID` and `threadline tail ID`: the raw entries, as they were written and as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import click

from threadline import Damaged, Entry, Message, Session, Store
from threadline.cli import shapes, words
from threadline.cli.conversation import INK, Teller, aside_of, described
from threadline.cli.desk import Desk, command, complete_id, id_argument
from threadline.cli.screen import Ink, Piece, cells, cut

KIND = 12  # columns for kind and role
SHAPING = ("compaction", "replacement", "expansion", "rewind", "clear")
NARROW = 60  # columns below which the date goes


@command(
    examples=[
        "threadline log latest",
        "threadline log latest 17",
        "threadline log 4fk2 --kind rewind --kind compaction",
    ]
)
@id_argument
@click.argument("seq", type=click.IntRange(1), required=False, metavar="[SEQ]")
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only entries after that one.")
@click.option("--before", type=click.IntRange(1), metavar="SEQ", help="Only entries before that one.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only that kind; may be given several times.")
@click.option("-n", "--limit", type=click.IntRange(1), metavar="N", help="At most so many.")
@click.option("--reverse", is_flag=True, help="The last entry first.")
def log(
    desk: Desk,
    id: str,
    seq: int | None,
    after: int,
    before: int | None,
    kinds: tuple[str, ...],
    limit: int | None,
    reverse: bool,
) -> int:
    """List the raw entries of session ID: all that ever happened, seen by the model or not. With SEQ, one entry whole.

    What the model does not see (now) is marked with a dot.
    """
    with desk.store() as store:
        session = desk.session(store, id)
        if seq is not None:
            whole(desk, session.entry(seq))
            return 0
        entries = session.entries(after, before, kinds or None, limit, reverse)
        with desk.paged():
            damaged = listed(desk, session, entries)
    return 1 if damaged else 0


def whole(desk: Desk, entry: Entry) -> None:
    if desk.as_json:
        desk.give(entry)
    else:
        desk.say(shapes.page_of(entry))


def listed(desk: Desk, session: Session, entries: Iterable[Entry]) -> int:
    """One line per entry; how many of them are damaged."""
    is_seen = (lambda entry: True) if desk.as_json else seen_in(session)
    wide, damaged, walk = len(str(session.head)), 0, iter(entries)
    while True:
        try:
            entry = next(walk)
        except StopIteration:
            return damaged
        except Damaged as error:
            damaged += 1
            desk.warn(f"entry {error.seq} is damaged: {error.what}")
        else:
            desk.give(entry, *line_of(desk, entry, wide, is_seen(entry)))


def seen_in(session: Session) -> Callable[[Entry], bool]:
    """Whether the model sees an entry now. The last entry that gave the view its shape tells; no view is read."""
    last = shaping(session)
    spans = [] if last is None else (last.data or {})["view"]
    since = 0 if last is None else last.seq

    def seen(entry: Entry) -> bool:
        if entry.message is None or entry.message.meta.get("hidden"):
            return False
        return entry.seq > since or any(first <= entry.seq <= upto for first, upto in spans)

    return seen


def line_of(desk: Desk, entry: Entry, wide: int, seen: bool) -> list[Piece]:
    """`  17   12:03:22  assistant  Deploying. ▸ deploy(…)`."""
    role = entry.message.role if entry.message is not None and entry.kind == "message" else entry.kind
    named = cut(role, KIND).ljust(KIND)
    when = words.local(entry.at) if desk.screen.terminal else words.exact(entry.at)
    if desk.screen.width < NARROW:
        when = when.partition(" ")[2][:5]
    start = f"{entry.seq:>{wide}} {' ' if seen else '·'} {when}  "
    room = max(1, desk.screen.width - cells(start) - KIND - 2)
    style = "" if seen else "dim"
    return [Ink(start, "dim"), Ink(named, INK.get(role, "bold cyan")), "  ", Ink(cut(content(entry), room), style)]


def content(entry: Entry) -> str:
    if entry.redacted:
        return f"[redacted: {entry.redacted}]"
    if entry.message is not None:
        return in_words(entry.message)
    told = "".join(piece if isinstance(piece, str) else piece.text for piece in aside_of(entry).pieces[:-1])
    return told.removeprefix(f"{entry.kind}: ")


def in_words(message: Message) -> str:
    """A message on one line: what was said, called, returned."""
    said = [message.text] if message.text else []
    said += [
        f"▸ {call.name}({', '.join(call.args) if isinstance(call.args, dict) else call.args})" for call in message.calls
    ]
    if not said:
        said = [f"[{described(part)}]" for part in message.parts]
    return " ".join(said)


def shaping(session: Session) -> Entry | None:
    walk = session.entries(kinds=SHAPING, reverse=True)
    while True:
        try:
            return next(walk, None)
        except Damaged:  # it is told where it stands
            continue


@command(examples=["threadline tail -f latest", "threadline tail --store postgresql://db/agents -f telegram:42"])
@click.argument("id", metavar="[ID]", default="latest", shell_complete=complete_id)
@click.option("-f", "--follow", is_flag=True, help="Then every new entry, from whatever process, until Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=10, metavar="N", help="How many entries to begin with [10]."
)
@click.option("--all", "everywhere", is_flag=True, help="Follow the store: which session changed, as it changes.")
@click.option("--timeout", type=float, metavar="SECONDS", help="End after so long without anything new.")
def tail(desk: Desk, id: str, follow: bool, lines: int, everywhere: bool, timeout: float | None) -> None:
    """Show the last entries of session ID (the latest one), and with -f every new one as it is written."""
    with desk.store() as store:
        try:
            if everywhere:
                changes(desk, store, timeout)
            else:
                end_of(desk, desk.session(store, id), lines, follow, timeout)
        except KeyboardInterrupt:  # that is how one stops to follow
            desk.hint("")


def end_of(desk: Desk, session: Session, lines: int, follow: bool, timeout: float | None) -> None:
    head = session.head
    after = max(0, head - lines)
    teller = Teller(desk)
    entries: Iterable[Entry] = session.follow(after, timeout) if follow else islice(session.entries(after), lines)
    for entry in entries:
        if desk.as_json:
            desk.give(entry)
        else:
            teller.entry(entry)
        desk.screen.flush()


def changes(desk: Desk, store: Store, timeout: float | None) -> None:
    for info in store.follow(timeout):
        when = words.local(info.updated_at)
        said = f"  {info.title or info.key or ''}  "
        desk.give(info, Ink(when, "dim"), "  ", Ink(info.id, "cyan"), said, Ink(f"#{info.head}", "dim"))
        desk.screen.flush()
