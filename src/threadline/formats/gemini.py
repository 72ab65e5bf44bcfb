"""Gemini contents: turns of `user` and `model`, made of parts; calls and responses are matched by name or id.

The rules are those of ai.google.dev: api/generate-content (Content, Part), gemini-api/docs/function-calling and
thought-signatures, and the API's own error messages. Keys are camelCase, as in REST, or snake_case, as in Python."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from threadline.errors import InvalidMessage
from threadline.formats import attachments, leftovers
from threadline.formats.arguments import as_object, parsed
from threadline.formats.leftovers import Dict, kept, noted, of_message, owned, with_leftovers
from threadline.formats.naming import AsGiven, Names, Rule, keeps, unnamed
from threadline.formats.rounds import joined, settled
from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "gemini"
IDS = Rule(re.compile(r"(?s).+"), re.compile(r"(?!)"), 256, "call")
TOOLS = Rule(re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"), re.compile(r"[^a-zA-Z0-9_.:-]"), 64, "tool")
OPENING = "(The conversation so far began with the model.)"

# Gemini 3 refuses the first call of a step without a signature. This one stands for calls that no Gemini made:
# https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
FOREIGN_SIGNATURE = "skip_thought_signature_validator"

_OURS = {"model": "assistant", "function": "tool"}
_OBJECTS = ("inlineData", "fileData", "functionCall", "functionResponse")
_DATA = frozenset({"text", "executableCode", "codeExecutionResult", "toolCall", "toolResponse", *_OBJECTS})
_CAMELS = _DATA | {"thought", "thoughtSignature"}


# -- reading -------------------------------------------------------------------------------------------


def read(raw: Dict, place: str = "message") -> Message:
    """One content. `model` is our assistant; a user content of nothing but responses has our role `tool`."""
    role, given = raw.get("role", "user"), raw.get("parts")
    if not isinstance(role, str) or not role:
        raise InvalidMessage(f"{place}.role", "must be a non-empty string")
    if not isinstance(given, list):
        raise InvalidMessage(f"{place}.parts", "must be a list of parts")
    own = {name: value for name, value in raw.items() if name not in ("role", "parts")}
    camels = [_camel_part(part, f"{place}.parts[{i}]") for i, part in enumerate(given)]
    if any(camel != part for camel, part in zip(camels, given, strict=True)):
        own["case"] = "snake"
    if role == "function" or "role" not in raw:
        own["role"] = raw.get("role", "absent")
    parts = tuple(_parts(camels, place))
    if role == "user" and parts and all(type(part) is ToolResult for part in parts):
        role = "tool"
    message = Message(_OURS.get(role, role), parts, {NAME: own} if own else {})
    return leftovers.exact(message, raw, _dicts(message, _Writing(AsGiven())), NAME)


def _camel_part(part: Any, place: str) -> Dict:
    """A part with the keys that we look at in camelCase. What the caller's own data holds is left alone."""
    if not isinstance(part, dict):
        raise InvalidMessage(place, f"a part is a dict, not {type(part).__name__}")
    camel = _recased(part, _camel)
    for name in _OBJECTS:
        if isinstance(inner := camel.get(name), dict):
            camel[name] = _recased(inner, _camel)
    return camel


def _snake_part(part: Dict) -> Dict:
    inner = {name: _recased(part[name], _snake) for name in _OBJECTS if isinstance(part.get(name), dict)}
    return _recased({**part, **inner}, _snake)


def _recased(given: Dict, case: Any) -> Dict:
    return {case(name): value for name, value in given.items()}


def _camel(name: Any) -> Any:
    return re.sub(r"_([a-z])", lambda hit: hit[1].upper(), name) if isinstance(name, str) and "_" in name else name


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda hit: "_" + hit[0].lower(), name)


def _parts(camels: list[Dict], place: str) -> Iterator[Part]:
    """The parts; calls and responses without an id are named by their tool and its turn in this content."""
    turns: Counter[str] = Counter()
    for i, camel in enumerate(camels):
        part = _modelled(camel, turns, f"{place}.parts[{i}]")
        yield Other(camel, {"provider": NAME}) if part is None else kept(part, camel, _with_id(part), NAME)


def _with_id(part: Part) -> Dict | None:
    """All that we model of a part, an id and empty text included even where it goes without."""
    if type(part) is Text:
        return {"text": part.text}
    plain = _bare(part, AsGiven())
    for field in ("functionCall", "functionResponse"):
        if plain is not None and field in plain:
            plain[field]["id"] = None
    return plain


