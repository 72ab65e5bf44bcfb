"""How a command is written.

A command is a function in a file of its own, named in `cli.COMMANDS`. It gets a `Desk`, which has at hand what every
command needs, and does the talking; it uses the public API of threadline and nothing below it::

    @command(examples=["threadline rename latest 'the login bug'"])
    @id_argument
    @click.argument("title")
    def rename(desk: Desk, id: str, title: str) -> None:
        \"\"\"Give session ID a title.\"\"\"
        with desk.store(write=True) as store:
            session = desk.session(store, id)
            session.rename(title)
            desk.give(session.info, Ink(session.id, "cyan"), f" is now {title!r}")

`command` adds --store, --namespace, --json and --debug, and makes of every error of threadline one line and exit code
1; `asks=True` adds --yes. What is printed goes through the desk, because the desk prints safely: never use print or
click.echo (a test looks). `give` prints an object as a line of JSON for --json, and the pieces for people otherwise;
`say` is for people only, `hint` for people at a terminal only, and never on standard output. A command returns None, or
an exit code. Times, sizes and counts are told as in `words`. docs/commands.md is generated from the help texts:
`python -m threadline.cli.manual > docs/commands.md`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from threadline.cli.screen import Column, Ink, Piece, Screen
from threadline.cli.shapes import line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threadline import Session, SessionInfo, Store
    from threadline.cli.progress import Progress

LATEST = "latest"
CANDIDATES = 10  # of an ambiguous prefix, told by name
SHORT = 8  # characters of an id that a person sees, unless more are needed to tell it from others

F = TypeVar("F", bound=Callable[..., Any])


class Desk:
    """What every command has at hand: which store, for whom the answer is, and where it is printed."""

    def __init__(self, screen: Screen | None = None, *, asks: bool | None = None) -> None:
        self.screen = screen or Screen()
        self.url: str | None = os.environ.get("THREADLINE_STORE") or None
        self.namespace = os.environ.get("THREADLINE_NAMESPACE", "")
        self.as_json = False
        self.debug = False
        self.yes = False
        self._asks = asks

    # -- the store -------------------------------------------------------------------------------------

    def store(self, *, write: bool = False, make: bool = False) -> Store:
        """The store that was named: to read from, or to `write` to. Only with `make` is a new one made: a mistyped
        name must not become an empty store."""
        import threadline

        if write and not make:
            threadline.open(self.url, read_only=True).close()  # raises if it is not there
        return threadline.open(self.url, namespace=self.namespace, read_only=not write)

    def session(self, store: Store, id: str) -> Session:
        """The session that ID means: `latest`, an id, a key, or the beginning of one id, looked for in that order.

        Raises NotFound, or a usage error that lists the candidates."""
        if id == LATEST:
            return _latest(store)
        import threadline

        try:
            return store.get(id)
        except threadline.NotFound:
            found = store.find(id) if id else None
        return found or self._beginning(store, id)

    def _beginning(self, store: Store, id: str) -> Session:
        found = store.sessions(id_prefix=id, status=None, root=False, limit=CANDIDATES + 1).items if id else []
        if len(found) == 1:
            return store.get(found[0].id)
        if not found:
            where = f" in namespace {self.namespace!r}" if self.namespace else ""
            raise click.ClickException(f"no session {id!r}{where}: `threadline ls --all` lists them all")
        raise Ambiguous(id, found)

    # -- telling ---------------------------------------------------------------------------------------

    def say(self, *pieces: Piece) -> None:
        """For people: nothing with --json."""
        if not self.as_json:
            self.screen.say(*pieces)

    def give(self, thing: object, *pieces: Piece) -> None:
        """The answer: `thing` as a line of JSON for --json, the pieces, if there are any, for people."""
        if self.as_json:
            self.screen.say(line_of(thing))
        elif pieces:
            self.screen.say(*pieces)

    def hint(self, *pieces: Piece) -> None:
        """What to do next: on standard error, for people at a terminal."""
        if self.screen.terminal and not self.as_json:
            self.screen.err(*(Ink(piece, "dim") if isinstance(piece, str) else piece for piece in pieces))

    def warn(self, *pieces: Piece) -> None:
        """What went wrong without ending the command: on standard error, always."""
        self.screen.err(*pieces)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Piece]]) -> None:
        """For people: rows that fit the terminal, whole on a pipe."""
        if not self.as_json:
            self.screen.table(columns, rows)

    @contextmanager
    def paged(self) -> Iterator[None]:
        """What is printed inside goes through the pager, on a terminal."""
        if self.as_json:
            yield
            return
        with self.screen.paged():
            yield

    def progress(self, label: str, *, total: int | None = None, unit: str = "entry") -> Progress:
        """A line on standard error that tells how far it is, how fast it goes and how long it takes yet."""
        from threadline.cli.progress import Progress

        return Progress(self.screen, label, total=total, unit=unit, shown=False if self.as_json else None)

    def confirm(self, what: Sequence[str], question: str = "Go on?") -> None:
        """Say what will happen, and ask. Raises unless the answer is yes, or --yes was given."""
        if self.yes:
            return
        asks = sys.stdin.isatty() if self._asks is None else self._asks
        for line in what:
            self.screen.err(line)
        if not asks:
            raise click.UsageError("nobody is there to ask: give --yes if this is what you want")
        self.screen.err(f"{question} [y/N] ", end="")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise click.ClickException("nothing was done")


class Ambiguous(click.ClickException):
    """A beginning that several ids share."""

    def __init__(self, id: str, found: list[SessionInfo]) -> None:
        named = [f"{info.id}  {info.title or info.key or ''}".rstrip() for info in found[:CANDIDATES]]
        more = [f"… and more than {CANDIDATES}"] if len(found) > CANDIDATES else []
        super().__init__(f"{id!r} is how several ids begin: give more of it\n  " + "\n  ".join(named + more))


def _latest(store: Store) -> Session:
    found = store.latest()
    if found is None:
        raise click.ClickException("there is no active session yet: `threadline ls --all` lists others")
    return found


def short_ids(ids: Iterable[str], *, least: int = SHORT) -> dict[str, str]:
    """Each id as short as it can be among these, for a terminal; `least` characters at the least."""
    ordered = sorted({*ids})
    shortened = {}
    for n, id in enumerate(ordered):
        beside = [other for other in (ordered[n - 1] if n else "", *ordered[n + 1 : n + 2]) if other]
        need = max((_common(id, other) + 1 for other in beside), default=0)
        shortened[id] = id[: max(least, need)]
    return shortened


def _common(one: str, other: str) -> int:
    length = min(len(one), len(other))
    return next((n for n in range(length) if one[n] != other[n]), length)


# -- commands ------------------------------------------------------------------------------------------


def command(
    name: str | None = None, *, examples: Sequence[str] = (), asks: bool = False, store: bool = True
) -> Callable[[Callable[..., Any]], click.Command]:
    """A click command whose function gets the Desk first, with the options that all commands have."""

    def made(function: Callable[..., Any]) -> click.Command:
        named = name or function.__name__.rstrip("_").replace("_", "-")
        result = click.command(named, cls=Command, epilog=_epilog(examples))(click.pass_obj(function))
        result.params += common(asks=asks, store=store)
        return result

    return made


class Command(click.Command):
    def invoke(self, ctx: click.Context) -> Any:
        ctx.ensure_object(Desk)
        from threadline.cli.failing import failing

        with failing():
            return super().invoke(ctx)


def common(*, asks: bool = False, store: bool = True) -> list[click.Parameter]:
    """The options of every command. They speak to the Desk, and are no arguments of the function."""
    options: list[click.Parameter] = []
    if store:
        options += [
            _option(
                "--store",
                "url",
                metavar="URL",
                help="A file or a postgresql:// URL [$THREADLINE_STORE, else your own store].",
            ),
            _option(
                "--namespace",
                "namespace",
                metavar="NAME",
                help="Only what is in that namespace [$THREADLINE_NAMESPACE].",
            ),
        ]
    options += [
        _option("--json", "as_json", is_flag=True, help="For machines: one JSON document per line."),
        _option("--debug", "debug", is_flag=True, help="On failure, the traceback as well."),
    ]
    if asks:
        options.insert(0, _option("--yes", "yes", is_flag=True, help="Do it without asking."))
    return options


def _option(flag: str, attribute: str, **settings: Any) -> click.Option:
    def put(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        desk = ctx.ensure_object(Desk)
        if value is not None and value is not False:
            setattr(desk, attribute, value)

    return click.Option([flag, attribute], expose_value=False, callback=put, **settings)


def id_argument(function: F) -> F:
    """The argument ID: what `Desk.session` understands. It completes in the shell."""
    return click.argument("id", metavar="ID", shell_complete=complete_id)(function)


def complete_id(ctx: click.Context, _: click.Parameter, begun: str) -> list[Any]:
    """Keys and ids that begin so, with their titles, for the shell; nothing where the store cannot be read."""
    from click.shell_completion import CompletionItem

    import threadline
    from threadline.cli.screen import cut

    desk = ctx.ensure_object(Desk)
    try:
        with desk.store() as store:
            by_id = store.sessions(id_prefix=begun or None, limit=20).items
            by_key = store.sessions(key_prefix=begun, limit=20).items if begun else []
            found = [(info.id, info) for info in by_id] + [(info.key or "", info) for info in by_key]
    except threadline.ThreadlineError:
        return []
    latest = [CompletionItem(LATEST, help="the session that changed last")] if LATEST.startswith(begun) else []
    return latest + [CompletionItem(name, help=cut(info.title or "", 40)) for name, info in found]


def _epilog(examples: Sequence[str]) -> str | None:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples) if examples else None
