"""OpenAI Responses: a list of items, of which messages are one kind. One item is one message of ours.

The rules are those of developers.openai.com: api/reference/resources/responses, docs/guides/function-calling,
reasoning and conversation-state, and the API's own error messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from threadline.errors import InvalidMessage
from threadline.formats import arguments, attachments, leftovers, openai
from threadline.formats.leftovers import Dict, kept, kind_of, noted, of_message, owned, with_leftovers
from threadline.formats.naming import AsGiven, Names, keeps, unnamed_elsewhere, word
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "responses"
IDS = word(64, "call")
TOOLS = word(128, "tool")
CONTENT_KINDS = frozenset({"input_text", "output_text", "input_image", "input_file"})

# Calls that the caller executes, each answered by an item of its own kind. The API executes the others itself.
_ACTIONS = frozenset({"computer_call", "shell_call", "local_shell_call", "apply_patch_call"})
_ANSWERS = frozenset({"function_call", "custom_tool_call", *_ACTIONS})
_NOT_ARGUMENTS = frozenset({"type", "id", "call_id", "status"})

_ITEMS = frozenset({"message", "reasoning", "compaction", "program"})
_ENDINGS = ("_call", "_output", "_request", "_response", "_reference", "_tools", "_trigger")


def is_item(kind: Any) -> bool:
    """Whether a type is one of an item, also of one that came after us: their names are made alike."""
    return isinstance(kind, str) and (kind in _ITEMS or kind.endswith(_ENDINGS))


# -- reading -------------------------------------------------------------------------------------------


def read(raw: Dict, place: str = "message") -> Message:
    """One item. Calls, reasoning and what the API did by itself are the assistant's, outputs the tools'."""
    kind = raw.get("type")
    if kind == "message" or (kind is None and "role" in raw):
        message = _message(raw, place)
    else:
        part = _item(raw, place)
        role = "tool" if type(part) is ToolResult or _answers_something(kind) else "assistant"
        message = Message(role, (part,))
    return leftovers.exact(message, raw, _dicts(message, AsGiven(), {}), NAME)


def _answers_something(kind: Any) -> bool:
    return isinstance(kind, str) and kind.endswith(("_output", "_response"))


def _message(raw: Dict, place: str) -> Message:
    role, content = raw.get("role"), raw.get("content")
    if not isinstance(role, str) or not role:
        raise InvalidMessage(f"{place}.role", "must be a non-empty string")
    own = {name: value for name, value in raw.items() if name not in ("role", "content")}
    if role == "developer":
        role, own["role"] = "system", role
    parts = _parts(content, role == "assistant", f"{place}.content")
    if content == "":
        own["content"] = "empty"
    elif isinstance(content, list) and (role == "assistant" or _one_plain_text(parts)):
        own["content"] = "list"
    return Message(role, parts, {NAME: own} if own else {})


def _one_plain_text(parts: tuple[Part, ...]) -> bool:
    return len(parts) == 1 and type(parts[0]) is Text and not parts[0].extra


def _parts(content: Any, assistant: bool, place: str) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if not isinstance(content, list | None):
        raise InvalidMessage(place, f"must be a string or a list, not {type(content).__name__}")
    return tuple(_part(part, assistant, f"{place}[{i}]") for i, part in enumerate(content or ()))


def _part(raw: Any, assistant: bool, place: str) -> Part:
    if not isinstance(raw, dict):
        raise InvalidMessage(place, f"a part is a dict, not {type(raw).__name__}")
    part = _modelled(raw, place)
    return Other(raw, {"provider": NAME}) if part is None else kept(part, raw, _plain(part, assistant), NAME)


def _modelled(raw: Dict, place: str) -> Part | None:
    match raw.get("type"):
        case "input_text" | "output_text" | "text":
            return Text(_text(raw, "text", place))
        case "refusal":
            return Text(_text(raw, "refusal", place), {"provider": NAME, "kind": "refusal"})
        case "input_image":
            return _image(raw.get("image_url"), raw.get("file_id"))
        case "input_file":
            return _file(raw)
        case "input_audio" if isinstance(sound := raw.get("input_audio"), dict):
            return openai.heard(sound)
    return None


def _image(url: Any, file_id: Any) -> Media | None:
    if isinstance(url, str):
        return attachments.from_url(url, "image/*")
    return Media("image/*") if isinstance(file_id, str) else None


def _file(raw: Dict) -> Media | None:
    name, data, url = raw.get("filename"), raw.get("file_data"), raw.get("file_url")
    if not isinstance(name, str | None):
        return None
    if isinstance(data, str):
        return attachments.from_url(data, "", name) if data.startswith("data:") else None
    if isinstance(url, str):
        return Media("application/octet-stream", None, url, name)
    return Media("application/octet-stream", None, None, name) if isinstance(raw.get("file_id"), str) else None


def _item(raw: Dict, place: str) -> Part:
    """Anything but a message, as one part."""
    kind = raw.get("type")
    if not isinstance(kind, str | None) or (kind is None and not isinstance(raw.get("id"), str)):
        raise InvalidMessage(place, "an item has a type, or a role and content")
    part = _known(raw, kind or "", place)
    return Other(raw, {"provider": NAME}) if part is None else kept(part, raw, _plain_item(part, AsGiven(), {}), NAME)


def _known(raw: Dict, kind: str, place: str) -> Part | None:
    if kind == "reasoning":
        return _reasoning(raw)
    if kind == "function_call":
        return openai.called(_text(raw, "call_id", place), raw, NAME, place)
    if kind == "custom_tool_call":
        id, name, text = (_text(raw, field, place) for field in ("call_id", "name", "input"))
        return ToolCall(id, name, text, {"provider": NAME, "kind": kind})
    if kind in _ACTIONS:
        args = {name: value for name, value in raw.items() if name not in _NOT_ARGUMENTS}
        return ToolCall(
            _text(raw, "call_id", place), kind.removesuffix("_call"), args, {"provider": NAME, "kind": kind}
        )
    if kind.removesuffix("_output") in _ANSWERS:
        return _result(raw, kind.removesuffix("_output"), place)
    return None


def _reasoning(raw: Dict) -> Reasoning | None:
    summary, sealed = raw.get("summary"), raw.get("encrypted_content")
    if not isinstance(summary, list) or not isinstance(sealed, str | None):
        return None
    texts = [part.get("text") for part in summary if isinstance(part, dict)]
    if len(texts) != len(summary) or not all(isinstance(text, str) for text in texts):
        return None
    note: Dict = {"provider": NAME}
    if len(texts) > 1:
        note["summary"] = texts
    return Reasoning("\n\n".join(map(str, texts)), None, sealed, note)


def _result(raw: Dict, call: str, place: str) -> ToolResult | None:
    output, note = raw.get("output"), {} if call == "function_call" else {"provider": NAME, "kind": call}
    match call:
        case "function_call" if raw.get("call_id") is None:
            return None  # the output of a tool that the API itself called, named by other fields
        case "function_call" | "custom_tool_call":
            shown = output if isinstance(output, str) else _parts(output, False, f"{place}.output")
            return ToolResult(_text(raw, "call_id", place), shown, False, None, note)
        case "computer_call":
            shot = _image(output.get("image_url"), output.get("file_id")) if isinstance(output, dict) else None
            return None if shot is None else ToolResult(_text(raw, "call_id", place), (shot,), False, None, note)
        case "shell_call":
            text = json.dumps(output, ensure_ascii=False, separators=(",", ":"))
            return ToolResult(_text(raw, "call_id", place), text, False, None, note)
        case "local_shell_call":
            id = raw["call_id"] if isinstance(raw.get("call_id"), str) else _text(raw, "id", place)
            return ToolResult(id, _text(raw, "output", place), False, None, note)
    log = output if isinstance(output, str) else ""
    return ToolResult(_text(raw, "call_id", place), log, raw.get("status") == "failed", None, note)


def _text(raw: Dict, field: str, place: str) -> str:
    value = raw.get(field)
    if not isinstance(value, str):
        raise InvalidMessage(f"{place}.{field}", "is missing: it must be a string")
    return value


# -- writing -------------------------------------------------------------------------------------------

Kinds = dict[
    str, str | None
]  # the kind that a call, by its id, and its result are written as, where that is not their own


def names() -> Names:
    return Names(IDS, TOOLS, once=unnamed_elsewhere(NAME))


def write(messages: Sequence[Message], names: Names) -> list[Dict]:
    """Calls, outputs and reasoning as items of their own, in their order; reasoning only before what it led to."""
    kinds = _kinds(messages)
    out = [item for message in messages for item in _dicts(message, names, kinds)]
    return _without_stray_reasoning(out)


def _kinds(messages: Sequence[Message]) -> Kinds:
    """A screenshot answers a computer's call, and nothing else does: a pair of two kinds becomes a function's.

    Text from anywhere answers a custom tool."""
    calls: Kinds = {}
    kinds: Kinds = {}
    for message in messages:
        for part in message.parts:
            if type(part) is ToolCall:
                calls[part.id] = kind_of(part, NAME)
            elif type(part) is ToolResult and (call := calls.get(part.call_id)) != kind_of(part, NAME):
                kinds[part.call_id] = call if call == "custom_tool_call" else None
    return kinds


def _as_kind(part: ToolCall | ToolResult, kinds: Kinds) -> str | None:
    id = part.id if type(part) is ToolCall else part.call_id if type(part) is ToolResult else ""
    return kinds.get(id, kind_of(part, NAME))


def _of_its_kind(part: Part, kinds: Kinds) -> bool:
    """Whether a part is written as what it was."""
    if type(part) is ToolCall or type(part) is ToolResult:
        return _as_kind(part, kinds) == kind_of(part, NAME)
    return True


def in_turn(dicts: list[Dict]) -> list[Dict]:
    """Nothing to do: items need no turns."""
    return dicts


def _dicts(message: Message, names: Names, kinds: Kinds) -> list[Dict]:
    for part in message.parts:
        if type(part) is ToolCall:
            names.meet(part)
    own = of_message(message, NAME)
    if "raw" in own and keeps(names, message) and all(_of_its_kind(part, kinds) for part in message.parts):
        raw = leftovers.raw_again(message, NAME, read)
        if raw is not None:
            return [raw]
    out: list[Dict] = []
    said: list[Part] = []
    for part in message.parts:
        if _is_item(part):
            out += _speech(message.role, said, own)
            said = []
            out += _written_item(part, names, kinds)
        else:
            said.append(part)
    return out + _speech(message.role, said, own) if said or not message.parts else out


def _is_item(part: Part) -> bool:
    """Whether a part is an item by itself. A part of unknown kind is one unless it came as the content of a message."""
    return type(part) not in (Text, Media) and not (type(part) is Other and _is_content(part))


def _is_content(part: Other) -> bool:
    kind = part.raw.get("type")
    return isinstance(kind, str) and kind.startswith(("input_", "output_"))


def _speech(role: str, parts: list[Part], own: Dict) -> list[Dict]:
    """A message item; an assistant's texts, which come only with an id as a list, become an item each."""
    assistant, listed = role == "assistant", own.get("content") == "list"
    shown = [part for part in (_written(part, assistant) for part in parts) if part is not None]
    role = own.get("role", role if role in ("assistant", "system") else "user")
    if assistant and not listed:
        return [_with_own({"role": role, "content": part.get("text", part.get("refusal"))}, own) for part in shown]
    if not shown and own.get("content") == "empty":
        return [_with_own({"role": role, "content": ""}, own)]
    if not shown:
        return []
    plain = len(shown) == 1 and not listed and shown[0].keys() == {"type", "text"}
    return [_with_own({"role": role, "content": shown[0]["text"] if plain else shown}, own)]


