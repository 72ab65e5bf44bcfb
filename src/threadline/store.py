"""A store is a place where sessions live: one SQLite file, or a PostgreSQL database."""

from __future__ import annotations

import os
from base64 import b32encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from os import urandom
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from threadline.backends.backend import ACTIVE, STATUSES, Backend, NewSession, OnProgress, Problem, Query, SpentQuery
from threadline.core import codec
from threadline.core.about import About, Change
from threadline.core.digest import SIZE
from threadline.core.entries import moment
from threadline.core.receipts import Receipt
from threadline.core.searching import MARKS, Indexing
from threadline.core.spending import PriceTable, totals
from threadline.core.usage import Usage
from threadline.drafts import Flusher
from threadline.errors import InvalidArgument, NotFound
from threadline.following import Changes, Hub
from threadline.info import SessionInfo, check_about, info_of
from threadline.messages import Message
from threadline.pen import Pen, check_name, check_seq_or_none, time_of
from threadline.session import Session

if TYPE_CHECKING:
    from threadline.backends.copying import CopyReport, OnCopied
    from threadline.hits import Hit
    from threadline.working_memory import Memory

LIMIT_MAX = 1_000_000  # of sessions in one page
MAX_DEPTH = 3  # of sub-agents of sub-agents: deeper is more often a runaway than a plan
EPOCH_DAY = 719_163  # 1970-01-01 as Python counts days
USAGE_BY = ("model", "day", "session", "agent")

Clock: TypeAlias = Callable[[], datetime]


class VerifyReport(Struct, frozen=True):
    """What `verify` found. `counts` says how much was looked at."""

    problems: list[Problem]
    counts: dict[str, int]

    @property
    def ok(self) -> bool:
        return not self.problems


class PrunePlan(Struct, frozen=True):
    """Which sessions were not changed since `before`, oldest first; moved to the trash unless it was a dry run."""

    sessions: list[str]
    before: datetime
    dry_run: bool


class Page:
    """One page of sessions. Iterating goes on through all pages that follow."""

    def __init__(self, store: Store, query: Query) -> None:
        records, cursor = store._backend.records(query)
        self.items: list[SessionInfo] = [info_of(record, store._pen.prices) for record in records]
        self.next: str | None = None if cursor is None else _cursor(query.order, cursor)
        self._store = store
        self._query = query

    def __repr__(self) -> str:
        return f"<Page of {len(self.items)} sessions{'' if self.next is None else ', more follow'}>"

    def following(self) -> Page | None:
        """The next page, or None at the end."""
        return None if self.next is None else Page(self._store, _at(self._query, self.next))

    def __iter__(self) -> Iterator[SessionInfo]:
        page: Page | None = self
        while page is not None:
            yield from page.items
            page = page.following()


