"""LoCoMo's conversations are read as published, and what memory shows of their evidence is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.conversations.locomo import conversation_of
from mnemotune.data.conversations.omissions import Omissions
from mnemotune.data.conversations.task import ConversationTask
from mnemotune.experiments.locomo.evidence import ALL, main, messages_of, questions_of, recalls
from mnemotune.experiments.memories.rows import NATIVE
from talks import LOCOMO, written


@pytest.fixture
def talk() -> ConversationTask:
    return conversation_of(LOCOMO, Omissions())


def test_memory_hears_names_and_words_alone_and_is_asked_what_something_answers(talk: ConversationTask) -> None:
    assert [(message.role, message.content) for message in messages_of(talk)][1:3] == [
        ("user", "Bo: The bakery gave me the morning shift."),
        ("user", "Bo: My violin was stolen in Lisbon."),
    ]
    assert [question.kind for question in questions_of(talk)] == ["one turn", "several turns", "time"]


@pytest.mark.parametrize(("tokens", "expected"), [(1000, 1.0), (1, 0.0)])
async def test_a_context_that_holds_all_shows_all_and_one_that_holds_nothing_none(
    talk: ConversationTask, tokens: int, expected: float
) -> None:
    found = (await recalls(talk, "window", budgets=[tokens]))[tokens]
    assert {kind: found[kind] for kind in (ALL, "one turn", "several turns")} == dict.fromkeys(
        (ALL, "one turn", "several turns"), expected
    )


def test_the_tables_tell_recall_by_budget_and_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = written(tmp_path / "locomo.json", [LOCOMO, LOCOMO | {"sample_id": "conv-2"}]), tmp_path / "out.json"
    main(out, data=data, policies=["rag", *NATIVE], tokens=600)
    printed = capsys.readouterr().out
    assert "2 conversations, 6 questions" in printed
    assert "| rag | 1.000 [1.000, 1.000] |" in printed
    figures: dict[str, Any] = json.loads(out.read_text())
    assert figures["rag"]["600"]["one turn"] == {
        "mean": 1.0,
        "interval": [1.0, 1.0],
        "by_conversation": {"conv-1": 1.0, "conv-2": 1.0},
    }
    gains = printed.split("Less rag, the best preset by all questions, paired by conversation:")[1]
    assert [line.split(" | ")[0] for line in gains.splitlines() if "[" in line] == [f"| {name}" for name in NATIVE]
