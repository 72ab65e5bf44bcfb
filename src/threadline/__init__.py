"""threadline: a durable session store for LLM agents.

An append-only log per conversation, and every view of it a pure fold. The whole public API stands on this screen; each
name is imported when it is first used, so that `import threadline` costs nothing."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true; importing typing for it would cost 10 ms
if TYPE_CHECKING:
    from threadline import formats as formats
    from threadline import postgres as postgres
    from threadline import records as records
    from threadline import tokenizers as tokenizers
    from threadline import transcripts as transcripts
    from threadline.aio.memory import AsyncMemory as AsyncMemory
    from threadline.aio.session import AsyncSession as AsyncSession
    from threadline.aio.store import AsyncStore as AsyncStore
    from threadline.aio.store import aopen as aopen
    from threadline.backends.backend import Problem as Problem
    from threadline.backends.backend import Progress as Progress
    from threadline.backends.copying import CopyProgress as CopyProgress
    from threadline.backends.copying import CopyReport as CopyReport
    from threadline.batch import Batch as Batch
    from threadline.context import Context as Context
    from threadline.context import Difference as Difference
    from threadline.context import diff_contexts as diff_contexts
    from threadline.context import should_compact as should_compact
    from threadline.core.compaction import SUMMARY_PROMPT as SUMMARY_PROMPT
    from threadline.core.compaction import Plan as Plan
    from threadline.core.compaction import plan_compaction as plan_compaction
    from threadline.core.entries import Entry as Entry
    from threadline.core.goals import Goal as Goal
    from threadline.core.inbox import Queued as Queued
    from threadline.core.reading import View as View
    from threadline.core.receipts import Pending as Pending
    from threadline.core.receipts import Receipt as Receipt
    from threadline.core.searching import Indexing as Indexing
    from threadline.core.spending import Request as Request
    from threadline.core.usage import Usage as Usage
    from threadline.drafts import Draft as Draft
    from threadline.drafts import DraftWriter as DraftWriter
    from threadline.errors import BudgetTooSmall as BudgetTooSmall
    from threadline.errors import Closed as Closed
    from threadline.errors import Conflict as Conflict
    from threadline.errors import Damaged as Damaged
    from threadline.errors import DepthExceeded as DepthExceeded
    from threadline.errors import InvalidArgument as InvalidArgument
    from threadline.errors import InvalidMessage as InvalidMessage
    from threadline.errors import KeyReused as KeyReused
    from threadline.errors import LeaseHeld as LeaseHeld
    from threadline.errors import LeaseLost as LeaseLost
    from threadline.errors import NotActive as NotActive
    from threadline.errors import NotFound as NotFound
    from threadline.errors import NothingToCompact as NothingToCompact
    from threadline.errors import NotThreadline as NotThreadline
    from threadline.errors import NotVisible as NotVisible
    from threadline.errors import ReadOnly as ReadOnly
    from threadline.errors import Stale as Stale
    from threadline.errors import StoreBusy as StoreBusy
    from threadline.errors import StoreFailed as StoreFailed
    from threadline.errors import StoreFull as StoreFull
    from threadline.errors import ThreadlineError as ThreadlineError
    from threadline.errors import TooNew as TooNew
    from threadline.errors import Uncertain as Uncertain
    from threadline.hits import Hit as Hit
    from threadline.info import SessionInfo as SessionInfo
    from threadline.info import Tree as Tree
    from threadline.leases import Lease as Lease
    from threadline.memory.adoption import Adoption as Adoption
    from threadline.memory.adoption import Working as Working
    from threadline.memory.anchors import AnchorCheck as AnchorCheck
    from threadline.memory.chains import Chain as Chain
    from threadline.memory.nodes import Node as Node
    from threadline.memory.promotion import Archive as Archive
    from threadline.memory.promotion import Collection as Collection
    from threadline.memory.promotion import Ending as Ending
    from threadline.memory.promotion import Promotion as Promotion
    from threadline.memory.promotion import Summary as Summary
    from threadline.memory.reading import MemoryEvent as MemoryEvent
    from threadline.memory.recalling import Recalled as Recalled
    from threadline.memory.rendering import Handoff as Handoff
    from threadline.messages import Media as Media
    from threadline.messages import Message as Message
    from threadline.messages import Other as Other
    from threadline.messages import Part as Part
    from threadline.messages import Reasoning as Reasoning
    from threadline.messages import Text as Text
    from threadline.messages import ToolCall as ToolCall
    from threadline.messages import ToolResult as ToolResult
    from threadline.session import PendingCall as PendingCall
    from threadline.session import Session as Session
    from threadline.store import Page as Page
    from threadline.store import PrunePlan as PrunePlan
    from threadline.store import Store as Store
    from threadline.store import VerifyReport as VerifyReport
    from threadline.store import copy as copy
    from threadline.store import open as open
    from threadline.working_memory import Memory as Memory

__version__ = "0.1.0"

_HOMES = {
    "threadline.store": ("Page", "PrunePlan", "Store", "VerifyReport", "copy", "open"),
    "threadline.session": ("PendingCall", "Session"),
    "threadline.batch": ("Batch",),
    "threadline.info": ("SessionInfo", "Tree"),
    "threadline.aio.store": ("AsyncStore", "aopen"),
    "threadline.aio.session": ("AsyncSession",),
    "threadline.aio.memory": ("AsyncMemory",),
    "threadline.messages": ("Media", "Message", "Other", "Part", "Reasoning", "Text", "ToolCall", "ToolResult"),
    "threadline.drafts": ("Draft", "DraftWriter"),
    "threadline.leases": ("Lease",),
    "threadline.working_memory": ("Memory",),
    "threadline.memory.adoption": ("Adoption", "Working"),
    "threadline.memory.anchors": ("AnchorCheck",),
    "threadline.memory.chains": ("Chain",),
    "threadline.memory.nodes": ("Node",),
    "threadline.memory.promotion": ("Archive", "Collection", "Ending", "Promotion", "Summary"),
    "threadline.memory.reading": ("MemoryEvent",),
    "threadline.memory.recalling": ("Recalled",),
    "threadline.memory.rendering": ("Handoff",),
    "threadline.hits": ("Hit",),
    "threadline.core.searching": ("Indexing",),
    "threadline.core.entries": ("Entry",),
    "threadline.core.goals": ("Goal",),
    "threadline.core.inbox": ("Queued",),
    "threadline.core.reading": ("View",),
    "threadline.context": ("Context", "Difference", "diff_contexts", "should_compact"),
    "threadline.core.compaction": ("SUMMARY_PROMPT", "Plan", "plan_compaction"),
    "threadline.core.receipts": ("Pending", "Receipt"),
    "threadline.core.spending": ("Request",),
    "threadline.core.usage": ("Usage",),
    "threadline.backends.backend": ("Problem", "Progress"),
    "threadline.backends.copying": ("CopyProgress", "CopyReport"),
    "threadline.errors": (
        "BudgetTooSmall",
        "Closed",
        "Conflict",
        "Damaged",
        "DepthExceeded",
        "InvalidArgument",
        "InvalidMessage",
        "KeyReused",
        "LeaseHeld",
        "LeaseLost",
        "NotActive",
        "NotFound",
        "NotThreadline",
        "NotVisible",
        "NothingToCompact",
        "ReadOnly",
        "Stale",
        "StoreBusy",
        "StoreFailed",
        "StoreFull",
        "ThreadlineError",
        "TooNew",
        "Uncertain",
    ),
}
_ROOMS = ("formats", "postgres", "records", "tokenizers", "transcripts")  # modules that are public as a whole
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"threadline.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'threadline' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS, "__version__"]
