"""`threadline fork`, `rewind`, `compact` and `repair`: a session goes another way. Nothing is ever lost by it."""

from __future__ import annotations

from typing import IO, NoReturn

import click

import threadline
from threadline import Message, Session
from threadline.cli import words
from threadline.cli.conversation import spans
from threadline.cli.desk import Desk, command, id_argument
from threadline.cli.log import content
from threadline.cli.screen import Ink


@command(examples=["threadline fork latest --at 12 --title 'what if'"])
@id_argument
@click.option("--at", type=click.IntRange(0), metavar="SEQ", help="Share everything up to that entry [all].")
@click.option("--key", metavar="KEY", help="The key of the fork.")
@click.option("--title", metavar="TITLE", help="The title of the fork.")
def fork(desk: Desk, id: str, at: int | None, key: str | None, title: str | None) -> None:
    """Make a session that shares the past of session ID, without copying it, and goes its own way."""
    with desk.store(write=True) as store:
        session = desk.session(store, id)
        if key is not None and store.find(key) is not None:
            raise click.ClickException(
                f"the key {key!r} is taken: choose another, or `threadline show {key}` shows whose it is"
            )
        info = session.fork(at, key=key, title=title).info
    assert info.origin is not None
    desk.give(info, Ink(info.id, "cyan"), f"  shares {session.id} up to entry {info.origin[1]}")


@command(examples=["threadline rewind latest 12"])
@id_argument
@click.argument("seq", type=click.IntRange(0))
@click.option("--state", is_flag=True, help="The state and the goal go back as well.")
def rewind(desk: Desk, id: str, seq: int, state: bool) -> None:
    """Make the view of session ID what it was right after entry SEQ; 0 empties it.

    The entries after it stay in the log, and rewinding to one of them goes forward again.
    """
    with desk.store(write=True) as store:
        session = desk.session(store, id)
        before = session.head
        entry = session.rewind(seq, state=state)
        info = session.info
    desk.give(
        entry, Ink(info.id, "cyan"), f"  is what it was after entry {seq}: {words.count(info.messages, 'message')}"
    )
    desk.hint(f"`threadline rewind {info.id} {before}` goes back to where it was.")


@command(
    examples=[
        "threadline compact latest --keep-turns 4 --summary 'We fixed the login.'",
        "threadline compact latest --keep-turns 4 --prompt | llm | threadline compact latest --keep-turns 4 --file -",
    ]
)
@id_argument
@click.option("--summary", metavar="TEXT", help="The text that stands for the entries.")
@click.option(
    "--file", type=click.File(encoding="utf-8"), metavar="FILE", help="Read it from a file; - is standard input."
)
@click.option("--prompt", is_flag=True, help="Only print what to ask a model for, with the conversation to be folded.")
@click.option("--keep-turns", type=click.IntRange(0), metavar="N", help="All but the last so many user turns.")
@click.option("--since", type=click.IntRange(1), metavar="SEQ", help="From that entry on [the first].")
@click.option("--upto", type=click.IntRange(1), metavar="SEQ", help="Up to that entry.")
def compact(
    desk: Desk,
    id: str,
    summary: str | None,
    file: IO[str] | None,
    prompt: bool,
    keep_turns: int | None,
    since: int | None,
    upto: int | None,
) -> None:
    """Fold entries of session ID into one summary that stands in their place. The originals stay in the log.

    The run never splits a tool call from its result. Give --keep-turns, or --upto, or both --since and --upto.
    """
    if keep_turns is None and upto is None:
        raise click.UsageError("say how far: --keep-turns 4, or --upto SEQ")
    if prompt:
        with desk.store() as store:
            run = run_of(desk.session(store, id), since, upto, keep_turns)
        ask_for(desk, run)
        return
    text = text_of(summary, file)
    with desk.store(write=True) as store:
        session = desk.session(store, id)
        entry = session.compact(text, since=since, upto=upto, keep_turns=keep_turns)
        info = session.info
    covered = spans((entry.data or {}).get("covers", []))
    tokens = f"{words.count(info.messages, 'message')}, {words.short(info.tokens)} tokens are left"
    desk.give(entry, Ink(info.id, "cyan"), f"  entry {entry.seq} stands for {covered}; {tokens}")
    desk.hint(f"`threadline rewind {info.id} {entry.seq - 1}` takes it back.")


def text_of(summary: str | None, file: IO[str] | None) -> str:
    if (summary is None) == (file is None):
        raise click.UsageError("give the text with --summary TEXT or --file FILE, and not with both")
    text = summary if summary is not None else file.read().strip() if file is not None else ""
    if not text.strip():
        raise click.UsageError("the summary is empty")
    return text


class _Seen(Exception):
    """The run is known, and nothing is to be folded."""


def run_of(session: Session, since: int | None, upto: int | None, keep_turns: int | None) -> list[Message]:
    """The messages that would be folded."""
    found: list[Message] = []

    def look(messages: list[Message]) -> NoReturn:
        found.extend(messages)
        raise _Seen

    try:
        session.compact(look, since=since, upto=upto, keep_turns=keep_turns)
    except _Seen:
        return found
    raise AssertionError("a summary is asked for, or an error raised")


def ask_for(desk: Desk, run: list[Message]) -> None:
    if desk.as_json:
        desk.give({"prompt": threadline.SUMMARY_PROMPT, "messages": run})
        return
    desk.say(threadline.SUMMARY_PROMPT)
    for message in run:
        calls = "".join(f"\n[calls {call.name} {call.args}]" for call in message.calls)
        desk.say(f"\n{message.role}: {message.text}{calls}")


@command(examples=["threadline repair latest"])
@id_argument
@click.option("--reason", default="interrupted", metavar="TEXT", help="What the error results say [interrupted].")
def repair(desk: Desk, id: str, reason: str) -> None:
    """Mend session ID after a crash: keep interrupted drafts, answer every open call with an error result."""
    with desk.store(write=True) as store:
        session = desk.session(store, id)
        entries = session.repair(reason)
        name = str(session.id)
    for entry in entries:
        desk.give(entry, Ink(f"{entry.seq}", "dim"), "  ", content(entry))
    if not entries:
        desk.say(f"nothing to mend in {name}")
