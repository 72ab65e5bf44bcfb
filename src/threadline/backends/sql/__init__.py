"""SQL is text: statements by name, schema and migrations as files that a database administrator can read."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def schema(engine: str) -> str:
    """The schema as it is now."""
    return (_HERE / engine / "schema.sql").read_text(encoding="utf-8")


def migrations(engine: str) -> dict[int, str]:
    """The steps from an empty file to the schema, by the version that each leads to."""
    files = sorted((_HERE / engine / "migrations").glob("*.sql"))
    return {int(file.name[:4]): file.read_text(encoding="utf-8") for file in files}


def queries(engine: str) -> dict[str, str]:
    """The statements of `queries.sql`: each begins with a line `-- name: what it is for`."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (_HERE / engine / "queries.sql").read_text(encoding="utf-8").splitlines():
        if line.startswith("-- ") and ": " in line and line[3 : line.index(":")].isidentifier():
            lines = found[line[3 : line.index(":")]] = []
        else:
            lines.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}
