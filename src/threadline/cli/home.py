"""`threadline` alone: the latest sessions, and what to do next."""

from __future__ import annotations

from threadline import NotFound
from threadline.cli.desk import Desk
from threadline.cli.failing import failing
from threadline.cli.ls import listed
from threadline.cli.screen import Ink

LATEST = 10


def home(desk: Desk) -> None:
    with failing():
        try:
            store = desk.store()
        except NotFound as error:
            return _without(desk, str(error.name))
        with store:
            infos = store.sessions(limit=LATEST).items
            waiting = len(store.sessions(waiting=True, limit=LATEST).items)
    if desk.as_json:
        for info in infos:
            desk.give(info)
        return None
    if not infos:
        return _empty(desk)
    listed(desk, infos)
    first = infos[0].id if not desk.screen.terminal else infos[0].id[:8]
    desk.say()
    advise(
        desk,
        (f"threadline show {first}", "read it; `latest` works as well"),
        ("threadline ls --waiting", f"{waiting if waiting < LATEST else 'many'} wait for an answer")
        if waiting
        else None,
        ("threadline ls", "more of them; --help for what else there is"),
    )
    return None


def advise(desk: Desk, *lines: tuple[str, str] | None) -> None:
    """Commands and what they are for, cut to the terminal; nothing with --json."""
    if desk.as_json:
        return
    known = [line for line in lines if line is not None]
    wide = max(len(command) for command, _ in known)
    for command, why in known:
        desk.screen.line("  ", Ink(command.ljust(wide), "bold"), "  ", Ink(why, "dim"))


def _empty(desk: Desk) -> None:
    desk.say("No active session in this store.")
    desk.say()
    advise(
        desk,
        ("threadline ls --all", "those that were put away"),
        ("threadline import PATH", "what other tools left on this disk"),
    )


def _without(desk: Desk, path: str) -> None:
    desk.say(f"There is no store at {path} yet: it is made when an agent first writes to it.")
    desk.say()
    advise(
        desk,
        ("threadline demo", "watch it work, in a file of its own"),
        ("threadline import PATH", "bring in what other tools left on this disk"),
        ("threadline --store FILE ls", "look at another store; $THREADLINE_STORE names one for good"),
    )
