"""Upgrades that are killed half-way, by a signal or by a power cut: the old version whole, or the new one whole."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import apsw

import threadline
from threadline.backends import sql
from threadline.backends.sqlite import files
from torture.processes import fork
from torture.runner import Trial, Unit

NOW = files.SCHEMA_VERSION
ENTRIES = 12
EXTRA = "CREATE TABLE extra (x INTEGER) STRICT;"
FILL = "INSERT INTO extra WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {rows}) SELECT x FROM n;"
INDEX = "CREATE INDEX extra_x ON extra (x);"
LONGEST_S = 0.03


@contextmanager
def next_version(rows: int = 2_000) -> Iterator[int]:
    """The next version of the schema, for as long as it takes: one table more, with rows and an index."""
    old, schema = sql.migrations("sqlite"), sql.schema("sqlite")
    steps = old | {NOW + 1: EXTRA + FILL.format(rows=rows) + INDEX}
    with (
        patch.object(files, "SCHEMA_VERSION", NOW + 1),
        patch.object(sql, "migrations", lambda engine: steps),
        patch.object(sql, "schema", lambda engine: schema + EXTRA + INDEX),
    ):
        yield NOW + 1


def old_store(path: Path, rng: Random) -> list[str]:
    """Make a store of this version; returns what is said in it."""
    texts = [rng.randbytes(rng.choice((5, 50, 500))).hex() for _ in range(ENTRIES)]
    with threadline.open(path) as store:
        store.session("s").extend(texts, key="k")
    return texts


def check_old(path: Path, texts: list[str]) -> str | None:
    """What is wrong with a store that was upgraded, or not."""
    try:
        with threadline.open(path) as store:
            report = store.verify()
            if not report.ok:
                return f"damaged: {report.problems[:3]}"
            if [message.text for message in store.session("s").messages()] != texts:
                return "what was stored before the upgrade is not there"
    except threadline.ThreadlineError as error:
        return f"unreadable: {error!r}"
    return None


def version_in(path: Path) -> int:
    """The version of a file; -1 where it has the version of one and the tables of another: half an upgrade."""
    connection = apsw.Connection(str(path))
    try:
        version: int = connection.pragma("user_version")
        extra = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'extra%'").get
    finally:
        connection.close()
    return version if extra == (2 if version > NOW else 0) else -1


# -- kill -9 -------------------------------------------------------------------------------------------


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    rng = Random(unit.dice("upgrades"))
    for n in range(unit.count):
        path = folder / f"{n}.db"
        yield killed(path, rng)
        for left in folder.glob(f"{n}.db*"):
            left.unlink()


def killed(path: Path, rng: Random) -> Trial:
    texts = old_store(path, rng)
    with next_version(rows=20_000) as new:
        pid = fork(lambda: (threadline.open(path), signal.pause()))
        time.sleep(rng.uniform(0, LONGEST_S))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    version = version_in(path)
    kind = "not upgraded" if version == NOW else "upgraded"
    if version not in (NOW, new):
        return Trial("half an upgrade", kind)
    with next_version(rows=10):
        return Trial(check_old(path, texts) or (None if version_in(path) == new else "it cannot be upgraded"), kind)
