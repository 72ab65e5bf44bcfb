"""What is said in the workloads: a message of 1 KiB, and a turn as agents have them."""

from __future__ import annotations

import secrets
from itertools import cycle, islice

from threadline import Message, Session, ToolCall
from threadline.core import codec

MESSAGE = Message.user(secrets.token_hex(512))
BODY = codec.encode(MESSAGE)

# A question, a call, its result, an answer: about 3 KiB together.
TURN = (
    MESSAGE,
    Message.assistant("I will look.", ToolCall("call_1", "read_file", {"path": "src/app.py", "lines": [1, 200]})),
    Message.tool("call_1", secrets.token_hex(512)),
    Message.assistant(secrets.token_hex(512)),
)
BODIES = tuple(map(codec.encode, TURN))


def filled(session: Session, entries: int) -> Session:
    """The session with so many entries: turn after turn."""
    for begin in range(0, entries, 1_000):
        session.extend(list(islice(cycle(TURN), min(1_000, entries - begin))))
    return session