def _with_own(written: Dict, own: Dict) -> Dict:
    if own:
        written.update((name, value) for name, value in own.items() if name not in ("role", "content", "raw"))
    return written


def _written(part: Part, assistant: bool) -> Dict | None:
    if type(part) is Text and not part.text:
        return None
    plain = _plain(part, assistant)
    return plain if plain is None or not part.extra else with_leftovers(plain, part.extra, NAME)


def _plain(part: Part, assistant: bool) -> Dict | None:
    kind = "output_text" if assistant else "input_text"
    if type(part) is Text:
        if kind_of(part, NAME) == "refusal":
            return {"type": "refusal", "refusal": part.text}
        return {"type": kind, "text": part.text}
    if type(part) is Media:
        shown = None if assistant else _plain_media(part)
        return {"type": kind, "text": attachments.breadcrumb(part)} if shown is None else shown
    return dict(part.raw) if type(part) is Other and owned(part, NAME) else None


def _plain_media(part: Media) -> Dict | None:
    kept_elsewhere = noted(part, NAME, "file_id") is not None
    if attachments.is_image(part):
        url = attachments.url_of(part)
        shown = {} if url is None else {"image_url": url}
        return {"type": "input_image", **shown} if shown or kept_elsewhere else None
    named = {} if part.name is None else {"filename": part.name}
    if part.data is not None and part.mime == "application/pdf":
        return {"type": "input_file", **named, "file_data": attachments.url_of(part)}
    if part.data is None and attachments.on_the_web(part) and not part.mime.startswith(("audio/", "video/")):
        return {"type": "input_file", **named, "file_url": part.uri}
    return {"type": "input_file", **named} if kept_elsewhere else None


