"""OpenAI Chat Completions: calls beside the content of an assistant message, results as messages of role `tool`.

The rules are those of developers.openai.com: api/reference/resources/chat, docs/guides/function-calling, and the
API's own error messages (lengths of names and ids)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadline.errors import InvalidMessage
from threadline.formats import arguments, attachments, leftovers
from threadline.formats.leftovers import Dict, kept, noted, of_message, owned, with_leftovers
from threadline.formats.naming import AsGiven, Names, keeps, unnamed, unnamed_elsewhere, word
from threadline.formats.rounds import settled
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "openai"
IDS = word(40, "call")  # newer models take 64 characters, older ones 40
TOOLS = word(64, "tool")
CONTENT_KINDS = frozenset({"image_url", "input_audio", "file", "refusal"})

_OURS = {"developer": "system", "function": "tool"}  # their roles that we call otherwise
_MODELLED = ("role", "content", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content")
_SILENT = frozenset({"role", "content", "reasoning_content"})  # an assistant message of these alone says nothing
_SOUNDS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_FORMATS = {format: mime for mime, format in _SOUNDS.items()}


# -- reading -------------------------------------------------------------------------------------------


def read(raw: Dict, place: str = "message") -> Message:
    """One message of a chat. `developer` speaks as our `system`, and `function` answers as our `tool`."""
    role = raw.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidMessage(f"{place}.role", "must be a non-empty string")
    own = {name: value for name, value in raw.items() if name not in _MODELLED}
    if role in _OURS:
        own["role"] = role
    parts = _answer(raw, place) if role in ("tool", "function") else _said(raw, own, place)
    message = Message(_OURS.get(role, role), parts, {NAME: own} if own else {})
    return leftovers.exact(message, raw, _dicts(message, _Writing(AsGiven())), NAME)


def _answer(raw: Dict, place: str) -> tuple[Part, ...]:
    content = raw.get("content")
    output = content if isinstance(content, str) else _parts(content, f"{place}.content")
    if raw["role"] == "function":
        return (ToolResult(unnamed(_text(raw, "name", place), 1), output),)
    return (ToolResult(_text(raw, "tool_call_id", place), output),)


def _said(raw: Dict, own: Dict, place: str) -> tuple[Part, ...]:
    """What somebody said, in the order of thought, speech and deed; fields that are null or empty go to `own`."""
    content, calls, thought = raw.get("content"), raw.get("tool_calls"), raw.get("reasoning_content")
    parts: list[Part] = []
    if isinstance(thought, str) and thought:
        parts.append(Reasoning(thought, None, None, {"provider": NAME}))
    spoken = _parts(content, f"{place}.content")
    if shape := _shape(raw, spoken):
        own["content"] = shape
    parts += spoken
    if isinstance(refusal := raw.get("refusal"), str) and refusal:
        parts.append(Text(refusal, {"provider": NAME, "field": "refusal"}))
    if isinstance(audio := raw.get("audio"), dict):
        parts.append(Other(audio, {"provider": NAME, "field": "audio"}))
    if not isinstance(calls, list | None):
        raise InvalidMessage(f"{place}.tool_calls", f"must be a list, not {type(calls).__name__}")
    parts += [_call(call, f"{place}.tool_calls[{i}]") for i, call in enumerate(calls or ())]
    if isinstance(legacy := raw.get("function_call"), dict):
        parts.append(_legacy_call(legacy, f"{place}.function_call"))
    own.update((name, raw[name]) for name in _MODELLED[2:] if name in raw and not raw[name])
    return tuple(parts)


def _shape(raw: Dict, spoken: tuple[Part, ...]) -> str | None:
    """How the content was given, where the parts alone would give it otherwise."""
    if "content" not in raw or raw["content"] == "":
        return "empty" if "content" in raw else "absent"
    if isinstance(raw["content"], list) and len(spoken) == 1 and type(spoken[0]) is Text and not spoken[0].extra:
        return "list"
    return None


def _parts(content: Any, place: str) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if content is None:
        return ()
    if not isinstance(content, list):
        raise InvalidMessage(place, f"must be a string, a list or null, not {type(content).__name__}")
    return tuple(_part(part, f"{place}[{i}]") for i, part in enumerate(content))


def _part(raw: Any, place: str) -> Part:
    if not isinstance(raw, dict):
        raise InvalidMessage(place, f"a part is a dict, not {type(raw).__name__}")
    part = _modelled(raw, place)
    return Other(raw, {"provider": NAME}) if part is None else kept(part, raw, _plain(part), NAME)


def _modelled(raw: Dict, place: str) -> Part | None:
    kind = raw.get("type")
    if kind == "text":
        return Text(_text(raw, "text", place))
    if kind == "refusal":
        return Text(_text(raw, "refusal", place), {"provider": NAME, "kind": "refusal"})
    inner = raw.get(kind) if isinstance(kind, str) and kind in CONTENT_KINDS else None
    if not isinstance(inner, dict):
        return None
    if kind == "image_url":
        return attachments.from_url(url, "image/*") if isinstance(url := inner.get("url"), str) else None
    return heard(inner) if kind == "input_audio" else _file(inner)


def heard(sound: Dict) -> Media | None:
    """A sound given as base64 and the name of its format."""
    data, format = attachments.decoded(sound.get("data")), sound.get("format")
    return (
        Media(_FORMATS[format], data) if data is not None and isinstance(format, str) and format in _FORMATS else None
    )


def _file(file: Dict) -> Media | None:
    name, url = file.get("filename"), file.get("file_data")
    if not isinstance(name, str | None):
        return None
    if isinstance(url, str):
        return attachments.from_url(url, "", name) if url.startswith("data:") else None
    return Media("application/octet-stream", None, None, name) if isinstance(file.get("file_id"), str) else None


def _call(raw: Any, place: str) -> Part:
    if not isinstance(raw, dict):
        raise InvalidMessage(place, f"a tool call is a dict, not {type(raw).__name__}")
    if isinstance(function := raw.get("function"), dict):
        call = called(_text(raw, "id", place), function, NAME, place)
    elif isinstance(custom := raw.get("custom"), dict):
        name, text = _text(custom, "name", place), _text(custom, "input", place)
        call = ToolCall(_text(raw, "id", place), name, text, {"provider": NAME, "kind": "custom"})
    elif "type" in raw and raw["type"] != "function":
        return Other(raw, {"provider": NAME, "field": "tool_calls"})
    else:
        raise InvalidMessage(place, "a tool call needs a function")
    return kept(call, raw, _plain_call(call, AsGiven()), NAME)


def _legacy_call(raw: Dict, place: str) -> ToolCall:
    """A call from before calls had ids: answered by name, so named by it."""
    call = called(unnamed(_text(raw, "name", place), 1), raw, NAME, place)
    return ToolCall(call.id, call.name, call.args, {"provider": NAME, **call.extra, "field": "function_call"})


def called(id: str, function: Dict, provider: str, place: str) -> ToolCall:
    """A call from its name and arguments, with a note of how those were spelt if not as we would."""
    name, text = _text(function, "name", place), function.get("arguments", "")
    if isinstance(text, dict):
        return ToolCall(id, name, text)
    if not isinstance(text, str):
        raise InvalidMessage(f"{place}.arguments", f"must be JSON text, not {type(text).__name__}")
    args = arguments.parsed(text)
    style = arguments.style(text, args)
    return ToolCall(id, name, args, {} if style is None else {"provider": provider, "arguments": style})


def _text(raw: Dict, field: str, place: str) -> str:
    value = raw.get(field)
    if not isinstance(value, str):
        raise InvalidMessage(f"{place}.{field}", "is missing: it must be a string")
    return value


# -- writing -------------------------------------------------------------------------------------------


def names() -> Names:
    return Names(IDS, TOOLS, once=unnamed_elsewhere(NAME))


class _Writing:
    """One list of messages being written: its names, and the calls that a message of role `tool` answers."""

    def __init__(self, names: Names, messages: Sequence[Message] = ()) -> None:
        self.names = names
        self.answered = {
            part.call_id
            for message in messages
            for part in message.parts
            if type(part) is ToolResult and of_message(message, NAME).get("role") != "function"
        }


def write(messages: Sequence[Message], names: Names) -> list[Dict]:
    """Each result in a message of its own, right behind the assistant message that called."""
    writing = _Writing(names, messages)
    return [written for message in settled(messages) for written in _dicts(message, writing)]


def in_turn(dicts: list[Dict]) -> list[Dict]:
    """Nothing to do: neighbours of one role may stand apart."""
    return dicts


def _dicts(message: Message, writing: _Writing) -> list[Dict]:
    for part in message.parts:
        if type(part) is ToolCall:
            writing.names.meet(part)
    own = of_message(message, NAME)
    if "raw" in own and keeps(writing.names, message) and not _renewed(message, writing):
        raw = leftovers.raw_again(message, NAME, read)
        if raw is not None:
            return [raw]
    if message.role == "assistant":
        return _assistant(message, own, writing)
    results = [part for part in message.parts if type(part) is ToolResult]
    out = [_tool(part, own if len(message.parts) == 1 else {}, writing) for part in results]
    return out + _speech(message, own) if len(results) < len(message.parts) or not results else out


def _is_of_old(call: ToolCall, writing: _Writing) -> bool:
    """Whether a call is the `function_call` of its message, which only a message of role `function` answers."""
    return noted(call, NAME, "field") == "function_call" and call.id not in writing.answered


def _renewed(message: Message, writing: _Writing) -> bool:
    """Whether a call of old, or its result, is written as one of today."""
    if of_message(message, NAME).get("role") == "function":
        return any(result.call_id in writing.answered for result in message.results)
    return any(noted(call, NAME, "field") and not _is_of_old(call, writing) for call in message.calls)


def _tool(part: ToolResult, own: Dict, writing: _Writing) -> Dict:
    output = part.output if isinstance(part.output, str) else _texts(part.output)
    role = "tool" if part.call_id in writing.answered else own.get("role", "tool")
    written: Dict = {"role": role, "content": output if isinstance(part.output, str) or output else ""}
    if role == "tool":
        written["tool_call_id"] = writing.names.id(part.call_id)
    return _with_own(written, own)


def _speech(message: Message, own: Dict) -> list[Dict]:
    """What a user or the system says; only a user may show something."""
    role = message.role if message.role in ("user", "system") else "user"
    parts = [part for part in message.parts if type(part) is not ToolResult]
    content = [_written(part) for part in parts] if role == "user" else _texts(parts)
    shown = [part for part in content if part is not None]
    if not shown:
        return [_with_own({"role": own.get("role", role), "content": ""}, own)] if own.get("content") == "empty" else []
    return [_with_own({"role": own.get("role", role), "content": _content(shown, own.get("content"))}, own)]


def _assistant(message: Message, own: Dict, writing: _Writing) -> list[Dict]:
    said: list[Part] = []
    calls: list[Dict] = []
    written: Dict = {"role": "assistant", "content": None}
    for part in message.parts:
        if type(part) is ToolCall and _is_of_old(part, writing):
            written["function_call"] = _function(part, writing.names)
        elif type(part) is ToolCall:
            calls.append(with_leftovers(_plain_call(part, writing.names), part.extra, NAME))
        elif type(part) is Other and noted(part, NAME, "field") == "tool_calls":
            calls.append(dict(part.raw))
        elif (field := _field(part)) is not None:
            written[field] = _in_field(part, written.get(field))
        else:
            said.append(part)
    if calls:
        written["tool_calls"] = calls
    spoken = _say(written, _texts(said), own.get("content"))
    return [_with_own(written, own)] if spoken or not written.keys() <= _SILENT else []


def _say(written: Dict, content: list[Dict], shape: Any) -> bool:
    """Put the content into an assistant's message, as it was given. Whether there is any."""
    if content:
        written["content"] = _content(content, shape)
    elif shape == "empty":
        written["content"] = ""
    elif shape == "absent":
        del written["content"]
    return bool(content) or shape == "empty"


