"""How many tokens a message takes, roughly.

No exact tokenizer exists offline for most models, and the model family matters as much as the method. A quarter of
the UTF-8 bytes comes close on real transcripts, and is kinder to scripts without spaces than counting characters."""

from __future__ import annotations

from threadline.core import codec
from threadline.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult

MESSAGE_TOKENS = 4  # role and separators
MEDIA_TOKENS = 1_200  # about what providers charge for one picture


def estimate(message: Message) -> int:
    """The default for `count_tokens`."""
    count = MESSAGE_TOKENS
    for part in message.parts:
        count += estimate_text(part.text) if type(part) is Text else _part(part)
    return count


def estimate_text(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4


def _part(part: Part) -> int:
    match part:
        case Text(text):
            return estimate_text(text)
        case Reasoning(text, signature, encrypted):
            return estimate_text(text + (signature or "") + (encrypted or ""))
        case ToolCall(id, name, args):
            return estimate_text(id + name) + len(codec.encode(args)) // 4
        case ToolResult(call_id, output):
            shown = estimate_text(output) if isinstance(output, str) else sum(map(_part, output))
            return estimate_text(call_id) + shown
        case Media():
            return MEDIA_TOKENS
        case _:
            return len(codec.encode(part)) // 4
