"""Names that a provider accepts: ids of calls and names of tools.

What is valid stays as it is. What is not gets a valid name that follows from it alone, unless another already has
that name; the same always gets the same within one list of messages, and no two get the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

from threadline.messages import Message, ToolCall, ToolResult


class Rule(NamedTuple):
    """What a provider accepts as a name: `valid` matches it whole, `wrong` the characters to replace."""

    valid: re.Pattern[str]
    wrong: re.Pattern[str]
    limit: int
    stem: str  # what a name begins with that has nothing valid of its own to begin with

    def near(self, name: str) -> str:
        """A valid name, as near to this one as can be; different names may come out the same."""
        near = self.wrong.sub("_", name)[: self.limit]
        return near if self.valid.fullmatch(near) else f"{self.stem}_{near}"[: self.limit]

    def apart(self, name: str, turn: int) -> str:
        """A valid name that no other name gets."""
        digest = blake2b(f"{turn}:{name}".encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        return f"{self.near(name)[: self.limit - 13]}_{digest}"


@cache
def word(limit: int, stem: str) -> Rule:
    """Letters, digits, underscores and dashes, up to a length."""
    return Rule(re.compile(rf"[a-zA-Z0-9_-]{{1,{limit}}}"), re.compile(r"[^a-zA-Z0-9_-]"), limit, stem)


class Names:
    """The names in one list of messages, as its target reads them.

    `once`: the calls that want an id of their own, so that one that comes back is a new name."""

    def __init__(self, ids: Rule, tools: Rule, *, once: Callable[[ToolCall], bool] = lambda call: False) -> None:
        self._ids = _Book(ids, digest=True)
        self._tools = _Book(tools, digest=False)
        self._once = once
        self._turns: dict[str, int] = {}
        self.called: dict[str, str] = {}  # the tool of each call so far

    def meet(self, call: ToolCall) -> None:
        """Take notice of a call: results from here on answer this one."""
        if self._once(call):
            self._turns[call.id] = self._turns.get(call.id, -1) + 1
        self.called[call.id] = call.name

    def id(self, given: str) -> str:
        return self._ids.name(given, self._turns.get(given, 0))

    def tool(self, given: str) -> str:
        return self._tools.name(given, 0)

    def keeps(self, part: ToolCall | ToolResult) -> bool:
        """Whether the names in a part stay as they are."""
        if type(part) is ToolCall:
            return self.id(part.id) == part.id and self.tool(part.name) == part.name
        assert type(part) is ToolResult
        return self.id(part.call_id) == part.call_id


def unnamed(tool: str, turn: int) -> str:
    """An id for a call that has none: its tool, and which of its calls in this turn it is."""
    return f"{tool}-{turn}"


def unnamed_elsewhere(provider: str) -> Callable[[ToolCall], bool]:
    """Whether a call has an id only because we made one up, and would be the same again in the next turn."""

    def test(call: ToolCall) -> bool:
        tool, _, turn = call.id.rpartition("-")
        return call.extra.get("provider", provider) != provider and tool == call.name and turn.isdigit()

    return test


class _Book:
    """Given names and what they became, each the only one of its kind."""

    def __init__(self, rule: Rule, *, digest: bool) -> None:
        self._rule = rule
        self._digest = digest
        self._names: dict[tuple[str, int], str] = {}
        self._taken: set[str] = set()

    def name(self, given: str, turn: int) -> str:
        known = self._names.get((given, turn))
        if known is None:
            known = self._names[given, turn] = self._free(given, turn)
            self._taken.add(known)
        return known

    def _free(self, given: str, turn: int) -> str:
        rule = self._rule
        if turn == 0 and given not in self._taken and rule.valid.fullmatch(given):
            return given
        name = rule.apart(given, turn) if self._digest else rule.near(given)
        while name in self._taken:
            turn += 1
            name = rule.apart(given, turn)
        return name


class AsGiven(Names):
    """Names that stay as they are: to see what a message alone gives."""

    def __init__(self) -> None:
        self.called = {}

    def meet(self, call: ToolCall) -> None:
        self.called[call.id] = call.name

    def id(self, given: str) -> str:
        return given

    def tool(self, given: str) -> str:
        return given


def keeps(names: Names, message: Message) -> bool:
    """Whether every name in a message stays as it is."""
    return all(names.keeps(part) for part in message.parts if type(part) is ToolCall or type(part) is ToolResult)