def _field(part: Part) -> str | None:
    """The field of an assistant message that a part of ours stands in, where that is not its content."""
    if not part.extra:  # where it stood would be noted there
        return None
    if type(part) is Reasoning and owned(part, NAME):
        return "reasoning_content"
    field = noted(part, NAME, "field")
    return field if (type(part), field) in ((Text, "refusal"), (Other, "audio")) else None


def _in_field(part: Part, before: Any) -> Any:
    """The value of such a field; several texts, from messages that became one, follow each other."""
    if type(part) is Other:
        return dict(part.raw)
    assert isinstance(part, Text | Reasoning)
    return f"{before}\n\n{part.text}" if isinstance(before, str) else part.text


def _plain_call(call: ToolCall, names: Names) -> Dict:
    if noted(call, NAME, "kind") == "custom" and isinstance(call.args, str):
        custom = {"name": names.tool(call.name), "input": call.args}
        return {"id": names.id(call.id), "type": "custom", "custom": custom}
    return {"id": names.id(call.id), "type": "function", "function": _function(call, names)}


def _function(call: ToolCall, names: Names) -> Dict:
    return {"name": names.tool(call.name), "arguments": arguments.styled(call.args, noted(call, NAME, "arguments"))}


def _with_own(written: Dict, own: Dict) -> Dict:
    for name, value in own.items():
        if name not in written and name not in ("raw", "content", "role"):
            written[name] = value
    return written


