"""`threadline erase` and `threadline redact`: what must be gone for good."""

from __future__ import annotations

from collections.abc import Iterator

import click

from threadline import Receipt, Session, SessionInfo
from threadline.cli import words
from threadline.cli.desk import Desk, command, id_argument
from threadline.cli.screen import Ink, cut

SHOWN = 72  # characters of what is to go


@command(asks=True, examples=["threadline erase telegram:42", "threadline erase latest --cascade --yes --json"])
@id_argument
@click.option("--cascade", is_flag=True, help="Its forks and sub-agents, too, detached ones included.")
def erase(desk: Desk, id: str, cascade: bool) -> None:
    """Remove session ID so that no byte of it is left, names included.

    What could not go yet is said, and why, and until when. Backups, copies and exports that were made before are out of
    reach. Forks and sub-agents hold parts of it: without --cascade they are named, and nothing is removed.
    """
    with desk.store(write=True) as store:
        session = desk.session(store, id)
        desk.confirm([*_doomed(session, cascade)], "Erase this for good?")
        receipt = store.erase(session, cascade=cascade)
    _tell(desk, receipt, "erased", words.count(len(receipt.sessions), "session"))


@command(asks=True, examples=["threadline redact latest 12 --reason 'a password'"])
@id_argument
@click.argument("seq", type=click.IntRange(1))
@click.option("-r", "--reason", required=True, metavar="TEXT", help="Why: it stands in the place of what was said.")
def redact(desk: Desk, id: str, seq: int, reason: str) -> None:
    """Take the content of entry SEQ of session ID away for good; the entry keeps its place.

    It goes for all forks that share it. Summaries and answers that tell of it are entries of their own.
    """
    with desk.store(write=True) as store:
        session = desk.session(store, id)
        entry = session.entry(seq)
        said = entry.message.text if entry.message is not None else str(entry.data)
        desk.confirm([f"Entry {seq}, {entry.kind}: {cut(said, SHOWN)}"], "Take its content away for good?")
        receipt = session.redact(seq, reason)
    _tell(desk, receipt, "redacted", f"entry {seq} of {words.count(len(receipt.sessions), 'session')}")


def _doomed(session: Session, cascade: bool) -> Iterator[str]:
    """What will be gone, a line for each session."""
    yield _line(session.info)
    if cascade:
        yield from (f"  sub-agent {_line(info)}" for info in session.tree() if info.id != session.id)
        yield from (f"  fork {_line(fork.info)}" for fork in session.forks())


def _line(info: SessionInfo) -> str:
    return f"{info.id}  {cut(info.title or info.key or '-', SHOWN)}  ({words.count(info.messages, 'message')})"


def _tell(desk: Desk, receipt: Receipt, done: str, what: str) -> None:
    desk.give(receipt, Ink(done, "bold"), f" {what}, {words.count(receipt.entries, 'entry')}")
    for kept in receipt.kept:
        desk.say(f"kept: {kept}")
    for pending in receipt.pending:
        desk.say(Ink("pending", "yellow"), f": {pending}")
