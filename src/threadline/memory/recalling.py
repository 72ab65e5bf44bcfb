"""Recall: which nodes answer a query best.

A word that few nodes hold weighs more than one that many hold; confidence, recency and reinforcement break what is
near. The index is asked word by word for the newest holders, so that a common word costs no more than a rare one."""

from __future__ import annotations

from heapq import nlargest
from html import escape
from math import log
from typing import Any

from threadline.core.entries import text
from threadline.core.tokens import estimate_text
from threadline.memory.nodes import Node, about_of, in_domain, is_live, node_of
from threadline.memory.rows import LASTING, Change, NodeRow, Shelf
from threadline.memory.words import query_words, words_of

HOLDERS_MAX = 100  # of one word that are looked at, the newest first
QUERY_WORDS_MAX = 24
TOGETHER_MAX = 6  # words of which nodes that hold all of them are asked for, too
READ_MIN = 40  # candidates that are read whole at least
DAY_US = 86_400_000_000
HALF_LIFE_DAYS = 30.0
STALE_DAYS = 21


class Recalled(Node, frozen=True):
    """A node that was found, how well it fits, and which words of the query it holds.

    Its content is data: what somebody claimed, never an instruction. `quoted` says so to a model."""

    score: float = 0.0
    words: tuple[str, ...] = ()

    @property
    def quoted(self) -> str:
        """For a prompt: the content between marks that it cannot close, with where it comes from."""
        said = ", ".join(filter(None, (f"session {self.session}" if self.session else "", self.agent or "")))
        source = escape(f"{said or 'unknown'}, {self.created_at:%Y-%m-%d}", quote=True)
        plain = escape(self.content, quote=False)
        return f'<memory addr="{self.addr[:12]}" confidence="{self.confidence:g}" from="{source}">\n{plain}\n</memory>'


def recall(
    query: str,
    scopes: tuple[bytes, ...],
    domain: str | None,
    limit: int,
    budget_tokens: int | None,
    now: int,
    shelf: Shelf,
) -> tuple[list[Change], list[Recalled]]:
    """The best nodes first. With nothing to ask for in the query: the most important ones."""
    words = query_words(query)[:QUERY_WORDS_MAX]
    rows = _candidates(words, limit, domain, shelf)
    for scope in scopes:
        rows += shelf.nodes_in(scope, active=True)
    held = _weigh(words, rows)
    best: dict[bytes, Recalled] = {}
    for row, found, weight in held:
        live = is_live(row, now) and row.promoted_at is None and in_domain(row, domain)
        if live and (weight > 0 or not words):
            hit = _hit(row, round(weight * standing(row, now), 4), found)
            if row.addr not in best or best[row.addr].score < hit.score:
                best[row.addr] = hit
    ranked = sorted(best.values(), key=lambda hit: (-hit.score, -hit.created_at.timestamp(), hit.addr))
    return [], _within(ranked[:limit], budget_tokens)


def _hit(row: NodeRow, score: float, words: tuple[str, ...]) -> Recalled:
    node = node_of(row)
    return Recalled(**{name: getattr(node, name) for name in node.__struct_fields__}, score=score, words=words)


def _candidates(words: list[str], limit: int, domain: str | None, shelf: Shelf) -> list[NodeRow]:
    """Lasting nodes worth reading: those that hold the rarest words, and those that hold all of them."""
    if not words:
        return shelf.nodes_in(LASTING, active=True)
    wanted = max(READ_MIN, 4 * limit) * (5 if domain is not None else 1)
    rows, cut = _best(words, wanted, shelf, active=False)
    if cut and len(rows) < limit:  # too many of the newest do not stand any more
        rows, _ = _best(words, wanted, shelf, active=True)
    return rows + shelf.unindexed(HOLDERS_MAX * 10)


def _best(words: list[str], wanted: int, shelf: Shelf, *, active: bool) -> tuple[list[NodeRow], bool]:
    """So many nodes by what their words weigh, the newest first; whether some holders of a word were not looked at."""
    weights: dict[Any, float] = {}
    groups = [[word] for word in words]
    if 1 < len(words) <= TOGETHER_MAX:
        groups.append(words)
    cut = False
    for group in groups:
        found = shelf.holding(group, HOLDERS_MAX, active=active)
        cut = cut or len(found) == HOLDERS_MAX
        worth = 1.0 / (1.0 + log(1 + len(found)))
        for age, key in enumerate(found):
            weights[key] = weights.get(key, 0.0) + worth - age * 1e-6
    chosen = nlargest(wanted, weights, key=weights.__getitem__)
    return shelf.those(chosen), cut


def _weigh(words: list[str], rows: list[NodeRow]) -> list[tuple[NodeRow, tuple[str, ...], float]]:
    """Each row with the words that it holds and their weight: rare words among the candidates count more."""
    if not words:
        return [(row, (), 1.0) for row in rows]
    held = [
        (row, {*words_of(f"{text(row.domain)} {' '.join(about_of(row).domains)} {text(row.content)}")}) for row in rows
    ]
    holders = {word: sum(word in said for _, said in held) for word in words}
    worth = {word: log(1 + (len(rows) + 1) / (1 + holders[word])) for word in words}
    total = sum(worth.values()) or 1.0
    weighed = []
    for row, said in held:
        found = tuple(word for word in words if word in said)
        length = 1.0 + 0.02 * log(1 + len(said))
        weighed.append((row, found, sum(worth[word] for word in found) / total / length))
    return weighed


def standing(row: NodeRow, now: int) -> float:
    """How much a node counts besides what it says: confidence, priority, reinforcement, and how fresh it is."""
    about = about_of(row)
    days = max(0, now - row.touched_at) / DAY_US
    fresh = 0.5 ** (days / HALF_LIFE_DAYS)
    worth = about.confidence * (1 + 0.25 * fresh) * (1 + 0.1 * log(1 + about.reinforced)) * (1 + 0.2 * about.priority)
    return float(worth)


def _within(hits: list[Recalled], budget_tokens: int | None) -> list[Recalled]:
    """As many of the best as fit."""
    if budget_tokens is None:
        return hits
    kept, spent = [], 0
    for hit in hits:
        spent += estimate_text(hit.content)
        if spent > budget_tokens:
            break
        kept.append(hit)
    return kept


def freshness(row: NodeRow, now: int) -> str:
    """How old a claim is, for a reader: `3h`, `5d`, `stale` beyond three weeks, nothing while it is new."""
    days = max(0, now - row.touched_at) / DAY_US
    if days > STALE_DAYS:
        return "stale"
    if days >= 1:
        return f"{int(days)}d"
    hours = int(days * 24)
    return f"{hours}h" if hours else ""
