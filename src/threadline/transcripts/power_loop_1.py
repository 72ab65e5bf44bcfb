"""power-loop as 0.2 and 1.x keep it: the tables without a prefix. Only written; `power_loop.py` reads both."""

from __future__ import annotations

from pathlib import Path

from threadline import Session
from threadline.transcripts.masking import Mask
from threadline.transcripts.power_loop import SCHEMA, write_tables


def write(session: Session, path: Path, mask: Mask) -> None:
    """A SQLite file of the session and its sub-agents that power-loop reads up to 1.x."""
    write_tables(session, path, mask, "", SCHEMA)
