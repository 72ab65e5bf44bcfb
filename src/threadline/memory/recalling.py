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
READ_SHARE = 40  # percent of that many are read whole
REACH_MAX = 10_000  # how far back it looks when too few of them stand
UNINDEXED_MAX = 1_000
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
    """The best nodes first. With nothing to ask for in the query: the most important ones.

    Where the newest holders of a word do not stand any more, or are of other domains, it looks further back."""
    words = query_words(query)[:QUERY_WORDS_MAX]
    working = [row for scope in scopes for row in shelf.nodes_in(scope, active=True)]
    reach = max(HOLDERS_MAX, 4 * limit)
    while True:
        lasting, cut = _candidates(words, reach, shelf)
        ranked = _ranked(words, lasting + working, domain, now)
        if len(ranked) >= limit or not cut or reach > REACH_MAX:
            return [], _within(ranked[:limit], budget_tokens)
        reach *= 10


def _ranked(words: list[str], rows: list[NodeRow], domain: str | None, now: int) -> list[Recalled]:
    best: dict[bytes, Recalled] = {}
    for row, found, weight in _weigh(words, rows):
        live = is_live(row, now) and row.promoted_at is None and in_domain(row, domain)
        if live and (weight > 0 or not words):
            hit = _hit(row, round(weight * standing(row, now), 4), found)
            if row.addr not in best or best[row.addr].score < hit.score:
                best[row.addr] = hit
    return sorted(best.values(), key=lambda hit: (-hit.score, -hit.created_at.timestamp(), hit.addr))


def _hit(row: NodeRow, score: float, words: tuple[str, ...]) -> Recalled:
    node = node_of(row)
    return Recalled(**{name: getattr(node, name) for name in node.__struct_fields__}, score=score, words=words)


def _candidates(words: list[str], reach: int, shelf: Shelf) -> tuple[list[NodeRow], bool]:
    """Lasting nodes worth reading: those that hold the rarest words, and those that hold all of them; and whether there
    may be more of them. Of each word the newest holders are asked for, so many as `reach`."""
    if not words:
        return shelf.nodes_in(LASTING, active=True), False
    weights: dict[Any, float] = {}
    cut = False
    for group in _groups(words):
        found = shelf.holding(group, reach, active=reach > HOLDERS_MAX)
        cut = cut or len(found) == reach
        worth = 1.0 / (1.0 + log(1 + len(found)))
        for age, key in enumerate(found):
            weights[key] = weights.get(key, 0.0) + worth - age * 1e-6
    wanted = reach * READ_SHARE // 100
    chosen = nlargest(wanted, weights, key=weights.__getitem__)
    return shelf.those(chosen) + shelf.unindexed(UNINDEXED_MAX), cut or len(weights) > wanted


def _groups(words: list[str]) -> list[list[str]]:
    """What the index is asked for: each word, and where they are few, all of them together."""
    together = [words] if 1 < len(words) <= TOGETHER_MAX else []
    return [[word] for word in words] + together


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
