"""LoCoMo, if you have it: ten long dialogues with questions (https://github.com/snap-research/locomo, CC BY-NC 4.0).

It is never part of this project: the file `locomo10.json` is read from where you keep it. Each dialogue is a corpus of
its own; questions without evidence are left out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.eval.corpus import Conversation, Corpus, Question, Turn


def load(path: Path) -> list[Corpus]:
    return [_dialogue(sample) for sample in json.loads(path.read_text(encoding="utf-8"))]


def _dialogue(sample: dict[str, Any]) -> Corpus:
    told = sample["conversation"]
    first = told.get("speaker_a")
    made = Corpus([], [])
    places: dict[str, tuple[int, int]] = {}
    numbers = sorted(int(name[8:]) for name in told if re.fullmatch(r"session_\d+", name))
    for number in numbers:
        conversation = Conversation()
        for turn in told[f"session_{number}"]:
            role = "user" if turn["speaker"] == first else "assistant"
            caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
            conversation.turns.append(Turn(role, f"{turn['speaker']}: {turn.get('text', '')}{caption}"))
            places[turn["dia_id"]] = (len(made.sessions), len(conversation.turns))
        made.sessions.append(conversation)
    for asked in sample["qa"]:
        evidence = [places[it] for it in re.findall(r"D\d+:\d+", " ".join(asked.get("evidence", []))) if it in places]
        for session in sorted({session for session, _ in evidence})[:1]:
            turns = frozenset(turn for where, turn in evidence if where == session)
            made.questions.append(Question(asked["question"], f"category {asked.get('category')}", session, turns))
    return made
