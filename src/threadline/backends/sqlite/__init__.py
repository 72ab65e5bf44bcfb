"""One SQLite file."""

from __future__ import annotations
