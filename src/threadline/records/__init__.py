"""A store as records: all that cannot be computed from something else, a line each, the same whatever engine holds it.

`dump` reads a store, or some of its sessions, record by record; `Loader` takes records into a store, and adds only what
is new there; `encode` and `decode` make a record a line of JSON and back. Our own JSONL is nothing but these lines;
docs/format.md says what stands in them."""

from __future__ import annotations

from threadline.records.dumping import Masking, dump
from threadline.records.lines import decode, encode
from threadline.records.loading import Loader, Outcome
from threadline.records.shapes import (
    VERSION,
    DamagedRecord,
    DraftRecord,
    EndRecord,
    EntryRecord,
    FileRecord,
    InboxRecord,
    Record,
    RequestRecord,
    SessionRecord,
)

__all__ = [
    "VERSION",
    "DamagedRecord",
    "DraftRecord",
    "EndRecord",
    "EntryRecord",
    "FileRecord",
    "InboxRecord",
    "Loader",
    "Masking",
    "Outcome",
    "Record",
    "RequestRecord",
    "SessionRecord",
    "decode",
    "dump",
    "encode",
]
