"""The shortest way to the server, for the one statement that every append runs.

The driver's own way looks at the type of every value, every time, and costs as much as all the rest of an append. Here
the types are known beforehand: values go over the wire in PostgreSQL's binary format, and a statement is prepared
once per connection under our own name; behind a pooler, where names are not ours alone, it is sent along each time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from struct import Struct
from threading import get_ident, main_thread
from typing import Any

from psycopg import errors, generators, pq
from psycopg.pq.abc import PGresult

from threadline.backends.postgres.statements import SQL, Connection

BOOL, BYTEA, INT8, TEXT = 16, 17, 20, 25  # PostgreSQL's numbers of types

Value = bytes | None

_HEADER = Struct(">iiiii")
_MAIN = main_thread().ident
_NULL = b"\xff\xff\xff\xff"
_BINARY = 1


def prepare(connection: Connection, name: bytes, count: int) -> None:
    """Make a statement known to the server, once per connection. `count` is how many values it takes."""
    if name not in connection.prepared and not connection.pooled:
        connection.pgconn.send_prepare(name, _numbered(name, count))
        _finished(connection)
        connection.prepared |= {name}


@cache
def _numbered(name: bytes, count: int) -> bytes:
    """The statement with its values numbered, as the server wants them."""
    return SQL[name.decode()].replace("%s", "{}").format(*(f"${n}" for n in range(1, count + 1))).encode()


def call(connection: Connection, name: bytes, values: Sequence[Value]) -> list[int]:
    """Run a prepared statement that gives an array of numbers. Raises what the driver would."""
    try:
        result = _run(connection, name, values)
    except errors.InvalidSqlStatementName:  # somebody forgot it: the driver, or a pooler between us and the server
        connection.prepared -= {name}
        prepare(connection, name, len(values))
        result = _run(connection, name, values)
    return list(map(int, (result.get_value(0, 0) or b"{}")[1:-1].split(b",")))


def _run(connection: Connection, name: bytes, values: Sequence[Value]) -> PGresult:
    """In the main thread so that Ctrl-C gets through; no other thread ever hears of it, and there waiting in one go is
    cheaper by half: the interpreter's lock changes hands once."""
    if connection.pooled:
        connection.pgconn.send_query_params(_numbered(name, len(values)), values, None, (_BINARY,) * len(values))
        return _finished(connection)
    if get_ident() == _MAIN:
        connection.pgconn.send_query_prepared(name, values, (_BINARY,) * len(values))
        return _finished(connection)
    blocking: Any = connection.pgconn.exec_prepared  # its types forget that a value may be NULL
    return _checked(connection, blocking(name, values, (_BINARY,) * len(values)))


def roll_back(connection: Connection) -> None:
    """Behind the driver's back, which would forget all statements that it prepared."""
    connection.pgconn.send_query(b"ROLLBACK")
    _finished(connection)


def _finished(connection: Connection) -> PGresult:
    """The result of what was sent."""
    (result,) = connection.wait(generators.execute(connection.pgconn))
    return _checked(connection, result)


def _checked(connection: Connection, result: PGresult) -> PGresult:
    if result.status not in _FINE:
        raise errors.error_from_result(result, connection.info.encoding)
    return result


_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


# -- values --------------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def numbers(values: Iterable[int]) -> bytes:
    return array(INT8, [number(value) for value in values])


def flags(values: Iterable[bool]) -> bytes:
    return array(BOOL, [b"\1" if value else b"\0" for value in values])


def array(kind: int, values: Sequence[Value]) -> bytes:
    """An array of one dimension, counted from 1."""
    if not values:
        return b"\0" * 8 + kind.to_bytes(4, "big")
    header = _HEADER.pack(1, 0, kind, len(values), 1)
    return header + b"".join([_NULL if value is None else len(value).to_bytes(4, "big") + value for value in values])


NO_NUMBERS, NO_FLAGS, NO_BYTES = numbers(()), flags(()), array(BYTEA, ())
