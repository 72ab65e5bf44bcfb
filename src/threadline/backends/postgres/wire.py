"""The shortest way to the server, for the one statement that every append runs.

The driver's own way looks at the type of every value, every time, and costs as much as all the rest of an append. Here
the types are known beforehand: values go over the wire in PostgreSQL's binary format, and a statement is prepared
once per connection under our own name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from psycopg import errors, generators, pq
from psycopg.pq.abc import PGresult

from threadline.backends.postgres.statements import SQL, Connection

BOOL, BYTEA, INT8, TEXT = 16, 17, 20, 25  # PostgreSQL's numbers of types

Value = bytes | None

_HEADER = Struct(">iiiii")
_NULL = b"\xff\xff\xff\xff"
_BINARY = 1


def call(connection: Connection, name: bytes, values: Sequence[Value]) -> list[int]:
    """Run a named statement that gives an array of numbers. Can be interrupted, and raises what the driver would."""
    if name not in connection.prepared:
        _prepare(connection, name, len(values))
    try:
        result = _run(connection, name, values)
    except errors.InvalidSqlStatementName:  # somebody forgot it: the driver, or a pooler between us and the server
        _prepare(connection, name, len(values))
        result = _run(connection, name, values)
    return list(map(int, (result.get_value(0, 0) or b"{}")[1:-1].split(b",")))


def _run(connection: Connection, name: bytes, values: Sequence[Value]) -> PGresult:
    connection.pgconn.send_query_prepared(name, values, (_BINARY,) * len(values))
    return _finished(connection)


def roll_back(connection: Connection) -> None:
    """Behind the driver's back, which would forget all statements that it prepared."""
    connection.pgconn.send_query(b"ROLLBACK")
    _finished(connection)


def _prepare(connection: Connection, name: bytes, count: int) -> None:
    statement = SQL[name.decode()].replace("%s", "{}").format(*(f"${n}" for n in range(1, count + 1)))
    connection.pgconn.send_prepare(name, statement.encode())
    _finished(connection)
    connection.prepared |= {name}


def _finished(connection: Connection) -> PGresult:
    result: PGresult
    (result,) = connection.wait(generators.execute(connection.pgconn))
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
