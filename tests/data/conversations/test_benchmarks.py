"""LoCoMo's and LongMemEval's rows are read as published; what cannot be asked is left out, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.conversations.importing import Form, Import, import_benchmark
from mnemotune.data.conversations.load import load_conversations
from mnemotune.data.conversations.omissions import Omissions
from mnemotune.data.conversations.task import ConversationTask
from mnemotune.data.folded import opened
from mnemotune.data.task import TaskError
from talks import ABSTAINS, LOCOMO, LONGMEMEVAL, written


def brought(tmp_path: Path, form: Form, *rows: Any, strict: bool = False) -> tuple[list[ConversationTask], Import]:
    coming = Import(tmp_path / "out.jsonl", Omissions(strict=strict))
    import_benchmark(form, written(tmp_path / "in.json", rows), coming)
    return [opened(task) for task in load_conversations(str(coming.out))], coming


def test_locomos_sessions_come_in_their_order_with_names_days_and_pictures(tmp_path: Path) -> None:
    (task,), _ = brought(tmp_path, "locomo", LOCOMO)
    assert [session.id for session in task.sessions] == ["session_1", "session_2", "session_10"]
    assert [u.heard for session in task.sessions for u in session.utterances][:3] == [
        "Ada: I adopted a grey parrot named Figaro. (8 May 2023)",
        "Bo: The bakery gave me the morning shift. (2 June 2023)",
        "Bo: My violin was stolen in Lisbon. [picture: a case] (3 July 2023)",
    ]
    assert {(u.role, u.time[:10]) for u in task.sessions[0].utterances} == {("user", "2023-05-08")}


def test_locomos_questions_need_their_evidence_and_the_fifth_kind_needs_none(tmp_path: Path) -> None:
    (task,), coming = brought(tmp_path, "locomo", LOCOMO)
    assert [(q.kind, q.answers, q.evidence) for q in task.questions] == [
        ("one turn", ("a grey parrot",), ("D1:1",)),
        ("several turns", ("Bo a violin",), ("D10:1", "D1:1")),
        ("time", ("2023",), ("D10:1",)),
        ("abstention", (), ()),
    ]
    assert {q.stage for q in task.questions} == {2}
    assert coming.omissions.broken == [
        f"{tmp_path}/in.json: row 0 (conv-1): qa {place}: evidence: names no turn of the conversation"
        for place in (4, 5)
    ]
    assert (coming.groups, coming.messages, coming.questions) == ({"conv-1"}, 4, 4)


def test_longmemevals_sessions_are_sorted_and_what_has_the_answer_is_the_evidence(tmp_path: Path) -> None:
    (task, nothing), _ = brought(tmp_path, "longmemeval", LONGMEMEVAL, ABSTAINS)
    assert [session.id for session in task.sessions] == ["answer_1", "filler_1", "answer_2"]
    assert [(fact.text, fact.since) for fact in task.facts.values()] == [
        ("I keep my ladder in the shed. (20 May 2023)", 0),
        ("I moved the ladder from the shed to the cellar. (30 May 2023)", 2),
    ]
    question = task.questions[0]
    assert (question.kind, question.stage, question.time) == ("knowledge update", 2, "2023-06-30T23:40:00")
    assert (nothing.questions[0].kind, nothing.questions[0].answers, nothing.facts) == ("abstention", (), {})
    assert (task.group, nothing.group) == ("gpt4_7", "gpt4_7")  # one history: they stay in one split


@pytest.mark.parametrize(
    ("form", "row", "why"),
    [
        ("locomo", {"sample_id": "conv-9", "qa": []}, "conversation: must be an object of sessions"),
        ("locomo", LOCOMO | {"conversation": {"session_1": [{"text": "x"}]}}, "dia_id: must be the turn's id"),
        ("locomo", 7, "sample_id: must be the conversation's name"),
        ("longmemeval", LONGMEMEVAL | {"haystack_dates": ["2023/05/20"]}, "must be of the same length"),
        ("longmemeval", LONGMEMEVAL | {"haystack_dates": ["soon"] * 3}, "haystack_dates: 'soon' is no time"),
        ("longmemeval", LONGMEMEVAL | {"question": " "}, "question: is empty"),
        ("longmemeval", LONGMEMEVAL | {"answer": None}, "answer: must be a text"),
        (
            "longmemeval",
            LONGMEMEVAL | {"haystack_sessions": [[{"role": "user", "content": "x"}]] * 3},
            "has the answer",
        ),
    ],
)
def test_a_broken_row_is_left_out_by_name_and_loses_nothing_else(
    tmp_path: Path, form: Form, row: Any, why: str
) -> None:
    whole = LOCOMO | {"sample_id": "whole"} if form == "locomo" else LONGMEMEVAL | {"question_id": "whole"}
    tasks, coming = brought(tmp_path, form, row, whole)
    assert [task.id for task in tasks] == ["whole"]
    assert f"{tmp_path}/in.json: row 0" in coming.omissions.broken[0]
    assert why in coming.omissions.broken[0]
    with pytest.raises(TaskError, match="row 0"):
        brought(tmp_path, form, row, whole, strict=True)


def test_a_file_without_any_question_is_refused_with_the_first_reason_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no history with a question: .*row 0.*sample_id"):
        brought(tmp_path, "locomo", {})
    assert not (tmp_path / "out.jsonl").exists()
