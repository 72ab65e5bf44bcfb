from __future__ import annotations

import fcntl
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import threadline
from threadline.testing import scaled, seed
from threadline.testing.postgres import FORGETFUL, Server

# One PostgreSQL server for the whole run, whichever worker needs it first; the workers inherit the name of the run.
RUN = os.environ.setdefault("THREADLINE_TEST_RUN", str(os.getpid()))
SERVER = Path(tempfile.gettempdir()) / f"threadline-pg-{RUN}"


def pytest_report_header() -> str:
    return f"threadline: seed {seed()}, scale {scaled(100) / 100}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if str(os.getpid()) == RUN and SERVER.exists():
        server = Server(folder=SERVER)
        server.stop()
        server.remove()
        Path(f"{SERVER}.lock").unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[threadline.Store]:
    with threadline.open(path) as store:
        yield store


@pytest.fixture
def session(store: threadline.Store) -> threadline.Session:
    return store.new()


# -- PostgreSQL ----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The URL of a server, without a database. Where there is none to be had, every test that needs it fails."""
    if given := os.environ.get("THREADLINE_TEST_PG"):
        return given
    with open(f"{SERVER}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _bury_the_dead()
        server = Server(FORGETFUL, folder=SERVER)
        if server.pid is None:
            server.initialise()
            server.start()
    return server.url()


def _bury_the_dead() -> None:
    """Stop the servers of runs that were killed and could not do so themselves."""
    for left in SERVER.parent.glob("threadline-pg-*.lock"):
        folder, run = left.with_suffix(""), left.stem.rpartition("-")[2]
        if run.isdigit() and not Path(f"/proc/{run}").exists():
            server = Server(folder=folder)
            server.stop()
            server.remove()
            left.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def postgres_database(postgres_server: str) -> Iterator[str]:
    """The URL of a database of this worker's own."""
    name = f"threadline_{RUN}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name}")
        yield psycopg.conninfo.make_conninfo(postgres_server, dbname=name)
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_schema(postgres_database: str) -> Iterator[psycopg.Connection]:
    """A connection to it, with our schema made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the server forgets all in a power cut, and says so
        threadline.open(url_of(postgres_database)).close()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def empty_postgres(postgres_schema: psycopg.Connection) -> Callable[[], None]:
    """Removes everything from the store."""

    tables = postgres_schema.execute(
        """SELECT relname FROM pg_class WHERE relnamespace = 'threadline'::regnamespace
           AND relkind IN ('r', 'p') AND NOT relispartition AND relname NOT IN ('version', 'tenant')"""
    ).fetchall()

    def empty() -> None:
        for (table,) in tables:
            postgres_schema.execute(f"DELETE FROM threadline.{table}")

    return empty


@pytest.fixture
def postgres_url(postgres_database: str, empty_postgres: Callable[[], None]) -> Iterator[str]:
    """The URL of an empty store. The server does not sync: where that is the matter, a test starts its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*can lose what it acknowledged", category=RuntimeWarning)
        yield url_of(postgres_database)
    empty_postgres()


def url_of(conninfo: str) -> str:
    """A URL for what psycopg has as a list of settings."""
    from urllib.parse import quote, urlencode

    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    user, database = parts.pop("user", ""), parts.pop("dbname", "")
    return f"postgresql://{quote(str(user))}@/{quote(str(database))}?{urlencode(parts)}"
