"""The files that anchors of a memory lead to: those of the project, and no others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from threadline.errors import InvalidArgument, NotFound
from threadline.memory import anchors
from threadline.memory.anchors import DRIFTED, FOUND, MISSING, MOVED, AnchorCheck
from threadline.memory.nodes import Node

FILE_BYTES = 8_000_000  # of a file that is looked at; a larger one is no source that a person wrote
FILES_MAX = 20_000  # of a project that are walked through when a file has moved
LISTS = (
    "pyproject.toml",
    "requirements.txt",
    "requirements-dev.txt",
    "setup.cfg",
    "setup.py",
    "Pipfile",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "Gemfile",
    "pom.xml",
    "build.gradle",
)
SKIPPED = {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", "target"}


class Project:
    """A folder whose files claims may be anchored to."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def completed(self, anchor: Any) -> dict[str, Any]:
        """An anchor with what it rests on now. Raises InvalidArgument, or NotFound where there is no such file."""
        plain = anchors.checked(anchor)
        if "dependency" in plain:
            return plain
        path, inside = self._inside(plain["file"])
        lines = read_lines(path)
        if lines is None:
            raise NotFound("file", inside, f"anchors lead to files of {self.root}, of up to {FILE_BYTES:,} bytes")
        return anchors.completed({**plain, "file": inside}, lines)

    def _inside(self, name: str) -> tuple[str, str]:
        """The real path of a file, and its path within the project. Links that lead out of it are refused."""
        path = os.path.realpath(os.path.join(self.root, os.path.expanduser(name)))
        if path != self.root and not path.startswith(self.root.rstrip(os.sep) + os.sep):
            raise InvalidArgument(f"the file {name!r} is outside of the project {self.root}: anchor to files in it")
        return path, os.path.relpath(path, self.root).replace(os.sep, "/")

    def checks(self, node: Node) -> Iterator[AnchorCheck]:
        for anchor in node.anchors:
            status, where = self._status(anchor)
            yield AnchorCheck(node.addr, dict(anchor), status, where, anchors.MEANING[status])

    def _status(self, anchor: dict[str, Any]) -> tuple[str, str | None]:
        if "dependency" in anchor:
            return self._dependency(str(anchor["dependency"]))
        try:
            path, _ = self._inside(str(anchor.get("file", "")))
            lines = read_lines(path)
            if lines is None:
                return self._elsewhere(anchor)
            status, where = anchors.judged(anchor, lines)
        except (InvalidArgument, TypeError, ValueError, KeyError):  # of another tool, or made by hand: it leads nowhere
            return MISSING, None
        return (status, where) if status != DRIFTED else self._elsewhere(anchor, otherwise=(status, where))

    def _dependency(self, name: str) -> tuple[str, str | None]:
        for listing in LISTS:
            lines = read_lines(os.path.join(self.root, listing))
            if lines is not None and anchors.lists_dependency(name, "\n".join(lines)):
                return FOUND, listing
        return MISSING, None

    def _elsewhere(
        self, anchor: dict[str, Any], otherwise: tuple[str, str | None] = (MISSING, None)
    ) -> tuple[str, str | None]:
        """In a file of the same name in another folder, with the very lines that were anchored to."""
        if anchor.get("hash") is None:
            return otherwise
        for inside in self._namesakes(str(anchor["file"])):
            lines = read_lines(os.path.join(self.root, inside))
            if lines is None:
                continue
            status, where = anchors.judged({**anchor, "file": inside}, lines)
            if status in (FOUND, MOVED):
                return MOVED, where
        return otherwise

    def _namesakes(self, file: str) -> Iterator[str]:
        seen = 0
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(set(folders) - SKIPPED)
            seen += len(files)
            inside = os.path.relpath(os.path.join(folder, os.path.basename(file)), self.root).replace(os.sep, "/")
            if os.path.basename(file) in files and inside != file:
                yield inside
            if seen > FILES_MAX:
                return


def read_lines(path: str) -> list[str] | None:
    """The lines of a regular file; None where there is none that we could read."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > FILE_BYTES:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return None
