"""Times as others write them: ISO 8601 with or without a zone, seconds or milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def iso(text: Any) -> datetime | None:
    """A time from its text; one without a zone is local, as Python writes it. None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def milliseconds(number: Any) -> datetime | None:
    """A time from milliseconds since 1970."""
    if not isinstance(number, int | float) or isinstance(number, bool):
        return None
    try:
        return datetime.fromtimestamp(number / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
