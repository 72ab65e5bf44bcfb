from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import threadline
from threadline.testing import scaled, seed


def pytest_report_header() -> str:
    return f"threadline: seed {seed()}, scale {scaled(100) / 100}"


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
