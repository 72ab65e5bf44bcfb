"""Anthropic Messages: calls are `tool_use` blocks, their results `tool_result` blocks of the next user message.

The rules are those of platform.claude.com: docs/en/api/messages, agents-and-tools/tool-use (implement, parallel,
troubleshooting), build-with-claude/extended-thinking and mid-conversation-system-messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from threadline.errors import InvalidMessage
from threadline.formats import attachments, leftovers
from threadline.formats.arguments import as_object
from threadline.formats.leftovers import Dict, kept, noted, of_message, owned, with_leftovers
from threadline.formats.naming import AsGiven, Names, keeps, word
from threadline.formats.rounds import joined, settled
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "anthropic"
IDS = word(64, "call")
TOOLS = word(128, "tool")
OPENING = "(The conversation so far began with the assistant.)"

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_THINKING = frozenset({"thinking", "redacted_thinking"})


# -- reading -------------------------------------------------------------------------------------------


def read(raw: Dict, place: str = "message") -> Message:
    """One message of the Messages API. A user message of nothing but results has our role `tool`."""
    role, content = raw.get("role"), raw.get("content")
    if not isinstance(role, str) or not role:
        raise InvalidMessage(f"{place}.role", "must be a non-empty string")
    parts = _parts(content, f"{place}.content")
    own = {name: value for name, value in raw.items() if name not in ("role", "content")}
    if isinstance(content, str):
        own |= {"content": "string"} if role == "assistant" else {}
    elif role != "assistant" and len(parts) == 1 and type(parts[0]) is Text and not parts[0].extra:
        own["content"] = "list"
    if role == "system":
        own["role"] = role
    if role == "user" and parts and all(type(part) is ToolResult for part in parts):
        role = "tool"
    message = Message(role, parts, {NAME: own} if own else {})
    return leftovers.exact(message, raw, _dicts(message, AsGiven()), NAME)


def _parts(content: Any, place: str) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if content is None:
        return ()
    if not isinstance(content, list):
        raise InvalidMessage(place, f"must be a string or a list of blocks, not {type(content).__name__}")
    return tuple(_part(block, f"{place}[{i}]") for i, block in enumerate(content))


def _part(block: Any, place: str) -> Part:
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, dict):
        raise InvalidMessage(place, f"a block is a dict, not {type(block).__name__}")
    part = _modelled(block, place)
    if part is None:
        return Other(block, {"provider": NAME})
    return kept(part, block, _plain(part, AsGiven()), NAME)


def _modelled(block: Dict, place: str) -> Part | None:
    match block.get("type"):
        case "text":
            return Text(_text(block, "text", place))
        case "tool_use":
            return ToolCall(_text(block, "id", place), _text(block, "name", place), _input(block, place))
        case "tool_result":
            return _result(block, place)
        case "thinking":
            signature = block.get("signature")
            text = _text(block, "thinking", place)
            return Reasoning(text, signature if isinstance(signature, str) else None, None, {"provider": NAME})
        case "redacted_thinking":
            return Reasoning("", None, _text(block, "data", place), {"provider": NAME})
        case "image" | "document" as kind:
            return _media(block, kind)
    return None


def _text(block: Dict, field: str, place: str) -> str:
    value = block.get(field)
    if not isinstance(value, str):
        raise InvalidMessage(place, f"a {block['type']} block needs {field!r}, a string")
    return value


def _input(block: Dict, place: str) -> Dict | str:
    given = block.get("input", {})
    if not isinstance(given, dict | str):
        raise InvalidMessage(f"{place}.input", f"must be an object, not {type(given).__name__}")
    return given


def _result(block: Dict, place: str) -> ToolResult:
    content = block.get("content")
    output = content if isinstance(content, str) else _parts(content, f"{place}.content")
    empty = content is None and "content" not in block
    return ToolResult(_text(block, "tool_use_id", place), "" if empty else output, block.get("is_error") is True)


def _media(block: Dict, kind: str) -> Media | None:
    """An image or document with its bytes, its address or its file id; None for a source that we do not know."""
    source, name = block.get("source"), block.get("title")
    if not isinstance(source, dict) or not isinstance(name, str | None):
        return None
    mime = source.get("media_type")
    match source.get("type"):
        case "base64" if isinstance(mime, str) and (data := attachments.decoded(source.get("data"))) is not None:
            return Media(mime, data, None, name)
        case "text" if isinstance(mime, str) and isinstance(text := source.get("data"), str):
            return Media(mime, text.encode("utf-8", "surrogatepass"), None, name)
        case "url" if isinstance(url := source.get("url"), str):
            return Media("image/*" if kind == "image" else "application/pdf", None, url, name)
        case "file":
            return Media("image/*" if kind == "image" else "application/octet-stream", None, None, name)
    return None


# -- writing -------------------------------------------------------------------------------------------


def names() -> Names:
    return Names(IDS, TOOLS, once=lambda call: True)


def write(messages: Sequence[Message], names: Names) -> list[Dict]:
    """Results of one turn in one user message, which begins with them; a user message first.

    Only in a conversation: what a model returned alone, and nobody answered yet, is written as it is."""
    out: list[Dict] = []
    for message in joined(settled(messages)):
        out += _dicts(message, names)
    _place_systems(out)
    if out and out[0]["role"] == "assistant" and any(said["role"] != "assistant" for said in out):
        out.insert(0, {"role": "user", "content": OPENING})
    return out


def _dicts(message: Message, names: Names) -> list[Dict]:
    for part in message.parts:
        if type(part) is ToolCall:
            names.meet(part)
    own = of_message(message, NAME)
    if "raw" in own and keeps(names, message) and (raw := leftovers.raw_again(message, NAME, read)) is not None:
        return [raw]
    assistant = message.role == "assistant"
    blocks = [block for part in message.parts if (block := _block(part, names, assistant)) is not None]
    if not blocks:
        return []
    written: Dict = {"role": "assistant" if assistant else own.get("role", "user")}
    if not assistant:
        blocks.sort(key=_behind_results)
    written["content"] = _content(blocks, own.get("content", "list" if assistant else "string"))
    if own:
        written.update((name, value) for name, value in own.items() if name not in ("role", "content", "raw"))
    return [written]


def _content(blocks: list[Dict], shape: str) -> str | list[Dict]:
    if shape == "string" and len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks


def _behind_results(block: Dict) -> bool:
    return block.get("type") != "tool_result"


def _block(part: Part, names: Names, assistant: bool) -> Dict | None:
    if assistant and type(part) is Media:
        return {"type": "text", "text": attachments.breadcrumb(part)}
    plain = _plain(part, names)
    return plain if plain is None or not part.extra else with_leftovers(plain, part.extra, NAME)


def _plain(part: Part, names: Names) -> Dict | None:
    """The block without its leftovers; None for what is not sent: blank text, what belongs to others."""
    if type(part) is Text:
        return {"type": "text", "text": part.text} if part.text and not part.text.isspace() else None
    if type(part) is ToolCall:
        id, tool = names.id(part.id), names.tool(part.name)
        return {"type": "tool_use", "id": id, "name": tool, "input": as_object(part.args)}
    if type(part) is ToolResult:
        return _plain_result(part, names)
    if type(part) is Media:
        return _plain_media(part)
    if not owned(part, NAME):
        return None
    return dict(part.raw) if type(part) is Other else _plain_reasoning(part) if type(part) is Reasoning else None


def _plain_reasoning(part: Reasoning) -> Dict:
    if part.encrypted is not None:
        return {"type": "redacted_thinking", "data": part.encrypted}
    signed = {} if part.signature is None else {"signature": part.signature}
    return {"type": "thinking", "thinking": part.text, **signed}


def _plain_result(part: ToolResult, names: Names) -> Dict:
    plain: Dict = {"type": "tool_result", "tool_use_id": names.id(part.call_id)}
    if not isinstance(part.output, str):
        blocks = [block for inner in part.output if (block := _block(inner, names, False)) is not None]
        if blocks or not part.output:
            plain["content"] = blocks
    elif part.output:
        plain["content"] = part.output
    if part.error:
        plain["is_error"] = True
    return plain


def _plain_media(part: Media) -> Dict:
    source = _source(part)
    if source is None and noted(part, NAME, "source") is None:
        return {"type": "text", "text": attachments.breadcrumb(part)}
    kind = "image" if attachments.is_image(part) else "document"
    titled = {"title": part.name} if part.name is not None and kind == "document" else {}
    return {"type": kind, **titled} if source is None else {"type": kind, "source": source, **titled}


def _source(part: Media) -> Dict | None:
    if part.data is None:
        readable = attachments.is_image(part) or part.mime == "application/pdf"
        return {"type": "url", "url": part.uri} if readable and attachments.on_the_web(part) else None
    if part.mime in _IMAGES or part.mime == "application/pdf":
        return {"type": "base64", "media_type": part.mime, "data": attachments.encoded(part.data)}
    if part.mime == "text/plain":
        try:
            return {"type": "text", "media_type": part.mime, "data": part.data.decode("utf-8", "surrogatepass")}
        except UnicodeDecodeError:
            return None
    return None


def in_turn(dicts: list[Dict]) -> list[Dict]:
    """The same with user and assistant taking turns: neighbours of one role become one message."""
    out: list[Dict] = []
    for given in dicts:
        if out and out[-1]["role"] == given["role"]:
            out[-1] = {**out[-1], "content": _as_blocks(out[-1]) + _as_blocks(given)}
        else:
            out.append(given)
    return out


def _as_blocks(given: Dict) -> list[Dict]:
    content = given["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _place_systems(dicts: list[Dict]) -> None:
    """A system message stands between a user's and an assistant's message, or is a user's."""
    for at, given in enumerate(dicts):
        if given["role"] == "system" and not _system_may_stand(dicts, at):
            dicts[at] = {**given, "role": "user"}


