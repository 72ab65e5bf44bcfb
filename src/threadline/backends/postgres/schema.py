"""The schema: made where there is none, checked where there is one, printed for a person, spread over a cluster."""

from __future__ import annotations

from psycopg import errors

from threadline.backends import sql
from threadline.backends.postgres.statements import Connection, many, one, our_errors
from threadline.errors import InvalidArgument, NotThreadline, StoreFailed, TooNew

SCHEMA_VERSION = 1
FUNCTIONS = (
    "append",
    "write",
    "charge",
    "add_spent",
    "names",
    "head_seal",
    "key_seal",
    "hidden",
    "request_seal",
    "clock",
    "late",
    "may_write",
)
LOCK = 0x74686C6E  # "thln": whoever makes or upgrades the schema holds it


def ddl(*, tenants: bool = False) -> str:
    """All statements that make an empty database a store, for a person to read and to run."""
    parts = [sql.schema("postgres"), sql.functions("postgres"), *([sql.tenants("postgres")] if tenants else [])]
    return "\n".join(parts)


def prepare(connection: Connection, where: str) -> None:
    """Make the schema if there is none. An older one is for `migrate`: other programs may be using it."""
    version = version_of(connection, where)
    if version == SCHEMA_VERSION:
        return
    if version:
        raise StoreFailed(f"{where} has schema version {version}, this threadline needs {SCHEMA_VERSION}: {_MIGRATE}")
    migrate(connection, where)


def check(connection: Connection, where: str) -> None:
    """Raise unless this is a store that we can use as it is."""
    version = version_of(connection, where)
    if version != SCHEMA_VERSION:
        found = f"schema version {version}" if version else "no threadline schema"
        raise StoreFailed(f"{where} has {found}, this threadline needs version {SCHEMA_VERSION}: {_MIGRATE}")
    if problem := difference(connection):
        raise StoreFailed(f"{where}: {problem}: {_MIGRATE}")


_MIGRATE = "run `threadline migrate URL`, or give the output of `threadline migrate --print` to whoever may"


def migrate(connection: Connection, where: str) -> int:
    """Bring the database to our schema, all or nothing; the version that it had before."""
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            before = version_of(connection, where)
            for step, statements in sorted(_steps(before).items()):
                if step > before:
                    connection.execute(statements.encode(), prepare=False)
            connection.execute(sql.functions("postgres").encode(), prepare=False)
            connection.execute("UPDATE threadline.version SET version = %s", (SCHEMA_VERSION,))
    except errors.InsufficientPrivilege as error:
        raise StoreFailed(f"no right to make the schema in {where} ({str(error).strip()}): {_MIGRATE}") from error
    return before


def _steps(version: int) -> dict[int, str]:
    return {SCHEMA_VERSION: sql.schema("postgres")} if version == 0 else sql.migrations("postgres")


def separate_tenants(connection: Connection) -> None:
    """Turn on row-level security: each role sees only the namespaces that it was admitted to."""
    if connection.execute(_CITUS).fetchone() and _is_distributed(connection, "head"):
        raise StoreFailed(_NOT_BOTH)
    with our_errors(), connection.transaction():
        connection.execute(sql.tenants("postgres").encode(), prepare=False)


def version_of(connection: Connection, where: str) -> int:
    """0 where there is no schema of ours. Raises NotThreadline or TooNew."""
    ours, taken = one(connection, "there")
    if not ours:
        if taken:
            raise NotThreadline(where, "its schema `threadline` is not ours")
        return 0
    (version,) = one(connection, "version")
    if version is None:
        raise NotThreadline(where, "its table threadline.version is empty")
    if version > SCHEMA_VERSION:
        raise TooNew(where, version, SCHEMA_VERSION)
    return int(version)


def difference(connection: Connection) -> str | None:
    """What is not ours about the functions on the server; None if nothing."""
    found = {name: _plain(source) for name, source in many(connection, "functions")}
    ours = sql.functions("postgres")
    for name in FUNCTIONS:
        if name not in found:
            return f"the function threadline.{name} is missing"
        if found[name] not in _plain(ours):
            return f"the function threadline.{name} is not the one of this version"
    return None


def _plain(source: str | None) -> str:
    return "\n".join((source or "").strip().splitlines())


def check_server(connection: Connection, where: str) -> list[str]:
    """What speaks against full durability on this server. Raises InvalidArgument if it cannot hold our text at all."""
    encoding, fsync, pages = one(connection, "settings")
    if encoding != "UTF8":
        raise InvalidArgument(f"{where} is encoded in {encoding}: a store needs a database in UTF8")
    weak = (("fsync", fsync), ("full_page_writes", pages))
    return [f"{name} = {value}" for name, value in weak if value == "off"]


# -- a cluster -----------------------------------------------------------------------------------------


def distribute(connection: Connection, where: str) -> list[str]:
    """Distribute the tables over the nodes of a Citus cluster, and the function with them; the steps that were taken.

    It may be called again, after a failure or by mistake: what is distributed already is left as it is."""
    check(connection, where)
    if not connection.execute(_CITUS).fetchone():
        raise StoreFailed(f"{where} has no Citus: CREATE EXTENSION citus, on every node, comes first")
    if connection.execute("SELECT 1 FROM pg_policies WHERE schemaname = 'threadline'").fetchone():
        raise StoreFailed(_NOT_BOTH)
    taken = []
    for name, statement in sql.queries("postgres", "distribute.sql").items():
        if not _is_distributed(connection, name):
            connection.execute(statement.encode(), prepare=False)
            taken.append(name)
    return taken


_CITUS = "SELECT 1 FROM pg_proc WHERE proname = 'create_distributed_table'"
_NOT_BOTH = (
    "tenants and a cluster do not go together: Citus takes no policy that asks another table; "
    "on a cluster, give tenants that do not trust each other a database each"
)


def _is_distributed(connection: Connection, step: str) -> bool:
    """Whether a step is a table that is distributed already."""
    table = f"threadline.{step.removeprefix('whole_')}"
    query = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass(%s)"
    return connection.execute(query, (table,)).fetchone() is not None
