"""SQLite keeps the contract: in a file, and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import threadline
from threadline.testing import contract
from threadline.testing.contract import Contract, DurableContract, OpenStore, StoreContract


class TestFile(StoreContract, DurableContract):
    @pytest.fixture
    def open_store(self, path: Path) -> OpenStore:
        return lambda **options: threadline.open(path, **options)


class TestMemory(StoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **options: threadline.open(":memory:", **options)


def test_no_claim_hides_another_of_the_same_name() -> None:
    topics = [kind for kind in vars(contract).values() if isinstance(kind, type) and issubclass(kind, Contract)]
    claims = [name for topic in topics for name in vars(topic) if name.startswith("test_")]

    assert sorted(claims) == sorted(set(claims))