def _system_may_stand(dicts: Sequence[Any], at: int) -> bool:
    before = dicts[at - 1] if at else {}
    behind = dicts[at + 1]["role"] if at + 1 < len(dicts) else "assistant"
    return behind == "assistant" and (before.get("role") == "user" or _ends_in_server_use(before))


def _ends_in_server_use(given: Dict) -> bool:
    content = given.get("content")
    last = content[-1] if isinstance(content, list) and content else None
    kind = last.get("type") if isinstance(last, dict) else None
    return isinstance(kind, str) and kind.startswith("server_tool_use")


# -- the provider's rules ------------------------------------------------------------------------------


def problems(dicts: Sequence[Any]) -> list[str]:
    """What the Messages API would refuse, in words, each with its place."""
    found: list[str] = []
    known: set[str] = set()
    rounds = [_round(given) for given in dicts]
    for at, given in enumerate(dicts):
        if rounds[at] is _WORDS and (given["role"] == "user" or (given["role"] == "assistant" and at)):
            continue
        place = f"messages[{at}]"
        if not isinstance(given, dict):
            found.append(f"{place} is no dict")
            continue
        found += _problems_of_role(dicts, at, place)
        blocks = _blocks(given.get("content"))
        if blocks is None:
            found.append(f"{place} has no content")
            continue
        found += [f"{place}.content[{i}] {what}" for i, block in enumerate(blocks) for what in _flaws(block)]
        found += _problems_of_thinking(blocks, place) if given.get("role") == "assistant" else ()
        if any(rounds[at]):
            found += _problems_of_round(given.get("role"), blocks, rounds[at], known, place)
            found += _problems_of_pairs(rounds, at, place)
    return found + _problems_of_end(dicts)


