"""LoCoMo's conversations are read as published, and what memory shows of their evidence is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnemotune.experiments.locomo.evidence import Conversation, main, recalls

TALK = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Bo",
        "session_1_date_time": "1:00 pm on 8 May, 2023",
        "session_10": [{"speaker": "Bo", "dia_id": "D10:1", "text": "My violin was stolen in Lisbon."}],
        "session_2": [{"speaker": "Ada", "dia_id": "D2:1", "text": "I adopted a grey parrot named Figaro."}],
    },
    "qa": [
        {"question": "Which pet has Ada?", "answer": "a parrot", "evidence": ["D2:1"], "category": 4},
        {"question": "Who lost what?", "answer": "Bo a violin", "evidence": ["D10:1; D2:1"], "category": 1},
        {"question": "When did Cy sing?", "adversarial_answer": "never", "evidence": ["D2:1"], "category": 5},
        {"question": "What is unknown?", "answer": "?", "evidence": [], "category": 3},
        {"question": "What is lost?", "answer": "?", "evidence": ["D99:1"], "category": 3},
    ],
}


def test_sessions_come_in_their_order_and_questions_with_known_evidence_alone() -> None:
    talk = Conversation.of(TALK)
    assert [(message.role, message.content) for message in talk.messages] == [
        ("user", "Ada: I adopted a grey parrot named Figaro."),
        ("user", "Bo: My violin was stolen in Lisbon."),
    ]
    assert [(question.category, len(question.evidence)) for question in talk.questions] == [(4, 1), (1, 2)]


@pytest.mark.parametrize(("tokens", "expected"), [(1000, {4: 1.0, 1: 1.0, 0: 1.0}), (1, {4: 0.0, 1: 0.0, 0: 0.0})])
async def test_a_context_that_holds_all_shows_all_and_one_that_holds_nothing_none(
    tokens: int, expected: dict[int, float]
) -> None:
    found = (await recalls(Conversation.of(TALK), "window", budgets=[tokens]))[tokens]
    assert {kind: found[kind] for kind in expected} == expected


def test_the_tables_tell_recall_by_budget_and_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "locomo.json", tmp_path / "out.json"
    data.write_text(json.dumps([TALK, TALK | {"sample_id": "conv-2"}]))
    main(out, data=data, policies=["rag"], tokens=500)
    printed = capsys.readouterr().out
    assert "2 conversations, 4 questions" in printed
    assert "| rag | 1.000 [1.000, 1.000] |" in printed
    figures: dict[str, Any] = json.loads(out.read_text())
    assert figures["rag"]["500"]["4"]["mean"] == 1.0