def _content(parts: list[Dict], shape: Any) -> str | list[Dict]:
    if len(parts) == 1 and shape != "list" and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts


def _texts(parts: Sequence[Part]) -> list[Dict]:
    """The parts as text: what cannot be shown leaves a breadcrumb, what belongs to others nothing."""
    shown = [_crumb(part) if type(part) is Media else _written(part) for part in parts]
    return [part for part in shown if part is not None]


def _crumb(part: Media) -> Dict:
    return {"type": "text", "text": attachments.breadcrumb(part)}


def _written(part: Part) -> Dict | None:
    if type(part) is Text and not part.text:
        return None
    plain = _plain(part)
    return plain if plain is None or not part.extra else with_leftovers(plain, part.extra, NAME)


def _plain(part: Part) -> Dict | None:
    if type(part) is Text:
        kind = "refusal" if noted(part, NAME, "kind") == "refusal" else "text"
        return {"type": kind, kind: part.text}
    if type(part) is Media:
        return _plain_media(part)
    return dict(part.raw) if type(part) is Other and owned(part, NAME) else None


def _plain_media(part: Media) -> Dict:
    if attachments.is_image(part) and (url := attachments.url_of(part)) is not None:
        return {"type": "image_url", "image_url": {"url": url}}
    if part.data is not None and part.mime in _SOUNDS:
        return {"type": "input_audio", "input_audio": spoken(part.data, part.mime)}
    named = {} if part.name is None else {"filename": part.name}
    if (part.data is not None and part.mime == "application/pdf") or noted(part, NAME, "file") is not None:
        return {
            "type": "file",
            "file": {**named, **({} if part.data is None else {"file_data": attachments.url_of(part)})},
        }
    return _crumb(part)