class _Round(NamedTuple):
    """The ids of the calls that a message makes, and of those that it answers."""

    calls: list[str]
    results: list[str]


_WORDS = _Round([], [])  # of a message that is nothing but words, as most are: it can only stand in the wrong place


def _round(given: Any) -> _Round:
    if _is_words(given):
        return _WORDS
    blocks = (_blocks(given.get("content")) or []) if isinstance(given, dict) else []
    return _Round(_ids(blocks, "tool_use", "id"), _ids(blocks, "tool_result", "tool_use_id"))


def _is_words(given: Any) -> bool:
    content = given.get("content") if isinstance(given, dict) and "role" in given else None
    if type(content) is list and len(content) == 1 and type(content[0]) is dict and content[0].get("type") == "text":
        content = content[0].get("text")
    return type(content) is str and content != "" and not content.isspace()


def _blocks(content: Any) -> list[Any] | None:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) and content else None


def _problems_of_role(dicts: Sequence[Any], at: int, place: str) -> list[str]:
    role = dicts[at].get("role")
    if role not in ("user", "assistant", "system"):
        return [f"{place} has the role {role!r}: user and assistant take turns"]
    if role == "system":
        well = all(isinstance(given, dict) and "role" in given for given in dicts[at - 1 : at + 2])
        return [] if at and well and _system_may_stand(dicts, at) else [f"{place}: a system message may not stand here"]
    return [f"{place}: the first message must be the user's"] if at == 0 and role != "user" else []