def _written_item(part: Part, names: Names, kinds: Kinds) -> list[Dict]:
    plain = _plain_item(part, names, kinds)
    if plain is None:
        return []
    return [with_leftovers(plain, part.extra, NAME) if _of_its_kind(part, kinds) else plain]


def _plain_item(part: Part, names: Names, kinds: Kinds) -> Dict | None:
    if type(part) is ToolCall:
        return _plain_call(part, names, _as_kind(part, kinds))
    if type(part) is ToolResult:
        return _plain_result(part, names, _as_kind(part, kinds))
    if not owned(part, NAME):
        return None
    return _plain_reasoning(part) if type(part) is Reasoning else dict(part.raw) if type(part) is Other else None


def _plain_reasoning(part: Reasoning) -> Dict:
    texts = part.extra.get("summary")
    if not isinstance(texts, list) or "\n\n".join(map(str, texts)) != part.text:
        texts = [part.text] if part.text else []
    sealed = {} if part.encrypted is None else {"encrypted_content": part.encrypted}
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in texts], **sealed}


def _plain_call(call: ToolCall, names: Names, kind: str | None) -> Dict:
    id = names.id(call.id)
    if kind == "custom_tool_call" and isinstance(call.args, str):
        return {"type": kind, "call_id": id, "name": names.tool(call.name), "input": call.args}
    if kind in _ACTIONS and not isinstance(call.args, str):
        return {"type": kind, "call_id": id, **call.args}
    text = arguments.styled(call.args, noted(call, NAME, "arguments"))
    return {"type": "function_call", "call_id": id, "name": names.tool(call.name), "arguments": text}


