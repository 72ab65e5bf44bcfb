"""Hits: what a search found, and how a caller's question becomes one that a backend understands."""

from __future__ import annotations

import os
from datetime import datetime

from msgspec import Struct

from threadline.backends.backend import Backend, OnProgress, Progress, Record, Ref
from threadline.core.searching import Answer, Indexing, Search
from threadline.core.spending import Prices
from threadline.errors import InvalidArgument
from threadline.info import SessionInfo, check_about, info_of
from threadline.messages import Message
from threadline.pen import time_of

LIMIT_MAX = 10_000
AROUND_MAX = 100
QUERY_CHARS = 20_000  # of a longer question nobody means every word


class Hit(Struct, frozen=True):
    """An entry that answers a question. With `seq` 0 it is the title of the session.

    `role` is that of the message, or "summary", "note", "goal", "title". In `snippet`, one line, the words that were
    asked for are marked. `before` and `after` are the messages around it in the log. A `hidden` entry was rewound or
    compacted away: it is in the log, and the model does not see it. `matches` counts what was found in its session."""

    session: SessionInfo
    seq: int
    at: datetime
    role: str
    snippet: str
    score: float
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    hidden: bool = False
    matches: int = 1


def asked(
    query: str,
    *,
    namespace: str,
    ref: Ref | None,
    role: str | None,
    agent: str | None,
    cwd: str | os.PathLike[str] | None,
    since: datetime | None,
    until: datetime | None,
    trashed: bool,
    group: bool,
    limit: int,
    around: int,
    marks: tuple[str, str],
) -> Search:
    """The question as a backend takes it. Any text is one; what does not fit beside it is refused."""
    if not isinstance(query, str):
        raise InvalidArgument(f"a query is text, not {query!r}")
    for name, value, most in (("limit", limit, LIMIT_MAX), ("around", around, AROUND_MAX)):
        if not isinstance(value, int) or isinstance(value, bool) or not (name == "limit") <= value <= most:
            raise InvalidArgument(f"{name} is a number up to {most:,}, not {value!r}")
    if not isinstance(role, str | None) or not isinstance(agent, str | None):
        raise InvalidArgument(f"role and agent are text, not {role!r} and {agent!r}")
    if not (isinstance(marks, tuple) and len(marks) == 2 and all(isinstance(mark, str) for mark in marks)):
        raise InvalidArgument(f'marks is a pair of strings, such as ("**", "**"), not {marks!r}')
    return Search(
        text=query[:QUERY_CHARS],
        namespace=namespace,
        session=None if ref is None else ref.number,
        tree=None if ref is None else ref.tree,
        role=role,
        agent=agent,
        cwd=check_about({"cwd": cwd}, None)["cwd"],
        since=None if since is None else time_of(since),
        until=None if until is None else time_of(until),
        trashed=bool(trashed),
        group=bool(group),
        limit=limit,
        around=around,
        marks=marks,
    )


def hit_of(record: Record, answer: Answer, prices: Prices) -> Hit:
    return Hit(
        info_of(record, prices),
        answer.seq,
        answer.at,
        answer.role,
        answer.snippet,
        answer.score,
        answer.before,
        answer.after,
        answer.hidden,
        answer.matches,
    )


def catch_up(backend: Backend, namespace: str, progress: OnProgress | None = None) -> Indexing:
    """Index all that there is when it begins, a step at a time; others write in between."""
    now = backend.index_lag(namespace)
    goal = now.total
    while now.left and (now.done < goal or now.retitled):
        now = backend.index_step(namespace)
        if progress is not None:
            progress(Progress(now.done, now.total, "entry"))
    return now
