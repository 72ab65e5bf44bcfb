"""`threadline show ID`: a conversation, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from threadline import Damaged, Draft, Entry, Session, SessionInfo, Tree, View
from threadline.cli import words
from threadline.cli.conversation import Aside, Teller, aside_of, hidden_aside, tree_lines, wrapped
from threadline.cli.desk import Desk, command, id_argument
from threadline.cli.ls import state_of
from threadline.cli.safe import one_line
from threadline.cli.screen import Ink, Piece, cells

ASIDES = ("rewind", "clear", "expansion", "replacement", "goal", "system", "note")


@command(examples=["threadline show latest", "threadline show telegram:42 --at 17", "threadline show 4fk2 --full"])
@id_argument
@click.option("--at", type=click.IntRange(0), metavar="SEQ", help="What the model saw right after that entry.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last so many entries.")
@click.option("--full", is_flag=True, help="Unfold tool calls, their results and reasoning.")
def show(desk: Desk, id: str, at: int | None, last: int | None, full: bool) -> None:
    """Show session ID: what the model sees, with tools folded and summaries, rewinds and sub-agents marked."""
    with desk.store() as store:
        session = desk.session(store, id)
        view, tree = session.view(at, last), session.tree()
        if desk.as_json:
            desk.give(document(session, view, tree, at))
            return
        with desk.paged():
            header(desk, tree.info, session, at)
            teller = Teller(desk, full=full, spawned=by_call(tree))
            teller.conversation(view.entries, [*asides(session, view, last is not None)])
            if at is None:
                ends(desk, session)
            family(desk, tree)
    folded = sum(entry.kind == "compaction" for entry in view.entries)
    if folded:
        desk.hint("What a summary stands for is still in the log: `threadline log` lists it, --at shows it as it was.")


def document(session: Session, view: View, tree: Tree, at: int | None) -> dict[str, Any]:
    """All of it for a machine."""
    found: dict[str, Any] = {"session": tree.info, "head": view.head, "entries": view.entries, "damaged": view.damaged}
    found["children"] = [*tree][1:]
    if at is None:
        found |= {"pending": session.pending, "queued": session.queued(), "drafts": [*map(_draft, session.drafts)]}
    return found


def _draft(draft: Draft) -> dict[str, Any]:
    return {"text": draft.text, "interrupted": draft.interrupted}


def header(desk: Desk, info: SessionInfo, session: Session, at: int | None) -> None:
    desk.screen.line(Ink(info.title or info.key or info.id, "bold"))
    facts = [f"id {info.id}", f"key {info.key}" if info.key else "", info.agent, info.model, info.cwd]
    sizes = [words.count(info.messages, "message"), f"{words.short(info.tokens)} tokens"]
    sizes += [words.money(info.cost)] if info.cost else []
    when = words.ago(info.updated_at) if desk.screen.terminal else words.exact(info.updated_at)
    tags = f"tags {', '.join(info.tags)}" if info.tags else ""
    _facts(desk, *facts)
    _facts(desk, *sizes, f"changed {when}", tags, state_of(info).text)
    if info.origin is not None:
        _facts(desk, f"a fork of {info.origin[0]}, which it shares up to entry {info.origin[1]}")
    if info.parent is not None:
        _facts(desk, f"a sub-agent of {info.parent}", info.lifecycle)
    if (goal := session.goal) is not None and goal.status == "active":
        _facts(desk, f"goal: {goal.objective}")
    if at is not None:
        desk.screen.line(Ink(f"As it was right after entry {at} of {info.head}.", "bold magenta"))
    desk.say()


def _facts(desk: Desk, *facts: str | None) -> None:
    """Facts in one line, or more where the terminal is narrow."""
    line = ""
    for fact in map(one_line, filter(None, facts)):
        longer = f"{line} · {fact}" if line else fact
        if line and cells(longer) > desk.screen.width:
            desk.say(Ink(line, "dim"))
            longer = fact
        line = longer
    for row in wrapped(line, desk.screen.width):
        desk.say(Ink(row, "dim"))


def asides(session: Session, view: View, tail: bool) -> Iterator[Aside]:
    """What happened beside the conversation, as far as it still belongs there: not in a run that is folded away."""
    seen = {entry.seq for entry in view.entries}
    dark = False
    for entry in every(session, min(seen, default=1) - 1 if tail else 0, view.head):
        if isinstance(entry, Damaged):
            if entry.seq in view.damaged:
                yield Aside(entry.seq or 0, False, (Ink(f"entry {entry.seq} is damaged and left out", "bold red"),))
        elif entry.seq in seen:
            dark = False
        elif entry.kind in ASIDES:
            aside = aside_of(entry)
            if aside.structural or not dark:
                yield aside
        elif entry.message is not None and entry.message.meta.get("hidden"):
            if not dark:
                yield hidden_aside(entry)
        elif entry.message is not None:
            dark = True


def every(session: Session, after: int, upto: int) -> Iterator[Entry | Damaged]:
    """The log, with damage in its place."""
    entries = session.entries(after=after, before=upto + 1)
    while True:
        try:
            yield next(entries)
        except Damaged as error:
            yield error
        except StopIteration:
            return


def ends(desk: Desk, session: Session) -> None:
    """What is under way: tools without a result, messages that stream or wait."""
    lines: list[tuple[Piece, ...]] = []
    for call in session.pending:
        began = "began, and has no result yet" if call.started else "has not begun"
        lines.append((Ink("open call", "bold yellow"), f"  {call.call.name} of entry {call.seq} {began}"))
    for draft in session.drafts:
        name = "interrupted draft" if draft.interrupted else "streaming now"
        lines.append((Ink(name, "bold yellow"), f"  {draft.text}"))
    lines += [(Ink("in the inbox", "bold yellow"), f"  {queued.message.text}") for queued in session.queued()]
    for line in lines:
        desk.screen.line(*line)
    if lines:
        desk.say()


def family(desk: Desk, tree: Tree) -> None:
    if tree.children:
        desk.say(Ink("Sub-agents", "bold"))
        for line in tree_lines(tree):
            desk.screen.line(*line)


def by_call(tree: Tree) -> dict[str, list[SessionInfo]]:
    found: dict[str, list[SessionInfo]] = {}
    for child in tree.children:
        if child.info.call_id is not None:
            found.setdefault(child.info.call_id, []).append(child.info)
    return found
