"""SQL is text: statements by name, schema and migrations as files that a database administrator can read."""

from __future__ import annotations

import os

_HERE = os.path.dirname(__file__)


def schema(engine: str) -> str:
    """The schema as it is now."""
    return _read(engine, "schema.sql")


def migrations(engine: str) -> dict[int, str]:
    """The steps from an empty file to the schema, by the version that each leads to."""
    names = sorted(os.listdir(os.path.join(_HERE, engine, "migrations")))
    return {int(name[:4]): _read(engine, "migrations", name) for name in names if name.endswith(".sql")}


def functions(engine: str) -> str:
    """What runs on the server."""
    return _read(engine, "functions.sql")


def tenants(engine: str) -> str:
    """Row-level security, for those who want it."""
    return _read(engine, "tenants.sql")


def queries(engine: str, file: str = "queries.sql") -> dict[str, str]:
    """The statements of a file: each begins with a line `-- name: what it is for`. Comments are left out: the whole
    text is compared with what was prepared, each time that it runs."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in _read(engine, file).splitlines():
        if line.startswith("-- ") and ": " in line and line[3 : line.index(":")].isidentifier():
            lines = found[line[3 : line.index(":")]] = []
        elif not line.startswith("--"):
            lines.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def _read(*path: str) -> str:
    with open(os.path.join(_HERE, *path), encoding="utf-8") as file:
        return file.read()
