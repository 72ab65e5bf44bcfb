"""A memory's shelf on any engine that speaks SQL: rows read and checked, and changes as statements by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from threadline.core.digest import seal
from threadline.core.entries import text
from threadline.errors import Damaged
from threadline.memory.rows import (
    TOTALS,
    ChainRow,
    Change,
    Dropped,
    EventRow,
    Extended,
    NodeRow,
    Place,
    Untold,
    WorkingRow,
    split_addrs,
    total_of,
    weight,
)
from threadline.memory.words import words_of

Rows = TypeVar("Rows", NodeRow, ChainRow, WorkingRow, EventRow)
Select: TypeAlias = Callable[[str, tuple[Any, ...]], list[Any]]
Statement: TypeAlias = tuple[str, tuple[Any, ...]]

DROPS = ("memory_drop_nodes", "memory_drop_inputs", "memory_drop_members", "memory_drop_chains", "memory_drop_working")


class SqlShelf:
    """See `Shelf` for what each method promises. `realm` is how the engine's tables name the namespace; `asked` gives
    words as the engine's index is asked for them, `listed` what it found as a value to bind; `lags` says whether that
    index may be behind."""

    def __init__(
        self,
        select: Select,
        place: Place,
        realm: bytes,
        asked: Callable[[bytes, Sequence[str]], str],
        listed: Callable[[Sequence[Any]], Any],
        *,
        lags: bool,
    ) -> None:
        self._select = select
        self.tree = place.tree
        self.realm = realm
        self._asked = asked
        self._listed = listed
        self._lags = lags
        self._marks: dict[tuple[bytes, bytes], bytes | None] = {}  # the seals of nodes; None: it is not there
        self.last = 0  # the last event that was seen: where there is one, the memory has begun

    def node(self, scope: bytes, addr: bytes) -> NodeRow | None:
        found = self._select("memory_node", (self.tree, addr, scope))
        if not found:
            self._marks[scope, addr] = None
            return None
        return self._whole(found, addr)[0]

    def nodes_between(self, first: bytes, last: bytes, limit: int) -> list[NodeRow]:
        found = self._select("memory_nodes_between", (self.tree, first, last, limit))
        return self._whole(found, found[0][1]) if found else []

    def _whole(self, found: list[Any], addr: bytes) -> list[NodeRow]:
        """What was asked for by its address. Raises Damaged where none of it is sound."""
        rows = list(self._sound(NodeRow, found))
        if not rows:
            raise Damaged(None, None, f"node {addr.hex()[:12]} does not match its seal")
        return rows

    def page(self, after: tuple[bytes, bytes], limit: int) -> list[tuple[NodeRow, bool]]:
        found = [(NodeRow._make(row[:-1]), row[-1]) for row in self._select("memory_page", (self.tree, *after, limit))]
        return [(row, seal(self.tree, *row) == mark) for row, mark in found]

    def nodes_in(self, scope: bytes, *, active: bool) -> list[NodeRow]:
        return (
            self._rows(NodeRow, "memory_nodes", scope, 1) if active else self._rows(NodeRow, "memory_all_nodes", scope)
        )

    def origins(self) -> list[NodeRow]:
        return self._rows(NodeRow, "memory_origins")

    def consumers(self, addr: bytes) -> list[NodeRow]:
        return self._rows(NodeRow, "memory_consumers", addr)

    def chain(self, chain: bytes) -> ChainRow | None:
        return next(iter(self._rows(ChainRow, "memory_chain", chain)), None)

    def chains(self, scope: bytes | None = None) -> list[ChainRow]:
        found = self._rows(ChainRow, "memory_chains")
        return found if scope is None else [row for row in found if row.scope == scope]

    def chains_named(self, name: bytes) -> list[ChainRow]:
        return self._rows(ChainRow, "memory_chains_named", name)

    def chains_with(self, addr: bytes) -> list[ChainRow]:
        return self._rows(ChainRow, "memory_chains_with", addr)

    def working(self, scope: bytes) -> WorkingRow | None:
        return next(iter(self._rows(WorkingRow, "memory_working", scope)), None)

    def workings(self, session: bytes | None = None) -> list[WorkingRow]:
        if session is None:
            return self._rows(WorkingRow, "memory_workings")
        return self._rows(WorkingRow, "memory_workings_of", self.realm, session)

    def events(self, before: int, limit: int) -> list[EventRow]:
        return self._rows(EventRow, "memory_events", before, limit)

    def last_event(self) -> int:
        ((self.last,),) = self._select("memory_last_event", (self.tree,))
        return self.last

    def holding(self, words: Sequence[str], limit: int, *, active: bool) -> list[Any]:
        name = "memory_holding_active" if active else "memory_holding"
        return [key for (key,) in self._select(name, (self.tree, self._asked(self.tree, words), limit))]

    def those(self, found: Sequence[Any]) -> list[NodeRow]:
        return self._rows(NodeRow, "memory_those", self._listed(found)) if found else []

    def unindexed(self, limit: int) -> list[NodeRow]:
        return self._rows(NodeRow, "memory_tail", limit) if self._lags else []

    def _rows(self, kind: type[Rows], name: str, *values: Any) -> list[Rows]:
        return list(self._sound(kind, self._select(name, (self.tree, *values))))

    def _sound(self, kind: type[Rows], found: list[Any]) -> Iterator[Rows]:
        """Rows that are what was written. `verify` names the others."""
        for *columns, mark in found:
            row = kind._make(columns)
            if seal(self.tree, *row) == mark:
                if isinstance(row, NodeRow):
                    self._marks[row.scope, row.addr] = mark
                yield row

    # -- while changes are written ---------------------------------------------------------------------

    def replaced(self, row: NodeRow, mark: bytes) -> bytes | None:
        """The seal of the row that this one takes the place of, or None for a new one."""
        key = (row.scope, row.addr)
        if key not in self._marks:
            self.node(*key)
        before, self._marks[key] = self._marks[key], mark
        return before

    def dropping(self, scope: bytes) -> Iterator[Statement]:
        """All rows of a scope go."""
        yield from drops(self._select, self.tree, scope)
        self._marks |= dict.fromkeys([key for key in self._marks if key[0] == scope])


def writes(
    shelf: SqlShelf, changes: Iterable[Change], indexed: Callable[[NodeRow], tuple[Any, ...]]
) -> Iterator[Statement]:
    """Changes as statements. `indexed` gives what else the engine keeps with a node, to find it by its words."""
    tree, realm = shelf.tree, shelf.realm
    nodes, total = 0, 0
    for change in changes:
        match change:
            case NodeRow():
                mark = seal(tree, *change)
                before = shelf.replaced(change, mark)
                nodes += before is None
                total += weight(mark) - (0 if before is None else weight(before))
                yield "memory_put_node", (tree, *change, mark, *indexed(change))
                for addr in split_addrs(change.inputs):
                    yield "memory_put_input", (tree, change.scope, change.addr, addr)
            case EventRow():
                yield "memory_put_event", (tree, *change, seal(tree, *change))
            case WorkingRow():
                yield "memory_put_working", (tree, realm, *change, seal(tree, *change))
            case Extended(row, added):
                yield "memory_put_chain", (tree, *row, seal(tree, *row))
                for addr in added:
                    yield "memory_put_member", (tree, row.chain, addr)
            case Dropped(scope):
                yield from shelf.dropping(scope)
            case Untold(session):
                yield "memory_untell", (tree, session)
    if nodes or total:
        yield "memory_count", (nodes, total % TOTALS, tree)


def drops(select: Select, tree: bytes, scope: bytes) -> Iterator[Statement]:
    """All rows of a scope go."""
    marks = [mark for (mark,) in select("memory_marks", (tree, scope))]
    for name in DROPS:
        yield name, (tree, scope)
    if marks:
        yield "memory_count", (-len(marks), -total_of(marks) % TOTALS, tree)


def node_words(domain: bytes, content: bytes) -> list[str]:
    """What recall finds a node by."""
    return words_of(f"{text(domain)} {text(content)}")
