from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.research.generator import each_dossier
from mnemotune.data.research.load import each_task, load_research
from mnemotune.data.research.material import installed
from mnemotune.data.research.task import SUBJECT
from mnemotune.data.task import TaskError
from mnemotune.data.task_files import write_tasks


def row(**changes: Any) -> dict[str, Any]:
    """Return a row in the shape of MemGym's, with columns that are not read."""
    return {
        "instance_id": "memgym_ir__x1",
        "base_instance": "x",
        "source_dataset": "made up",
        "question": "In which town is the lab that built the optimizer used by the winner of Q?",
        "answer": "Vell",
        "num_hops": 3,
        "decomposition": [
            {"sub_question": "Who won Q?", "sub_answer": "Orrin-7"},
            {"sub_question": "Which lab built the optimizer of #1?", "sub_answer": "Tann Lab"},
            {"sub_question": "In which town is Tann Lab?", "sub_answer": "Vell"},
        ],
        "turns": [
            turn(0, "winner of Q", "Orrin-7", "Orrin-7 won Q. The price was small."),
            turn(1, "optimizer of Orrin-7", "Tann Lab", "Orrin-7 used an optimizer of Tann Lab."),
            {
                "turn_index": 2,
                "sub_query": "weather",
                "documents": [{"title": "W", "text": "Rain."}],
                "is_red_herring": True,
            },
            turn(3, "Tann Lab town", "Vell", "Tann Lab is in Vell."),
        ],
        "grounding_facts": [
            {"fact_id": "F1", "content": "Orrin-7 won Q.", "fact_type": "bridge", "intermediate_answer": "Orrin-7"}
        ],
        "distractors": [{"id": "D1", "content": "Orrin-8 lost Q.", "source": "near miss", "target_turn": 0}],
        "memory_files": {"search_results_turn_0.txt": "Orrin-7 won Q.", "search_results_turn_9.txt": None},
        "eviction_policy": {"mode": "full_eviction", "notes_budget_tokens": 500},
        **changes,
    }


def turn(index: int, query: str, answer: str, text: str) -> dict[str, Any]:
    documents = [{"title": "near", "text": "Nothing is said."}, {"title": "T", "text": text, "is_supporting": True}]
    return {"turn_index": index, "sub_query": query, "sub_answer": answer, "documents": documents}


def file_of(tmp_path: Path, *rows: Any) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return str(path)


def test_a_row_of_memgyms_becomes_a_chain_of_hops(tmp_path: Path) -> None:
    (task,) = each_task(file_of(tmp_path, row()))
    assert (task.id, task.group, task.stages) == ("memgym_ir__x1", "x", 4)
    assert [hop.question for hop in task.hops] == [
        "Who won Q?",
        f"Which lab built the optimizer of {SUBJECT}?",
        f"In which town is {SUBJECT}?",
    ]
    assert [turn.query for turn in task.turns] == [
        "winner of Q",
        f"optimizer of {SUBJECT}",
        "weather",
        f"{SUBJECT} town",
    ]
    assert [turn.hop for turn in task.turns] == [0, 1, None, 2]
    assert [fact.text for fact in task.facts.values()] == [
        "Orrin-7 won Q.",
        "Orrin-7 used an optimizer of Tann Lab.",
        "Tann Lab is in Vell.",
    ]
    assert [check.id for check in task.checks.values()] == ["0.0", "1.1", "2.1", "3.0", "3.1", "3.2"]
    assert task.documents[-1].text == "Orrin-8 lost Q."


def test_the_whole_question_is_asked_where_the_last_hop_does_not_answer_it(tmp_path: Path) -> None:
    (task,) = each_task(file_of(tmp_path, row(answer="Vell, in the north")))
    assert [check.question for check in task.checks.values()][-1] == "3"
    assert task.hops[-1].question.startswith("In which town is the lab")


@pytest.mark.parametrize(
    ("answer", "question", "asked"),
    [
        ("2", "What did 2 of them win in 2012?", f"What did {SUBJECT} of them win in 2012?"),
        ("Ann", "Which prize does ann give annually?", f"Which prize does {SUBJECT} give annually?"),
        ("C++", "Who made C++?", f"Who made {SUBJECT}?"),
        ("subject", "On which subject is #1?", f"On which {SUBJECT} is {SUBJECT}?"),
    ],
)
def test_the_answer_before_is_left_open_where_it_stands_as_a_word_of_its_own(
    tmp_path: Path, answer: str, question: str, asked: str
) -> None:
    given = row()
    given["turns"][0] = turn(0, "winner of Q", answer, f"{answer} won Q.")
    given["decomposition"][1]["sub_question"] = question
    (task,) = each_task(file_of(tmp_path, given))
    assert task.hops[1].question == asked


def test_files_stand_in_for_documents_that_are_not_there(tmp_path: Path) -> None:
    turns = [{"sub_query": "winner of Q", "sub_answer": "Orrin-7"}]
    (task,) = each_task(file_of(tmp_path, row(turns=turns, answer="Orrin-7")))
    assert task.documents[0].text == "Orrin-7 won Q."
    assert task.documents[0].supporting


def test_lists_may_be_texts_and_columns_may_be_missing(tmp_path: Path) -> None:
    given = row()
    few = {key: given[key] for key in ("instance_id", "question", "answer")} | {"turns": json.dumps(given["turns"])}
    (task,) = each_task(file_of(tmp_path, few))
    assert task.hops[0].question == "winner of Q"
    assert task.group == task.id


