"""The contract: what every store promises, one test a claim, whatever it stands on.

A backend is proven by a subclass that says how to open a store:

    class TestMine(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda **options: threadline.open(tmp_path / "store", **options)

`open_store(**options)` takes the options of `threadline.open`. A backend that outlives its process inherits from
`DurableContract`, too: there a later call opens the same place again. Every test ends with `store.verify()`.
"""

from __future__ import annotations

from threadline.testing.contract.blobs import BlobsContract
from threadline.testing.contract.calls import CallsContract
from threadline.testing.contract.compaction import CompactionContract
from threadline.testing.contract.contexts import ContextContract
from threadline.testing.contract.deletion import DeletionContract, PruneContract
from threadline.testing.contract.drafts import DraftContract, DurableDraftContract
from threadline.testing.contract.durable import DurableContract as DurableLogContract
from threadline.testing.contract.erasing import DurableErasingContract, EraseContract, RedactContract
from threadline.testing.contract.errors import ErrorsContract
from threadline.testing.contract.follow import DurableFollowContract, FollowContract
from threadline.testing.contract.forks import ForkContract
from threadline.testing.contract.inbox import DurableInboxContract, InboxContract
from threadline.testing.contract.keys import KeysContract
from threadline.testing.contract.leases import LeaseContract
from threadline.testing.contract.listing import ListingContract
from threadline.testing.contract.log import LogContract
from threadline.testing.contract.memory import DurableMemoryContract, MemoryContract
from threadline.testing.contract.opening import OpeningContract
from threadline.testing.contract.search import DurableSearchContract, SearchContract
from threadline.testing.contract.sessions import SessionsContract
from threadline.testing.contract.state import DurableStateContract, StateContract
from threadline.testing.contract.subagents import SubagentsContract
from threadline.testing.contract.usage import UsageContract
from threadline.testing.contract.view import ViewContract
from threadline.testing.contract.workshop import Contract, OpenStore


class StoreContract(
    OpeningContract,
    SessionsContract,
    ListingContract,
    LogContract,
    KeysContract,
    ViewContract,
    CompactionContract,
    ForkContract,
    CallsContract,
    ContextContract,
    BlobsContract,
    StateContract,
    LeaseContract,
    InboxContract,
    DraftContract,
    FollowContract,
    ErrorsContract,
    SubagentsContract,
    UsageContract,
    DeletionContract,
    PruneContract,
    EraseContract,
    RedactContract,
    MemoryContract,
    SearchContract,
):
    """All that holds while a store is open."""


class DurableContract(
    DurableLogContract,
    DurableStateContract,
    DurableInboxContract,
    DurableDraftContract,
    DurableFollowContract,
    DurableErasingContract,
    DurableMemoryContract,
    DurableSearchContract,
):
    """All that is still there when the store is opened again."""


__all__ = [
    "BlobsContract",
    "CallsContract",
    "CompactionContract",
    "ContextContract",
    "Contract",
    "DeletionContract",
    "DraftContract",
    "DurableContract",
    "DurableDraftContract",
    "DurableErasingContract",
    "DurableFollowContract",
    "DurableInboxContract",
    "DurableLogContract",
    "DurableMemoryContract",
    "DurableSearchContract",
    "DurableStateContract",
    "EraseContract",
    "ErrorsContract",
    "FollowContract",
    "ForkContract",
    "InboxContract",
    "KeysContract",
    "LeaseContract",
    "ListingContract",
    "LogContract",
    "MemoryContract",
    "OpenStore",
    "OpeningContract",
    "PruneContract",
    "RedactContract",
    "SearchContract",
    "SessionsContract",
    "StateContract",
    "StoreContract",
    "SubagentsContract",
    "UsageContract",
    "ViewContract",
]
