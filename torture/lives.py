"""Random lives of a session, in memory: whatever was done to the log, every context is legal for its provider and
within its budget, and the fold is what a model says that shares no code with it.

The dice choose steps that make sense where they stand, and now and then some that do not; messages are what providers,
importers and crashes leave behind. No store is involved: these are proofs of core/, of the contexts and of the
formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from threadline import BudgetTooSmall, Message, Text, ThreadlineError, ToolCall, formats
from threadline.context import Context, Wish, build
from threadline.core.audit import Audit
from threadline.core.calls import walk
from threadline.core.compaction import Seen, seen
from threadline.core.fold import State, draft_of, nodes, start, state_at
from threadline.core.reading import read_view
from threadline.core.redaction import echoes, redacted
from threadline.core.view import spans_at
from threadline.core.window import read_source
from threadline.messages import Media, Other, Part, Reasoning, ToolResult
from threadline.testing.memory import SALT, MemoryLog
from threadline.testing.model import Model
from torture.runner import Trial, Unit

PROVIDERS = ("anthropic", "openai", "responses", "gemini")
CALL_IDS = ("a", "b", "c", "\ud800")  # few, so that ids come back, answers go astray and duplicates happen
ROLES = ("user", "assistant", "tool", "system", "developer", "critic")
LONGEST = 10


def trials(unit: Unit, folder: Path) -> Iterator[Trial]:
    for n in range(unit.count):
        rng = Random(f"{unit.dice('lives')} {n}")
        life = random_life(rng)
        try:
            wrong = fold_differs(life, rng) or redaction_tells(life, rng) or context_fails(life, rng)
        except AssertionError as error:
            wrong = f"an assertion: {error}"
        yield Trial(wrong)


# -- a life --------------------------------------------------------------------------------------------


def count(message: Message) -> int:
    return 1 + len(message.text)


class Life(MemoryLog):
    """A log whose contexts are read at any of its moments, and its model beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.model: Model | None = Model(count)

    def step(self, verb: str, **options: Any) -> None:
        """What makes no sense where it stands is refused, by both."""
        try:
            self.do(verb, **options)
        except ThreadlineError as error:
            if self.model is not None:
                _refuses(self.model, verb, options, error)
            return
        if self.model is not None:
            getattr(self.model, verb)(**options)

    def landmarks(self, of: str) -> list[Any]:
        if of == "visible":
            return [entry.seq for entry in self.visible(self.head)]
        if of == "fold":
            return [row.seq for row in self.kept if row is not None and row.kind in ("compaction", "replacement")]
        return [part.id for row in self.visible(self.head) for part in row.message.calls]

    def visible(self, at: int) -> list[Seen]:
        return seen(self, spans_at(self, at))

    def context(self, at: int, **wish: Any) -> Context:
        asked = Wish(**wish)
        state: State = self.states[at]
        return build(read_source(self, state, asked.limits(False), system=None), asked, self._pen.tokens)


def _refuses(model: Model, verb: str, options: dict[str, Any], error: ThreadlineError) -> None:
    before = model.head
    with suppress(ThreadlineError):
        getattr(model, verb)(**options)
        raise AssertionError(f"{verb} {options} was refused ({error!r}), and the model did it")
    assert model.head == before


def random_life(rng: Random) -> Life:
    life = Life()
    for _ in range(rng.randint(1, LONGEST)):
        verb = rng.choices(list(STEPS), weights=[weight for weight, _ in STEPS.values()])[0]
        options = STEPS[verb][1](rng, life)
        if options is not None:
            life.step(verb, **options)
    return life


def place(rng: Random, life: Life, of: str) -> int:
    """An entry of that sort, or now and then any, within the log or beyond."""
    known = life.landmarks(of) if rng.random() < 0.95 else []
    return rng.choice(known) if known else rng.randint(0, life.head + 2)


def _said(rng: Random, life: Life) -> dict[str, Any]:
    return {"message": message(rng)}


