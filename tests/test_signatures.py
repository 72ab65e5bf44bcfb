"""What callers write stays valid: names, order and defaults of the arguments of the public API.

More arguments may come, by keyword or after these; what stands here may not be renamed, moved or dropped."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from inspect import Parameter
from typing import Any

import pytest

import threadline
from threadline import (
    Chain,
    Context,
    DraftWriter,
    Entry,
    Goal,
    Hit,
    Memory,
    Message,
    Node,
    Plan,
    Session,
    SessionInfo,
    Store,
    Usage,
    View,
    formats,
    transcripts,
)

ARGUMENTS: dict[Any, str] = {
    threadline.open: """url=None, *, namespace="", durability="full", read_only=False, max_depth=3, prices=None,
        clock=None, count_tokens=None""",
    Store.within: "namespace",
    Store.session: "key",
    Store.new: """key=None, title=None, agent=None, model=None, provider=None, cwd=None, system=None, tags=(),
        meta=None, id=None, at=None""",
    Store.get: "session_id",
    Store.find: "key",
    Store.latest: "cwd=None, agent=None, tag=None",
    Store.sessions: """*, cwd=None, agent=None, tag=None, status="active", parent=None, root=True, waiting=None,
        key_prefix=None, updated_before=None, order="updated", limit=50, cursor=None""",
    Store.usage: 'by="model", since=None, until=None, agent=None, tag=None, cwd=None',
    Store.delete: "session_id, cascade=True, expect=None",
    Store.erase: "session_id, cascade=False",
    Store.prune: "*, older_than, dry_run=True",
    Store.backup: "path",
    Store.search: """query, *, session=None, role=None, agent=None, cwd=None, since=None, until=None, limit=20""",
    Store.memory: "project=None, root=None",
    Session.rename: "title, auto=False",
    Session.append: "message, *, key=None, expect=None, usage=None, at=None, format=None, lease=None",
    Session.extend: "messages, *, key=None, expect=None, usage=None, at=None, lease=None",
    Session.batch: "expect=None, lease=None",
    Session.entries: "after=0, before=None, kinds=None, limit=None, reverse=False",
    Session.entry: "seq=None, *, key=None",
    Session.note: 'data, kind="note", *, key=None, expect=None, at=None, lease=None',
    Session.view: "at=None, last=None",
    Session.messages: "at=None",
    Session.compact: """summary, plan=None, *, upto=None, keep_turns=None, since=None, usage=None, expect=None,
        lease=None""",
    Session.replace: "messages, *, since, upto, expect=None, lease=None",
    Session.originals: "seq",
    Session.expand: "seq, *, expect=None, lease=None",
    Session.rewind: "to, *, state=False, expect=None, lease=None",
    Session.clear: "*, expect=None, lease=None",
    Session.fork: "at=None, *, key=None, title=None, meta=None",
    Session.start_call: "call_id",
    Session.repair: 'reason="interrupted"',
    Session.context: """*, max_tokens=None, max_messages=None, format="threadline", timestamps=False,
        keep_outputs=None, at=None""",
    Session.spawn: 'agent=None, *, key=None, call_id=None, lifecycle="linked", model=None, meta=None',
    Session.finish: "output, error=False",
    Session.record_usage: """input=0, output=0, cache_read=0, cache_write=0, reasoning=0, model=None, cost=None,
        request_id=None, at=None""",
    Session.usage: "children=False",
    Session.set_state: "values, remove=()",
    Session.state_at: "seq",
    Session.set_goal: "objective, summary=None",
    Session.complete_goal: "recap=None",
    Session.draft: 'role="assistant", key=None, lease=None',
    DraftWriter.finish: "message=None, usage=None",
    Session.enqueue: "message, key=None",
    Session.lease: "holder, ttl=30, wait=0",
    Session.follow: "after=0, timeout=None",
    Session.read: "seq, part=0, start=0, length=None",
    Session.redact: "seq, reason",
    Context.fingerprint: "n=None",
    threadline.should_compact: "usage, context_window, threshold=0.8",
    threadline.plan_compaction: "view, *, target_tokens, keep_turns=4, keep=()",
    threadline.diff_contexts: "a, b",
    Message.user: "text=None",
    Message.tool: "call_id, output, error=False",
    formats.read: "dicts, format=None",
    formats.write: "messages, format",
    transcripts.read: "path, format=None, *, store, project=None, dry_run=False",
    transcripts.write: "session, path, format, *, raw=False",
    Memory.claim: """content, *, domain="", confidence=0.8, priority=0, session=None, agent=None, preliminary=False,
        chain=None, anchors=(), ttl=None, meta=None""",
    Memory.get: "addr_or_prefix",
    Memory.active: "domain=None",
    Memory.recall: "query, *, limit=5, domain=None, budget_tokens=None",
    Memory.compress: "addrs, content",
    Memory.supersede: "addr, content",
    Memory.provenance: "addr",
    Memory.descendants: "addr",
    Memory.chains: "*, status=None, session=None, agent=None",
    Memory.chain: "name_or_id",
    Memory.render: "budget_tokens",
    Memory.extend: "chain, addr",
    Memory.stash: "chain, reason",
    Memory.pop: "chain",
    Memory.archive_chain: "chain",
    Memory.supersede_chain: "old, new",
    Memory.promote: "chain_or_node",
    Memory.promote_all: "session",
    Memory.summary: "session",
    Memory.end: "session, promote=True",
    Memory.handoff: "session=None",
    Memory.session: "agent=None, max_idle=timedelta(hours=2)",
    Memory.recover: "session",
    Memory.gc: "older_than=timedelta(days=30), dry_run=False",
    Memory.events: "limit=50",
}

FIELDS = {
    SessionInfo: """id key title preview agent model provider cwd tags status parent depth lifecycle origin created_at
        updated_at messages tokens cost pending queued holder meta""",
    Entry: "session seq kind at message data key tokens usage",
    View: "entries messages turns head damaged",
    Context: "messages system tokens seqs start dropped head repairs",
    Usage: "input output cache_read cache_write reasoning cost requests",
    Goal: "objective summary status started_at completed_at recap",
    Plan: "since upto messages tokens",
    Hit: "session seq at role snippet score before after hidden",
    Node: "addr type content inputs domain confidence preliminary session agent created_at meta",
    Chain: "id name status members domain session agent created_at extended_at meta",
    transcripts.ImportReport: """sessions entries problems bytes_read bytes_imported bytes_reported added unchanged
        forked""",
}


@pytest.mark.parametrize("call", ARGUMENTS, ids=lambda call: call.__qualname__)
def test_a_call_keeps_its_arguments(call: Callable[..., Any]) -> None:
    promised, real = arguments(made(ARGUMENTS[call])), arguments(call)

    assert {name: real.get(name) for name in promised} == promised
    assert in_order(call)[: len(in_order(made(ARGUMENTS[call])))] == in_order(made(ARGUMENTS[call]))


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_a_value_keeps_its_fields(kind: type) -> None:
    assert [name for name in FIELDS[kind].split() if not hasattr(kind, name)] == []


def made(arguments: str) -> Callable[..., Any]:
    made: dict[str, Any] = {"timedelta": timedelta}
    exec(f"def call({arguments}): ...", made)
    call: Callable[..., Any] = made["call"]
    return call


def arguments(call: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Each with its default, and whether it stands in an order or goes by its name."""
    return {each.name: (each.kind, each.default) for each in _parameters(call)}


def in_order(call: Callable[..., Any]) -> list[str]:
    return [each.name for each in _parameters(call) if each.kind is Parameter.POSITIONAL_OR_KEYWORD]


def _parameters(call: Callable[..., Any]) -> list[Parameter]:
    return [each for each in inspect.signature(call).parameters.values() if each.name != "self"]
