"""Sources of code questions: what they name, and what is wrong with them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mnemotune.data.codeqa.load import load_folded
from mnemotune.data.task import TaskError
from mnemotune.data.task_files import write_tasks


def test_a_folder_gives_a_task_for_each_group(folder: Path) -> None:
    tasks = load_folded(str(folder))
    assert sorted(task.group for task in tasks) == ["pack_0", "pack_1", "pack_2", "pack_3"]
    assert all(task.stages == 3 for task in tasks)


def test_numbers_after_a_folder_say_how_many_and_from_which_seed_and_how_large(folder: Path) -> None:
    tasks = load_folded(f"{folder}:6@5:4000")
    assert [task.id for task in tasks] == [f"{folder.name}-5-{index:04d}" for index in range(6)]
    assert all(4_000 <= task.opened.tokens < 6_000 for task in tasks)


def test_a_task_is_the_same_however_many_are_made_and_whichever_groups_are_kept(folder: Path) -> None:
    few, many = load_folded(f"{folder}:5@5"), load_folded(f"{folder}:9@5")
    assert many[:5] == few
    assert load_folded(f"{folder}:9@5", groups=["pack_2"]) == [task for task in many if task.group == "pack_2"]


def test_generated_tasks_are_of_the_standard_library() -> None:
    (task,) = load_folded("generated:1@7")
    assert task.id == "stdlib-7-0000"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("generated", "generated:TASKS@SEED:TOKENS"),
        ("generated:", "generated:TASKS@SEED:TOKENS"),
        ("generated:x", "no such file or folder"),
        ("generated:0", "1 to 10,000 tasks"),
        ("generated:99999", "1 to 10,000 tasks"),
        ("generated:1@2:10", "1,000 to 2,000,000 tokens"),
        ("nowhere", "no such file or folder"),
        ("nowhere:3@2", "no such file or folder"),
        ("", "generated:TASKS@SEED:TOKENS"),
    ],
)
def test_a_source_that_cannot_be_read_is_named_with_what_to_write(source: str, problem: str) -> None:
    with pytest.raises(TaskError, match=problem) as error:
        load_folded(source)
    assert str(error.value).startswith(f"{source}: ")


def test_an_unknown_group_is_named_with_those_that_there_are(folder: Path) -> None:
    with pytest.raises(TaskError, match=r"no group nobody; there are .*pack_1"):
        load_folded(str(folder), groups=["nobody"])


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", "[", "is not JSON"),
        ("a.jsonl", "\n{", "line 2"),
        ("a.jsonl", '{"instance_id": 1}', "row 0: .*instance_id"),
        ("a.json", "[]", "no row gives a task"),
    ],
)
def test_a_file_at_fault_is_named_with_the_place(tmp_path: Path, name: str, text: str, problem: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TaskError, match=problem) as error:
        load_folded(str(file))
    assert str(file) in str(error.value)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(json.dumps(["é"], ensure_ascii=False).encode("latin-1"))
    with pytest.raises(TaskError, match="not UTF-8"):
        load_folded(str(tmp_path / "a.json"))


def test_tasks_that_were_written_to_a_file_are_read_as_they_were(folder: Path, tmp_path: Path) -> None:
    tasks = load_folded(f"{folder}:5@5:3000")
    write_tasks(tmp_path / "tasks.jsonl", [task.opened for task in tasks], track="codeqa")
    assert [task.opened for task in load_folded(str(tmp_path / "tasks.jsonl"))] == [task.opened for task in tasks]


def test_a_task_that_was_changed_in_its_file_is_refused_when_it_breaks_its_promise(
    folder: Path, tmp_path: Path
) -> None:
    (task,) = load_folded(f"{folder}:1@5:3000")
    changed = replace(task.opened, observations=(("Nothing.",),) * task.stages)
    write_tasks(tmp_path / "tasks.jsonl", [changed], track="codeqa")
    with pytest.raises(TaskError, match="is not in what is read"):
        load_folded(str(tmp_path / "tasks.jsonl"))
