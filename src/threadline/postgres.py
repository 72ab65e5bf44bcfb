"""What an administrator does with a store on PostgreSQL: its schema made, checked, printed, spread over a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadline.errors import InvalidArgument

try:
    from threadline.backends.postgres import schema
    from threadline.backends.postgres.connections import connect, without_password
    from threadline.backends.postgres.statements import Connection, our_errors
except ImportError as error:
    raise InvalidArgument("PostgreSQL needs its driver: pip install 'threadline[postgres]'") from error


def ddl(*, tenants: bool = False) -> str:
    """All statements that make an empty database a store, for a person to read and to run."""
    return schema.ddl(tenants=tenants)


def migrate(url: str) -> int:
    """Bring a database to the schema of this version, all or nothing. Gives the version that it had; 0 for none."""
    with _connected(url) as (connection, where):
        return schema.migrate(connection, where)


def check(url: str) -> None:
    """Raise StoreFailed, NotThreadline or TooNew unless the database has exactly the schema of this version."""
    with _connected(url) as (connection, where):
        schema.check(connection, where)


def distribute(url: str) -> list[str]:
    """Distribute a store over the nodes of a Citus cluster; `url` is its coordinator. Gives the steps taken."""
    with _connected(url) as (connection, where):
        return schema.distribute(connection, where)


def separate_tenants(url: str) -> None:
    """Turn on row-level security: a role sees the namespaces that `threadline.admit(role, namespace)` let it into."""
    with _connected(url) as (connection, _):
        schema.separate_tenants(connection)


@contextmanager
def _connected(url: str) -> Iterator[tuple[Connection, str]]:
    connection = connect(url)
    try:
        with our_errors():
            yield connection, without_password(url)
    finally:
        connection.close()
