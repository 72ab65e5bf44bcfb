"""How statements are run: by name, with bound values, foreign errors made ours at the edge."""

from __future__ import annotations

import select
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg import errors

from threadline.backends import sql
from threadline.errors import Damaged, StoreBusy, StoreFailed, StoreFull, ThreadlineError

_NAMED = {
    name: statement
    for file in ("queries.sql", "erasing.sql", "memory.sql")
    for name, statement in sql.queries("postgres", file).items()
}
SQL = {name: statement.replace("{sums}", _NAMED["sums"]) for name, statement in _NAMED.items()}

Values: TypeAlias = tuple[Any, ...] | dict[str, Any]
Statement: TypeAlias = tuple[str, Values]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that knows which statements are prepared on it by ourselves (see wire.py), how to hear whether the
    server said anything unasked, and whether a pooler stands between us and the server."""

    prepared: frozenset[bytes] = frozenset()
    ear: select.poll | None = None
    pooled: bool = False


# The transaction was certainly undone, and the same again may well succeed.
UNDONE = (errors.SerializationFailure, errors.DeadlockDetected)

# The server is gone, or went while it answered: a commit that was under way may have happened.
GONE = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.IdleInTransactionSessionTimeout)


def run(connection: Connection, name: str, values: Values = ()) -> int:
    """How many rows it wrote."""
    return connection.execute(SQL[name], values, prepare=True).rowcount


def one(connection: Connection, name: str, values: Values = ()) -> Any:
    """The first row, or None."""
    return connection.execute(SQL[name], values, prepare=True, binary=True).fetchone()


def many(connection: Connection, name: str, values: Values = ()) -> list[Any]:
    return connection.execute(SQL[name], values, prepare=True, binary=True).fetchall()


def numbers(values: Iterable[int]) -> str:
    """Numbers as an array, of whatever type the statement says: the driver would choose one by their size."""
    return "{" + ",".join(map(str, values)) + "}"


def byteas(values: Iterable[bytes]) -> str:
    """Bytes as an array, as text: over a list of them the driver takes three times as long."""
    return "{" + ",".join(f'"\\\\x{value.hex()}"' for value in values) + "}"


def is_gone(error: psycopg.Error, connection: Connection | None) -> bool:
    """Whether the connection broke, rather than the server refusing."""
    if isinstance(error, GONE) or connection is None or connection.broken or connection.closed:
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


@contextmanager
def our_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translated(error) from error


def translated(error: psycopg.Error) -> ThreadlineError:
    """An error of the server after which nothing was written."""
    said = str(error).strip()
    match error:
        case errors.DiskFull():
            return StoreFull(f"no space left on the server ({said}): nothing was written; free some there, call again")
        case errors.LockNotAvailable() | errors.QueryCanceled() | errors.TooManyConnections():
            return StoreBusy(f"the server is too busy ({said}): nothing was written, try again")
        case errors.SerializationFailure() | errors.DeadlockDetected():
            return StoreBusy(f"other transactions were in the way ({said}): nothing was written, try again")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return Damaged(None, None, said)
        case errors.ReadOnlySqlTransaction():
            return StoreFailed(
                f"this server only reads ({said}): nothing was written; connect to the primary, "
                "for example with several hosts and target_session_attrs=read-write in the URL"
            )
    return StoreFailed(f"the server could not do it ({type(error).__name__}: {said}): nothing was written")
