"""How statements are run: by name, with bound values, foreign errors made ours at the edge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from threadline.backends import sql
from threadline.errors import Damaged, ReadOnly, StoreBusy, StoreFailed, StoreFull, ThreadlineError

SQL = {
    name: statement
    for file in ("queries.sql", "erasing.sql", "memory.sql")
    for name, statement in sql.queries("sqlite", file).items()
}

MISTYPED = (UnicodeDecodeError, TypeError, AttributeError)  # text or types that nobody wrote so: damage

NOT_YET = -1  # no file has that version: the row is not committed, or not to be relied on

Values = tuple[Any, ...] | dict[str, Any]


class Connection(apsw.Connection):
    """A connection that keeps two things for the next append.

    `kept` is a cursor, for statements whose rows are read at once: to make one for each would cost as much as one more
    statement. `head` is the head row that it wrote last, of the session `head_of`, and `head_at` the version of the
    file that has it: SQLite counts the commits there, of whichever process. It is known from one lone append to the
    next; whatever else this connection does in between makes it forget."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.kept = self.cursor()
        self.head: tuple[Any, ...] | None = None
        self.head_of = 0
        self.head_at = NOT_YET

    def close(self, force: bool = False) -> None:
        self.__dict__.pop("kept", None)  # which holds the connection
        super().close(force)


def run(connection: Connection, name: str, values: Values = ()) -> None:
    connection.kept.execute(SQL[name], values)


def run_many(connection: Connection, name: str, values: Iterable[tuple[Any, ...]]) -> None:
    connection.executemany(SQL[name], values)


def one(connection: Connection, name: str, values: Values = ()) -> Any:
    """The first row, or None."""
    found = many(connection, name, values)
    return found[0] if found else None


def many(connection: Connection, name: str, values: Values = ()) -> list[Any]:
    """All rows: one that is left unread would keep the kept cursor, and a reader's moment, for ever."""
    return connection.kept.execute(SQL[name], values).fetchall()


@contextmanager
def readable() -> Iterator[None]:
    """What cannot be read is damaged, or whatever else SQLite says of it."""
    try:
        yield
    except apsw.Error as error:
        raise translated(error) from error
    except MISTYPED as error:
        raise Damaged(None, None, f"a row cannot be read: {error}") from error


@contextmanager
def our_errors() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translated(error) from error
    except OSError as error:
        raise StoreFailed(f"the operating system refused: {error}") from error


def caused(ours: ThreadlineError, foreign: BaseException) -> ThreadlineError:
    """Our error, to be raised later, with what it comes from."""
    ours.__cause__ = foreign
    return ours


def translated(error: apsw.Error) -> ThreadlineError:
    match error:
        case apsw.FullError():
            return StoreFull(
                f"no space left ({error}): nothing was written. Free some space, or remove sessions: "
                "delete, erase, redact and prune still work, out of the reserve beside the store"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"another program holds the database ({error}): nothing was written, try again")
        case apsw.CorruptError() | apsw.NotADBError():
            return Damaged(None, None, str(error))
        case apsw.ReadOnlyError():
            return ReadOnly()
    return StoreFailed(f"the database could not do it ({type(error).__name__}: {error}): nothing was written")