class Store:
    """Sessions in one place, confined to a namespace. Serves many threads; a forked child reopens by itself."""

    def __init__(
        self,
        backend: Backend,
        *,
        namespace: str = "",
        pen: Pen | None = None,
        max_depth: int = MAX_DEPTH,
        sharing: Store | None = None,
    ) -> None:
        self._backend = backend
        self._pen = pen or Pen()
        self._max_depth = max_depth
        self._flusher: Flusher = Flusher(backend) if sharing is None else sharing._flusher
        self._hub: Hub = Hub(backend) if sharing is None else sharing._hub
        self.namespace = namespace

    def __repr__(self) -> str:
        within = f" within {self.namespace!r}" if self.namespace else ""
        return f"<Store {self._backend!r}{within}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Store cannot be pickled: send its path, and threadline.open() it in the other process")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Every later call raises Closed. Closing twice is fine."""
        self._flusher.close()
        self._hub.close()
        self._backend.close()

    def within(self, namespace: str) -> Store:
        """The same connections, confined to another namespace."""
        within = _checked_namespace(namespace)
        return Store(self._backend, namespace=within, pen=self._pen, max_depth=self._max_depth, sharing=self)

    # -- sessions --------------------------------------------------------------------------------------

    def session(self, key: str, **attributes: Any) -> Session:
        """The one session of that key. It is made at its first append; then `attributes` (those of `new`) apply."""
        session = self._handle(key, attributes)
        session._found()
        return session

    def new(
        self,
        key: str | None = None,
        title: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        system: str | None = None,
        tags: Iterable[str] = (),
        meta: dict[str, Any] | None = None,
        id: str | None = None,
        at: datetime | None = None,
    ) -> Session:
        """Make a session at once. Raises Conflict if the key or the id is taken."""
        about = _about(
            title=title, agent=agent, model=model, provider=provider, cwd=cwd, system=system, tags=tags, meta=meta
        )
        return Session(self, self._backend.new(self._new_session(id=id, key=key, about=about, at=at)))

    def get(self, session_id: str | Session) -> Session:
        """The session of that id. Raises NotFound."""
        if isinstance(session_id, Session):
            if session_id._store.namespace == self.namespace and session_id._backend is self._backend:
                return session_id
            session_id = session_id.id or ""
        ref = self._backend.find(self.namespace, id=session_id) if isinstance(session_id, str) else None
        if ref is None:
            raise NotFound("session", session_id, "store.find(key) looks up keys, store.sessions() lists them all")
        return Session(self, ref)

    def find(self, key: str) -> Session | None:
        """The session of that key, or None. Makes nothing."""
        ref = self._backend.find(self.namespace, key=check_name(key, "key"))
        return None if ref is None else Session(self, ref)

    def latest(
        self, cwd: str | os.PathLike[str] | None = None, agent: str | None = None, tag: str | None = None
    ) -> Session | None:
        """The active session that changed last, in that folder, of that agent, with that tag."""
        page = self.sessions(cwd=cwd, agent=agent, tag=tag, limit=1)
        return self.get(page.items[0].id) if page.items else None

    def sessions(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        agent: str | None = None,
        tag: str | None = None,
        status: str | None = ACTIVE,
        parent: str | Session | None = None,
        root: bool = True,
        waiting: bool | None = None,
        key_prefix: str | None = None,
        id_prefix: str | None = None,
        updated_before: datetime | None = None,
        order: str = "updated",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """A page of sessions, the latest change first; iterating it goes on through all pages.

        Sub-agents are left out unless `root=False` asks for all, or `parent` for the children of one. `waiting` ones
        have open calls or an unanswered user turn. `key_prefix` and `id_prefix` are how a key or an id
        begins. A walk reaches every session that is not written meanwhile; with order="created" it reaches all.
        `status=None` lists all of them."""
        if order not in ("updated", "created"):
            raise InvalidArgument(f'order is "updated" or "created", not {order!r}')
        if status is not None and status not in STATUSES:
            raise InvalidArgument(f"status is one of {', '.join(STATUSES)} or None, not {status!r}")
        if not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
            raise InvalidArgument(f"limit is a number of sessions from 1 to {LIMIT_MAX:,}, not {limit!r}")
        if not isinstance(waiting, bool | None):
            raise InvalidArgument(f"waiting is True, False or None, not {waiting!r}")
        if not isinstance(root, bool):
            raise InvalidArgument(f"root is True or False, not {root!r}")
        for name, value in (("agent", agent), ("tag", tag), ("key_prefix", key_prefix), ("id_prefix", id_prefix)):
            if not isinstance(value, str | None):
                raise InvalidArgument(f"{name} is text, not {value!r}")
        query = Query(
            namespace=self.namespace,
            cwd=check_about({"cwd": cwd}, None)["cwd"],
            agent=agent,
            tag=tag,
            status=status,
            waiting=waiting,
            key_prefix=key_prefix,
            id_prefix=id_prefix,
            updated_before=None if updated_before is None else time_of(updated_before),
            order=order,
            limit=limit,
            root=root,
            parent=None if parent is None else self.get(parent)._made(),
        )
        return Page(self, query if cursor is None else _at(query, cursor))

    def follow(self, timeout: float | None = None) -> Iterator[SessionInfo]:
        """Sessions as they change, from now on, whoever changes them; one that changed twice meanwhile comes once.

        Ends after `timeout` seconds without a change, and when the store is closed."""
        return (info_of(record, self._pen.prices) for record in self._changes(timeout))

    def _changes(self, timeout: float | None) -> Changes:
        return Changes(self._backend, self._hub, self.namespace, self._pen.now, timeout)

    # -- searching -------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        session: str | Session | None = None,
        role: str | None = None,
        agent: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        trashed: bool = False,
        group: bool = False,
        limit: int = 20,
        around: int = 1,
        marks: tuple[str, str] = MARKS,
    ) -> list[Hit]:
        """What answers a question, in whatever words, best first. No text is refused, and none is a syntax error.

        Words, identifiers and paths may be found; "quoted phrases" must be. It looks into messages, reasoning, tool
        calls and results, summaries, notes, goals and titles, also into what was rewound or compacted away. With
        `group`, each session comes once, with its best entry. Trashed sessions are left out unless asked for. `around`
        is how many messages come along before and after, `marks` what stands around the words that were found. From
        `since` on, and before `until`. Brings the index up to date first, unless the store is read-only: then what
        the index lacks is read one by one."""
        from threadline.hits import asked, catch_up, hit_of  # who does not search need not wait for it

        search = asked(
            query,
            namespace=self.namespace,
            ref=None if session is None else self.get(session)._made(),
            role=role,
            agent=agent,
            cwd=cwd,
            since=since,
            until=until,
            trashed=trashed,
            group=group,
            limit=limit,
            around=around,
            marks=marks,
        )
        catch_up(self._backend, self.namespace)
        return [hit_of(*found, self._pen.prices) for found in self._backend.search(search)]

    def index(self, *, rebuild: bool = False, drop: bool = False, progress: OnProgress | None = None) -> Indexing:
        """Bring the search index up to date, so that no search has to. Safe from several processes at once, and others
        write in between; broken off, it goes on where it stopped.

        With `rebuild` it is made anew, with `drop` only removed: the next search makes it again. `progress` is called
        after each step with a Progress, in the same thread; it must not use the store."""
        from threadline.hits import catch_up

        if rebuild or drop:
            self._backend.drop_index(self.namespace)
        if drop:
            return self._backend.index_lag(self.namespace)
        done = catch_up(self._backend, self.namespace, progress)
        while self._backend.merge_index():
            continue
        return done

    # -- status ----------------------------------------------------------------------------------------

    def archive(self, session_id: str | Session) -> None:
        """Put a session away: kept, not listed, not written to until it is restored."""
        self._set_status(session_id, "archived")

    def trash(self, session_id: str | Session) -> None:
        """Put a session into the trash: kept, not listed, not written to until it is restored."""
        self._set_status(session_id, "trashed")

    def restore(self, session_id: str | Session) -> None:
        """Make an archived or trashed session active again."""
        self._set_status(session_id, "active")

    def delete(self, session_id: str | Session, cascade: bool = True, expect: int | None = None) -> int:
        """Remove a session for good, and its ephemeral and linked descendants; returns how many sessions went.

        Detached children, and with `cascade=False` all children, become roots. Forks keep what they share. What the
        session spent stays with its parent, if it has one. With `expect` it raises Stale if the head moved."""
        return self._backend.delete(self.get(session_id)._made(), bool(cascade), check_seq_or_none(expect, "expect"))

    def erase(self, session_id: str | Session, cascade: bool = False) -> Receipt:
        """Remove a session so that no byte of it is left: not in the file, its WAL or its indexes, names included.

        The receipt says what is still `pending`, why, and until when; on PostgreSQL that is always something. Forks and
        sub-agents hold parts of it: Conflict names them, unless `cascade`, which erases them, too, detached ones
        included. Copies that were made before, backups and exports, are out of reach. Reads the whole file once."""
        return self._backend.erase(self.get(session_id)._made(), bool(cascade), self._pen.now())

    def prune(self, *, older_than: timedelta, dry_run: bool = True) -> PrunePlan:
        """Which active sessions nobody has changed for so long, nor anything below them; they are only listed.

        With `dry_run=False` they are moved to the trash, where `restore` finds them. Nothing is ever deleted here, and
        nothing is pruned unasked."""
        if not isinstance(older_than, timedelta) or older_than <= timedelta(0):
            raise InvalidArgument(f"older_than is a timedelta above 0, such as timedelta(days=30), not {older_than!r}")
        now = self._pen.now()
        before = now - older_than // timedelta(microseconds=1)
        found = self._backend.prune(self.namespace, before, None if dry_run else now)
        return PrunePlan(found, moment(before), dry_run)

    # -- usage -----------------------------------------------------------------------------------------

    def usage(
        self,
        by: str | tuple[str, ...] = "model",
        since: datetime | None = None,
        until: datetime | None = None,
        agent: str | None = None,
        tag: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> dict[Any, Usage]:
        """What was spent, sub-agents included, by "model", "day" (UTC, "2026-01-31"), "session" (its id) or "agent".

        By several of them, in a tuple, the keys are tuples; by none of them, `()`, it is the total. From `since` on,
        and before `until`. A key is None where a request has no model or agent. Reads sums, not requests."""
        names = (by,) if isinstance(by, str) or not isinstance(by, Iterable) else tuple(by)
        if not {*names} <= {*USAGE_BY} or len({*names}) < len(names):
            raise InvalidArgument(f"usage is told by {', '.join(USAGE_BY)}, or a tuple of them, not by {by!r}")
        query = SpentQuery(
            self.namespace,
            names,
            since=None if since is None else time_of(since),
            until=None if until is None else time_of(until),
            agent=agent,
            tag=tag,
            cwd=check_about({"agent": agent, "title": tag, "cwd": cwd}, None)["cwd"],
        )
        found = totals(self._backend.spent_by(query), self._pen.prices)
        told = {tuple(map(_usage_key, names, group)): usage for group, usage in found.items()}
        return {key[0]: usage for key, usage in told.items()} if isinstance(by, str) else dict(told)

    # -- memory ----------------------------------------------------------------------------------------

    def memory(self, project: str | None = None, root: str | os.PathLike[str] | None = None) -> Memory:
        """The memory of a project, or the global one; it begins with its first claim.

        `root` is the folder of the project, which anchors lead into; by default the current one."""
        from threadline.working_memory import Memory  # most programs that only log never need it

        return Memory(self, project, root)

    def _set_status(self, session_id: str | Session, status: str) -> None:
        ref = self.get(session_id)._made()
        self._backend.change(ref, Change(at=self._pen.now(), status=status))

    # -- care ------------------------------------------------------------------------------------------

    def verify(self, *, progress: OnProgress | None = None) -> VerifyReport:
        """Read everything and check it: every digest, chain, view, count and index. Changes nothing.

        `progress` is called now and then with a Progress, in the same thread; it must not use the store."""
        return VerifyReport(*self._backend.verify(progress))

    def backup(self, path: str | os.PathLike[str], *, progress: OnProgress | None = None) -> None:
        """Copy the store to a new file, consistent, while others write. Raises Conflict if the file exists.

        `progress` is called now and then with a Progress, in the same thread; it must not use the store."""
        self._backend.backup(os.path.expanduser(os.fspath(path)), progress)

    def stats(self, *, progress: OnProgress | None = None) -> dict[str, Any]:
        """Sizes and counts of the whole store, all namespaces together; but `unindexed`, what the search index lacks,
        of this namespace. With millions of entries it takes a while: `progress` as for `verify`."""
        return self._backend.stats(progress) | {"unindexed": self._backend.index_lag(self.namespace).missing}

    # -- how it gets there -----------------------------------------------------------------------------

    def _handle(self, key: str, attributes: dict[str, Any]) -> Session:
        """The session of a key, not looked up yet."""
        id, at = attributes.pop("id", None), attributes.pop("at", None)
        new = self._new_session(id=id, key=check_name(key, "key"), about=_about(**attributes), at=at)
        return Session(self, None, new if at is not None else replace(new, at=0))  # 0: when its first entry comes

    def _new_session(
        self, *, about: About, id: str | None = None, key: str | None = None, at: datetime | None = None
    ) -> NewSession:
        return NewSession(
            namespace=self.namespace,
            id=_new_id() if id is None else check_name(id, "id"),
            key=None if key is None else check_name(key, "key"),
            salt=urandom(SIZE),
            at=self._pen.now() if at is None else time_of(at),
            about=about,
        )


def open(
    url: str | os.PathLike[str] | None = None,
    *,
    namespace: str = "",
    durability: str = "full",
    read_only: bool = False,
    max_depth: int = MAX_DEPTH,
    prices: PriceTable | None = None,
    clock: Clock | None = None,
    count_tokens: Callable[[Message], int] | None = None,
) -> Store:
    """Open a store: a file (made with its folders if it is not there), ":memory:", a postgresql:// URL, or the default.

    The default is $THREADLINE_HOME/threadline.db, else the platform's data directory. `durability="full"`: what is
    acknowledged survives power loss; "relaxed": a crash of the process, but perhaps not the last moments before a power
    cut. `max_depth` is how deep sub-agents may be; children of a root are at depth 1. `prices` gives, for the name of
    a model, what a million tokens cost: {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}, or None
    if it does not know. `clock` returns an aware datetime, `count_tokens` takes a Message."""
    if durability not in ("full", "relaxed"):
        raise InvalidArgument(f'durability is "full" or "relaxed", not {durability!r}')
    if not isinstance(max_depth, int) or isinstance(max_depth, bool) or max_depth < 0:
        raise InvalidArgument(f"max_depth is a number from 0 on, not {max_depth!r}")
    if read_only and url == ":memory:":
        raise InvalidArgument("a store in memory is empty when it is opened: with read_only=True it would stay so")
    pen = Pen(clock, count_tokens, prices)
    named = _checked_namespace(namespace)
    return Store(_backend(url, durability, read_only), namespace=named, pen=pen, max_depth=max_depth)


def _backend(url: str | os.PathLike[str] | None, durability: str, read_only: bool) -> Backend:
    if isinstance(url, str) and url.startswith(("postgresql://", "postgres://")):
        try:
            from threadline.backends.postgres.backend import PostgresBackend
        except ImportError as error:
            raise InvalidArgument("PostgreSQL needs its driver: pip install 'threadline[postgres]'") from error
        return PostgresBackend(url, durability=durability, read_only=read_only)
    from threadline.backends.sqlite.backend import SqliteBackend

    return SqliteBackend(_path(url), durability=durability, read_only=read_only)


def copy(source: Store, target: Store, *, progress: OnCopied | None = None) -> CopyReport:
    """Copy all sessions, of all namespaces, from one store into another: from a file to a server, or back.

    Every row is the same there, byte for byte, and checked by its digest and chain on the way. It can be broken off and
    called again: then it adds what is missing. `progress` is called after each portion, in the same thread."""
    from threadline.backends.copying import copy_sessions

    return copy_sessions(source._backend, target._backend, progress)


def default_path() -> str:
    """Where the store lies when nothing else is said."""
    if home := os.environ.get("THREADLINE_HOME"):
        folder = home
    elif os.uname().sysname == "Darwin":
        folder = "~/Library/Application Support/threadline"
    else:
        folder = os.path.join(os.environ.get("XDG_DATA_HOME") or "~/.local/share", "threadline")
    return os.path.join(os.path.expanduser(folder), "threadline.db")


def _path(url: str | os.PathLike[str] | None) -> str:
    if url is None:
        return default_path()
    path = os.fspath(url) if isinstance(url, str | os.PathLike) else url
    if path == ":memory:":
        return path
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidArgument(f"a store is a path, ':memory:', postgresql://… or None, not {path!r}")
    if "://" in path or path.startswith(("file:", "sqlite:")):
        raise InvalidArgument(
            f"no backend for {path.partition(':')[0]}: addresses: a store is the path of a file, or postgresql://…"
        )
    return os.path.abspath(os.path.expanduser(path))


def _checked_namespace(namespace: str) -> str:
    return namespace if namespace == "" else check_name(namespace, "namespace")


def _about(
    *,
    title: str | None = None,
    tags: Iterable[str] = (),
    meta: dict[str, Any] | None = None,
    **fields: Any,
) -> About:
    if unknown := fields.keys() - {"agent", "model", "provider", "cwd", "system"}:
        raise InvalidArgument(f"a session has no attribute {min(unknown)!r}: store.new() names those that it has")
    checked = check_about(fields | {"title": title}, meta)
    titled_by = None if title is None else "person"
    if isinstance(tags, str):
        raise InvalidArgument("tags is a list of tags, not one string")
    names = tuple(dict.fromkeys(check_name(tag, "tag") for tag in tags))
    return About(**checked, titled_by=titled_by, tags=names, meta=meta or {})


def _usage_key(name: str, value: Any) -> Any:
    return date.fromordinal(EPOCH_DAY + value).isoformat() if name == "day" else value


def _new_id() -> str:
    """20 letters and digits, 100 random bits: short enough to type a prefix of, too many to meet twice."""
    return b32encode(urandom(13)).decode().lower()[:20]


def _cursor(order: str, position: tuple[int, int]) -> str:
    return urlsafe_b64encode(codec.encode([order, *position])).decode()


def _at(query: Query, cursor: str) -> Query:
    try:
        order, at, number = codec.decode(urlsafe_b64decode(cursor))
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"not a cursor of ours: {cursor!r}; take it from page.next") from error
    if order != query.order:
        raise InvalidArgument(f"the cursor is of a listing by {order!r}, not by {query.order!r}")
    return replace(query, cursor=(at, number))
