"""The evaluation of searching: what counts as found, and LoCoMo's file with all its oddities, in words of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.eval import locomo
from bench.eval.__main__ import main, rank_of
from bench.eval.corpus import Question


def said(id: str, speaker: str, text: str, **more: Any) -> dict[str, Any]:
    return {"speaker": speaker, "dia_id": id, "text": text, **more}


def asked(question: str, *evidence: str, category: int = 1, **more: Any) -> dict[str, Any]:
    return {"question": question, "evidence": [*evidence], "category": category, **more}


SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ruth",
        "speaker_b": "Omar",
        "session_1_date_time": "4:10 pm on 2 March, 2024",
        "session_1": [
            said("D1:1", "Ruth", "I finally sold my old tandem to a neighbour."),
            said("D1:2", "Omar", "What a pity! We rode it along the canal."),
            said(
                "D1:3",
                "Ruth",
                "Look what I bought with the money!",
                img_url=["https://pictures.example/accordion.jpg"],
                blip_caption="a photo of a red accordion on a kitchen chair",
                query="red accordion",
                **{"re-download": True},
            ),
        ],
        "session_2_date_time": "9:00 am on 11 March, 2024",
        "session_2": [
            said("D2:1", "Omar", "My sister opened a bakery in Lisbon."),
            said("D2:2", "Ruth", "Then bring me a dozen custard tarts."),
        ],
        "session_3_date_time": "9:00 am on 12 March, 2024",
        "session_10_date_time": "8:30 pm on 1 April, 2024",
        "session_10": [
            said("D10:1", "Omar", "The doctor says that my knee needs an operation."),
            said("D10:2", "Ruth", "Choose the surgeon who mended my shoulder."),
        ],
        "session_11_date_time": "8:30 pm on 3 April, 2024",
        "session_11": [],
    },
    "qa": [
        asked("Who bought Ruth's tandem?", "D1:1", answer="a neighbour"),
        asked("Which instrument is on the chair in the kitchen?", "D1:3", answer="an accordion"),
        asked("How many custard tarts should Omar bring?", "D2:2", answer=12, category=2),
        asked("Who needs a surgeon for his knee, and where is the bakery?", "D10:1; D2:1", answer="Omar; Lisbon"),
        asked("Whose shoulder was mended by a surgeon?", "D:10:2", answer="Ruth's", category=4),
        asked("What did the doctor say of the knee?", "D10:01", answer="that it needs an operation"),
        asked("What was planned in Lisbon?", "D2", answer="a bakery"),
        asked("Where did the tandem go by the canal?", "D1:77", answer="unknown"),
        asked("Did Omar sell his accordion?", "D1:3", category=5, adversarial_answer="yes, to a neighbour"),
        asked("Does Omar like music?", answer="probably", category=3),
        asked("What happened later?", "D12:4", "D", "D11:1", answer="nothing"),
    ],
    "event_summary": {"events_session_1": {"Ruth": ["sells a tandem"], "Omar": [], "date": "2 March, 2024"}},
    "observation": {"session_1_observation": {"Ruth": [["Ruth sold a tandem.", "D1:1"]], "Omar": []}},
    "session_summary": {"session_1_summary": "Ruth sold her tandem."},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([SAMPLE, SAMPLE]))
    return path


def test_sessions_of_locomo_come_in_the_order_of_their_numbers_and_without_empty_ones(file: Path) -> None:
    sessions = locomo.load(file)[0].sessions

    assert [len(session.turns) for session in sessions] == [3, 2, 2]
    assert [(turn.role, turn.text) for turn in sessions[0].turns[1:]] == [
        ("assistant", "Omar: What a pity! We rode it along the canal."),
        ("user", "Ruth: Look what I bought with the money! [a photo of a red accordion on a kitchen chair]"),
    ]


def test_evidence_of_locomo_leads_to_sessions_and_turns_however_it_is_written(file: Path) -> None:
    questions = locomo.load(file)[0].questions

    assert [sorted(question.answers) for question in questions] == [
        [(0, 1)],
        [(0, 3)],
        [(1, 2)],
        [(1, 1), (2, 1)],
        [(2, 2)],
        [(2, 1)],
        [(1, 0)],
        [(0, 0)],
        [(0, 3)],
    ]
    assert [question.kind for question in questions][-1] == "category 5"


def test_any_session_that_holds_evidence_answers_and_only_a_turn_that_does_is_right() -> None:
    question = Question("who?", "category 1", frozenset({(1, 4), (2, 7)}))

    assert rank_of(question, [(0, 4), (2, 1), (1, 4)], turns=False) == 2
    assert rank_of(question, [(0, 4), (2, 1), (1, 4)], turns=True) == 3
    assert rank_of(question, [(0, 4), (2, 1)], turns=True) == 0


def test_locomo_is_scored_from_end_to_end(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "scores.json"

    assert main(["--locomo", str(file), "--kinds", "--json", str(report)]) == 0

    told = json.loads(report.read_text())
    assert {*told} == {"LoCoMo, train", "LoCoMo, test", "LoCoMo, all"}
    assert told["LoCoMo, all"]["threadline, SQLite"]["session"] == {"hit@1": 100.0, "hit@5": 100.0, "MRR": 1.0}
    assert told["LoCoMo, all"]["threadline, SQLite"]["turn"]["hit@5"] == 100.0
    assert "6 sessions, 18 questions" in capsys.readouterr().out
