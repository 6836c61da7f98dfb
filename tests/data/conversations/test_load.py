"""Files of histories are read as they were written, and a broken one is told with its row and field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.conversations.load import load_conversations
from mnemotune.data.task import TaskError
from talks import two_histories

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def histories(tmp_path: Path) -> Path:
    return two_histories(tmp_path)


def test_histories_are_folded_and_some_groups_can_be_loaded_alone(histories: Path) -> None:
    assert [(task.id, task.group, task.stages) for task in load_conversations(str(histories))] == [
        ("conv-1", "conv-1", 3),
        ("conv-2", "conv-2", 3),
    ]
    assert [task.id for task in load_conversations(str(histories), groups=["conv-2"])] == ["conv-2"]
    with pytest.raises(TaskError, match="no group conv-9; there are conv-1, conv-2"):
        load_conversations(str(histories), groups=["conv-9"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda task: task.update(sessions=[]), "sessions: there is none"),
        (lambda task: task["sessions"][1]["utterances"][0].update(id="D1:1"), "id: 'D1:1' occurs twice"),
        (lambda task: task["questions"][1].update(id="0"), "questions: id: '0' occurs twice"),
        (lambda task: task["questions"][3].update(stage=0), "must stand in the order of their stages"),
        (lambda task: task["questions"][3].update(stage=9), "questions: 3: stage: there are sessions 0 to 2"),
        (
            lambda task: task["questions"][0].update(evidence=["D9:9"]),
            "0: evidence: no utterance has the id",
        ),
        (lambda task: task["questions"][0].update(evidence=["D1:1", "D1:1"]), "evidence: 'D1:1' occurs twice"),
        (lambda task: task["questions"][0].update(stage=0, evidence=["D2:1"]), "'D2:1' is said after the question"),
        (lambda task: task["questions"][0].update(text=" "), "questions: 0: text: is empty"),
        (lambda task: task["questions"][0].update(answers=[""]), "questions: 0: answers: one is empty"),
        (lambda task: task["questions"][0].pop("answers"), "questions.0.answers: Field required"),
        (lambda task: task["sessions"][0]["utterances"][0].update(time="soon"), "utterance D1:1: time: 'soon' is no"),
    ],
)
def test_a_broken_history_is_told_with_its_row_and_field(histories: Path, change: Change, why: str) -> None:
    rows = [json.loads(line) for line in histories.read_text(encoding="utf-8").splitlines()]
    change(rows[1]["task"])
    histories.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(TaskError) as error:
        load_conversations(str(histories))
    assert str(error.value).startswith(f"{histories}: row 1: ")
    assert why in str(error.value)
