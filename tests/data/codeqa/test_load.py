"""Sources of code questions: what they name, and what is wrong with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


Change = Callable[[dict[str, Any]], object]


def first(of: dict[str, Any]) -> Any:
    return next(iter(of.values()))


def fact_of_first_check(task: dict[str, Any]) -> Any:
    return task["facts"][first(task["checks"])["needs"][0]]


def told_first(task: dict[str, Any]) -> list[Any]:
    return [fact for fact in task["facts"].values() if fact["since"] == 0]


CHANGES: list[tuple[str, Change]] = [
    ("group: Field required", lambda task: task.pop("group")),
    ("stage: Field required", lambda task: first(task["checks"]).pop("stage")),
    ("literal: Input should be a valid boolean", lambda task: task.update(literal="no")),
    ("observations.0.0: Input should be a valid string", lambda task: task["observations"][0].insert(0, 5)),
    ("since: Input should be a valid integer", lambda task: first(task["facts"]).update(since="0")),
    ("chance: Input should be a valid number", lambda task: first(task["checks"]).update(chance=True)),
    ("id: is empty", lambda task: task.update(id=" ")),
    ("group: is empty", lambda task: task.update(group="")),
    ("id: is ''", lambda task: first(task["facts"]).update(id="")),
    ("id: is ''", lambda task: first(task["checks"]).update(id="")),
    ("observations: none", lambda task: task.update(observations=[])),
    ("observations.1.0: more than 200 tokens", lambda task: task["observations"][1].insert(0, "x" * 801)),
    ("checks: none", lambda task: task.update(checks={})),
    ("checks: must be in the order", lambda task: task.update(checks=dict(reversed(task["checks"].items())))),
    ("needs: there is no fact 'nothing'", lambda task: first(task["checks"]).update(needs=["nothing"])),
    ("needs: names no fact", lambda task: first(task["checks"]).update(needs=[])),
    ("needs: names a fact twice", lambda task: first(task["checks"])["needs"].extend(first(task["checks"])["needs"])),
    ("does not hold in stage 0", lambda task: fact_of_first_check(task).update(since=1, until=None)),
    ("does not hold in stage 1", lambda task: [fact.update(until=1) for fact in told_first(task)]),
    ("since: there is no stage 7", lambda task: first(task["facts"]).update(since=7)),
    ("until: must be a stage after", lambda task: first(task["facts"]).update(until=0)),
    ("key: must be FILE:KIND:NAME", lambda task: first(task["facts"]).update(key="timeout")),
    ("text: is empty", lambda task: first(task["facts"]).update(text="")),
    ("stage: there is no stage 9", lambda task: first(task["checks"]).update(stage=9)),
    ("chance: must be from 0 to 1", lambda task: first(task["checks"]).update(chance=float("nan"))),
    ("text: is empty", lambda task: first(task["checks"]).update(text=" ")),
    ("question: distractors has no 'q9'", lambda task: first(task["checks"]).update(question="q9")),
    ("values.*: missing or empty", lambda task: task.update(values={})),
    ("questions.*: missing or empty", lambda task: task.update(questions={})),
    ("critical: there is no fact '", lambda task: task["critical"].append("a\nline")),
    ("tokens: the observations have", lambda task: task.update(tokens=5)),
    ("is not in what is read", lambda task: task.update(observations=[["Nothing."]] * 3, tokens=6)),
]


@pytest.mark.parametrize(("problem", "change"), CHANGES, ids=[problem for problem, _ in CHANGES])
def test_a_row_that_is_broken_is_named_in_one_line_with_its_field(
    problem: str, change: Change, small: list[dict[str, Any]], tmp_path: Path
) -> None:
    good, bad = copy.deepcopy(small)
    change(bad["task"])
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, [good, bad])), encoding="utf-8")
    with pytest.raises(TaskError, match=problem) as error:
        load_folded(str(file))
    assert str(error.value).startswith(f"{file}: row 1: ")
    assert len(str(error.value).splitlines()) == 1


def test_a_row_without_a_task_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"mnemotune": "codeqa"}')
    with pytest.raises(TaskError, match=r"row 0: task: Input should be an object"):
        load_folded(str(tmp_path / "tasks.jsonl"))


def test_a_task_that_occurs_twice_is_named_with_both_rows(small: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, [*small, small[0]])), encoding="utf-8")
    with pytest.raises(TaskError, match=r"row 2: id: 'tree.*' is that of row 0 too; ids must be distinct"):
        load_folded(str(file))


@pytest.fixture(scope="module")
def small(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the lines of a file of two small tasks."""
    file = tmp_path_factory.mktemp("file") / "tasks.jsonl"
    write_tasks(file, [task.opened for task in load_folded(f"{folder}:2@5:3000")], track="codeqa")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
