"""`threadline demo`: the main job in front of your eyes, on one screen and without a network."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

import threadline
from threadline import Entry, Message, Session, Store
from threadline.cli.desk import Desk, command
from threadline.cli.screen import Ink

WIDTH = 78


@command(store=False)
@click.option("--store", "path", type=click.Path(path_type=Path), help="Where to put the file (default: a new folder).")
def demo(desk: Desk, path: Path | None) -> None:
    """Watch a session survive kill -9, then be mended, folded, rewound and forked."""
    path = path or Path(tempfile.mkdtemp(prefix="threadline-demo-")) / "demo.db"
    if path.exists():
        raise click.ClickException(f"{path} exists already: the demo writes to a new file only")
    said = watch_the_agent_die(desk, path)
    with threadline.open(path) as store:
        session = store.session("demo")
        show_what_survived(desk, session, said)
        mend(desk, session)
        originals = fold(desk, session)
        rewind(desk, session)
        fork(desk, session)
        prove(desk, store, session, originals)
    desk.say(Ink(f"\nThe file: {path}", "bold"))


def watch_the_agent_die(desk: Desk, path: Path) -> int:
    """Run the agent in a process of its own, kill it in the middle of a tool call; how many entries it was promised."""
    title(desk, "1. An agent works, and is killed with SIGKILL in the middle of a tool call")
    agent = subprocess.Popen(
        [sys.executable, "-m", "threadline.cli.demo_agent", str(path)], stdout=subprocess.PIPE, text=True
    )
    assert agent.stdout is not None
    said = 0
    for line in agent.stdout:
        if line.startswith("running"):
            break
        said += 1
        desk.say(f"   {line.rstrip()}")
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    desk.say(Ink(f"   process {agent.pid} killed: exit status {agent.returncode}", "red"))
    return said


def show_what_survived(desk: Desk, session: Session, said: int) -> None:
    title(desk, "2. Reopened: all that was acknowledged is there, and what was under way is known")
    for entry in session.entries():
        show(desk, entry)
    for pending in session.pending:
        state = "had started, its effects are uncertain" if pending.started else "had not started"
        desk.say(Ink(f"   pending: {pending.call.name} {pending.call.args} {state}", "yellow"))
    proves(desk, session.head == said, f"{said} entries acknowledged before the kill, {session.head} in the log")


def mend(desk: Desk, session: Session) -> None:
    title(desk, "3. Repair answers the open call, so that the next request is legal; the work goes on")
    for entry in session.repair():
        show(desk, entry)
    session.append(Message.assistant("The deploy was cut off. I checked: it did not go out. Trying again."))
    session.append("Good. And then tidy up, please.")
    session.append(Message.assistant("Deployed, and tidied up."))
    proves(desk, not session.pending, "no call is left without its result")


def fold(desk: Desk, session: Session) -> list[Entry]:
    title(desk, "4. Compaction puts a summary where the old turns stood; the originals stay")
    compaction = session.compact(lambda run: f"{len(run)} messages about a deploy that was cut off.", keep_turns=1)
    for entry in session.view().entries:
        show(desk, entry)
    originals = session.originals(compaction.seq)
    proves(desk, len(originals) == 6, f"entry {compaction.seq} stands for {', '.join(str(e.seq) for e in originals)}")
    return originals


def rewind(desk: Desk, session: Session) -> None:
    title(desk, "5. Rewind goes back to any moment, across the compaction; forward again, too")
    before = session.messages()
    head = session.head
    session.rewind(2)
    desk.say(f"   rewound to entry 2: the model sees {len(session.messages())} messages")
    session.rewind(head)
    proves(desk, session.messages() == before, f"rewound forward to entry {head}: the view is what it was")


def fork(desk: Desk, session: Session) -> None:
    title(desk, "6. A fork shares the past without copying it, and goes its own way")
    other = session.fork(2, title="what if we had not deployed?")
    other.append("Do not deploy yet.")
    desk.say(f"   the fork sees: {' | '.join(message.text[:34] for message in other.messages())}")
    proves(
        desk, "Do not deploy yet." not in [m.text for m in session.messages()], "neither side sees the other's entries"
    )


def prove(desk: Desk, store: Store, session: Session, originals: list[Entry]) -> None:
    title(desk, "7. Nothing was lost, and it can be checked")
    report = store.verify()
    proves(desk, [session.entry(e.seq) for e in originals] == originals, "every original still reads as it was written")
    proves(desk, report.ok, f"verify: {report.counts['entries']} entries, every digest, chain and view holds")


def title(desk: Desk, text: str) -> None:
    desk.say(Ink(text, "bold"))


def show(desk: Desk, entry: Entry) -> None:
    """One entry on one line."""
    message = entry.message
    if message is None:
        what = f"{entry.kind} {entry.data}"
    else:
        calls = " ".join(f"-> {call.name}({call.args})" for call in message.calls)
        what = f"{message.role:<9} {message.text} {calls}"
    line = f"   {entry.seq:>3}  {' '.join(what.split())}"
    desk.say(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…")


def proves(desk: Desk, holds: bool, claim: str) -> None:
    if not holds:
        raise click.ClickException(f"this does not hold: {claim}")
    desk.give({"claim": claim, "holds": holds}, Ink(f"   ✓ {claim}", "green"))
