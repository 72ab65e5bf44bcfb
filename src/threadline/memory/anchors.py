"""Anchors: what ties a claim to files, judged without touching any.

Lines are compared by a digest of them with white space made plain, so that a new indentation is no change. A grep is a
line that fits a pattern; a dependency is a name in a file that lists them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from threadline.errors import InvalidArgument

FOUND, MOVED, DRIFTED, MISSING = "found", "moved", "drifted", "missing"
MEANING = {
    FOUND: "stands",
    MOVED: "stands, elsewhere",
    DRIFTED: "check it: the code has changed since",
    MISSING: "doubtful: what it rests on is gone",
}
PATTERN_CHARS = 500
LINE_CHARS = 2_000  # of a line that a pattern is tried on
REPEATS_MAX = 3  # of a pattern: more of them can take a matcher for ever


class AnchorCheck(Struct, frozen=True):
    """What became of an anchor: `status` found, moved, drifted or missing, `where` it is now, and what that `says`."""

    addr: str
    anchor: dict[str, Any]
    status: str
    where: str | None
    says: str


def checked(anchor: Any) -> dict[str, Any]:
    """An anchor as a caller gives it, or InvalidArgument."""
    if not isinstance(anchor, dict) or not anchor:
        raise InvalidArgument(f"an anchor is a dict with a file or a dependency, not {anchor!r}")
    known = {"file", "lines", "grep", "dependency", "hash"}
    if unknown := anchor.keys() - known:
        raise InvalidArgument(f"an anchor has no {min(map(str, unknown))!r}: file with lines or grep, or dependency")
    if "dependency" in anchor:
        if len(anchor) > 1 or not _is_name(anchor["dependency"]):
            raise InvalidArgument(f'an anchor to a dependency is {{"dependency": name}}, not {anchor!r}')
        return dict(anchor)
    if not _is_name(anchor.get("file")):
        raise InvalidArgument(f"an anchor names a file by its path within the project, not {anchor.get('file')!r}")
    if "grep" in anchor:
        check_pattern(anchor["grep"])
    if "lines" in anchor:
        return dict(anchor) | {"lines": list(_range(anchor["lines"]))}
    return dict(anchor)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 4_096 and "\0" not in value


def _range(lines: Any) -> tuple[int, int]:
    whole = isinstance(lines, list | tuple) and len(lines) == 2 and all(type(n) is int for n in lines)
    if not whole or not 1 <= lines[0] <= lines[1]:
        raise InvalidArgument(f"lines are (first, last), counted from 1, not {lines!r}")
    return lines[0], lines[1]


def check_pattern(pattern: Any) -> re.Pattern[str]:
    """A regular expression that cannot take for ever: no repeated groups, no back references, few repeats."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= PATTERN_CHARS:
        raise InvalidArgument(f"grep is a pattern of up to {PATTERN_CHARS} characters, not {pattern!r}")
    bare = re.sub(r"\\.|\[[^\]]*\]", "x", pattern)
    repeats = len(re.findall(r"[*+]|\{\d*,", bare))
    if re.search(r"\)[*+?{]|\(\?(?!:)", bare) or re.search(r"\\[1-9]", pattern) or repeats > REPEATS_MAX:
        raise InvalidArgument(
            f"grep {pattern!r} repeats groups, refers back or repeats too often: use a plainer pattern"
        )
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidArgument(f"grep {pattern!r} is no pattern: {error}") from error


def lines_hash(lines: Sequence[str]) -> str:
    """The digest of lines, their white space made plain and empty ones at both ends left out."""
    plain = [" ".join(line.split()) for line in lines]
    while plain and not plain[0]:
        plain.pop(0)
    while plain and not plain[-1]:
        plain.pop()
    return sha256("\n".join(plain).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def completed(anchor: dict[str, Any], lines: Sequence[str]) -> dict[str, Any]:
    """An anchor to a file with what its lines are now. Raises InvalidArgument where it holds nothing of the file."""
    if "lines" in anchor:
        first, last = anchor["lines"]
        if last > len(lines):
            raise InvalidArgument(f"{anchor['file']} has {len(lines)} lines, no line {last}: give lines that exist")
        return {**anchor, "hash": lines_hash(lines[first - 1 : last])}
    if "grep" in anchor:
        at = grepped(anchor["grep"], lines)
        if at is None:
            raise InvalidArgument(f"no line of {anchor['file']} fits {anchor['grep']!r}: anchor to what is there")
        return {**anchor, "hash": lines_hash([lines[at - 1]])}
    return {**anchor, "hash": lines_hash(lines)}


def grepped(pattern: str, lines: Sequence[str]) -> int | None:
    """The number of the first line that fits."""
    fits = check_pattern(pattern)
    return next((i for i, line in enumerate(lines, 1) if fits.search(line[:LINE_CHARS])), None)


def judged(anchor: dict[str, Any], lines: Sequence[str]) -> tuple[str, str | None]:
    """What became of an anchor in its file, and where it is."""
    if "lines" in anchor:
        return _judged_lines(anchor, lines)
    if "grep" in anchor:
        at = grepped(anchor["grep"], lines)
        if at is None:
            return DRIFTED, None
        same = anchor.get("hash") in (None, lines_hash([lines[at - 1]]))
        return (FOUND if same else DRIFTED), f"{anchor['file']}:{at}"
    return (FOUND if anchor.get("hash") in (None, lines_hash(lines)) else DRIFTED), anchor["file"]


def _judged_lines(anchor: dict[str, Any], lines: Sequence[str]) -> tuple[str, str | None]:
    first, last = anchor["lines"]
    wanted = anchor.get("hash")
    if wanted is None or lines_hash(lines[first - 1 : last]) == wanted:
        return FOUND, f"{anchor['file']}:{first}-{last}"
    at = window(lines, last - first + 1, wanted)
    return (DRIFTED, None) if at is None else (MOVED, f"{anchor['file']}:{at}-{at + last - first}")


def window(lines: Sequence[str], count: int, wanted: str) -> int | None:
    """Where so many lines of that digest begin."""
    return next((at + 1 for at in range(len(lines) - count + 1) if lines_hash(lines[at : at + count]) == wanted), None)


def lists_dependency(name: str, listing: str) -> bool:
    """Whether a file that lists dependencies names this one."""
    plain = re.sub(r"[-_.]+", "[-_.]", re.escape(name).replace(r"\-", "-").replace(r"\_", "_").replace(r"\.", "."))
    return re.search(rf"(?i)(?<![\w.-]){plain}(?![\w-])", listing) is not None
