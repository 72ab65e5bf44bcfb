"""A session's goal: what it is working towards, in entries of kind `goal`. Each holds the goal whole."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from threadline.core.entries import moment
from threadline.core.session_state import data_of, standing
from threadline.core.view import Log
from threadline.errors import NotFound

TEXT_CHARS = 4_000  # of a goal in a prompt: enough for an objective, too little to crowd out the conversation


class Goal(Struct, frozen=True):
    """What a session works towards. `status` is "active" or "completed"; a recap says how it went."""

    objective: str
    summary: str | None
    status: str
    started_at: datetime
    completed_at: datetime | None = None
    recap: str | None = None


def goal_at(log: Log, seq: int) -> Goal | None:
    """The goal right after entry `seq`: one lookup in an index and one row, whatever the length of the log."""
    return goal_of(log, standing(log, "goal", seq))


def goal_of(log: Log, seq: int) -> Goal | None:
    if not seq:
        return None
    data = data_of(log.row(seq))
    started, completed = (data.get(name) for name in ("started_at", "completed_at"))
    return Goal(
        data["objective"],
        data.get("summary"),
        data["status"],
        moment(started or 0),
        None if completed is None else moment(completed),
        data.get("recap"),
    )


def goal_text(goal: Goal | None) -> str:
    """What a model is told of the goal: while it is active, and how it went if a recap says so; else ""."""
    if goal is None:
        return ""
    if goal.status == "active":
        told = f"Goal: {goal.objective}" + (f"\n{goal.summary}" if goal.summary else "")
    elif goal.recap:
        told = f"Goal, completed: {goal.objective}\nRecap: {goal.recap}"
    else:
        return ""
    return told if len(told) <= TEXT_CHARS else told[: TEXT_CHARS - 1] + "…"


def begun(objective: str, summary: str | None, at: int) -> dict[str, Any]:
    """What a `goal` entry holds that sets a goal. One that was active until then stays in the log only."""
    told = {} if summary is None else {"summary": summary}
    return {"objective": objective, **told, "status": "active", "started_at": at}


def completed(log: Log, head: int, recap: str | None, at: int) -> dict[str, Any]:
    """What a `goal` entry holds that completes the active goal. Raises NotFound if none is."""
    seq = standing(log, "goal", head)
    data = data_of(log.row(seq)) if seq else {}
    if data.get("status") != "active":
        raise NotFound("goal", "active", "set_goal(objective) sets one")
    told = {} if recap is None else {"recap": recap}
    return {**data, "status": "completed", "completed_at": at, **told}
