"""Types are part of the API: mypy checks this file, nobody runs it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

import threadline
from threadline import (
    AsyncMemory,
    AsyncSession,
    AsyncStore,
    Batch,
    Chain,
    Conflict,
    CopyReport,
    Draft,
    DraftWriter,
    Ending,
    Entry,
    Goal,
    KeyReused,
    Lease,
    LeaseHeld,
    LeaseLost,
    Media,
    Memory,
    Message,
    Node,
    NotActive,
    NotFound,
    Other,
    Page,
    Part,
    Pending,
    PendingCall,
    Plan,
    Problem,
    PrunePlan,
    Queued,
    Reasoning,
    Recalled,
    Receipt,
    Request,
    Session,
    SessionInfo,
    Stale,
    Store,
    Text,
    ThreadlineError,
    ToolCall,
    ToolResult,
    Tree,
    Uncertain,
    Usage,
    VerifyReport,
    View,
    formats,
    postgres,
)
from threadline.aio.drafts import AsyncDraft, AsyncDraftWriter
from threadline.aio.leases import AsyncLease


def opening() -> None:
    assert_type(threadline.open(), Store)
    assert_type(threadline.open(Path("agents.db"), durability="relaxed", read_only=True, namespace="acme"), Store)
    assert_type(threadline.open(":memory:", clock=lambda: datetime.now(UTC), count_tokens=lambda m: len(m.text)), Store)
    threadline.open("agents.db", colour="red")  # type: ignore[call-arg]
    threadline.open("agents.db", "acme")  # type: ignore[call-arg]
    with threadline.open() as store:
        assert_type(store, Store)
        assert_type(store.within("acme"), Store)
        assert_type(store.namespace, str)


def moving_house(source: Store, target: Store) -> None:
    report = threadline.copy(source, target, progress=lambda progress: progress.entries)
    assert_type(report, CopyReport)
    assert_type(report.problems, list[Problem])
    assert_type(report.ok, bool)
    assert_type(threadline.open("postgresql://host/database"), Store)
    assert_type(postgres.migrate("postgresql://host/database"), int)
    assert_type(postgres.ddl(tenants=True), str)
    threadline.copy(source)  # type: ignore[call-arg]


def messages() -> None:
    message = Message.assistant("Looking.", ToolCall("c1", "read", {"path": "a.py"}), meta={"n": 1})
    assert_type(message, Message)
    assert_type(message.role, str)
    assert_type(message.parts, tuple[Part, ...])
    assert_type(message.meta, dict[str, Any])
    assert_type(message.text, str)
    assert_type(message.calls, tuple[ToolCall, ...])
    assert_type(message.results, tuple[ToolResult, ...])
    assert_type(Message.user("hi", Media("image/png", b"", name="a.png")), Message)
    assert_type(Message.system("Be brief."), Message)
    assert_type(Message.tool("c1", [Text("x")], error=True), Message)
    assert_type(ToolCall("c1", "f").args, dict[str, Any] | str)
    assert_type(Reasoning("hm").signature, str | None)
    assert_type(Other({"type": "new"}).raw, dict[str, Any])
    assert_type(Media("image/png").data, bytes | None)
    assert_type(formats.read([{"role": "user", "content": "hi"}], "openai"), list[Message])
    message.role = "user"  # type: ignore[misc]
    Message.user(7)  # type: ignore[arg-type]


def sessions(store: Store) -> None:
    assert_type(store.session("telegram:42", agent="coder"), Session)
    session = store.new(key="k", title="t", cwd=Path("/src"), tags=["red"], meta={"n": 1}, at=datetime.now(UTC))
    assert_type(session, Session)
    assert_type(store.get("id"), Session)
    assert_type(store.get(session), Session)
    assert_type(store.find("k"), Session | None)
    assert_type(store.latest(cwd=Path("/src")), Session | None)
    page = store.sessions(waiting=True, updated_before=datetime.now(UTC), order="created", limit=9, cursor=None)
    assert_type(page, Page)
    assert_type(page.items, list[SessionInfo])
    assert_type(page.next, str | None)
    for info in page:
        assert_type(info, SessionInfo)
    assert_type(store.verify(), VerifyReport)
    assert_type(store.verify().problems, list[Problem])
    assert_type(store.verify().ok, bool)
    assert_type(store.stats(), dict[str, Any])
    store.archive(session)
    store.trash("id")
    store.sessions("/src")  # type: ignore[call-arg]
    store.get(7)  # type: ignore[arg-type]


def facts(session: Session) -> None:
    assert_type(session.id, str | None)
    assert_type(session.key, str | None)
    assert_type(session.head, int)
    info = session.info
    assert_type(info.id, str)
    assert_type(info.title, str | None)
    assert_type(info.tags, tuple[str, ...])
    assert_type(info.origin, tuple[str, int] | None)
    assert_type(info.updated_at, datetime)
    assert_type(info.meta, dict[str, Any])
    session.rename("title", auto=True)
    session.tag("red", "blue")
    session.update(model="m", cwd=None, meta={"n": None})
    session.id = "other"  # type: ignore[misc]
    session.update(colour="red")  # type: ignore[call-arg]


def the_log(session: Session) -> None:
    entry = session.append("hi", key="k", expect=0, usage={"input": 1}, at=datetime.now(UTC), format=None)
    assert_type(entry, Entry)
    assert_type(entry.seq, int)
    assert_type(entry.at, datetime)
    assert_type(entry.message, Message | None)
    assert_type(entry.data, dict[str, Any] | None)
    assert_type(entry.key, str | None)
    assert_type(session.append({"role": "user", "content": "hi"}), Entry)
    assert_type(session.extend(["one", Message.user("two"), {"role": "user"}], key="k"), list[Entry])
    assert_type(session.note({"n": 1}, "deploy", expect=3), Entry)
    with session.batch(expect=3) as batch:
        assert_type(batch, Batch)
        batch.rewind(2)
        batch.append("edited", key="k")
    assert_type(batch.entries, list[Entry])
    for entry in session.entries(after=1, before=9, kinds=["note"], limit=3, reverse=True):
        assert_type(entry, Entry)
    assert_type(session.entry(1), Entry)
    assert_type(session.entry(key="k"), Entry)
    session.append("hi", "key")  # type: ignore[call-arg]
    session.append(7)  # type: ignore[arg-type]
    session.note("text")  # type: ignore[arg-type]


def the_view(session: Session, plan: Plan) -> None:
    view = session.view(at=3, last=2)
    assert_type(view, View)
    assert_type(view.entries, tuple[Entry, ...])
    assert_type(view.messages, list[Message])
    assert_type(view.turns, list[tuple[Entry, ...]])
    assert_type(view.head, int)
    assert_type(view.damaged, tuple[int, ...])
    assert_type(session.messages(), list[Message])
    assert_type(session.compact("short", keep_turns=2, expect=view.head), Entry)
    assert_type(session.compact(lambda run: run[0].text, plan, key="k"), Entry)
    assert_type(plan.messages, tuple[Message, ...])
    assert_type(session.replace([], since=1, upto=2), Entry)
    assert_type(session.originals(3), list[Entry])
    assert_type(session.expand(3), Entry)
    assert_type(session.rewind(2), Entry)
    assert_type(session.clear(), Entry)
    assert_type(session.fork(2, key="fork", title="t", meta={}), Session)
    assert_type(session.forks(), list[Session])
    assert_type(session.pending, list[PendingCall])
    assert_type(session.pending[0].call, ToolCall)
    assert_type(session.pending[0].started, bool)
    assert_type(session.unanswered, Entry | None)
    assert_type(session.start_call("c1"), Entry)
    assert_type(session.repair("stopped"), list[Entry])
    session.replace([], 1, 2)  # type: ignore[call-arg]
    session.compact(7)  # type: ignore[arg-type]


def a_life(store: Store, session: Session) -> None:
    assert_type(session.state, Mapping[str, Any])
    assert_type(session.state_at(3), Mapping[str, Any])
    assert_type(session.set_state({"n": 1}, remove=["m"], key="k", expect=3), Entry)
    session.state["n"] = 2  # type: ignore[index]
    assert_type(session.goal, Goal | None)
    assert_type(session.set_goal("win", "soon"), Entry)
    assert_type(session.complete_goal("won"), Entry)
    assert_type(session.rewind(3, state=True), Entry)
    with session.lease("worker-7", ttl=30, wait=0.5) as lease:
        assert_type(lease, Lease)
        assert_type(lease.until, datetime)
        lease.renew()
        session.append("hi", lease=lease)
        session.append("hi", lease="worker-7")  # type: ignore[arg-type]
        with session.batch(lease=lease) as b:
            b.set_state({"n": 1})
    assert_type(session.enqueue("hi", "key"), Queued)
    assert_type(session.queued(), list[Queued])
    assert_type(session.take(lease=lease), Entry | None)
    with session.draft("assistant", key="k", lease=lease) as d:
        assert_type(d, DraftWriter)
        d.write("token")
        d.write(b"token")  # type: ignore[arg-type]
        assert_type(d.finish(Message.assistant("hi"), usage={"output": 1}), Entry)
    assert_type(session.drafts, list[Draft])
    assert_type(session.drafts[0].interrupted, bool)
    assert_type(session.drafts[0].keep(), Entry)
    for entry in session.follow(after=3, timeout=None):
        assert_type(entry, Entry)
    for info in store.follow():
        assert_type(info, SessionInfo)
        assert_type((info.queued, info.holder), tuple[int, str | None])


def lease_errors(held: LeaseHeld, lost: LeaseLost) -> None:
    assert_type((held.holder, held.until), tuple[str, datetime])
    assert_type((lost.session, lost.holder), tuple[str, str | None])


def the_family(store: Store, session: Session) -> None:
    child = session.spawn("search", key="k", call_id="c1", lifecycle="ephemeral", model="m", meta={})
    assert_type(child, Session)
    assert_type(child.finish("done", error=True), Entry)
    assert_type(session.parent, Session | None)
    assert_type(session.children(), list[Session])
    tree = session.tree()
    assert_type(tree, Tree)
    assert_type(tree.children, list[Tree])
    for info in tree:
        assert_type(info.parent, str | None)
        assert_type(info.depth, int)
        assert_type(info.cost, float | None)
    with session.spawn(lifecycle="ephemeral") as child:
        assert_type(child, Session)
    store.sessions(parent=session, root=False)
    assert_type(store.delete(session, cascade=False, expect=3), int)
    receipt = store.erase(session, cascade=True)
    assert_type(receipt, Receipt)
    assert_type(receipt.pending, list[Pending])
    assert_type(session.redact(3, "why"), Receipt)
    plan = store.prune(older_than=timedelta(days=30), dry_run=False)
    assert_type(plan, PrunePlan)
    assert_type(plan.sessions, list[str])
    session.spawn("search", "k")  # type: ignore[call-arg]
    store.prune(timedelta(days=30))  # type: ignore[call-arg]


def the_usage(store: Store, session: Session) -> None:
    session.record_usage(input=1, output=2, model="m", cost=0.1, request_id="r", at=datetime.now(UTC))
    session.append("hi", usage=Usage(1, 2))
    usage = session.usage(children=True)
    assert_type(usage, Usage)
    assert_type(usage.input, int)
    assert_type(usage.cost, float | None)
    assert_type(session.requests(), list[Request])
    assert_type(session.requests()[0].request_id, str | None)
    assert_type(store.usage(by=("day", "model"), since=datetime.now(UTC), agent="a"), dict[Any, Usage])
    threadline.open("agents.db", prices={"m": {"input": 1.0}}, max_depth=2)
    threadline.open("agents.db", prices=lambda model: None)
    session.append("hi", usage=7)  # type: ignore[arg-type]
    session.record_usage(tokens=7)  # type: ignore[call-arg]


def errors(stale: Stale, reused: KeyReused, uncertain: Uncertain, missing: NotFound, away: NotActive) -> None:
    conflict: Conflict = stale
    conflict = reused
    root: ThreadlineError = conflict
    assert_type((stale.expected, stale.found), tuple[int, int])
    assert_type((reused.key, reused.seq), tuple[str, int])
    assert_type((uncertain.session, uncertain.head), tuple[str | None, int])
    assert_type(missing.what, str)
    assert_type((away.session, away.status), tuple[str, str])
    raise root


# -- the same, awaited ---------------------------------------------------------------------------------


async def async_opening() -> None:
    assert_type(await threadline.aopen("agents.db", durability="relaxed"), AsyncStore)
    async with threadline.aopen() as store:
        assert_type(store, AsyncStore)
        assert_type(store.within("acme"), AsyncStore)
    threadline.aopen("agents.db", colour="red")  # type: ignore[call-arg]


async def async_sessions(store: AsyncStore) -> None:
    session = await store.session("telegram:42", agent="coder")
    assert_type(session, AsyncSession)
    assert_type(await store.new(key="k", tags=["red"]), AsyncSession)
    assert_type(await store.get("id"), AsyncSession)
    assert_type(await store.get(session), AsyncSession)
    assert_type(await store.find("k"), AsyncSession | None)
    assert_type(await store.latest(), AsyncSession | None)
    page = await store.sessions(limit=9)
    assert_type(page.items, list[SessionInfo])
    assert_type(page.next, str | None)
    async for info in store.sessions():
        assert_type(info, SessionInfo)
    async for info in page:
        assert_type(info, SessionInfo)
    await store.archive(session)
    assert_type(await store.verify(), VerifyReport)
    assert_type(await store.stats(), dict[str, Any])


async def async_log(session: AsyncSession) -> None:
    assert_type(session.id, str | None)
    assert_type(await session.head, int)
    assert_type(await session.info, SessionInfo)
    assert_type(await session.append("hi", key="k", expect=0), Entry)
    assert_type(await session.extend(["one", "two"]), list[Entry])
    assert_type(await session.note({"n": 1}), Entry)
    async with session.batch(expect=3) as batch:
        assert_type(batch, Batch)
        batch.append("one")
    async for entry in session.entries(reverse=True):
        assert_type(entry, Entry)
    assert_type(await session.entry(key="k"), Entry)
    await session.rename("title", auto=True)
    await session.update(model="m")
    await session.append(7)  # type: ignore[arg-type]
    await session.append("hi", "key")  # type: ignore[call-arg]


async def async_view(session: AsyncSession) -> None:
    assert_type(await session.view(last=2), View)
    assert_type(await session.messages(at=3), list[Message])
    assert_type(await session.compact("short", upto=3), Entry)
    assert_type(await session.replace([], since=1, upto=2), Entry)
    assert_type(await session.originals(3), list[Entry])
    assert_type(await session.expand(3), Entry)
    assert_type(await session.rewind(2), Entry)
    assert_type(await session.clear(), Entry)
    assert_type(await session.fork(2), AsyncSession)
    assert_type(await session.forks(), list[AsyncSession])
    assert_type(await session.pending, list[PendingCall])
    assert_type(await session.unanswered, Entry | None)
    assert_type(await session.start_call("c1"), Entry)
    assert_type(await session.repair(), list[Entry])


async def async_life(store: AsyncStore, session: AsyncSession) -> None:
    assert_type(await session.state, Mapping[str, Any])
    assert_type(await session.goal, Goal | None)
    assert_type(await session.set_state({"n": 1}, lease=None), Entry)
    async with session.lease("worker-7") as lease:
        assert_type(lease, AsyncLease)
        await lease.renew()
        await session.append("hi", lease=lease)
    assert_type(await session.lease("worker-7", wait=1), AsyncLease)
    assert_type(await session.enqueue("hi"), Queued)
    assert_type(await session.take(), Entry | None)
    async with session.draft(lease=lease) as d:
        assert_type(d, AsyncDraftWriter)
        await d.write("token")
        assert_type(await d.finish(), Entry)
    assert_type(await session.drafts, list[AsyncDraft])
    async for entry in session.follow(after=3):
        assert_type(entry, Entry)
    async for info in store.follow(timeout=1):
        assert_type(info, SessionInfo)


async def async_family(store: AsyncStore, session: AsyncSession) -> None:
    assert_type(await session.spawn("search", call_id="c1"), AsyncSession)
    async with session.spawn("search", lifecycle="ephemeral") as child:
        assert_type(child, AsyncSession)
    assert_type(await child.finish("done"), Entry)
    assert_type(await session.parent, AsyncSession | None)
    assert_type(await session.children(), list[AsyncSession])
    assert_type(await session.tree(), Tree)
    await session.record_usage(input=1)
    assert_type(await session.usage(), Usage)
    assert_type(await session.requests(), list[Request])
    assert_type(await store.usage(by="day"), dict[Any, Usage])
    assert_type(await store.delete(session), int)
    assert_type(await store.erase(session), Receipt)
    assert_type(await session.redact(3, "why"), Receipt)
    assert_type(await store.prune(older_than=timedelta(days=30)), PrunePlan)
    await store.sessions(parent=session)


def memory(store: threadline.Store, session: Session) -> None:
    known = store.memory("p", root=Path("."))
    assert_type(known, Memory)
    assert_type(known.claim("x", session=session, ttl=timedelta(days=1), anchors=[{"file": "a"}]), Node)
    assert_type(known.claims(["x", {"content": "y"}]), list[Node])
    assert_type(known.recall("x", session="s"), list[Recalled])
    assert_type(known.extend("chain", known.get("abcd")), Chain)
    assert_type(known.end(session), Ending)
    assert_type(known.session("agent"), Session)


async def awaited_memory(store: AsyncStore, session: AsyncSession) -> None:
    known = store.memory("p")
    assert_type(known, AsyncMemory)
    assert_type(await known.claim("x", session=session), Node)
    assert_type(await known.session(), AsyncSession)
    assert_type(await known.cycle("s", lambda nodes: "all"), Node | None)
