"""Score searching: hit@1, hit@5 and MRR, by session and by turn, ours beside plain FTS5.

    python -m bench.eval [--half train|test] [--postgres URL] [--locomo FILE] [--kinds] [--json PATH]

A session is right if the answer, or a part of it, stands in it; a turn if it is one of those that hold it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from secrets import token_hex

import threadline
from bench.eval import locomo
from bench.eval.corpus import TEST, TRAIN, Corpus, Question, corpus
from bench.eval.systems import Ask, Ours, Plain, Ranked


class Score:
    """Of one system: where the first right answer stood, for each question."""

    def __init__(self) -> None:
        self.ranks: list[tuple[str, int]] = []  # kind, rank from 1; 0 where it was not found

    def add(self, kind: str, rank: int) -> None:
        self.ranks.append((kind, rank))

    def hit(self, depth: int, kind: str | None = None) -> float:
        ranks = [rank for of, rank in self.ranks if kind in (None, of)]
        return 100 * sum(1 for rank in ranks if 0 < rank <= depth) / max(1, len(ranks))

    @property
    def mrr(self) -> float:
        return sum(1 / rank for _, rank in self.ranks if rank) / max(1, len(self.ranks))

    def told(self) -> dict[str, float]:
        return {"hit@1": round(self.hit(1), 1), "hit@5": round(self.hit(5), 1), "MRR": round(self.mrr, 3)}


def rank_of(question: Question, found: Ranked, *, turns: bool) -> int:
    for rank, place in enumerate(found, 1):
        if place in question.answers if turns else place[0] in question.sessions:
            return rank
    return 0


def score(scores: dict[str, dict[str, Score]], name: str, made: Corpus, by_session: Ask, by_turn: Ask) -> None:
    levels = scores.setdefault(name, {"session": Score(), "turn": Score()})
    for question in made.questions:
        levels["session"].add(question.kind, rank_of(question, by_session(question.text), turns=False))
        if any(turn for _, turn in question.answers):
            levels["turn"].add(question.kind, rank_of(question, by_turn(question.text), turns=True))


def evaluate(corpora: list[Corpus], postgres: str | None = None) -> dict[str, dict[str, Score]]:
    scores: dict[str, dict[str, Score]] = {}
    for made in corpora:
        plain, documents = Plain(made, documents=False), Plain(made, documents=True)
        score(scores, "plain FTS5, best turn", made, plain.sessions, plain.turns)
        score(scores, "plain FTS5, turns + sessions", made, documents.sessions, documents.turns)
        with closing(threadline.open(":memory:")) as store:
            ours = Ours(made, store)
            score(scores, "threadline, SQLite", made, ours.sessions, ours.turns)
        if postgres is not None:
            with closing(threadline.open(postgres, durability="relaxed", namespace=f"eval-{token_hex(6)}")) as store:
                ours = Ours(made, store)
                score(scores, "threadline, PostgreSQL", made, ours.sessions, ours.turns)
    return scores


def table(scores: dict[str, dict[str, Score]]) -> Iterator[str]:
    yield f"{'':<32}{'session':^26}{'turn':^26}"
    yield f"{'':<32}{'hit@1':>8}{'hit@5':>8}{'MRR':>8}  {'hit@1':>8}{'hit@5':>8}{'MRR':>8}"
    for name, levels in scores.items():
        row = "  ".join(f"{it.hit(1):>8.1f}{it.hit(5):>8.1f}{it.mrr:>8.3f}" for it in levels.values())
        yield f"{name:<32}{row}"


def by_kind(scores: dict[str, dict[str, Score]]) -> Iterator[str]:
    kinds = sorted({kind for levels in scores.values() for kind, _ in levels["turn"].ranks})
    yield f"\n{'turn, hit@1':<14}" + "".join(f"{name[:22]:>24}" for name in scores)
    for kind in kinds:
        yield f"{kind:<14}" + "".join(f"{levels['turn'].hit(1, kind):>24.1f}" for levels in scores.values())


def main(arguments: list[str]) -> int:
    def option(name: str) -> str | None:
        return arguments[arguments.index(name) + 1] if name in arguments else None

    runs: dict[str, list[Corpus]] = {}
    if (path := option("--locomo")) is not None:
        dialogues = locomo.load(Path(path))
        runs = {"LoCoMo, train": dialogues[: len(dialogues) // 2], "LoCoMo, test": dialogues[len(dialogues) // 2 :]}
        runs["LoCoMo, all"] = dialogues
    else:
        for name, which in (("train", TRAIN), ("test", TEST)):
            if option("--half") in (None, name):
                runs[f"our corpus, {name}"] = [corpus(which)]
    told = {}
    for name, corpora in runs.items():
        scores = evaluate(corpora, option("--postgres"))
        sessions, questions = (sum(len(getattr(it, what)) for it in corpora) for what in ("sessions", "questions"))
        print(f"\n{name}: {sessions} sessions, {questions} questions\n", *table(scores), sep="\n", flush=True)
        if "--kinds" in arguments:
            print(*by_kind(scores), sep="\n")
        told[name] = {system: {level: it.told() for level, it in levels.items()} for system, levels in scores.items()}
    if (target := option("--json")) is not None:
        Path(target).write_text(json.dumps(told, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
