"""MemGym's rows become tasks, the older ones too; a row or a question that cannot says why."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.codeqa.load import load_folded
from mnemotune.data.codeqa.memgym import stated, task_of
from mnemotune.data.codeqa.task import CodeTask
from mnemotune.data.task import TaskError

RETRY = "The upload client waits eleven seconds between attempts before giving up."
CACHE = "Thumbnails expire from the shared cache after forty minutes."
QUEUE = "The function drain_queue stops silently whenever the broker closes its channel."
LEGACY = "Callers of drain_queue in the billing service depend on the former behaviour."


def row(**changes: Any) -> dict[str, Any]:
    """Return a row in MemGym's shape."""
    facts = [("F1", RETRY, True, "critical"), ("F2", CACHE, False, "critical"), ("F3", QUEUE, False, "helpful")]
    return {
        "instance_id": "memgym__acme__uploader.0a1b2c3d.combine_file__x1",
        "base_instance": "acme__uploader.0a1b2c3d.combine_file__x1",
        "task_prompt": "Uploads are odd at times.",
        "memory_files": {
            "debug_notes.md": f"# Notes\n\n{RETRY}\n\nLunch was late.\n",
            "standup_notes.md": f"# Standup\n\n{CACHE}\n",
            "issue.md": f"# Issue\n\n{QUEUE}\n{LEGACY}\n",
        },
        "repo_files": {"uploader/client.py": "import time\n" * 300},
        "qa_pairs": [
            {"qa_id": "Q1", "question": "How long are pauses?", "gold_answer": "11 s", "linked_fact_ids": ["F1"]},
            {"qa_id": "Q2", "question": "What goes away?", "gold_answer": "Some", "linked_fact_ids": ["F2", "F3"]},
        ],
        "grounding_facts": [
            {"id": name, "content": content, "category": "debug_finding", "discoverable": seen, "relevance": relevance}
            for name, content, seen, relevance in facts
        ],
        "distractors": [
            {"id": "D1", "content": "The upload client waits ninety seconds.", "source": "adversarial"},
            {"id": "D2", "content": "Avatars expire daily.", "source": "adversarial_qa", "target_qa_id": "Q2"},
        ],
        "patch": "",
        "num_critical_facts": 2,
        **changes,
    }


def task(**changes: Any) -> CodeTask:
    converted = task_of(row(**changes), where="rows.json: row 0")
    assert isinstance(converted, CodeTask)
    return converted


def test_documents_are_read_in_three_batches_and_all_is_asked_at_the_end() -> None:
    converted = task()
    assert (converted.group, converted.stages) == ("acme__uploader", 3)
    assert [check.stage for check in converted.checks.values()] == [2, 2]
    assert [converted.facts[name].since for name in ("F1", "F2", "F3")] == [0, 1, 2]
    assert all(len(text.encode()) <= 800 for batch in converted.observations for text in batch)


def test_files_of_the_repository_are_read_too() -> None:
    texts = [text for batch in task().observations for text in batch]
    assert sum(text.startswith("# uploader/client.py\n") for text in texts) > 3
    assert task().tokens > task(repo_files={}).tokens


def test_facts_are_critical_and_external_as_the_row_says() -> None:
    assert (task().critical, task().external) == (("F1", "F2"), ("F2", "F3"))


def test_a_distractor_is_of_its_question_or_of_all() -> None:
    assert {name: len(texts) for name, texts in task().distractors.items()} == {"Q1": 1, "Q2": 2}


def test_a_row_without_questions_is_asked_what_is_said_on_each_name() -> None:
    facts = [
        {"id": f"fact_{n}", "content": text, "category": "constraint", "discoverable": False, "relevance": "critical"}
        for n, text in enumerate((RETRY, QUEUE, LEGACY))
    ]
    older = row(grounding_facts=facts)
    del older["qa_pairs"], older["repo_files"]
    converted = task_of(older, where="here")
    assert isinstance(converted, CodeTask)
    (check,) = converted.checks.values()
    assert check.text == "What do the documents say about `drain_queue`?"
    assert check.needs == ("fact_1", "fact_2")


@pytest.mark.parametrize(
    ("question", "changes", "reason"),
    [
        ({"question": RETRY}, {}, "leaky"),
        ({}, {"memory_files": {"a.md": "Nothing of use."}}, "unsolvable: no text states F1"),
        ({}, {"distractors": [{"id": "D", "content": RETRY, "source": "adversarial"}]}, "confusable"),
        ({"linked_fact_ids": ["F9"]}, {}, "linked to no fact of the row"),
        ({"linked_fact_ids": []}, {}, "linked to no fact of the row"),
    ],
)
def test_a_question_that_is_rejected_says_why(question: dict[str, Any], changes: dict[str, Any], reason: str) -> None:
    pairs = [{**row()["qa_pairs"][0], **question}]
    rejected = task_of(row(qa_pairs=pairs, **changes), where="here")
    assert isinstance(rejected, str)
    assert rejected.startswith("Q1: ")
    assert reason in rejected


def test_a_row_without_questions_and_names_says_so() -> None:
    facts = [{**fact, "relevance": "background"} for fact in row()["grounding_facts"]]
    assert "no question" in str(task_of(row(qa_pairs=[], grounding_facts=facts), where="here"))


def test_a_row_at_fault_is_named_with_its_field() -> None:
    with pytest.raises(TaskError, match=r"rows\.json: row 4: memory_files"):
        task_of(row(memory_files={}), where="rows.json: row 4")


def test_rows_are_read_from_a_file_and_those_left_out_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [row(), row(instance_id="other", qa_pairs=[{**row()["qa_pairs"][0], "question": RETRY}])]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        (kept,) = load_folded(str(file))
    assert kept.id == row()["instance_id"]
    assert [record.message for record in caplog.records] == [
        f"{file}: row 1: left out: Q1: leaky: the question states it"
    ]


def test_rows_of_equal_ids_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([row(), row()]), encoding="utf-8")
    with pytest.raises(TaskError, match=r"rows\.json: row 1: id: .* is that of row 0 too"):
        load_folded(str(tmp_path / "rows.json"))


def test_the_share_of_a_fact_that_a_text_states_counts_its_long_words() -> None:
    assert stated("eleven seconds", "It waits eleven seconds") == pytest.approx(2 / 3)
    assert stated("it is 4", "It is 4") == 1
    assert stated("", "It waits eleven seconds") == 0


def test_two_questions_of_one_id_are_refused() -> None:
    pairs = [pair | {"qa_id": "Q1"} for pair in row()["qa_pairs"]]
    with pytest.raises(TaskError, match=r"rows\.json: row 0: qa_pairs: two questions have the qa_id 'Q1'"):
        task(qa_pairs=pairs)


def test_a_question_that_is_left_out_is_said(caplog: pytest.LogCaptureFixture) -> None:
    first, second = row()["qa_pairs"]
    assert len(task(qa_pairs=[first, second | {"question": CACHE}]).checks) == 1
    assert "rows.json: row 0: a question is left out: Q2: leaky" in caplog.text


def test_nulls_and_half_characters_are_read(tmp_path: Path) -> None:
    files = row()["memory_files"] | {"odd \ud83d.md": "Odd \ud83d notes."}
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([row(distractors=None, memory_files=files)]), encoding="utf-8-sig")
    (read,) = load_folded(str(path))
    texts = [text for batch in read.opened.observations for text in batch]
    assert "# odd ?.md\nOdd ? notes." in texts