def _flaws(block: Any) -> list[str]:
    """What is wrong with one block by itself."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        return ["is no block"]
    match kind:
        case "text":
            text = block.get("text")
            return [] if isinstance(text, str) and text.strip() else ["is blank: text must not be empty"]
        case "thinking":
            return [] if isinstance(block.get("signature"), str) else ["is thinking without a signature"]
        case "redacted_thinking":
            return [] if isinstance(block.get("data"), str) else ["is redacted thinking without its data"]
        case "tool_use":
            return _flaws_of_call(block)
        case "tool_result":
            return _flaws_of_result(block)
        case "image" | "document":
            return [] if isinstance(block.get("source"), dict) else [f"is a {kind} without a source"]
    return []


def _flaws_of_call(block: Dict) -> list[str]:
    said = []
    if not _matches(IDS.valid, block.get("id")):
        said.append(f"has the call id {block.get('id')!r}: letters, digits, _ and - only")
    if not _matches(TOOLS.valid, block.get("name")):
        said.append(f"has the tool name {block.get('name')!r}: letters, digits, _ and - only, up to 128")
    if not isinstance(block.get("input"), dict):
        said.append("has an input that is no object")
    return said


def _flaws_of_result(block: Dict) -> list[str]:
    content = block.get("content", "")
    if isinstance(content, str):
        return []
    if not isinstance(content, list):
        return ["has content that is neither text nor blocks"]
    return [f"content[{i}] {what}" for i, inner in enumerate(content) for what in _flaws(inner)]


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _problems_of_thinking(blocks: list[Any], place: str) -> list[str]:
    kinds = [str(block.get("type")) for block in blocks if isinstance(block, dict)]
    said = []
    if kinds and kinds[-1] in _THINKING:
        said.append(f"{place}: the last block of an assistant message must not be thinking")
    if "tool_use" in kinds and any(kind in _THINKING for kind in kinds[kinds.index("tool_use") :]):
        said.append(f"{place}: thinking must come before the tool_use that it led to")
    return said


def _problems_of_end(dicts: Sequence[Any]) -> list[str]:
    """The assistant goes on where its last message ends, and not behind a blank."""
    last = dicts[-1] if dicts else None
    if not isinstance(last, dict) or last.get("role") != "assistant":
        return []
    block = (_blocks(last.get("content")) or [None])[-1]
    said = block.get("text") if isinstance(block, dict) else None
    ends = isinstance(said, str) and said != said.rstrip()
    return [f"messages[{len(dicts) - 1}]: the last message is the assistant's and ends with a blank"] if ends else []


def _problems_of_round(role: Any, blocks: list[Any], round: _Round, known: set[str], place: str) -> list[str]:
    """Calls are the assistant's and new; results are the user's, come first, and one for each call."""
    calls, results = round
    said = []
    if calls and role != "assistant":
        said.append(f"{place}: a tool_use stands in a message of the {role}")
    if results and role != "user":
        said.append(f"{place}: a tool_result stands in a message of the {role}")
    if results and not all(_is_result(block) for block in blocks[: len(results)]):
        said.append(f"{place}: tool_result blocks must come first")
    again = sorted(_repeated(calls) | known.intersection(calls))
    known.update(calls)
    said += [f"{place}: the tool_use id {id!r} is not unique" for id in again]
    return said + [f"{place}: {id!r} has more than one tool_result" for id in sorted(_repeated(results))]


def _problems_of_pairs(rounds: list[_Round], at: int, place: str) -> list[str]:
    """The message behind one with calls begins with exactly their results."""
    asked = rounds[at - 1].calls if at else []
    answered = rounds[at + 1].results if at + 1 < len(rounds) else []
    orphans, dangling = set(rounds[at].results).difference(asked), set(rounds[at].calls).difference(answered)
    if not orphans and not dangling:
        return []
    said = [f"{place}: the tool_result for {id!r} answers no call of the message before" for id in sorted(orphans)]
    return said + [f"{place}: the tool_use {id!r} has no tool_result in the next message" for id in sorted(dangling)]


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _repeated(ids: list[str]) -> set[str]:
    return {id for id in ids if ids.count(id) > 1} if len(ids) > 1 else set()


def _ids(blocks: list[Any], kind: str, field: str) -> list[str]:
    return [str(block.get(field)) for block in blocks if isinstance(block, dict) and block.get("type") == kind]
