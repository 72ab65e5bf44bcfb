"""`threadline doctor`: what is wrong with a store, why it matters, and the command that mends it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from shutil import disk_usage
from typing import Any, NamedTuple

import click

import threadline
from threadline import Problem, SessionInfo, Store, ThreadlineError
from threadline.cli import words
from threadline.cli.care import verified
from threadline.cli.conversation import wrapped
from threadline.cli.desk import Desk, command
from threadline.cli.failing import told
from threadline.cli.screen import Ink

IDLE = timedelta(minutes=10)  # a tool may run for a while before one wonders
LOOKED_AT = 200  # sessions, the latest, whose drafts are looked at
NAMED = 10  # findings of one kind that are told one by one
REBUILD = "threadline index --rebuild"  # in what `verify` says of the search index
LAG_ROWS = 10_000  # less is indexed while one types
DEAD_ROWS = 10_000  # less is what every server has
ROOM_BYTES = 500_000_000
LARGE_WAL_BYTES = 100_000_000
LARGE_FREE_BYTES = 50_000_000


class Finding(NamedTuple):
    """One thing that doctor found. Only a `problem` makes the exit code 1."""

    level: str  # "problem" or "advice"
    what: str
    why: str
    mend: str  # a command, or what to do where none helps


@command(examples=["threadline doctor --quick"])
@click.option("--quick", is_flag=True, help="Without reading everything, as `verify` does.")
def doctor(desk: Desk, quick: bool) -> int:
    """Look for everything that can be wrong with the store, explain it, and name the command that mends it.

    Changes nothing. The exit code is 1 if there is a problem.
    """
    findings = [*examined(desk, quick)]
    sick = any(finding.level == "problem" for finding in findings)
    desk.give({"ok": not sick, "findings": [finding._asdict() for finding in findings]})
    for finding in () if desk.as_json else findings:
        tell(desk, finding)
    if not findings:
        looked = (
            "nothing stands out; without --quick it reads everything" if quick else "all of it was read, and is whole"
        )
        desk.say(Ink("healthy", "bold green"), f": {looked}")
    return 1 if sick else 0


def tell(desk: Desk, finding: Finding) -> None:
    style = "bold red" if finding.level == "problem" else "bold yellow"
    desk.say(Ink(finding.level, style), ": ", Ink(finding.what, "bold"))
    for line in wrapped(finding.why, desk.screen.width - 2):
        desk.say("  ", line)
    desk.say("  ", Ink("→ ", "green"), finding.mend)
    desk.say()


def examined(desk: Desk, quick: bool) -> Iterator[Finding]:
    try:
        store = desk.store()
    except ThreadlineError as error:
        yield unopened(error, desk.url)
        return
    with store:
        with desk.progress("counting") as progress:
            stats = store.stats(progress=progress.told)
        if not quick:
            yield from damage(verified(desk, store).problems, stats["path"])
        yield from interrupted(store)
        yield from drafts(store)
        yield from erasures(stats)
        yield from the_index(stats)
        yield from the_file(stats)


def erasures(stats: dict[str, Any]) -> Iterator[Finding]:
    """What was erased, and of which bytes may still be somewhere: what a receipt calls `pending`."""
    if stats.get("pending_erasures"):
        why = "Nothing of it can be reached any more, but old bytes may still lie in free space of the file or in its "
        why += (
            "WAL: a reader or a backup was under way when it was erased, or the disk refused. It is tried again after "
        )
        why += "the next write, when the store is closed and when it is opened to write."
        yield Finding(
            "problem",
            "an erasure is pending",
            why,
            "threadline index  opens it to write, and tries again; if that does not help, end what still reads: "
            f"lsof {stats['path']}",
        )
    if stats.get("dead_rows", 0) > max(DEAD_ROWS, stats["entries"] // 5):
        why = (
            f"{stats['dead_rows']:,} rows were changed or deleted, and PostgreSQL keeps their bytes until it vacuums; "
        )
        why += "those of erased sessions are among them."
        yield Finding(
            "advice", "dead rows wait for a vacuum", why, "psql URL -c 'VACUUM'  (FULL gives the bytes back at once)"
        )


def the_index(stats: dict[str, Any]) -> Iterator[Finding]:
    if stats["unindexed"] >= LAG_ROWS:
        why = (
            f"{words.count(stats['unindexed'], 'row')} of the log are not in the search index yet. Nothing is missed: "
        )
        why += (
            "the next search brings it up to date first, and whoever asks has to wait for that; one that may not write "
        )
        why += "reads all of them, each time."
        yield Finding("advice", "the search index lags behind", why, "threadline index")


def unopened(error: ThreadlineError, url: str | None) -> Finding:
    """Why the store cannot be opened."""
    server = bool(url) and str(url).startswith(("postgresql://", "postgres://"))
    mends = {
        threadline.NotFound: "threadline doctor --store FILE  looks at another; `threadline demo` makes one",
        threadline.NotThreadline: "choose another file with --store FILE",
        threadline.TooNew: "pip install -U threadline",
        threadline.StoreBusy: "wait, and try again; `lsof FILE` says which program holds it",
        threadline.StoreFull: "free some space on that disk",
        threadline.Damaged: "take the last backup: `threadline verify --store BACKUP` says whether it is whole",
    }
    other = "look whether the server runs, and at the URL; `threadline migrate --check URL` checks its schema"
    mend = mends.get(type(error), other if server else "look at the file and the rights on it")
    return Finding("problem", "the store cannot be opened", told(error), mend)


def damage(problems: list[Problem], path: str) -> Iterator[Finding]:
    for problem in problems[:NAMED]:
        place = f"session {problem.session}" if problem.session else "the store"
        entry = f"entry {problem.seq} of {place}" if problem.seq is not None else place
        if REBUILD in problem.what:
            why = "The index follows from the log, which is whole. Until it is made anew, a search may miss something."
            yield Finding("problem", f"{entry}: {problem.what.partition(':')[0]}", why, REBUILD)
            continue
        yield Finding(
            "problem",
            f"{entry}: {problem.what}",
            "Stored bytes are not those that were written: a disk, a cable, memory or another program changed them. "
            "Everything else stays readable, and nothing damaged is ever sent to a model.",
            f"threadline copy {path} NEW.db  takes along all that is whole; then "
            "threadline copy BACKUP.db NEW.db  adds from a backup what was not",
        )
    if len(problems) > NAMED:
        more = f"and {len(problems) - NAMED:,} more damaged places"
        yield Finding("problem", more, "They are of the same kind.", "threadline verify  lists all of them")


def interrupted(store: Store) -> Iterator[Finding]:
    """Sessions that stopped in the middle of a tool call, and whose writer seems to be gone."""
    before = datetime.now(UTC) - IDLE
    waiting = store.sessions(waiting=True, root=False, updated_before=before, limit=1_000).items
    stuck = [info for info in waiting if info.pending and not info.holder]
    for info in stuck[:NAMED]:
        yield Finding(
            "problem",
            f"{named(info)} stopped with {words.count(info.pending, 'open call')}, {words.ago(info.updated_at)}",
            "Its writer was killed or has given up. A provider refuses a call without a result, so the context "
            "answers it as interrupted each time; with a repair the log says so, too.",
            f"threadline repair {info.id}",
        )
    if len(stuck) > NAMED:
        more = f"and {len(stuck) - NAMED:,} more sessions with open calls"
        yield Finding("problem", more, "They stopped in the same way.", "threadline ls --waiting  lists them")


def drafts(store: Store) -> Iterator[Finding]:
    for info in store.sessions(limit=LOOKED_AT).items:
        lost = [draft for draft in store.get(info.id).drafts if draft.interrupted]
        if lost:
            size = words.size(sum(len(draft.text) for draft in lost))
            yield Finding(
                "problem",
                f"{named(info)} has {words.count(len(lost), 'interrupted draft')} ({size})",
                "A message was streaming when its writer was killed. What had come is kept, but is not in the log.",
                f"threadline repair {info.id}",
            )


def the_file(stats: dict[str, Any]) -> Iterator[Finding]:
    """A store on a server has no file: whoever runs the server looks after its disk."""
    path = str(stats["path"])
    if not os.path.isfile(path):
        return
    mode = os.stat(path).st_mode & 0o077
    if mode:
        why = "What agents say often holds secrets, and a file is made so that only its owner can read it."
        yield Finding("problem", f"other users of this machine may open {path}", why, f"chmod 600 {path}")
    free = disk_usage(path).free
    if free < max(ROOM_BYTES, stats["size_bytes"]):
        why = f"{words.size(free)} are free beside a store of {words.size(stats['size_bytes'])}. A full disk loses "
        why += "nothing, but every write is refused until there is room."
        yield Finding(
            "advice", "the disk is almost full", why, "threadline backup OTHER_DISK/copy.db, then free some space"
        )
    if stats.get("wal_bytes", 0) > LARGE_WAL_BYTES:
        why = f"{path}-wal holds {words.size(stats['wal_bytes'])}. It is emptied when no reader looks at the past: "
        why += "some program keeps a transaction open."
        yield Finding("advice", "the write-ahead log is large", why, f"lsof {path}  says which programs have it open")
    if stats.get("free_bytes", 0) > max(LARGE_FREE_BYTES, stats["size_bytes"] // 3):
        why = (
            f"{words.size(stats['free_bytes'])} of {words.size(stats['size_bytes'])} are free, and used again for new "
        )
        why += "entries. A backup leaves them out."
        yield Finding("advice", "much of the file is free space", why, "threadline backup SMALLER.db")


def named(info: SessionInfo) -> str:
    return f"session {info.id}" + (f" ({info.title or info.key})" if info.title or info.key else "")
