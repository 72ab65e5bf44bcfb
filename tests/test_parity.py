"""The two APIs are one: every public name of the synchronous one stands in the async one, with the same arguments,
and the other way round."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import Any

import pytest

import threadline
from threadline import AsyncMemory, AsyncSession, AsyncStore, Batch, Draft, DraftWriter, Lease, Memory, Session, Store
from threadline.aio.drafts import AsyncDraft, AsyncDraftWriter
from threadline.aio.following import AsyncChanges
from threadline.aio.leases import AsyncLease
from threadline.aio.pages import AsyncPage, AsyncPages
from threadline.aio.threads import Threads
from threadline.store import Page

PAIRS = [
    (Store, AsyncStore),
    (Session, AsyncSession),
    (Page, AsyncPage),
    (Lease, AsyncLease),
    (Draft, AsyncDraft),
    (DraftWriter, AsyncDraftWriter),
    (Memory, AsyncMemory),
]
IMMEDIATE = {"id", "key", "namespace", "text", "project", "root"}  # facts that a handle knows without asking the store
# Arguments that may also be a handle or a function of the async kind.
ALSO_ASYNC = {"session_id", "session", "parent", "summary"}
PRIVATE_TO_PAGES = {"following"}  # `async for` does it


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def methods(sync: type, async_: type) -> list[str]:
    return sorted(name for name in public(sync) & public(async_) if inspect.isfunction(getattr(sync, name)))


BOTH = [(sync, async_, name) for sync, async_ in PAIRS for name in methods(sync, async_)]


def test_both_have_the_same_names(store: Store, session: Session) -> None:
    page, threads, memory = store.sessions(), Threads(), store.memory()

    assert public(store) == public(AsyncStore(store, threads))
    assert public(session) == public(AsyncSession(session, threads))
    assert public(memory) == public(AsyncMemory(memory, threads))
    assert public(page) - PRIVATE_TO_PAGES == public(AsyncPage(page, threads))


@pytest.mark.parametrize(("sync", "async_", "name"), BOTH)
def test_both_take_the_same_arguments(sync: type, async_: type, name: str) -> None:
    ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (sync, async_))

    assert [named(p) for p in ours.parameters.values()] == [named(p) for p in theirs.parameters.values()]


def named(parameter: inspect.Parameter) -> tuple[str, Any, Any]:
    return parameter.name, parameter.kind, parameter.default


@pytest.mark.parametrize(("sync", "async_", "name"), BOTH)
def test_both_say_the_same_of_their_arguments(sync: type, async_: type, name: str) -> None:
    ours, theirs = (getattr(kind, name).__annotations__ for kind in (sync, async_))

    for argument in ours.keys() - {"return", *ALSO_ASYNC}:
        assert theirs[argument] == ours[argument]


def test_open_and_aopen_take_the_same_arguments() -> None:
    ours, theirs = inspect.signature(threadline.open), inspect.signature(threadline.aopen)

    assert [named(p) for p in ours.parameters.values()] == [named(p) for p in theirs.parameters.values()]


@pytest.mark.parametrize(("sync", "async_"), PAIRS)
def test_a_property_of_the_one_is_a_property_of_the_other(sync: type, async_: type) -> None:
    def properties(kind: type) -> set[str]:
        return {name for name in public(kind) if isinstance(inspect.getattr_static(kind, name), property)}

    assert properties(sync) - IMMEDIATE == properties(async_) - IMMEDIATE


@pytest.mark.parametrize("name", sorted(public(AsyncSession) - IMMEDIATE))
def test_whatever_reads_or_writes_a_session_is_awaited(name: str) -> None:
    member = inspect.getattr_static(AsyncSession, name)
    returned = (member.fget if isinstance(member, property) else member).__annotations__["return"]

    awaited = inspect.iscoroutinefunction(member) or "Coroutine" in str(returned)
    lazy = ("AsyncEntries", "AsyncBatch", "AsyncFollow", "AsyncOpening", "AsyncSpawn")
    assert awaited or str(returned).startswith(lazy)


@pytest.mark.parametrize("name", sorted(public(AsyncStore) - IMMEDIATE))
def test_whatever_a_store_gives_can_be_awaited(name: str) -> None:
    member = inspect.getattr_static(AsyncStore, name)
    lazy = {
        "AsyncPages": AsyncPages,
        "AsyncChanges": AsyncChanges,
        "AsyncSession": AsyncSession,
        "AsyncStore": AsyncStore,
        "AsyncMemory": AsyncMemory,
    }

    returned = lazy.get(member.__annotations__["return"], Coroutine)
    assert inspect.iscoroutinefunction(member) or hasattr(returned, "__await__")


WRITES = [
    "append",
    "extend",
    "note",
    "compact",
    "replace",
    "expand",
    "rewind",
    "clear",
    "start_call",
    "repair",
    "set_state",
    "set_goal",
    "complete_goal",
]


def test_a_batch_records_usage_as_a_session_does() -> None:
    ours, theirs = (inspect.signature(kind.record_usage) for kind in (Session, Batch))

    assert [named(p) for p in ours.parameters.values()] == [named(p) for p in theirs.parameters.values()]


@pytest.mark.parametrize("name", WRITES)
def test_a_batch_has_every_writing_method_of_a_session(name: str) -> None:
    assert callable(getattr(Batch, name))


@pytest.mark.parametrize("name", WRITES)
def test_every_write_takes_a_key_an_expectation_a_time_and_a_lease(name: str) -> None:
    parameters = inspect.signature(getattr(Session, name)).parameters

    for option in ("key", "expect", "at", "lease"):
        assert parameters[option].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[option].default is None
