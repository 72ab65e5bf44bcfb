"""What a backend keeps of a memory, and what it is asked to do with it.

A memory is a tree of its own, named by a digest of its namespace and project. Within it a *scope* is the lasting memory
(the empty name) or the working memory of one session, or of one agent within a session. A *deed* is thinking that runs
inside a transaction: it reads a `Shelf` and returns what is to be written and an answer. It may be run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from threadline.core.digest import identity
from threadline.core.entries import stored

T = TypeVar("T")

LASTING = b""
ADDR_BYTES = 32
TOTALS = 1 << 62  # two smaller numbers, added, are still a number of 64 bits with a sign


class Place(NamedTuple):
    """Which memory: that of a project, or with None the global one, of a namespace."""

    namespace: str
    project: str | None

    @property
    def tree(self) -> bytes:
        return self.row[0]

    @property
    def row(self) -> tuple[bytes, bytes, bytes]:
        """Its tree, and both names as they are stored."""
        return _place_row(self)


@lru_cache(256)  # of a program's memories: each claim asks for it
def _place_row(place: Place) -> tuple[bytes, bytes, bytes]:
    namespace, project = stored(place.namespace), stored(place.project or "")
    return identity(b"memory", namespace, project), namespace, project


def working_scope(session: str, agent: str | None) -> bytes:
    """The working memory of a session; with an agent, that agent's own within it."""
    parts = (stored(session),) if agent is None else (stored(session), stored(agent))
    return identity(b"working", *parts)


class NodeRow(NamedTuple):
    """A node in one scope. `inputs` are addresses, one after the other; `about` is JSON."""

    scope: bytes
    addr: bytes
    type: bytes
    active: int
    created_at: int
    touched_at: int
    expires_at: int | None
    promoted_at: int | None
    session: bytes | None
    agent: bytes | None
    domain: bytes
    inputs: bytes
    about: bytes
    content: bytes


class ChainRow(NamedTuple):
    """A chain. `members` are addresses, one after the other; `about` is JSON."""

    scope: bytes
    chain: bytes
    name: bytes
    status: bytes
    created_at: int
    extended_at: int
    session: bytes | None
    agent: bytes | None
    domain: bytes
    members: bytes
    about: bytes


class WorkingRow(NamedTuple):
    """The life of one working memory. It is archived from `ended_at` on; `folded` is the turn of its last summary."""

    scope: bytes
    session: bytes
    agent: bytes | None
    started_at: int
    touched_at: int
    ended_at: int | None
    turns: int
    folded: int


class EventRow(NamedTuple):
    """Something that was done. `number` is its time in microseconds, or a little later: no two have the same."""

    number: int
    what: bytes
    session: bytes | None
    agent: bytes | None
    addrs: bytes
    detail: bytes


class Extended(NamedTuple):
    """A chain as it is now, and the members that it did not have before."""

    row: ChainRow
    added: tuple[bytes, ...]


class Dropped(NamedTuple):
    """All rows of a scope go."""

    scope: bytes


class Untold(NamedTuple):
    """All events of a session go."""

    session: bytes


Change: TypeAlias = NodeRow | ChainRow | Extended | WorkingRow | EventRow | Dropped | Untold
Row: TypeAlias = NodeRow | ChainRow | WorkingRow | EventRow


class Shelf(Protocol):
    """One memory, read inside a transaction. Rows that do not match their seal are left out of lists."""

    def node(self, scope: bytes, addr: bytes) -> NodeRow | None:
        """That node in that scope. Raises Damaged if it is not what was written."""

    def nodes_between(self, first: bytes, last: bytes, limit: int) -> list[NodeRow]:
        """The nodes whose addresses lie in a range, of all scopes, by address and scope."""

    def page(self, after: tuple[bytes, bytes], limit: int) -> list[tuple[NodeRow, bool]]:
        """Nodes of all scopes after an address and scope, in that order, each with whether it is what was written."""

    def nodes_in(self, scope: bytes, *, active: bool) -> list[NodeRow]:
        """All nodes of a scope, or the active ones, in the order of creation."""

    def origins(self) -> list[NodeRow]:
        """Lasting nodes that come from no other, and those of type root, in the order of creation."""

    def consumers(self, addr: bytes) -> list[NodeRow]:
        """The nodes of any scope that have this one among their inputs."""

    def chain(self, chain: bytes) -> ChainRow | None: ...

    def chains(self, scope: bytes | None = None) -> list[ChainRow]:
        """All chains, of all scopes or of one, in the order of creation."""

    def chains_named(self, name: bytes) -> list[ChainRow]: ...

    def chains_with(self, addr: bytes) -> list[ChainRow]:
        """The chains of all scopes that hold a node."""

    def working(self, scope: bytes) -> WorkingRow | None: ...

    def workings(self, session: bytes | None = None) -> list[WorkingRow]:
        """All working memories, or those of a session, the oldest first."""

    def events(self, before: int, limit: int) -> list[EventRow]:
        """Events before a number, the newest first."""

    def last_event(self) -> int: ...

    def holding(self, words: Sequence[str], limit: int, *, active: bool) -> list[Any]:
        """Lasting nodes that hold all of the words, by the index, the newest first: what `those` knows them by.

        With `active` only such ones; without, some may not be, which is quicker to say."""

    def those(self, found: Sequence[Any]) -> list[NodeRow]:
        """The active ones among nodes that were found."""

    def unindexed(self, limit: int) -> list[NodeRow]:
        """Active lasting nodes that the index does not hold yet."""


Deed: TypeAlias = Callable[[Shelf], tuple[Sequence[Change], T]]


def split_addrs(joined: bytes) -> list[bytes]:
    return [joined[i : i + ADDR_BYTES] for i in range(0, len(joined), ADDR_BYTES)]


def weight(mark: bytes) -> int:
    """What a node counts for, by its seal, in the total of a memory: one that is missing, or is an older version of
    itself, makes another total."""
    return int.from_bytes(mark, "big") % TOTALS


def total_of(marks: Iterable[bytes]) -> int:
    return sum(map(weight, marks)) % TOTALS
