"""A store is a place where sessions live: one SQLite file, or a PostgreSQL database."""

from __future__ import annotations

import os
from base64 import b32encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from os import urandom
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from threadline.backends.backend import ACTIVE, STATUSES, Backend, NewSession, Problem, Query
from threadline.backends.copying import CopyReport, OnProgress, copy_sessions
from threadline.core import codec
from threadline.core.about import About, Change
from threadline.core.digest import SIZE
from threadline.errors import InvalidArgument, NotFound
from threadline.messages import Message
from threadline.pen import Pen, check_name, time_of
from threadline.session import Session, SessionInfo, check_about, info_of

LIMIT_MAX = 1_000_000  # of sessions in one page

Clock: TypeAlias = Callable[[], datetime]


class VerifyReport(Struct, frozen=True):
    """What `verify` found. `counts` says how much was looked at."""

    problems: list[Problem]
    counts: dict[str, int]

    @property
    def ok(self) -> bool:
        return not self.problems


class Page:
    """One page of sessions. Iterating goes on through all pages that follow."""

    def __init__(self, store: Store, query: Query) -> None:
        records, cursor = store._backend.records(query)
        self.items: list[SessionInfo] = [info_of(record) for record in records]
        self.next: str | None = None if cursor is None else _cursor(query.order, cursor)
        self._store = store
        self._query = query

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

    def __init__(self, backend: Backend, *, namespace: str = "", pen: Pen | None = None) -> None:
        self._backend = backend
        self._pen = pen or Pen()
        self.namespace = namespace

    def __repr__(self) -> str:
        within = f" within {self.namespace!r}" if self.namespace else ""
        return f"<Store {self._backend!r}{within}>"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Every later call raises Closed. Closing twice is fine."""
        self._backend.close()

    def within(self, namespace: str) -> Store:
        """The same connections, confined to another namespace."""
        return Store(self._backend, namespace=_checked_namespace(namespace), pen=self._pen)

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
        waiting: bool | None = None,
        key_prefix: str | None = None,
        updated_before: datetime | None = None,
        order: str = "updated",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """A page of sessions, the latest change first; iterating it goes on through all pages.

        `waiting` ones have open calls or an unanswered user turn. A walk reaches every session that is not written
        meanwhile; with order="created" it reaches all. `status=None` lists all of them."""
        if order not in ("updated", "created"):
            raise InvalidArgument(f'order is "updated" or "created", not {order!r}')
        if status is not None and status not in STATUSES:
            raise InvalidArgument(f"status is one of {', '.join(STATUSES)} or None, not {status!r}")
        if not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
            raise InvalidArgument(f"limit is a number of sessions from 1 to {LIMIT_MAX:,}, not {limit!r}")
        if not isinstance(waiting, bool | None):
            raise InvalidArgument(f"waiting is True, False or None, not {waiting!r}")
        for name, value in (("agent", agent), ("tag", tag), ("key_prefix", key_prefix)):
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
            updated_before=None if updated_before is None else time_of(updated_before),
            order=order,
            limit=limit,
        )
        return Page(self, query if cursor is None else _at(query, cursor))

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

    def _set_status(self, session_id: str | Session, status: str) -> None:
        ref = self.get(session_id)._made()
        self._backend.change(ref, Change(at=self._pen.now(), status=status))

    # -- care ------------------------------------------------------------------------------------------

    def verify(self) -> VerifyReport:
        """Read everything and check it: every digest, chain, view, count and index. Changes nothing."""
        return VerifyReport(*self._backend.verify())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store to a new file, consistent, while others write. Raises Conflict if the file exists."""
        self._backend.backup(os.path.expanduser(os.fspath(path)))

    def stats(self) -> dict[str, Any]:
        """Sizes and counts of the whole store, all namespaces together."""
        return self._backend.stats()

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
    clock: Clock | None = None,
    count_tokens: Callable[[Message], int] | None = None,
) -> Store:
    """Open a store: a file (made with its folders if it is not there), ":memory:", a postgresql:// URL, or the default.

    The default is $THREADLINE_HOME/threadline.db, else the platform's data directory. `durability="full"`: what is
    acknowledged survives power loss; "relaxed": a crash of the process, but perhaps not the last moments before a power
    cut. `clock` returns an aware datetime, `count_tokens` takes a Message."""
    if durability not in ("full", "relaxed"):
        raise InvalidArgument(f'durability is "full" or "relaxed", not {durability!r}')
    named = _checked_namespace(namespace)
    return Store(_backend(url, durability, read_only), namespace=named, pen=Pen(clock, count_tokens))


def _backend(url: str | os.PathLike[str] | None, durability: str, read_only: bool) -> Backend:
    if isinstance(url, str) and url.startswith(("postgresql://", "postgres://")):
        try:
            from threadline.backends.postgres.backend import PostgresBackend
        except ImportError as error:
            raise InvalidArgument("PostgreSQL needs its driver: pip install 'threadline[postgres]'") from error
        return PostgresBackend(url, durability=durability, read_only=read_only)
    from threadline.backends.sqlite.backend import SqliteBackend

    return SqliteBackend(_path(url), durability=durability, read_only=read_only)


def copy(source: Store, target: Store, *, progress: OnProgress | None = None) -> CopyReport:
    """Copy all sessions, of all namespaces, from one store into another: from a file to a server, or back.

    Every row is the same there, byte for byte, and checked by its digest and chain on the way. It can be broken off and
    called again: then it adds what is missing. `progress` is called after each portion, in the same thread."""
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
    path = os.fspath(url)
    if path == ":memory:":
        return path
    if not path or "\0" in path:
        raise InvalidArgument(f"a store is a path, ':memory:' or None, not {path!r}")
    if "://" in path:
        raise InvalidArgument(
            f"no backend for {path.partition('://')[0]}:// addresses: a store is a file or postgresql://"
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
        raise InvalidArgument(f"a session has no attribute {min(unknown)!r}")
    checked = check_about(fields | {"title": title}, meta)
    titled_by = None if title is None else "person"
    if isinstance(tags, str):
        raise InvalidArgument("tags is a list of tags, not one string")
    names = tuple(dict.fromkeys(check_name(tag, "tag") for tag in tags))
    return About(**checked, titled_by=titled_by, tags=names, meta=meta or {})


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