def _several(rng: Random, life: Life) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.4:
        return {"messages": conversation(rng)}
    return {"messages": native(rng) if kind < 0.7 else [message(rng) for _ in range(rng.randint(0, 3))]}


def _compaction(rng: Random, life: Life) -> dict[str, Any]:
    summary = rng.choice(("summary", "in short", "\ud800"))
    since = place(rng, life, "visible") if rng.random() < 0.3 else None
    if rng.random() < 0.5:
        return {"summary": summary, "since": since, "keep_turns": rng.randint(-1, 2)}
    return {"summary": summary, "since": since, "upto": place(rng, life, "visible") if rng.random() < 0.8 else None}


def _replacement(rng: Random, life: Life) -> dict[str, Any]:
    said = [message(rng) for _ in range(rng.randint(0, 3))]
    seqs = place(rng, life, "visible"), place(rng, life, "visible")
    since, upto = sorted(seqs) if rng.random() < 0.7 else seqs
    return {"messages": said, "since": since, "upto": upto}


def _state(rng: Random, life: Life) -> dict[str, Any]:
    values = {rng.choice("abc"): rng.choice((1, None, "x" * 700, [1.5, {}])) for _ in range(rng.randint(0, 2))}
    return {"values": values, "remove": rng.choices("abcdefgh", k=rng.choice((0, 0, 1)))}


def _rewind(rng: Random, life: Life) -> dict[str, Any]:
    return {"to": rng.randint(0, life.head + (rng.random() < 0.05)), "state": rng.random() < 0.5}


def _started(rng: Random, life: Life) -> dict[str, Any] | None:
    """A call cannot be told from its twin of the same id in the same message: leave such out."""
    assert life.model is not None
    latest = {waiting.call.id: waiting.seq for waiting in life.model.pending()}
    calls = [call.id for seq in set(latest.values()) for call in (life.model.line(seq).message or message(rng)).calls]
    known = [id for id in latest if calls.count(id) == 1]
    return {"call_id": rng.choice(known)} if known else None


STEPS: dict[str, tuple[int, Callable[[Random, Life], dict[str, Any] | None]]] = {
    "append": (8, _said),
    "extend": (5, _several),
    "compact": (3, _compaction),
    "replace": (2, _replacement),
    "expand": (1, lambda rng, life: {"seq": place(rng, life, "fold")}),
    "rewind": (2, _rewind),
    "clear": (1, lambda rng, life: {}),
    "note": (1, lambda rng, life: {"data": {"n": 1}, "kind": rng.choice(("note", "odd | kind"))}),
    "set_state": (1, _state),
    "set_goal": (1, lambda rng, life: {"objective": rng.choice(("win", "lose"))}),
    "complete_goal": (1, lambda rng, life: {"recap": rng.choice((None, "so"))}),
    "start_call": (1, _started),
    "repair": (1, lambda rng, life: {}),
}


# -- what is said --------------------------------------------------------------------------------------

TEXTS = ("hi", "", "  ", "done \n", "[2026-01-02 03:04 UTC] so", "[image: a.png]", "\0\ud800", "words " * 9)
EXTRAS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"provider": "anthropic"},
    {"provider": "openai", "arguments": "text"},
    {"provider": "openai", "kind": "custom"},
    {"provider": "responses"},
    {"provider": "gemini", "thoughtSignature": "sig"},
    {"cache_control": {"type": "ephemeral"}},
)
METAS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"hidden": True},
    {"proactive": True},
    {"repair": "crash"},
    {"anthropic": {"content": "string"}},
)