def spoken(data: bytes, mime: str) -> Dict:
    return {"data": attachments.encoded(data), "format": _SOUNDS[mime]}


# -- the provider's rules ------------------------------------------------------------------------------


def problems(dicts: Sequence[Any]) -> list[str]:
    """What Chat Completions would refuse, in words, each with its place."""
    found: list[str] = []
    waiting: list[str] = []  # calls whose results must come next
    for at, given in enumerate(dicts):
        place = f"messages[{at}]"
        if not isinstance(given, dict):
            found.append(f"{place} is no dict")
            continue
        role = given.get("role")
        if role in ("tool", "function"):
            found += _problems_of_result(given, waiting, place)
            continue
        found += [f"{place}: the call {id!r} was not answered before" for id in waiting]
        waiting = []
        if role == "assistant":
            waiting = _calls_of(given)
            found += _problems_of_assistant(given, waiting, place)
        elif role in ("user", "system", "developer"):
            found += _problems_of_content(given.get("content"), place)
        else:
            found.append(f"{place} has the unknown role {role!r}")
    return found + [f"messages[{len(dicts)}]: the call {id!r} was never answered" for id in waiting]


def _problems_of_result(given: Dict, waiting: list[str], place: str) -> list[str]:
    legacy = given["role"] == "function"
    id = f"function {given.get('name')}" if legacy else given.get("tool_call_id")
    said = []
    if id in waiting:
        waiting.remove(id)
    else:
        said.append(f"{place}: the result for {id!r} answers no open call of the assistant message before")
    content = given.get("content")
    if not isinstance(content, str | list) and not (legacy and content is None):
        said.append(f"{place}: a result needs content, text or a list")
    if isinstance(content, list):
        said += _problems_of_content(content, place)
        kinds = [part.get("type") for part in content if isinstance(part, dict)]
        said += [f"{place}: a result holds text only, not {kind}" for kind in kinds if kind != "text"]
    return said


