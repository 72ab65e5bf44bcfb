"""A store as records: all that cannot be computed from something else, a line each, the same whatever engine holds it.

`dump` reads a store, or some of its sessions, record by record; `Loader` takes records into a store, and adds only what
is new there; `encode` and `decode` make a record a line of JSON and back. Our own JSONL is nothing but these lines;
docs/format.md says what stands in them."""

from __future__ import annotations

from threadline.records.dumping import dump
from threadline.records.lines import decode, encode
from threadline.records.loading import Loader, Outcome
from threadline.records.memories import address_of, memory_of, scope_of
from threadline.records.shapes import (
    VERSION,
    ChainRecord,
    DamagedRecord,
    DraftRecord,
    EndRecord,
    EntryRecord,
    EventRecord,
    FileRecord,
    InboxRecord,
    Masking,
    MemoryRecord,
    NodeRecord,
    Record,
    RequestRecord,
    SessionRecord,
    WorkingRecord,
)

__all__ = [
    "VERSION",
    "ChainRecord",
    "DamagedRecord",
    "DraftRecord",
    "EndRecord",
    "EntryRecord",
    "EventRecord",
    "FileRecord",
    "InboxRecord",
    "Loader",
    "Masking",
    "MemoryRecord",
    "NodeRecord",
    "Outcome",
    "Record",
    "RequestRecord",
    "SessionRecord",
    "WorkingRecord",
    "address_of",
    "decode",
    "dump",
    "encode",
    "memory_of",
    "scope_of",
]
