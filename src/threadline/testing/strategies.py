"""Hypothesis strategies for all that a log can hold: messages, conversations as they really go wrong, histories.

A history is a list of steps. A step names a method of Session and its arguments; where an argument is an entry or a
call, it is a `Place`, a number that is looked up in the session as it is at that moment. So a history makes sense
whatever came before, and still does after hypothesis has shrunk it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from threadline.messages import Media, Message, Other, Part, Reasoning, Text, ToolCall, ToolResult

CALL_IDS = ("a", "b", "c", "\ud800")  # few, so that ids come back, answers go astray and duplicates happen
KEYS = ("k1", "k2", "k3", "\0")
ROLES = ("user", "assistant", "tool", "system", "developer")

_AWKWARD = '\0\t\n"\\|\x7f\u2028\ufeff\ud800\udbff\udc00\udfffé😀'

# -- JSON ----------------------------------------------------------------------------------------------


@cache  # hypothesis checks a strategy anew each time it is made
def texts(max_size: int = 12) -> SearchStrategy[str]:
    """Any text that Python can hold: NUL, lone surrogates, and two of them that are not one character."""
    return st.text(st.characters() | st.sampled_from(_AWKWARD), max_size=max_size)


@cache
def json_values(max_leaves: int = 8) -> SearchStrategy[Any]:
    """What JSON carries exactly, nested."""
    numbers = st.integers() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False, allow_infinity=False)
    leaves = st.none() | st.booleans() | numbers | texts()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(6), inner, max_size=3),
        max_leaves=max_leaves,
    )


@cache
def json_objects(max_leaves: int = 8) -> SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts(6), json_values(max_leaves), max_size=3)


# -- messages ------------------------------------------------------------------------------------------


@cache
def parts() -> SearchStrategy[Part]:
    """Every kind of part; results hold parts themselves."""
    flat = _flat_parts()
    inside = flat | _results(texts() | st.lists(flat, max_size=2).map(tuple))
    return flat | _results(texts() | st.lists(inside, max_size=3).map(tuple))


def _flat_parts() -> SearchStrategy[Part]:
    extra: SearchStrategy[dict[str, Any]] = st.just({}) | json_objects(3)
    maybe = st.none() | texts()
    return st.one_of(
        st.builds(Text, texts(40), extra),
        st.builds(Reasoning, texts(), maybe, maybe, extra),
        st.builds(ToolCall, texts(), texts(), json_objects() | texts(), extra),
        st.builds(Media, texts(), st.none() | st.binary(max_size=20), maybe, maybe, extra),
        st.builds(Other, json_objects(), extra),
    )


def _results(output: SearchStrategy[Any]) -> SearchStrategy[Part]:
    return st.builds(ToolResult, texts(), output, st.booleans(), st.none() | texts(), st.just({}) | json_objects(3))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Any message that can be stored, legal for a provider or not."""
    role = draw(st.sampled_from(ROLES) | texts().filter(bool))
    return Message(role, tuple(draw(st.lists(parts(), max_size=4))), draw(st.just({}) | json_objects(4)))


# -- conversations -------------------------------------------------------------------------------------


@cache
def spoken() -> SearchStrategy[Message]:
    """A message as the fold of a log cares: who speaks, whether it is hidden, and which calls it makes or answers.

    Ids are few, so that results are missing, repeated, out of order, or answer nothing."""
    ids = st.sampled_from(CALL_IDS)
    calls = st.lists(ids.map(lambda id: ToolCall(id, "tool")), min_size=1, max_size=3)
    answers = st.lists(ids.map(lambda id: ToolResult(id, "done")), min_size=1, max_size=3)
    said = st.sampled_from(["", "hi", "\ud800", "\0"])
    hidden = st.sampled_from([{}, {}, {}, {}, {"hidden": True}, {"proactive": True}])
    return st.one_of(
        st.builds(_spoken, st.just("user"), said, st.just([]), hidden),
        st.builds(_spoken, st.just("assistant"), said, st.just([]) | calls, hidden),
        st.builds(_spoken, st.sampled_from(["tool", "user"]), st.just(None), answers, hidden),
        st.builds(_spoken, st.sampled_from(ROLES), said, st.lists(calls | answers, max_size=2).map(_flat), hidden),
    )


def _flat(nested: Sequence[Sequence[Part]]) -> list[Part]:
    return [part for inner in nested for part in inner]


def _spoken(role: str, text: str | None, parts: Sequence[Part], meta: dict[str, Any]) -> Message:
    return Message(role, (*(() if text is None else (Text(text),)), *parts), dict(meta))