def test_a_table_whose_struct_has_other_keys_in_each_row_is_read(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = [row(), row(instance_id="other", base_instance="y", memory_files={"search_results_turn_1.txt": "Text."})]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    tasks = load_research(tmp_path)
    assert [task.group for task in tasks] == ["x", "y"]
    assert tasks[0].opened == next(each_task(file_of(tmp_path, row())))


def test_tasks_that_were_written_are_read_as_they_were(tmp_path: Path) -> None:
    tasks = list(each_dossier(installed(), count=2, seed=4))
    write_tasks(tmp_path / "made.jsonl", tasks, track="research")
    assert [task.opened for task in load_research(tmp_path / "made.jsonl")] == tasks


def test_a_list_in_a_json_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([row()]))
    assert len(load_research(tmp_path)) == 1


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"turns": []}, "row 0 (memgym_ir__x1): turns: "),
        ({"answer": ""}, "row 0 (memgym_ir__x1): answer: "),
        ({"turns": [{"sub_query": 3}]}, "turns.0.sub_query: "),
        ({"turns": "[not JSON"}, "rows.jsonl, row 0 (memgym_ir__x1): "),
        ({"turns": [{"sub_query": "q", "sub_answer": "a"}], "memory_files": {}}, "turns.0.documents: none"),
        ({"instance_id": 7}, "instance_id: "),
    ],
)
def test_what_is_wrong_with_a_row_is_said_with_its_field(tmp_path: Path, broken: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=r"rows\.jsonl") as caught:
        load_research(file_of(tmp_path, row(**broken)))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own["turns"][0].update(documents=[999]), "turns.0.documents: names a document"),
        (lambda own: own["turns"][0].update(hop=99), "turns.0.hop: there is no hop 99"),
        (lambda own: own["hops"][0].update(claims=[]), "hops.0.claims: "),
        (lambda own: own["hops"][0]["claims"][0].update(document=-1), "hops.0.claims: names a document"),
        (lambda own: own.update(hops=own["hops"][::-1]), "hops: must be in the order"),
        (lambda own: own.update(hops=[]), "hops: none"),
        (lambda own: own.pop("answer"), "answer: "),
    ],
)
def test_what_is_wrong_with_an_own_row_is_said_too(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "own.jsonl"
    write_tasks(path, each_dossier(installed(), count=1, seed=4), track="research")
    line = json.loads(path.read_text())
    change(line["task"])
    path.write_text(json.dumps(line))
    with pytest.raises(TaskError, match="row 0") as caught:
        load_research(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("generated:0", "write generated:DOSSIERS@SEED"),
        ("generated:two", "write generated:DOSSIERS@SEED"),
        ("generated:99999999", "at most 10,000 dossiers"),
        ("generated:2,hops=99", "a chain has 2 to 8 hops"),
        ("generated:2,tokens=9M", "a dossier has 2,000 to 2,000,000 tokens"),
        ("generated:2,colour=3", "the options are"),
        ("generated:2:no/such/folder", "is no folder of documents"),
        ("no/such/file", "no such file"),
    ],
)
def test_a_source_that_names_nothing_is_explained(source: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        load_research(source)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "{}\n{", "is not JSON: line 2"),
        ("a.json", "[{", "is not JSON"),
        ("a.json", "[1]", "must be an object"),
        ("a.json", "[]", "has no task"),
        ("a.parquet", "no table", "is no parquet file"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(TaskError, match=message):
        list(_rows_before_reading(tmp_path / name))


def _rows_before_reading(path: Path) -> list[Any]:
    if path.suffix == ".jsonl":
        path.write_text(path.read_text().replace("{}", json.dumps(row())))
    return list(load_research(path))


def test_options_shape_what_is_made(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Oddkin\n\nThe Oddkin says how a garden is kept over the whole year.\n")
    (task,) = load_research(f"generated:1@3,tokens=4k,hops=3:{tmp_path}")
    assert len(task.opened.hops) == 3
    assert 3_500 < task.opened.tokens < 4_500


def test_ids_that_occur_twice_are_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="memgym_ir__x1 occurs more than once"):
        load_research(file_of(tmp_path, row(), row()))


def test_a_search_that_found_nothing_takes_no_answer_of_the_steps(tmp_path: Path) -> None:
    turns = row()["turns"]
    turns.insert(1, turn(9, "labs of Q", "", "Nothing on labs."))
    task, plain = each_task(file_of(tmp_path, row(turns=turns), row(instance_id="y")))
    assert [turn.hop for turn in task.turns] == [0, None, 1, None, 2]
    assert [(hop.question, hop.claims[0].value) for hop in task.hops] == [
        (hop.question, hop.claims[0].value) for hop in plain.hops
    ]


def test_an_answer_that_no_document_of_its_turn_states_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turns = row()["turns"]
    turns[1] = turn(1, "optimizer of Orrin-7", "Tann Lab", "A page that could not be loaded.")
    assert len([*each_task(file_of(tmp_path, row(turns=turns)))]) == 1
    assert "row 0 (memgym_ir__x1): turns.1.documents: none states the answer 'Tann Lab'" in caplog.text


def test_half_characters_and_nulls_inside_texts_are_read_too(tmp_path: Path) -> None:
    turns = row()["turns"]
    turns[2] |= {"sub_answer": None, "documents": [{"title": None, "text": "Rain \ud83d."}]}
    task, _ = each_task(file_of(tmp_path, row(turns=json.dumps(turns)), row(instance_id="y", turns=turns)))
    assert "Rain ?." in [document.text for document in task.documents]
