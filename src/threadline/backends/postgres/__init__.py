"""Sessions in a PostgreSQL database."""

from __future__ import annotations
