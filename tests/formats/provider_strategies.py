"""Hypothesis strategies for conversations that each provider accepts, with all that it lets one say.

A conversation is turns of the user, each with rounds of calls and their results, and an answer at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from provider_fixtures import PDF, PNG, WAV

Dict = dict[str, Any]
Conversation = list[Dict]

_WORD = "abcXYZ019_-"
TEXTS = st.sampled_from(["hi", "grün 😀", '{"a": 1}', "line\nline", "[image: x]", "0"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([1.5, -0.25, 1e300]) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b_c", "dE", ""]), inner, max_size=2)
    ),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b_c", "dE", "input"]), JSON, max_size=3)
EXTRA = st.sampled_from([{}, {}, {}, {"shiny": True}, {"new_field": {"x": [1]}, "n": None}])
SPELLINGS: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
    lambda value: json.dumps(value, indent=2),
]


def words(max_size: int) -> SearchStrategy[str]:
    return st.text(_WORD, min_size=1, max_size=6) | st.text("ab", min_size=max_size, max_size=max_size)


class Ids:
    """Call ids that were not drawn before, as a provider makes them."""

    def __init__(self, draw: DrawFn, ids: SearchStrategy[str]) -> None:
        self._draw, self._ids, self._seen = draw, ids, set[str]()

    def new(self) -> str:
        id = self._draw(self._ids.filter(lambda id: id not in self._seen))
        self._seen.add(id)
        return id


def maybe(draw: DrawFn, value: SearchStrategy[Any]) -> list[Any]:
    return [draw(value)] if draw(st.booleans()) else []


# -- Anthropic -----------------------------------------------------------------------------------------

_CACHED = st.sampled_from([{}, {}, {"cache_control": {"type": "ephemeral"}}])
A_TEXT = st.builds(lambda text, more, extra: {"type": "text", "text": text, **more, **extra}, TEXTS, _CACHED, EXTRA)
A_MEDIA = st.sampled_from(
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://e.com/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}, "title": "t"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
        {"type": "document", "source": {"type": "content", "content": "x"}},
    ]
)
A_OTHER = st.sampled_from([{"type": "container_upload", "file_id": "f"}, {"type": "hologram", "x": 1}])
A_SERVER = st.sampled_from(
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    ]
)
A_THINKING = st.sampled_from(
    [
        {"type": "thinking", "thinking": "hm", "signature": "sig="},
        {"type": "thinking", "thinking": "", "signature": "sig="},
        {"type": "redacted_thinking", "data": "sealed"},
    ]
)


@st.composite
def anthropic(draw: DrawFn) -> Conversation:
    ids = Ids(draw, words(64))
    out: Conversation = []
    for _ in range(draw(st.integers(1, 3))):
        out.append(draw(_a_user()))
        if draw(st.booleans()) and out[-1]["role"] == "user":
            out.append({"role": "system", "content": "from now on"})
        for _ in range(draw(st.integers(0, 2))):
            out += draw(_a_round(ids))
        if out[-1]["role"] == "system" or draw(st.booleans()):
            thought = maybe(draw, A_THINKING)
            out.append(
                {"role": "assistant", "content": [*thought, *maybe(draw, A_SERVER), draw(A_TEXT)], **draw(EXTRA)}
            )
    return out


@st.composite
def _a_user(draw: DrawFn) -> Dict:
    content = draw(TEXTS | st.lists(A_TEXT | A_MEDIA | A_OTHER, min_size=1, max_size=3))
    return {"role": "user", "content": content, **draw(EXTRA)}


@st.composite
def _a_round(draw: DrawFn, ids: Ids) -> Conversation:
    calls = [
        {"type": "tool_use", "id": ids.new(), "name": draw(words(128)), "input": draw(OBJECTS), **draw(_CACHED)}
        for _ in range(draw(st.integers(1, 3)))
    ]
    results = [draw(_a_result(call["id"])) for call in draw(st.permutations(calls))]
    said = [*maybe(draw, A_THINKING), *maybe(draw, A_TEXT), *calls]
    return [
        {"role": "assistant", "content": said},
        {"role": "user", "content": [*results, *maybe(draw, A_TEXT | A_MEDIA)]},
    ]


@st.composite
def _a_result(draw: DrawFn, id: str) -> Dict:
    content = draw(st.just("") | TEXTS | st.lists(A_TEXT | A_MEDIA, max_size=2) | st.none())
    shown = {} if content is None else {"content": content}
    return {"type": "tool_result", "tool_use_id": id, **shown, **draw(st.sampled_from([{}, {"is_error": True}]))}


# -- OpenAI Chat Completions ---------------------------------------------------------------------------

O_TEXT = st.builds(lambda text, extra: {"type": "text", "text": text, **extra}, TEXTS, EXTRA)
O_MEDIA = st.sampled_from(
    [
        {"type": "image_url", "image_url": {"url": "https://e.com/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "mp3"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
        {"type": "smell", "of": "rain"},
    ]
)


@st.composite
def openai(draw: DrawFn) -> Conversation:
    ids = Ids(draw, words(40))
    out: Conversation = [
        {"role": draw(st.sampled_from(["system", "developer"])), "content": "s"} for _ in maybe(draw, TEXTS)
    ]
    out += [{"role": "assistant", "content": "Welcome."} for _ in maybe(draw, TEXTS)]
    for _ in range(draw(st.integers(1, 3))):
        content = draw(TEXTS | st.lists(O_TEXT | O_MEDIA, min_size=1, max_size=3))
        out.append({"role": "user", "content": content, **draw(st.sampled_from([{}, {"name": "ada"}]))})
        out += [{"role": "developer", "content": "now"} for _ in maybe(draw, TEXTS)]
        for _ in range(draw(st.integers(0, 2))):
            out += draw(_o_round(ids))
        out += maybe(draw, _o_answer())
    return out


@st.composite
def _o_answer(draw: DrawFn) -> Dict:
    said = draw(
        st.sampled_from(
            [
                {"content": "Done.", "refusal": None},
                {"content": None, "refusal": "No."},
                {"content": [{"type": "refusal", "refusal": "No."}]},
                {"content": None, "audio": {"id": "audio_1"}},
                {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"content": "x", "reasoning_content": "hm", "tool_calls": None},
            ]
        )
    )
    return {"role": "assistant", **said, **draw(EXTRA)}


@st.composite
def _o_round(draw: DrawFn, ids: Ids) -> Conversation:
    if draw(st.integers(0, 5)) == 0:
        call = {"name": draw(words(64)), "arguments": "{}"}
        return [
            {"role": "assistant", "content": None, "function_call": call},
            {"role": "function", "name": call["name"], "content": draw(TEXTS)},
        ]
    calls = [draw(_o_call(ids.new())) for _ in range(draw(st.integers(1, 3)))]
    content = draw(st.sampled_from([{"content": None}, {"content": ""}, {}, {"content": "Let me see."}]))
    results: Conversation = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": draw(TEXTS | st.just("") | st.lists(O_TEXT, min_size=1, max_size=2)),
        }
        for call in draw(st.permutations(calls))
    ]
    return [{"role": "assistant", **content, "tool_calls": calls}, *results]


@st.composite
def _o_call(draw: DrawFn, id: str) -> Dict:
    if draw(st.integers(0, 3)) == 0:
        return {"id": id, "type": "custom", "custom": {"name": draw(words(64)), "input": draw(TEXTS)}}
    text = draw(st.sampled_from(SPELLINGS))(draw(OBJECTS))
    return {"id": id, "type": "function", "function": {"name": draw(words(64)), "arguments": text}, **draw(EXTRA)}


# -- OpenAI Responses ----------------------------------------------------------------------------------

R_PARTS = st.sampled_from(
    [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "https://e.com/a.png", "detail": "auto"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://e.com/a.pdf"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    ]
)
R_HOSTED = st.sampled_from(
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "quantum_call", "id": "q_1"},
        {"type": "item_reference", "id": "msg_1"},
    ]
)
R_REASONING = st.builds(
    lambda texts, sealed, extra: {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text} for text in texts],
        **sealed,
        **extra,
    },
    st.lists(TEXTS, max_size=2),
    st.sampled_from([{}, {"encrypted_content": "sealed"}]),
    EXTRA,
)


@st.composite
def responses(draw: DrawFn) -> Conversation:
    ids = Ids(draw, words(64))
    out: Conversation = []
    for _ in range(draw(st.integers(1, 3))):
        content = draw(TEXTS | st.lists(R_PARTS, min_size=1, max_size=3))
        out.append({**draw(st.sampled_from([{}, {"type": "message"}])), "role": "user", "content": content})
        out += [{"role": "developer", "content": "now"} for _ in maybe(draw, TEXTS)]
        for _ in range(draw(st.integers(0, 2))):
            out += draw(_r_round(ids))
        out += maybe(draw, R_HOSTED)
        if draw(st.booleans()):
            out += [*maybe(draw, R_REASONING), draw(_r_answer())]
    return out


@st.composite
def _r_answer(draw: DrawFn) -> Dict:
    parts = draw(
        st.lists(
            st.sampled_from(
                [{"type": "output_text", "text": "a", "annotations": []}, {"type": "refusal", "refusal": "No."}]
            ),
            min_size=1,
            max_size=2,
        )
    )
    whole = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": parts}
    return draw(st.sampled_from([whole, {"role": "assistant", "content": "a"}]))


@st.composite
def _r_round(draw: DrawFn, ids: Ids) -> Conversation:
    pairs = [draw(_r_pair(ids.new())) for _ in range(draw(st.integers(1, 3)))]
    results = [result for _, result in draw(st.permutations(pairs))]
    between = maybe(draw, st.just({"role": "user", "content": "hurry"}) | _r_answer())
    return [*maybe(draw, R_REASONING), *(call for call, _ in pairs), *between, *results]


@st.composite
def _r_pair(draw: DrawFn, id: str) -> tuple[Dict, Dict]:
    output = draw(TEXTS | st.just("") | st.lists(R_PARTS, min_size=1, max_size=2))
    kind = draw(st.sampled_from(["function", "function", "custom", "computer", "shell", "local", "patch"]))
    if kind == "custom":
        call = {"type": "custom_tool_call", "call_id": id, "name": draw(words(128)), "input": draw(TEXTS)}
        return call, {"type": "custom_tool_call_output", "call_id": id, "output": output}
    if kind == "computer":
        shot = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}
        call = {"type": "computer_call", "id": "cu_1", "call_id": id, "action": {"type": "wait"}, "status": "completed"}
        return call, {"type": "computer_call_output", "call_id": id, "output": shot}
    if kind == "shell":
        chunk = {"stdout": "é", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
        call = {"type": "shell_call", "call_id": id, "action": {"commands": ["ls"]}}
        return call, {"type": "shell_call_output", "call_id": id, "output": [chunk]}
    if kind == "local":
        call = {"type": "local_shell_call", "id": "l", "call_id": id, "action": {"type": "exec", "command": ["ls"]}}
        return call, {"type": "local_shell_call_output", "id": id, "output": "{}"}
    if kind == "patch":
        call = {"type": "apply_patch_call", "call_id": id, "status": "completed", "operation": {"type": "delete_file"}}
        return call, {"type": "apply_patch_call_output", "call_id": id, "status": "failed"}
    text = draw(st.sampled_from(SPELLINGS))(draw(OBJECTS))
    call = {"type": "function_call", "call_id": id, "name": draw(words(128)), "arguments": text, **draw(EXTRA)}
    return call, {"type": "function_call_output", "call_id": id, "output": output, **draw(EXTRA)}


# -- Gemini --------------------------------------------------------------------------------------------

G_TEXT = st.builds(lambda text, extra: {"text": text, **extra}, TEXTS, EXTRA)
G_MEDIA = st.sampled_from(
    [
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"inlineData": {"mimeType": "video/mp4", "data": PNG, "displayName": "v"}, "videoMetadata": {"fps": 1}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://e.com/a.pdf"}},
        {"fileData": {"fileUri": "gs://bucket/x"}},
        {"inline_data": {"mime_type": "image/png", "data": PNG}},
    ]
)
G_CODE = st.sampled_from(
    [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"text": "hm", "thought": True},
        {"text": "hm", "thought": True, "thoughtSignature": "AAAA"},
    ]
)


@st.composite
def gemini(draw: DrawFn) -> Conversation:
    tools = st.sampled_from(["f", "g", "ns.tool:do-it", "_x", "a" * 64])
    ids = Ids(draw, st.text(min_size=1, max_size=5) | words(100))
    named, signed = draw(st.booleans()), draw(st.booleans())
    out: Conversation = []
    for _ in range(draw(st.integers(1, 3))):
        out.append({"role": "user", "parts": draw(st.lists(G_TEXT | G_MEDIA, min_size=1, max_size=3)), **draw(EXTRA)})
        for _ in range(draw(st.integers(0, 2))):
            calls = [
                {**({"id": ids.new()} if named else {}), "name": draw(tools), "args": draw(OBJECTS)}
                for _ in range(draw(st.integers(1, 3)))
            ]
            out += draw(_g_round(calls, signed))
        if draw(st.booleans()):
            out.append({"role": "model", "parts": [*maybe(draw, G_CODE), draw(G_TEXT), *maybe(draw, G_MEDIA)]})
    return out


@st.composite
def _g_round(draw: DrawFn, calls: list[Dict], signed: bool) -> Conversation:
    said: list[Dict] = [{"functionCall": call} for call in calls]
    if signed:
        said[0]["thoughtSignature"] = "AAAA"
    answers: list[Dict] = [
        {
            "functionResponse": {
                **{name: call[name] for name in ("id", "name") if name in call},
                "response": draw(OBJECTS | st.sampled_from([{"output": "x"}, {"error": "x"}, {"result": "é"}])),
            }
        }
        for call in draw(st.permutations(calls))
    ]
    role = draw(st.sampled_from(["user", "user", "function"]))
    return [
        {"role": "model", "parts": [*maybe(draw, G_CODE), *maybe(draw, G_TEXT), *said]},
        {"role": role, "parts": [*answers, *(maybe(draw, G_TEXT) if role == "user" else [])]},
    ]


CONVERSATIONS: dict[str, Callable[[], SearchStrategy[Conversation]]] = {
    "anthropic": anthropic,
    "openai": openai,
    "responses": responses,
    "gemini": gemini,
}