def _modelled(part: Dict, turns: Counter[str], place: str) -> Part | None:
    if isinstance(call := part.get("functionCall"), dict):
        name, args = _text(call, "name", place), call.get("args")
        if not isinstance(args, dict | None):
            raise InvalidMessage(f"{place}.functionCall.args", f"must be an object, not {type(args).__name__}")
        return ToolCall(_id(call, name, turns), name, args or {}, {"provider": NAME})
    if isinstance(response := part.get("functionResponse"), dict):
        return _response(response, turns, place)
    if isinstance(text := part.get("text"), str):
        if part.get("thought") is not True:
            return Text(text)
        signature = part.get("thoughtSignature")
        return Reasoning(text, signature if isinstance(signature, str) else None, None, {"provider": NAME})
    return _media(part)


def _text(given: Dict, field: str, place: str) -> str:
    value = given.get(field)
    if not isinstance(value, str):
        raise InvalidMessage(f"{place}.{field}", "is missing: it must be a string")
    return value


def _id(given: Dict, name: str, turns: Counter[str]) -> str:
    turns[name] += 1
    id = given.get("id")
    return id if isinstance(id, str) else unnamed(name, turns[name])


def _response(given: Dict, turns: Counter[str], place: str) -> ToolResult:
    name, response = _text(given, "name", place), given.get("response", {})
    if not isinstance(response, dict):
        raise InvalidMessage(f"{place}.functionResponse.response", f"must be an object, not {type(response).__name__}")
    id, note = _id(given, name, turns), {"provider": NAME, "name": name}
    key, value = next(iter(response.items()), ("", None))
    if len(response) == 1 and isinstance(value, str):
        note |= {} if key in ("output", "error") else {"key": key}
        return ToolResult(id, _with_pictures(value, given), key == "error", None, note)
    text = json.dumps(response, ensure_ascii=False, separators=(",", ":"))
    return ToolResult(id, _with_pictures(text, given), False, None, {**note, "key": None})


