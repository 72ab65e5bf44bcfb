"""power-loop makes the sessions that a JSON file asks for and says what it shows of them; or only says, of a file."""

import asyncio
import inspect
import json
import sys
from pathlib import Path

import bare

bare.packages("power_loop", "power_loop.runtime")

path, prefixed = sys.argv[2], sys.argv[3] == "prefixed"
wanted = json.loads(Path(sys.argv[4]).read_text())
if prefixed:
    from power_loop.runtime.store import SessionStore, SubagentLifecycle
else:
    from power_loop.runtime.session_store import SessionStore, SubagentLifecycle


async def done(value):
    return await value if inspect.isawaitable(value) else value


async def make(store, spec):
    id = await done(
        store.create_session(
            session_id=spec["id"],
            system_prompt="be kind",
            model="m",
            parent_session_id=spec.get("parent"),
            spawn_tool_call_id=spec.get("call"),
            lifecycle=SubagentLifecycle(spec.get("lifecycle", "linked")),
            metadata={"title": "T"},
        )
    )
    for act in spec["acts"]:
        match act:
            case ["add", fields]:
                await done(store.append_message(id, **fields))
            case ["fold", first, last, text]:
                await done(
                    store.record_compaction(
                        id,
                        from_seq=first,
                        to_seq=last,
                        note_content=text,
                        before_tokens=9,
                        after_tokens=1,
                        round_index=0,
                    )
                )
            case ["fold exactly", seqs, text]:
                await done(
                    store.record_compaction(
                        id,
                        from_seq=min(seqs),
                        to_seq=max(seqs),
                        note_content=text,
                        before_tokens=9,
                        after_tokens=1,
                        round_index=0,
                        fold_seqs=seqs,
                    )
                )
            case ["usage", round, prompt, completion]:
                more = {"send_index": 0} if prefixed else {}
                await done(
                    store.record_usage(
                        id,
                        round_index=round,
                        prompt_tokens=prompt,
                        completion_tokens=completion,
                        total_tokens=prompt + completion,
                        model="m",
                        **more,
                    )
                )
            case ["pending", value]:
                await done(store.set_pending(id, value))
            case ["archive"]:
                await done(store.archive_session(id))


async def shown(store, id):
    row = await done(store.get_session(id))
    active = await done(store.load_active_messages(id))
    every = await done(store.load_all_messages(id))
    return {
        "active": [[m.seq, m.role, m.name, m.content, m.tool_calls, m.tool_call_id] for m in active],
        "all": [[m.seq, m.role, m.name, m.content, m.tool_calls, m.tool_call_id] for m in every],
        "parent": row.parent_session_id,
        "depth": row.spawn_depth,
        "lifecycle": row.lifecycle.value,
        "status": row.status.value,
        "system": row.system_prompt,
        "model": row.model,
    }


async def main():
    store = await done(SessionStore.open(path))
    for spec in wanted:
        if spec["acts"] is not None:  # else it is there, and only to be shown
            await make(store, spec)
    ids = [spec["id"] for spec in wanted]
    found = {id: await shown(store, id) for id in ids}
    await done(store.close())
    print(json.dumps(found))


asyncio.run(main())
