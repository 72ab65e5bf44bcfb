"""PostgreSQL keeps the contract, directly and through the async facade; a Citus cluster, too, where there is one."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from test_async import Loop, Waiting, loop

import threadline
from threadline import Store
from threadline.backends import sql
from threadline.testing.contract import DurableContract, OpenStore, StoreContract
from threadline.testing.pgbouncer import PgBouncer

__all__ = ["loop"]


class TestPostgres(StoreContract, DurableContract):
    @pytest.fixture
    def open_store(self, postgres_url: str) -> OpenStore:
        return lambda **options: threadline.open(postgres_url, **options)


class TestAsyncPostgres(StoreContract, DurableContract):
    @pytest.fixture
    def open_store(self, postgres_url: str, loop: Loop) -> OpenStore:
        def opened(**options: Any) -> Store:
            return cast(Store, Waiting(loop.wait(threadline.aopen(postgres_url, **options)), loop))

        return opened


if MODE := os.environ.get("THREADLINE_TEST_PGBOUNCER"):  # transaction or session; it is installed then

    @pytest.fixture(scope="module")
    def pooler(postgres_database: str) -> Iterator[PgBouncer]:
        server = Path(str(psycopg.conninfo.conninfo_to_dict(postgres_database)["host"]))
        connections = 3 if MODE == "transaction" else 80
        with (
            tempfile.TemporaryDirectory() as folder,
            PgBouncer(Path(folder), server, mode=str(MODE), connections=connections) as pooler,
        ):
            yield pooler

    class TestPgBouncer(StoreContract, DurableContract):
        @pytest.fixture
        def open_store(self, pooler: PgBouncer, postgres_url: str) -> OpenStore:
            url = pooler.url(str(psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]))
            return lambda **options: threadline.open(url, **options)


if CITUS := os.environ.get("THREADLINE_TEST_CITUS"):  # a coordinator's URL, of a database that may be emptied

    @pytest.fixture(scope="module")
    def cluster() -> Iterator[psycopg.Connection]:
        with psycopg.connect(str(CITUS), autocommit=True) as admin:
            if not admin.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'").fetchone():
                pytest.fail("THREADLINE_TEST_CITUS leads to a database without citus: nothing was changed there")
            admin.execute("DROP SCHEMA IF EXISTS threadline CASCADE")
            threadline.postgres.migrate(str(CITUS))
            assert threadline.postgres.distribute(str(CITUS)) != []
            assert [step for step in threadline.postgres.distribute(str(CITUS)) if "function" not in step] == []
            yield admin

    class TestCitus(StoreContract, DurableContract):
        @pytest.fixture
        def open_store(self, cluster: psycopg.Connection) -> Iterator[OpenStore]:
            yield lambda **options: threadline.open(str(CITUS), **options)
            for table in re.findall(r"CREATE TABLE threadline\.(\w+) \(", sql.schema("postgres")):
                if table in ("version", "tenant"):
                    continue
                cluster.execute(f"DELETE FROM threadline.{table}")
