"""A turn as agents have them: a question, a call, its result, an answer; about 3 KiB together."""

from __future__ import annotations

import secrets

from threadline import Message, ToolCall
from threadline.core import codec

TURN = (
    Message.user(secrets.token_hex(512)),
    Message.assistant("I will look.", ToolCall("call_1", "read_file", {"path": "src/app.py", "lines": [1, 200]})),
    Message.tool("call_1", secrets.token_hex(512)),
    Message.assistant(secrets.token_hex(512)),
)
BODIES = tuple(map(codec.encode, TURN))