@st.composite
def conversations(draw: st.DrawFn, max_rounds: int = 4) -> list[Message]:
    """User turns with rounds of parallel tool calls, whose results are shuffled, lost, repeated or invented."""
    out: list[Message] = []
    for turn in range(draw(st.integers(1, max_rounds))):
        out.append(Message.user(f"turn {turn}"))
        ids = draw(st.lists(st.sampled_from([*CALL_IDS, f"call-{turn}"]), max_size=3))
        out.append(Message.assistant(None, *(ToolCall(id, "tool", {"turn": turn}) for id in ids)))
        answered = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
        astray = draw(st.lists(st.sampled_from(CALL_IDS), max_size=1))
        out += (Message.tool(id, "done") for id in [*answered, *astray])
    return out


# -- histories -----------------------------------------------------------------------------------------


class Place(NamedTuple):
    """An entry or a call, to be looked up: the n-th of its kind. Now and then anything, within the log or beyond."""

    of: str  # "entry", "visible", "fold" or "call"
    n: int


class Step(NamedTuple):
    """One call of a method of Session."""

    verb: str
    options: dict[str, Any]

    def resolved(self, session: Landmarks) -> Step:
        """The same step with every place looked up."""
        return Step(self.verb, {name: resolve(value, session) for name, value in self.options.items()})


class Landmarks(Protocol):
    """What places are looked up in."""

    @property
    def head(self) -> int:
        """The last seq."""

    def landmarks(self, of: str) -> Sequence[Any]:
        """The seqs of the visible entries, of the compactions and replacements, or the ids of the pending calls."""


def resolve(value: Any, session: Landmarks) -> Any:
    if not isinstance(value, Place):
        return value
    known = list(range(session.head + 1)) if value.of == "entry" else session.landmarks(value.of)
    if known and value.n % 16 != 15:
        return known[value.n % len(known)]
    return "nobody" if value.of == "call" else value.n % (session.head + 3)


def places(of: str) -> SearchStrategy[Place]:
    return st.builds(Place, st.just(of), st.integers(0, 200))


def appends() -> SearchStrategy[Step]:
    return _step("append", message=spoken(), key=_keys())


def extends() -> SearchStrategy[Step]:
    return _step("extend", messages=st.lists(spoken(), max_size=3) | conversations(2), key=_keys())


def notes() -> SearchStrategy[Step]:
    return _step("note", data=json_objects(2), kind=st.sampled_from(["note", "odd | kind"]), key=_keys())


def compactions() -> SearchStrategy[Step]:
    visible = st.none() | places("visible")
    summary = st.sampled_from(["summary", "in short", "\ud800"])
    return st.one_of(
        _step("compact", summary=summary, since=visible, upto=visible, key=_keys()),
        _step("compact", summary=summary, since=visible, keep_turns=st.integers(-1, 3)),
    )


def replacements() -> SearchStrategy[Step]:
    visible = places("visible")
    return _step("replace", messages=st.lists(spoken(), max_size=3), since=visible, upto=visible, key=_keys())


def expansions() -> SearchStrategy[Step]:
    return _step("expand", seq=places("fold"), key=_keys())


def rewinds() -> SearchStrategy[Step]:
    rewind = _step("rewind", to=places("entry"), state=st.booleans(), key=_keys())
    return rewind | _step("clear", key=_keys())


def states() -> SearchStrategy[Step]:
    """Names that come back, values small and large, and now and then a name that is set and removed at once."""
    values = st.dictionaries(st.sampled_from("abc"), json_values(3) | st.just("x" * 700), max_size=3)
    remove = st.lists(st.sampled_from("abcdefgh"), max_size=2)
    return _step("set_state", values=values, remove=remove, key=_keys())


def goals() -> SearchStrategy[Step]:
    text = st.none() | st.sampled_from(["somehow", "\ud800"])
    return _step("set_goal", objective=st.sampled_from(["win", "lose"]), summary=text, key=_keys()) | _step(
        "complete_goal", recap=text, key=_keys()
    )


def tool_steps() -> SearchStrategy[Step]:
    return _step("start_call", call_id=places("call"), key=_keys()) | _step("repair", key=_keys())


@cache
def steps() -> SearchStrategy[Step]:
    """Any one write."""
    return st.one_of(
        appends(),
        extends(),
        notes(),
        compactions(),
        replacements(),
        expansions(),
        rewinds(),
        states(),
        goals(),
        tool_steps(),
    )


def histories(max_size: int = 25) -> SearchStrategy[list[Step]]:
    """A session's life, to be applied step by step; steps that make no sense where they stand are refused."""
    return st.lists(steps(), max_size=max_size)


def _keys() -> SearchStrategy[str | None]:
    return st.none() | st.none() | st.none() | st.sampled_from(KEYS)


def _step(verb: str, **options: SearchStrategy[Any]) -> SearchStrategy[Step]:
    make: Callable[[dict[str, Any]], Step] = lambda drawn: Step(verb, drawn)  # noqa: E731
    return st.fixed_dictionaries(options).map(make)
