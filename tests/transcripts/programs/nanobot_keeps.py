"""nanobot makes the sessions that a JSON file asks for, saves them, loads them again and says what it shows."""

import json
import sys
from pathlib import Path

import bare

bare.packages("nanobot", "nanobot.session", "nanobot.utils", "nanobot.config", "nanobot.providers")
from nanobot.session import manager as sessions  # noqa: E402

root = Path(sys.argv[2])
wanted = json.loads(Path(sys.argv[3]).read_text()) if len(sys.argv) > 3 else None
NEW = hasattr(sessions, "JsonlSessionStore")


def managed():
    if NEW:
        return sessions.SessionManager(root / "workspace", sessions_root=root / "sessions")
    return sessions.SessionManager(root)


def make(manager, spec):
    session = manager.get_or_create(spec["key"])
    for act in spec["acts"]:
        match act:
            case ["add", role, content, more]:
                session.add_message(role, content, **more)
            case ["consolidate", count, text]:
                session.last_consolidated = count
                if text:
                    session.metadata["_last_summary"] = {"text": text, "last_active": "2026-05-16T01:00:00"}
            case ["summary", text, at] if NEW:
                session.commit_summary_checkpoint(text, insert_at=at)
            case ["meta", values]:
                session.metadata.update(values)
            case ["state", record] if NEW:
                session.provider_state = sessions.ProviderConversationState.from_private_record(record)
    manager.save(session)
    if NEW and spec.get("checkpoint"):
        session.metadata["runtime_checkpoint"] = spec["checkpoint"]
        manager.save_runtime_checkpoint(session)


def shown(manager, key):
    session = manager.get_or_create(key)
    return {
        "history": session.get_history(max_messages=10**6),
        "messages": session.messages,
        "last_consolidated": session.last_consolidated,
        "metadata": session.metadata,
        "provider_state": session.provider_state.to_private_record() if NEW and session.provider_state else None,
    }


if wanted is not None:
    for spec in wanted:
        make(managed(), spec)
keys = [spec["key"] for spec in wanted] if wanted is not None else [s["key"] for s in managed().list_sessions()]
print(json.dumps({key: shown(managed(), key) for key in keys}))