def _problems_of_content(content: Any, place: str) -> list[str]:
    if not isinstance(content, str | list) or not content:
        return [f"{place} has no content"]
    if isinstance(content, str):
        return []
    said = []
    for i, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            said.append(f"{place}.content[{i}] is no part")
        elif part["type"] == "text" and not (isinstance(part.get("text"), str) and part["text"]):
            said.append(f"{place}.content[{i}] is empty")
    return said


def _calls_of(given: Dict) -> list[str]:
    calls = given.get("tool_calls")
    ids = [call.get("id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    legacy = given.get("function_call")
    named = [f"function {legacy.get('name')}"] if isinstance(legacy, dict) else []
    return [str(id) for id in ids] + named


def _problems_of_assistant(given: Dict, ids: list[str], place: str) -> list[str]:
    content = given.get("content")
    other = ids or given.get("refusal") or given.get("audio")
    said = [] if other and (content is None or content == "") else _problems_of_content(content, place)
    said += [f"{place}: the call id {id!r} is used twice" for id in {id for id in ids if ids.count(id) > 1}]
    kinds = [part.get("type") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    said += [
        f"{place}: an assistant says text, it cannot show {kind}" for kind in kinds if kind not in ("text", "refusal")
    ]
    calls = given.get("tool_calls")
    for i, call in enumerate(calls if isinstance(calls, list) else ()):
        said += [f"{place}.tool_calls[{i}] {what}" for what in _flaws_of_call(call)]
    if isinstance(legacy := given.get("function_call"), dict):
        said += [f"{place}.function_call {what}" for what in flaws_of_function(legacy, TOOLS.limit)]
    return said


def _flaws_of_call(call: Any) -> list[str]:
    if not isinstance(call, dict):
        return ["is no dict"]
    id = call.get("id")
    said = (
        [] if isinstance(id, str) and IDS.valid.fullmatch(id) else [f"has the call id {id!r}: up to 40 of a-zA-Z0-9_-"]
    )
    function, custom = call.get("function"), call.get("custom")
    if isinstance(function, dict):
        return said + flaws_of_function(function, TOOLS.limit)
    if isinstance(custom, dict):
        return said + ([] if isinstance(custom.get("input"), str) else ["has no input"])
    return [*said, "has no function"]


def flaws_of_function(function: Dict, limit: int) -> list[str]:
    """What is wrong with the name and the arguments of a call."""
    name, text = function.get("name"), function.get("arguments")
    rule = word(limit, "tool")
    said = (
        []
        if isinstance(name, str) and rule.valid.fullmatch(name)
        else [f"has the tool name {name!r}: up to {limit} of a-zA-Z0-9_-"]
    )
    if not isinstance(text, str) or not isinstance(arguments.parsed(text), dict):
        said.append("has arguments that are no JSON object")
    return said
