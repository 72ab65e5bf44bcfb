"""docs/peers.md, from the numbers of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAMES = {
    "threadline": "**threadline**",
    "jsonl_file": "a bare JSONL file",
    "power_loop": "power-loop",
    "nanobot": "nanobot",
    "mycode": "mycode",
    "openai_agents": "openai-agents, SQLiteSession",
    "langgraph": "LangGraph, SqliteSaver",
    "google_adk": "google-adk, SqliteSessionService",
    "strands": "strands, FileSessionManager",
    "agno": "agno, SqliteDb",
    "llm_logs": "llm, LogStore",
}

INTRODUCTION = """\
# Peers

`make bench-peers` does the same work on what people use today: each installed from PyPI in an environment of its own,
and used through its public API by a driver of a few lines (`bench/peers`), with the durability that it has as it comes.
CPU time, not wall time, because the machine is shared; on a RAM disk, so that it is the time of the software. What a
disk adds is told by the syncs, which are counted. Numbers for machines: `docs/bench/peers.json`.

What to keep in mind: they store different things. agno's unit is a run (one message each here), LangGraph's a
checkpoint of the whole state, llm's a chain of hashes; a bare file has no sessions, no keys and no search. A store
that does not sync is quick for that reason. Who lets only one process at a time write to a session never sees what
others lose.
"""


def page(found: dict[str, Any]) -> str:
    peers = {name: found["peers"][name] for name in NAMES if name in found["peers"]}
    parts = [
        INTRODUCTION,
        f"\nMeasured: {found['machine']}.\n",
        versions(peers),
        *(table(*each, peers) for each in TABLES),
    ]
    return "\n".join([*parts, better(peers)])


def versions(peers: dict[str, Any]) -> str:
    rows = ["| | version | an append is on disk when it returns? |", "|---|---|---|"]
    for name, told in peers.items():
        numbers = ", ".join(f"{package} {version}" for package, version in told["versions"].items()) or "-"
        rows.append(f"| {NAMES[name]} | {numbers} | {told['durability']} |")
    return "\n".join(rows) + "\n"


def table(title: str, about: str, columns: dict[str, Callable[[dict[str, Any]], str]], peers: dict[str, Any]) -> str:
    rows = [f"## {title}\n", f"{about}\n", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, told in peers.items():
        rows.append(f"| {NAMES[name]} | {' | '.join(safely(cell, told) for cell in columns.values())} |")
    return "\n".join(rows) + "\n"


def safely(cell: Callable[[dict[str, Any]], str], told: dict[str, Any]) -> str:
    """What a cell says, or why it says nothing."""
    try:
        return cell(told)
    except (KeyError, TypeError, IndexError):
        failed = [each["failed"] for each in told.values() if isinstance(each, dict) and "failed" in each]
        return failed[0] if failed else "not measured"


def grown(at: int) -> Callable[[dict[str, Any]], str]:
    def cell(told: dict[str, Any]) -> str:
        found = told["append"][at]
        wanted = (0, 1_000, 10_000)[at]
        note = "" if found["size"] == wanted else f" (at {found['size']:,})"
        return f"{found['us']:,.0f} ({found['low']:,.0f} to {found['high']:,.0f}){note}"

    return cell


def read(which: str) -> Callable[[dict[str, Any]], str]:
    def cell(told: dict[str, Any]) -> str:
        found = told["context"]
        note = "" if found["size"] == 100_000 else f" (of {found['size']:,})"
        return f"{found[which]:,.1f}{note}"

    return cell


def listed(told: dict[str, Any]) -> str:
    found = told["listing"]
    if found["ms"] is None:
        return "no such call"
    return f"{found['ms']:,.1f}" + ("" if found["size"] == 10_000 else f" (of {found['size']:,})")


def refused(told: dict[str, Any]) -> str:
    found = told["together"]
    return f"{found['refused']}" + (f" ({', '.join(found['errors'])})" if found["errors"] else "")


def stored(told: dict[str, Any]) -> str:
    found = told["disk"]
    note = "" if found["messages"] > 2_000 else f" (first {found['messages']:,} messages)"
    return f"{found['bytes'] / found['jsonl']:.2f}{note}"


def blocks(told: dict[str, Any]) -> str:
    return f"{told['disk']['blocks'] / told['disk']['jsonl']:.2f}"


TABLES: tuple[tuple[str, str, dict[str, Callable[[dict[str, Any]], str]]], ...] = (
    (
        "One append of 1 KiB",
        "µs of CPU in a session of so many messages, with the spread of seven rounds; and syncs, counted by strace.",
        {"empty": grown(0), "1,000": grown(1), "10,000": grown(2), "syncs": lambda told: f"{told['syncs']:.1f}"},
    ),
    (
        "The last 120 of 100,000 messages",
        "ms of CPU: of a store just opened, and again; where filling took over 15 s, of as many as there were.",
        {"first": read("first_ms"), "again": read("again_ms")},
    ),
    (
        "The latest 50 of 10,000 sessions",
        "ms of CPU.",
        {"list": listed},
    ),
    (
        "Four processes append to one session",
        "50 messages each, 200 in all. What is refused is not tried again; who caches a session reads it anew. "
        "LangGraph and llm branch by design: what the session lost may stand in the file, where it no longer leads.",
        {
            "lost": lambda told: str(told["together"]["lost"]),
            "refused": refused,
            "duplicated": lambda told: str(told["together"]["duplicated"]),
        },
    ),
    (
        "Bytes on disk",
        "A coding session (`bench/disk.py`) as a share of its JSONL: all files, and their blocks, less an empty store.",
        {"bytes": stored, "blocks": blocks},
    ),
    ("Import", "ms of CPU, over an empty process.", {"import": lambda told: f"{told['import_ms']:,.0f}"}),
)

MEASURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "append to an empty session, CPU": lambda told: told["append"][0]["us"],
    "append at 10,000 messages, CPU": lambda told: reached(told["append"][2], 10_000)["us"],
    "last 120 of 100,000, just opened": lambda told: reached(told["context"], 100_000)["first_ms"],
    "last 120 of 100,000, again": lambda told: reached(told["context"], 100_000)["again_ms"],
    "list 50 of 10,000": lambda told: reached(told["listing"], 10_000)["ms"],
    "messages lost or refused": lambda told: told["together"]["lost"] + told["together"]["refused"],
    "bytes on disk": lambda told: told["disk"]["bytes"] / told["disk"]["jsonl"],
    "syncs per append": lambda told: told["syncs"],
    "import": lambda told: told["import_ms"],
}


def reached(found: dict[str, Any], size: int) -> dict[str, Any]:
    """The same, if it is about as many: a shorter session is no better answer."""
    return found if found["size"] == size else {}


def better(peers: dict[str, Any]) -> str:
    """Who beats threadline, and where."""
    rows = ["## Where others are better\n"]
    for measure, value in MEASURES.items():
        mine = worth(value, peers["threadline"])
        ahead = sorted((found, name) for name, told in peers.items() if (found := worth(value, told)) < mine)
        names = ", ".join(f"{NAMES[name]} ({found:.3g})" for found, name in ahead)
        rows.append(f"- {measure} ({mine:.3g}): {names or 'nobody'}")
    return "\n".join(rows) + "\n"


def worth(value: Callable[[dict[str, Any]], float], told: dict[str, Any]) -> float:
    try:
        return float(value(told))
    except (KeyError, TypeError, IndexError):
        return float("inf")
