"""PostgreSQL keeps the contract, directly and through the async facade; a Citus cluster, too, where there is one."""

from __future__ import annotations

from typing import Any, cast

import pytest
from test_async import Loop, Waiting, loop

import threadline
from threadline import Store
from threadline.testing.contract import DurableContract, OpenStore, StoreContract

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
