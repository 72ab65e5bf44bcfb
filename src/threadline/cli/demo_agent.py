"""The agent of the demo: works a little, and is killed while a tool runs. Says each entry once it is on disk."""

from __future__ import annotations

import sys
import time

import threadline
from threadline import Entry, Message, ToolCall

SCRIPT = (
    Message.user("Please run the tests and deploy."),
    Message.assistant("The tests first.", ToolCall("call-1", "run_tests", {"suite": "all"})),
    Message.tool("call-1", "212 passed in 8.4 s"),
    Message.assistant("All green. Deploying.", ToolCall("call-2", "deploy", {"to": "production"})),
)


def main(path: str) -> None:
    with threadline.open(path) as store:
        session = store.session("demo", agent="demo", system="You deploy carefully.")
        for message in SCRIPT:
            acknowledge(session.append(message))
        acknowledge(session.start_call("call-2"))
        print("running deploy", flush=True)
        time.sleep(60)


def acknowledge(entry: Entry) -> None:
    what = entry.message.text if entry.message else f"{entry.kind} {entry.data}"
    print(f"on disk: entry {entry.seq}  {what}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