def message(rng: Random) -> Message:
    """One that a provider would take, or one that none would."""
    kind = rng.random()
    if kind < 0.25:
        return Message.user(rng.choice(TEXTS))
    if kind < 0.5:
        calls = [ToolCall(rng.choice(CALL_IDS), "tool") for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        return Message.assistant(rng.choice(TEXTS), *calls)
    if kind < 0.65:
        return Message.tool(rng.choice(CALL_IDS), rng.choice(TEXTS), error=rng.random() < 0.2)
    parts = tuple(part(rng) for _ in range(rng.randint(0, 4)))
    return Message(rng.choice(ROLES), parts, dict(rng.choice(METAS)))


def part(rng: Random) -> Part:
    said, extra = rng.choice(TEXTS), dict(rng.choice(EXTRAS))
    match rng.randrange(6):
        case 0:
            return Text(said, extra)
        case 1:
            return Reasoning(said, rng.choice((None, "sig")), rng.choice((None, "enc")), extra)
        case 2:
            name, args = rng.choice(("tool", "Tool 2", "")), rng.choice(({}, {"a": 1}, "{oops"))
            return ToolCall(rng.choice(CALL_IDS), name, args, extra)
        case 3:
            output = said if rng.random() < 0.6 else tuple(Text(rng.choice(TEXTS)) for _ in range(rng.randint(0, 2)))
            return ToolResult(rng.choice(CALL_IDS), output, rng.random() < 0.3)
        case 4:
            return Media(rng.choice(("image/png", "audio/wav", "")), rng.choice((None, b"x")), "/tmp/a.png")
    return Other({"type": "server_tool_use", "id": "s"}, extra)


def conversation(rng: Random) -> list[Message]:
    """Turns with rounds of parallel calls, whose results are shuffled, lost, repeated or invented."""
    out: list[Message] = []
    for turn in range(rng.randint(1, 2)):
        out.append(Message.user(f"turn {turn}"))
        ids = rng.choices([*CALL_IDS, f"call-{turn}"], k=rng.randint(0, 3))
        out.append(Message.assistant(None, *(ToolCall(id, "tool", {"turn": turn}) for id in ids)))
        answered = rng.sample(ids, rng.randint(0, len(ids)))
        out += (Message.tool(id, "done") for id in [*answered, *rng.choices(CALL_IDS, k=rng.choice((0, 0, 1)))])
    return out


def native(rng: Random) -> list[Message]:
    """A piece of what a provider's conversation was read into: whole, or torn anywhere."""
    format = rng.choice(PROVIDERS)
    legal: list[Message] = []
    for turn in range(rng.randint(1, 3)):
        legal.append(Message.user(f"ask {turn}"))
        ids = [f"{turn}{i}" for i in range(rng.randint(0, 2))]
        if ids:
            legal.append(Message.assistant("let me see", *(ToolCall(id, "look", {"n": turn}) for id in ids)))
            legal += (Message.tool(id, "seen") for id in ids)
        legal.append(Message.assistant("so it is"))
    read = formats.read(formats.write(legal, format), format)
    first = rng.randint(0, len(read) - 1)
    return read[first : rng.randint(first, len(read))]


# -- the fold ------------------------------------------------------------------------------------------


def fold_differs(life: Life, rng: Random) -> str | None:
    """Where the fold and the model disagree, at the head and at another moment; or the fold with itself, done anew."""
    model = life.model
    assert model is not None
    if life.head != model.head:
        return f"the head is {life.head}, the model's {model.head}"
    for at in {life.head, rng.randint(0, life.head)}:
        folded, said = _folded(life, at), _said_by(model, at)
        if folded != said:
            return f"at {at} of {life.head}: the fold says {folded}, the model {said}"
        if state_at(life, at, SALT) != life.states[at]:
            return f"at {at}: the state looked up is not the state while folding"
    anew = MemoryLog()
    anew.add([draft_of(row) for row in life.rows(1, life.head)])
    return None if anew.kept == life.kept else "the log folded anew gives other rows"


def _folded(life: Life, at: int) -> tuple[Any, ...]:
    state = life.states[at]
    seqs = [entry.seq for entry in read_view(life, spans_at(life, at), at, "s").entries]
    calls = [(call.seq, call.id, call.started) for call in walk(state.open, nodes(life))][::-1]
    return seqs, state.messages, state.tokens, state.asked, calls, state.pending


def _said_by(model: Model, at: int) -> tuple[Any, ...]:
    shown, calls = model.visible(at), [(w.seq, w.call.id, w.started) for w in model.pending(at)]
    return [line.seq for line in shown], len(shown), model.tokens(at), model.unanswered(at), calls, len(calls)


# -- redaction -----------------------------------------------------------------------------------------


def redaction_tells(life: Life, rng: Random) -> str | None:
    """What changed, and must not, when an entry lost its content: in some lives one does, and goes on without it."""
    if not life.head or rng.random() < 0.7:
        return None
    moments = sorted({life.head, rng.randint(0, life.head)})
    before = [_folded(life, at) for at in moments]
    original = life.row(rng.randint(1, life.head))
    buried = redacted(life, original, [], "a secret", original.at)
    for row in [*buried, *echoes(life, life.head, original, buried[0])]:
        life.kept[row.seq - 1] = row
    if found := list(Audit(life, start(SALT), life.head)):
        return f"entry {original.seq} ({original.kind}) was redacted, and the audit finds {found[:3]}"
    after = [_folded(life, at) for at in moments]
    return None if before == after else f"entry {original.seq} was redacted, and the fold says {after}, not {before}"


# -- contexts ------------------------------------------------------------------------------------------


def context_fails(life: Life, rng: Random) -> str | None:
    """What is wrong with the context of some moment, mostly now, for some provider."""
    at = life.head if rng.random() < 0.6 else rng.randint(0, life.head)
    wish = {
        "format": rng.choice(PROVIDERS),
        "max_tokens": rng.choice((None, rng.randint(1, 60))),
        "max_messages": rng.choice((None, None, rng.randint(1, 6))),
        "timestamps": rng.random() < 0.3,
        "keep_outputs": rng.choice((None, None, 0, 1, 2)),
    }
    wrong = illegal(life, at, life.visible(at), wish)
    return f"at {at} of {life.head}, {wish}: {wrong}" if wrong else None


def illegal(life: Any, at: int, visible: list[Seen], wish: dict[str, Any]) -> str | None:
    """Why a provider or a person would complain about this context."""
    try:
        context = life.context(at, **wish)
    except BudgetTooSmall as error:
        wish = wish | {"max_tokens": error.needed}
        context = life.context(at, **wish)
        if error.needed > 1 and _fits(life, at, wish | {"max_tokens": error.needed - 1}):
            return f"{error.needed} tokens are said to be needed, and one less would do"
    if found := formats.problems(context.messages, wish["format"]):
        return f"not legal: {found}"
    if wish["max_tokens"] is not None and context.tokens > wish["max_tokens"]:
        return f"{context.tokens} tokens, above the budget"
    if at == life.head and life.context(at, **wish) != context:
        return "the same question again has another answer"
    return _loses_words(visible, context) or _loses_the_newest_turn(visible, context)


def _fits(life: Any, at: int, wish: dict[str, Any]) -> bool:
    try:
        life.context(at, **wish)
    except BudgetTooSmall:
        return False
    return True


def _loses_words(visible: list[Seen], context: Context) -> str | None:
    """Every word that a user said in the entries of this context is in it."""
    sent = repr(context.messages)
    for entry in visible:
        if entry.seq in context.seqs and entry.message.role == "user":
            for said in entry.message.parts:
                if type(said) is Text and said.text.strip() and repr(said.text)[1:-1] not in sent:
                    return f"the user's {said.text!r} of entry {entry.seq} is not in it"
    return None


def _loses_the_newest_turn(visible: list[Seen], context: Context) -> str | None:
    asked = [entry.seq for entry in visible if entry.message.role == "user" and _speaks(entry.message)]
    return f"the newest turn, {asked[-1]}, is not in it" if asked and asked[-1] not in context.seqs else None


def _speaks(message: Message) -> bool:
    said = [part for part in message.parts if not (isinstance(part, Text | Reasoning) and not part.text.strip())]
    return "compaction" not in message.meta and any(type(part) is not ToolResult for part in said)
