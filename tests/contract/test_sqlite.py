"""SQLite keeps the contract: in a file, and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import threadline
from threadline import NotFound
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


def test_a_session_of_another_file_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    with threadline.open(tmp_path / "one.db") as one, threadline.open(tmp_path / "other.db") as other:
        mine, foreign = one.new(), other.new()
        with pytest.raises(NotFound):
            one.trash(foreign)

        assert (mine.info.status, foreign.info.status) == ("active", "active")


def test_no_claim_hides_another_of_the_same_name() -> None:
    topics = [kind for kind in vars(contract).values() if isinstance(kind, type) and issubclass(kind, Contract)]
    claims = [name for topic in topics for name in vars(topic) if name.startswith("test_")]

    assert sorted(claims) == sorted(set(claims))


def test_no_topic_is_left_out() -> None:
    topics = {kind for kind in vars(contract).values() if isinstance(kind, type) and issubclass(kind, Contract)}

    assert topics - {Contract, StoreContract, DurableContract} == {*StoreContract.__bases__, *DurableContract.__bases__}
