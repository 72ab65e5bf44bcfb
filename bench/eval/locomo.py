"""LoCoMo, if you have it: ten long dialogues with questions (https://github.com/snap-research/locomo, CC BY-NC 4.0).

It is never part of this project: the file `locomo10.json` is read from where you keep it. Each dialogue is a corpus of
its own, each question is asked as it stands, and any session that holds evidence answers it. Questions without evidence
are left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.eval.corpus import Conversation, Corpus, Question, Turn

_EVIDENCE = re.compile(r"D:?\s*(\d+)(?::\s*(\d+))?")  # written by hand: "D8:6; D9:17", "D:11:26", "D30:05", "D9"

Places = dict[tuple[int, int], tuple[int, int]]  # number of a session and of a turn there -> ours


def load(path: Path) -> list[Corpus]:
    return [_dialogue(sample) for sample in json.loads(path.read_text(encoding="utf-8"))]


def _dialogue(sample: dict[str, Any]) -> Corpus:
    told = sample["conversation"]
    made = Corpus([], [])
    places: Places = {}
    for number in sorted(int(name[8:]) for name in told if re.fullmatch(r"session_\d+", name)):
        conversation = Conversation()
        for turn in told[f"session_{number}"]:
            conversation.turns.append(_turn(turn, told["speaker_a"]))
            places |= {of: (len(made.sessions), len(conversation.turns)) for of in _places(turn["dia_id"])}
        if conversation.turns:  # some have a date, and nothing was said
            places[number, 0] = (len(made.sessions), 0)
            made.sessions.append(conversation)
    for asked in sample["qa"]:
        answers = frozenset(_answers(asked.get("evidence") or (), places))
        if answers:
            made.questions.append(Question(str(asked["question"]), f"category {asked.get('category')}", answers))
    return made


def _turn(turn: dict[str, Any], first: str) -> Turn:
    """What was said, by whom, and what a picture showed: a caption is all that a store would know of it."""
    caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return Turn(
        "user" if turn["speaker"] == first else "assistant", f"{turn['speaker']}: {turn.get('text', '')}{caption}"
    )


def _answers(evidence: list[str], places: Places) -> Iterator[tuple[int, int]]:
    """Places of ours. A turn that is not there leads to its session, as far as that is there."""
    for session, turn in _places(" ".join(evidence)):
        found = places.get((session, turn), places.get((session, 0)))
        if found is not None:
            yield found


def _places(written: str) -> Iterator[tuple[int, int]]:
    for session, turn in _EVIDENCE.findall(written):
        yield int(session), int(turn or 0)