def _plain_result(part: ToolResult, names: Names, kind: str | None) -> Dict:
    id, output = names.id(part.call_id), part.output
    if kind == "computer_call" and (shot := _screenshot(part)) is not None:
        return {"type": "computer_call_output", "call_id": id, "output": shot}
    if kind == "shell_call" and isinstance(chunks := _chunks(output), list):
        return {"type": "shell_call_output", "call_id": id, "output": chunks}
    if kind == "local_shell_call" and isinstance(output, str):
        return {"type": "local_shell_call_output", "id": id, "output": output}
    if kind == "apply_patch_call" and isinstance(output, str):
        log = {"output": output} if output else {}
        return {"type": "apply_patch_call_output", "call_id": id, "status": _outcome(part), **log}
    name = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
    return {"type": name, "call_id": id, "output": _shown(part)}


def _outcome(part: ToolResult) -> str:
    return "failed" if part.error else "completed"


def _shown(part: ToolResult) -> str | list[Dict]:
    if isinstance(part.output, str):
        return part.output
    shown = [given for inner in part.output if (given := _written(inner, False)) is not None]
    return shown if shown or not part.output else ""


def _screenshot(part: ToolResult) -> Dict | None:
    shot = part.output[0] if not isinstance(part.output, str) and len(part.output) == 1 else None
    if type(shot) is not Media:
        return None
    url = attachments.url_of(shot)
    return {"type": "computer_screenshot", **({} if url is None else {"image_url": url})}


def _chunks(output: Any) -> Any:
    try:
        return json.loads(output) if isinstance(output, str) else None
    except (ValueError, RecursionError):
        return None


