"""A memory as another store holds it: read in portions, and joined with what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from threadline.memory.nodes import about_bytes, about_of, joined
from threadline.memory.rows import ChainRow, Change, EventRow, Extended, NodeRow, Shelf, WorkingRow, split_addrs

START = (b"", b"")


class Portion(NamedTuple):
    """Some nodes, and the addresses of those that are damaged; where the next portion begins, or None at the end."""

    nodes: list[NodeRow]
    damaged: list[bytes]
    after: tuple[bytes, bytes] | None


class Rest(NamedTuple):
    """All of a memory but its nodes."""

    chains: list[ChainRow]
    workings: list[WorkingRow]
    events: list[EventRow]


NOTHING_ELSE = Rest([], [], [])


def portion(after: tuple[bytes, bytes], limit: int, shelf: Shelf) -> tuple[list[Change], Portion]:
    found = shelf.page(after, limit)
    sound = [row for row, whole in found if whole]
    damaged = [row.addr for row, whole in found if not whole]
    last = found[-1][0] if found else None
    return [], Portion(sound, damaged, None if last is None else (last.addr, last.scope))


def rest(before: int, limit: int, shelf: Shelf) -> tuple[list[Change], Rest]:
    """Chains and working memories, and events before a number: pages of them, the newest first."""
    return [], Rest(shelf.chains(), shelf.workings(), shelf.events(before, limit))


def adopt(nodes: Sequence[NodeRow], others: Rest, shelf: Shelf) -> tuple[list[Change], int]:
    """Put in what is not there, and add to what is; how many nodes were new or changed."""
    changes: list[Change] = []
    for row in nodes:
        known = shelf.node(row.scope, row.addr)
        if known != (wanted := row if known is None else _newer(known, row)):
            changes.append(wanted)
    count = len(changes)
    changes += (row for row in others.workings if _is_news(shelf.working(row.scope), row))
    for chain in others.chains:
        there = shelf.chain(chain.chain)
        if there != (longer := chain if there is None else _longer(there, chain)):
            changes.append(Extended(longer, tuple(split_addrs(longer.members))))
    changes += others.events  # those that are there are left as they are
    return changes, count


def _newer(known: NodeRow, row: NodeRow) -> NodeRow:
    """All that is said of both; whether it stands is what the one that was touched last says."""
    both = joined(known, row, again=False)
    about = about_of(both)
    about.reinforced = max(about_of(known).reinforced, about_of(row).reinforced)
    last = known if known.touched_at > row.touched_at else row
    return both._replace(about=about_bytes(about), active=last.active, promoted_at=last.promoted_at)


def _longer(known: ChainRow, row: ChainRow) -> ChainRow:
    last = known if known.extended_at > row.extended_at else row
    here = split_addrs(known.members)
    return last._replace(members=known.members + b"".join(a for a in split_addrs(row.members) if a not in here))


def _is_news(known: WorkingRow | None, row: WorkingRow) -> bool:
    return known is None or (known != row and known.touched_at <= row.touched_at)