def _with_pictures(text: str, response: Dict) -> str | tuple[Part, ...]:
    """What a tool said and showed: a response may hold media in parts of its own."""
    parts = response.get("parts")
    shown = (
        [_media(_recased(part, _camel)) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    )
    pictures = [media for media in shown if media is not None]
    return (Text(text), *pictures) if pictures else text


def _media(part: Dict) -> Media | None:
    if isinstance(inline := part.get("inlineData"), dict):
        mime, data, name = inline.get("mimeType"), attachments.decoded(inline.get("data")), inline.get("displayName")
        known = isinstance(mime, str) and data is not None and isinstance(name, str | None)
        return Media(str(mime), data, None, name) if known else None
    if isinstance(file := part.get("fileData"), dict):
        mime, uri, name = file.get("mimeType", ""), file.get("fileUri"), file.get("displayName")
        known = isinstance(mime, str) and isinstance(uri, str) and isinstance(name, str | None)
        return Media(str(mime), None, uri, name) if known else None
    return None


# -- writing -------------------------------------------------------------------------------------------


class _Writing:
    """One list of contents being written: its names, and which calls went without an id."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.without_id: dict[str, bool] = {}


def names() -> Names:
    return Names(IDS, TOOLS)


def write(messages: Sequence[Message], names: Names) -> list[Dict]:
    """Calls of one turn in one content, their responses in the next; in a conversation, a user content first."""
    writing = _Writing(names)
    out: list[Dict] = []
    for message in joined(_merged(settled(messages))):
        out += _dicts(message, writing)
    roles = [said.get("role", "user") for said in out]
    if roles and roles[0] == "model" and any(role != "model" for role in roles):
        out.insert(0, {"role": "user", "parts": [{"text": OPENING}]})
    return out


def in_turn(dicts: list[Dict]) -> list[Dict]:
    """The same with user and model taking turns, and every step signed where the model signs its steps.

    Neighbours of one role become one content, unless that would mix the results of two turns."""
    out: list[Dict] = []
    for given in dicts:
        if out and _role(out[-1]) == _role(given) and not _split_round(_camels(out[-1]), _camels(given)):
            out[-1] = {**out[-1], "parts": [*out[-1]["parts"], *given["parts"]]}
        else:
            out.append(given)
    return _signed(out)


def _role(given: Dict) -> str:
    return "model" if given.get("role") == "model" else "user"


def _camels(given: Dict) -> list[Dict]:
    return [_camel_part(part, "part") for part in given["parts"]]


def _signed(dicts: list[Dict]) -> list[Dict]:
    """The first call of each content with a signature, where there are signatures: its own may stand elsewhere."""
    firsts = [(at, _first_call(given)) for at, given in enumerate(dicts) if _role(given) == "model"]
    calls = [(at, nth) for at, nth in firsts if nth is not None]
    if not any(_is_signed(part) for at, _ in calls for part in dicts[at]["parts"]):
        return dicts
    for at, nth in calls:
        parts = dicts[at]["parts"]
        if not _is_signed(parts[nth]):
            signed = {**parts[nth], "thoughtSignature": FOREIGN_SIGNATURE}
            dicts[at] = {**dicts[at], "parts": [*parts[:nth], signed, *parts[nth + 1 :]]}
    return dicts


def _first_call(given: Dict) -> int | None:
    calls = (nth for nth, part in enumerate(given["parts"]) if "functionCall" in part or "function_call" in part)
    return next(calls, None)


def _is_signed(part: Dict) -> bool:
    return "thoughtSignature" in part or "thought_signature" in part


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Calls come right behind a user's turn: those of other providers join what the assistant said just before.

    Gemini's own are left as they were: its streams come in several contents, which it takes back."""
    out: list[Message] = []
    for message in messages:
        if message.role == "assistant" and out and out[-1].role == "assistant" and _calls_of_others(message):
            out[-1] = replace(out[-1], parts=out[-1].parts + message.parts)
        else:
            out.append(message)
    return out


def _calls_of_others(message: Message) -> bool:
    return any(type(part) is ToolCall and not owned(part, NAME) for part in message.parts)


def _dicts(message: Message, writing: _Writing) -> list[Dict]:
    if (words := _words(message)) is not None:
        return [{"role": "model" if message.role == "assistant" else "user", "parts": [{"text": words}]}]
    for part in message.parts:
        if type(part) is ToolCall:
            writing.names.meet(part)
    own = of_message(message, NAME)
    if "raw" in own and keeps(writing.names, message):
        raw = leftovers.raw_again(message, NAME, read)
        if raw is not None:
            _note_ids(message, writing)
            return [raw]
    parts = _written(message, writing)
    if not parts:
        return []
    role = "model" if message.role == "assistant" else own.get("role", "user")
    written: Dict = {} if role == "absent" else {"role": role}
    written["parts"] = list(map(_snake_part, parts)) if own.get("case") == "snake" else parts
    if own:
        written.update((name, value) for name, value in own.items() if name not in ("role", "raw", "case"))
    return [written]


def _words(message: Message) -> str | None:
    """What a message says that is nothing but words and nobody's in particular, as most are; None for the others."""
    part = message.parts[0] if len(message.parts) == 1 and not message.meta else None
    return part.text if type(part) is Text and part.text and not part.extra else None


def _note_ids(message: Message, writing: _Writing) -> None:
    turns: dict[str, int] = {}
    for part in message.parts:
        if type(part) is ToolCall:
            turns[part.name] = turns.get(part.name, 0) + 1
            writing.without_id[part.id] = part.id == unnamed(part.name, turns[part.name])


def _written(message: Message, writing: _Writing) -> list[Dict]:
    _note_ids(message, writing)
    turns: dict[str, int] = {}
    out: list[Dict] = []
    first = True  # only the first call of a content carries a signature
    for part in _in_order_of_calls(message.parts, writing):
        plain = _bare(part, writing.names)
        if plain is None:
            continue
        out.append(with_leftovers(plain, _leftovers_of(part), NAME))
        if type(part) is ToolCall:
            _complete_call(plain, part, writing, first)
            first = False
        elif type(part) is ToolResult:
            tool = _tool(part, writing.names)
            turns[tool] = turns.get(tool, 0) + 1
            if not writing.without_id.get(part.call_id, part.call_id == unnamed(tool, turns[tool])):
                plain["functionResponse"] = {"id": writing.names.id(part.call_id), **plain["functionResponse"]}
    return out


def _complete_call(plain: Dict, call: ToolCall, writing: _Writing, first: bool) -> None:
    """A call with its id, if it has one, and a signature that says that no Gemini made it, if none did."""
    if not writing.without_id[call.id]:
        plain["functionCall"] = {"id": writing.names.id(call.id), **plain["functionCall"]}
    if first and not owned(call, NAME):
        plain["thoughtSignature"] = FOREIGN_SIGNATURE


def _leftovers_of(part: Part) -> Dict:
    """Without the notes on a response: its tool and how its object was made."""
    if type(part) is not ToolResult:
        return part.extra
    return {name: value for name, value in part.extra.items() if name not in ("name", "key")} if part.extra else {}


def _in_order_of_calls(parts: tuple[Part, ...], writing: _Writing) -> Sequence[Part]:
    """Responses without an id are matched by their order: those of one tool in the order of its calls."""
    blind = [i for i, part in enumerate(parts) if type(part) is ToolResult and writing.without_id.get(part.call_id)]
    if len(blind) < 2:
        return parts
    order = {id: nth for nth, id in enumerate(writing.names.called)}
    out = list(parts)
    for tool in {_tool(parts[i], writing.names) for i in blind}:
        places = [i for i in blind if _tool(parts[i], writing.names) == tool]
        results = sorted((parts[i] for i in places), key=lambda part: order.get(_answered(part), 0))
        for i, result in zip(places, results, strict=True):
            out[i] = result
    return out


def _answered(part: Part) -> str:
    return part.call_id if type(part) is ToolResult else ""


def _tool(part: Part, names: Names) -> str:
    """The tool that a result is from: that of its call, or what the result itself remembers."""
    called = names.called.get(_answered(part))
    return str(noted(part, NAME, "name") or "tool") if called is None else called


def _bare(part: Part, names: Names) -> Dict | None:
    """The part without its leftovers and ids; None for what is not sent."""
    if type(part) is Text:
        return {"text": part.text} if part.text or owned(part, NAME) else None
    if type(part) is ToolCall:
        return {"functionCall": {"name": names.tool(part.name), "args": as_object(part.args)}}
    if type(part) is ToolResult:
        return {"functionResponse": _plain_response(part, names)}
    if type(part) is Media:
        return _plain_media(part)
    if not owned(part, NAME):
        return None
    return dict(part.raw) if type(part) is Other else _plain_reasoning(part) if type(part) is Reasoning else None


def _plain_reasoning(part: Reasoning) -> Dict:
    signed = {} if part.signature is None else {"thoughtSignature": part.signature}
    return {"text": part.text, "thought": True, **signed}


def _plain_response(part: ToolResult, names: Names) -> Dict:
    """Only what came with pictures goes with them: models before Gemini 3 take none in a response."""
    plain: Dict = {"name": names.tool(_tool(part, names))}
    if isinstance(part.output, str):
        return {**plain, "response": _object(part, part.output)}
    pictures = [inner for inner in part.output if type(inner) is Media] if owned(part, NAME) else []
    text = "\n".join(_shown(inner) for inner in part.output if inner not in pictures)
    plain["response"] = _object(part, text)
    return {**plain, "parts": [_plain_media(picture) for picture in pictures]} if pictures else plain


def _object(part: ToolResult, text: str) -> Dict:
    """A response is an object: `output` or `error`, or whatever it was when it came from here."""
    key = noted(part, NAME, "key")
    if isinstance(key, str):
        return {key: text}
    response = parsed(text) if "key" in part.extra and owned(part, NAME) else None
    return response if isinstance(response, dict) else {"error" if part.error else "output": text}


def _shown(part: Part) -> str:
    return part.text if type(part) is Text else attachments.breadcrumb(part) if type(part) is Media else ""


def _plain_media(part: Media) -> Dict:
    named = {} if part.name is None else {"displayName": part.name}
    if part.data is not None and part.mime:
        return {"inlineData": {"mimeType": part.mime, "data": attachments.encoded(part.data), **named}}
    if part.uri is not None and (owned(part, NAME) or _is_elsewhere(part.uri)):
        typed = {"mimeType": part.mime} if part.mime and not part.mime.endswith("/*") else {}
        return {"fileData": {**typed, "fileUri": part.uri, **named}}
    return {"text": attachments.breadcrumb(part)}


def _is_elsewhere(uri: str) -> bool:
    """Whether an address is one that others can open: not a path, not the data itself."""
    return "://" in uri and not uri.startswith("file:")


# -- the provider's rules ------------------------------------------------------------------------------


def problems(dicts: Sequence[Any]) -> list[str]:
    """What generateContent would refuse, in words, each with its place."""
    found: list[str] = []
    turns: list[tuple[int, str, list[Dict]]] = []  # where it begins, whose it is, its parts
    for at, given in enumerate(dicts):
        place = f"contents[{at}]"
        role = given.get("role", "user") if isinstance(given, dict) else None
        if role not in ("user", "model", "function"):
            found.append(f"{place} has the role {role!r}: user and model take turns")
            continue
        parts = given.get("parts")
        if not isinstance(parts, list) or not parts:
            found.append(f"{place} has no parts")
            continue
        camels = [_looked_at(part, place) if isinstance(part, dict) else {} for part in parts]
        found += [f"{place}.parts[{i}] {what}" for i, part in _unless_words(camels) for what in _flaws(part)]
        voice = "model" if role == "model" else "user"
        if turns and turns[-1][1] == voice and not _split_round(turns[-1][2], camels):
            turns[-1][2].extend(camels)
        else:
            turns.append((at, voice, camels))
    return found + _problems_of_turns(turns)


def _looked_at(part: Dict, place: str) -> Dict:
    """A part with its own keys in camelCase: most have them, and are not made anew only to be looked at."""
    return part if part.keys() <= _CAMELS else _camel_part(part, place)


def _unless_words(parts: list[Dict]) -> list[tuple[int, Dict]]:
    """The parts that are anything but text that says something: nothing is wrong with that."""
    return [
        (i, part)
        for i, part in enumerate(parts)
        if len(part) != 1 or type(part.get("text")) is not str or not part["text"]
    ]


def _split_round(before: list[Dict], behind: list[Dict]) -> bool:
    """Whether two contents of one voice are still two turns: calls, or responses, must not be spread over several."""
    return any(field in part for field in ("functionCall", "functionResponse") for part in before) and any(
        field in part for field in ("functionCall", "functionResponse") for part in behind
    )


def _flaws(part: Dict) -> list[str]:
    data = _DATA.intersection(name for name, value in part.items() if value is not None)
    said = (
        []
        if len(data) == 1 or (not data and "thoughtSignature" in part)
        else [f"holds {len(data)} kinds of data, not one"]
    )
    if part.get("text") == "" and "thoughtSignature" not in part and not part.get("thought"):
        said.append("has empty text")
    for field in ("functionCall", "functionResponse"):
        given = part.get(field)
        if isinstance(given, dict):
            name = given.get("name")
            if not isinstance(name, str) or not TOOLS.valid.fullmatch(name):
                said.append(f"has the tool name {name!r}: up to 64 of a-zA-Z0-9_.:-, a letter or _ first")
            content = given.get("args", {}) if field == "functionCall" else given.get("response")
            if not isinstance(content, dict):
                said.append(f"has a {field} that holds no object")
    return said


def _problems_of_turns(turns: list[tuple[int, str, list[Dict]]]) -> list[str]:
    said = []
    if turns and turns[0][1] != "user":
        said.append("contents[0]: the first content must be the user's")
    given = [(_given(parts, "functionCall"), _given(parts, "functionResponse")) for _, _, parts in turns]
    for nth, (at, voice, _) in enumerate(turns):
        calls, answers = given[nth]
        if not calls and not answers:
            continue
        place = f"contents[{at}]"
        if (voice == "user" and calls) or (voice == "model" and answers):
            said.append(f"{place}: calls are the model's, responses the user's")
            continue
        if calls and (nth == 0 or turns[nth - 1][1] != "user"):
            said.append(f"{place}: a call must come right behind a turn of the user or its responses")
        if calls:
            behind = given[nth + 1][1] if nth + 1 < len(turns) else []
            said += _unmatched(calls, behind, f"{place}: the call of {{}} has no response in the next turn")
        if answers:
            before = given[nth - 1][0] if nth else []
            said += _unmatched(answers, before, f"{place}: the response of {{}} answers no call of the turn before")
    return said + _unsigned(turns)


def _given(parts: list[Dict], field: str) -> list[tuple[Any, Any]]:
    """Calls or responses as name and id."""
    return [(given.get("name"), given.get("id")) for part in parts if isinstance(given := part.get(field), dict)]


def _unmatched(ours: list[tuple[Any, Any]], theirs: list[tuple[Any, Any]], what: str) -> list[str]:
    left = list(theirs)
    said = []
    for each in ours:
        if each in left:
            left.remove(each)
        else:
            said.append(what.format(each[0]))
    return said


def _unsigned(turns: list[tuple[int, str, list[Dict]]]) -> list[str]:
    """Where a model signs its thoughts, the first call of every step since the user last spoke is signed."""
    signed = any("thoughtSignature" in part for _, _, parts in turns for part in parts if "functionCall" in part)
    last = max((n for n, (_, voice, parts) in enumerate(turns) if voice == "user" and _speaks(parts)), default=0)
    firsts = [
        (at, next((part for part in parts if "functionCall" in part), None))
        for at, voice, parts in turns[last:]
        if signed and voice == "model"
    ]
    return [
        f"contents[{at}]: the first call of a step has no thoughtSignature"
        for at, part in firsts
        if part is not None and "thoughtSignature" not in part
    ]


def _speaks(parts: list[Dict]) -> bool:
    return any("functionResponse" not in part for part in parts)