def _without_stray_reasoning(items: list[Dict]) -> list[Dict]:
    """Reasoning is refused without the item that it led to; at the end that is still to come."""
    led = True
    kept_items = []
    for item in reversed(items):
        if item.get("type") == "reasoning":
            if led:
                kept_items.append(item)
            continue
        led = _is_assistants(item)
        kept_items.append(item)
    return kept_items[::-1]


def _is_assistants(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    if item.get("type") in (None, "message"):
        return item.get("role") == "assistant" or "role" not in item
    return not _answers_something(item.get("type"))


# -- the provider's rules ------------------------------------------------------------------------------


def problems(dicts: Sequence[Any]) -> list[str]:
    """What the Responses API would refuse as its input, in words, each with its place."""
    found: list[str] = []
    waiting: dict[str, tuple[str, str]] = {}  # open calls: their kind, and where they stand
    for at, item in enumerate(dicts):
        place = f"items[{at}]"
        if not isinstance(item, dict):
            found.append(f"{place} is no dict")
            continue
        kind = item.get("type")
        if kind == "message" or (kind is None and "role" in item):
            found += _problems_of_message(item, place)
        elif isinstance(kind, str) and kind in _ANSWERS:
            found += _problems_of_call(item, kind, waiting, place)
        elif isinstance(kind, str) and kind.removesuffix("_output") in _ANSWERS:
            found += _problems_of_result(item, kind.removesuffix("_output"), waiting, place)
        elif kind == "reasoning":
            found += _problems_of_reasoning(dicts, at, place)
        elif not isinstance(kind, str) and not isinstance(item.get("id"), str):
            found.append(f"{place} has neither a type nor a role")
    return found + [f"{place}: the call {id!r} has no output" for id, (_, place) in waiting.items()]


def _problems_of_message(item: Dict, place: str) -> list[str]:
    role, content = item.get("role"), item.get("content")
    said = []
    if role not in ("user", "assistant", "system", "developer"):
        said.append(f"{place} has the unknown role {role!r}")
    if not isinstance(content, str | list) or not content:
        return [*said, f"{place} has no content"]
    if isinstance(content, str):
        return said
    if role == "assistant" and not isinstance(item.get("id"), str):
        said.append(f"{place}: an assistant's content is a list only in an item with its id")
    allowed = (
        ("output_text", "refusal")
        if role == "assistant"
        else ("input_text", "input_image", "input_file", "input_audio")
    )
    for i, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in allowed:
            said.append(f"{place}.content[{i}] is {kind!r}: the {role} may say {', '.join(allowed)}")
        elif kind in ("input_text", "output_text") and not isinstance(part.get("text"), str):
            said.append(f"{place}.content[{i}] has no text")
    return said


def _problems_of_call(item: Dict, kind: str, waiting: dict[str, tuple[str, str]], place: str) -> list[str]:
    id = item.get("call_id")
    said = (
        []
        if isinstance(id, str) and IDS.valid.fullmatch(id)
        else [f"{place} has the call id {id!r}: up to 64 of a-zA-Z0-9_-"]
    )
    if str(id) in waiting:
        said.append(f"{place}: the call id {id!r} is used twice")
    waiting[str(id)] = (kind, place)
    if kind == "function_call":
        said += [f"{place} {what}" for what in openai.flaws_of_function(item, TOOLS.limit)]
    if kind == "custom_tool_call" and not isinstance(item.get("input"), str):
        said.append(f"{place} has no input")
    return said


def _problems_of_result(item: Dict, call: str, waiting: dict[str, tuple[str, str]], place: str) -> list[str]:
    if call == "function_call" and item.get("call_id") is None:
        return []
    id = str(item.get("call_id", item.get("id")))
    kind, _ = waiting.pop(id, (None, ""))
    said = [] if kind == call else [f"{place}: the output for {id!r} answers no open {call}"]
    if not isinstance(item.get("output"), str | list | dict) and call != "apply_patch_call":
        said.append(f"{place} has no output")
    return said


def _problems_of_reasoning(dicts: Sequence[Any], at: int, place: str) -> list[str]:
    said = [] if isinstance(dicts[at].get("summary"), list) else [f"{place} has no summary, which may be empty"]
    behind = dicts[at + 1] if at + 1 < len(dicts) else None
    if not _is_assistants(behind):
        said.append(f"{place}: reasoning must be followed by the item that it led to")
    return said
