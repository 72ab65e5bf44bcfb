"""What is compared: our search, and the obvious ways to ask SQLite."""

from __future__ import annotations

import re
from collections.abc import Callable

import apsw

from bench.eval.corpus import Corpus
from threadline import Message, Store, Text

DEPTH = 10  # answers that are looked at

Ranked = list[tuple[int, int]]  # (session, turn), best first; sessions from 0, turns from 1
Ask = Callable[[str], Ranked]


class Ours:
    """`store.search`, on a fresh store."""

    def __init__(self, corpus: Corpus, store: Store) -> None:
        self._store = store
        self._numbers: dict[str, int] = {}
        for number, conversation in enumerate(corpus.sessions):
            session = store.new()
            session.extend([Message(turn.role, (Text(turn.text),)) for turn in conversation.turns])
            self._numbers[session.info.id] = number
        store.index()

    def turns(self, question: str) -> Ranked:
        hits = self._store.search(question, limit=DEPTH, around=0)
        return [(self._numbers[hit.session.id], hit.seq) for hit in hits]

    def sessions(self, question: str) -> Ranked:
        hits = self._store.search(question, limit=DEPTH, around=0, group=True)
        return [(self._numbers[hit.session.id], hit.seq) for hit in hits]


class Plain:
    """FTS5 with its own stemmer: all words of the question with OR, by bm25. With `documents`, whole sessions are in an
    index of their own, and the ranks of a session and of its best turn are put together."""

    def __init__(self, corpus: Corpus, *, documents: bool) -> None:
        self._documents = documents
        self._connection = apsw.Connection(":memory:")
        for name in ("turn", "whole"):
            self._connection.execute(f"CREATE VIRTUAL TABLE {name} USING fts5 (text, tokenize = 'porter unicode61')")
        self._places: list[tuple[int, int]] = []
        for number, conversation in enumerate(corpus.sessions):
            for turn, said in enumerate(conversation.turns, 1):
                self._places.append((number, turn))
                row = (len(self._places), said.text)
                self._connection.execute("INSERT INTO turn (rowid, text) VALUES (?, ?)", row)
            text = "\n".join(turn.text for turn in conversation.turns)
            self._connection.execute("INSERT INTO whole (rowid, text) VALUES (?, ?)", (number + 1, text))

    def turns(self, question: str) -> Ranked:
        return [self._places[row - 1] for row, _ in self._matching("turn", question, DEPTH)]

    def sessions(self, question: str) -> Ranked:
        scores: dict[int, float] = {}
        best: dict[int, int] = {}
        for row, rank in self._matching("turn", question, 500):
            session, turn = self._places[row - 1]
            if session not in best:
                best[session], scores[session] = turn, -rank
        if self._documents:
            for row, rank in self._matching("whole", question, 500):
                scores[row - 1] = scores.get(row - 1, 0.0) - rank
        ranked = sorted(scores, key=lambda session: -scores[session])[:DEPTH]
        return [(session, best.get(session, 0)) for session in ranked]

    def _matching(self, table: str, question: str, limit: int) -> list[tuple[int, float]]:
        match = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        query = f"SELECT rowid, rank FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?"
        return self._connection.execute(query, (match, limit)).fetchall() if match else []
