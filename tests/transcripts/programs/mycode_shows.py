"""What mycode shows of each session in a folder: the visible messages, the summary in the place of what it hides."""

import json
import sys
from pathlib import Path

import bare

bare.packages("mycode")
from mycode import session as sessions  # noqa: E402

try:
    from mycode import compact
except ImportError:
    compact = None

HEADS = ("[Conversation Summary]\n\n",)


def visible(store, id):
    if hasattr(store, "load_messages_sync"):
        found = store.load_messages_sync(id)
    else:
        found = (store.load_session_sync(id) or {"messages": None})["messages"]
    if found is None or not any(m.get("role") == "compact" for m in found):
        return found
    return list(replayed(found))


def replayed(messages):
    """As it is sent: all up to the last compaction gives way to the summary."""
    replay = getattr(compact, "apply_compact_replay", None) or getattr(sessions, "apply_compact_replay", None)
    if replay is None:  # 0.8 keeps it in the agent
        last = max(i for i, m in enumerate(messages) if m["role"] == "compact")
        return [messages[last], *messages[last + 1 :]]
    return replay(messages)


def told(messages):
    out = []
    for i, message in enumerate(messages):
        text = "".join(b.get("text", "") for b in message.get("content") or [] if b.get("type") == "text")
        if i == 0 and message["role"] == "compact":
            out.append(["summary", text])
        elif i == 0 and (message.get("meta") or {}).get("synthetic"):
            out.append(["summary", text.removeprefix(HEADS[0])])
        elif i == 0 and compact and text.startswith(compact.CONTINUATION_HEADER):
            said = text.removeprefix(compact.CONTINUATION_HEADER).strip()
            out.append(["summary", said.removesuffix(compact.CONTINUATION_FOOTER).strip()])
        elif i == 1 and out[0][0] == "summary" and acknowledges(message, text):
            continue
        else:
            out.append([message["role"], blocks(message)])
    return out


def acknowledges(message, text):
    own = getattr(compact, "COMPACT_ACK", None)
    return (message.get("meta") or {}).get("synthetic") or (own is not None and text == own)


def blocks(message):
    found = []
    for block in message.get("content") or []:
        match block.get("type"):
            case "text" | "thinking":
                found.append([block["type"], block["text"]])
            case "tool_use":
                found.append(["call", block["id"], block["name"], block["input"]])
            case "tool_result":
                output = block.get("model_text", block.get("output"))
                if "interrupted" not in output:  # mended on the way out, or on loading; we do so in a context
                    found.append(["result", block["tool_use_id"], output, block["is_error"]])
    return found


folder = Path(sys.argv[2])
store = sessions.SessionStore(data_dir=folder)
shown = {}
for each in sorted(folder.iterdir()):
    if (each / "messages.jsonl").exists():
        shown[each.name] = told(visible(store, each.name) or [])
print(json.dumps(shown))
