"""Sources of tasks: what does not hold together is refused, with the file, the row and the field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from mnemotune.data.swe.load import load_swe
from mnemotune.data.swe.task import swe_task
from mnemotune.data.task import TaskError
from mnemotune.data.task_files import write_tasks

Json = dict[str, Any]
ROW: Json = {
    "instance_id": "Acme__gizmo-17",
    "repo": "Acme/gizmo",
    "base_commit": "0123456789abcdef0123456789abcdef01234567",
    "problem_statement": "The gizmo turns left.",
    "hints_text": "",
    "patch": "--- a/gizmo.py\n+++ b/gizmo.py\n",
    "test_patch": "--- a/test_gizmo.py\n+++ b/test_gizmo.py\n",
    "FAIL_TO_PASS": '["test_gizmo.py::test_right"]',
    "PASS_TO_PASS": ["test_gizmo.py::test_straight"],
    "version": "1.2",
    "created_at": "2031-01-01T00:00:00Z",
    "environment_setup_commit": None,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    file = tmp_path_factory.mktemp("made") / "made.jsonl"
    write_tasks(file, [task.opened for task in load_swe("generated:1@3", groups=["pages", "rounding"])], track="swe")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def lines(made: list[Json]) -> list[Json]:
    copy: list[Json] = json.loads(json.dumps(made))
    return copy


def load(folder: Path, lines: list[Json]) -> list[Any]:
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return list(load_swe(str(file)))


def load_rows(folder: Path, *rows: Any, name: str = "rows.jsonl") -> list[Any]:
    file = folder / name
    text = "".join(json.dumps(row) + "\n" for row in rows) if name.endswith("jsonl") else json.dumps(rows)
    file.write_text(text, encoding="utf-8")
    return [swe_task(task) for task in load_swe(f"rows:{file}")]


def test_a_file_that_was_written_gives_the_same_tasks(tmp_path: Path, lines: list[Json]) -> None:
    written = [swe_task(task) for task in load(tmp_path, lines)]
    assert written == [swe_task(task) for task in load_swe("generated:1@3", groups=["pages", "rounding"])]


def test_what_ships_is_kept_by_group() -> None:
    tasks = load_swe("repairs", groups=["timezone"])
    assert [task.id for task in tasks] == [f"timezone-{number}" for number in range(1, 5)]
    with pytest.raises(TaskError, match=r"repairs: no group teapot; there are pages, "):
        load_swe("repairs", groups=["teapot"])


@pytest.mark.parametrize("source", ["generated:0", "generated:1001", "generated:2@x", "nothing.jsonl", "", "rows"])
def test_another_source_is_refused_with_what_to_write(source: str) -> None:
    with pytest.raises(TaskError, match=r"write repairs; generated:VARIANTS@SEED .* rows:FILE") as caught:
        load_swe(source)
    assert "\n" not in str(caught.value)


def test_a_seed_that_is_left_out_is_0() -> None:
    assert load_swe("generated:1") == load_swe("generated:1@0") == load_swe("generated:1@")


@pytest.mark.parametrize(
    ("content", "problem"),
    [("", "has no task"), ("{", "is not JSON: line 1"), ("{}", r"row 0: was not written by .*--data rows:")],
)
def test_a_file_without_tasks_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(TaskError, match=rf"tasks\.jsonl: {problem}"):
        load_swe(str(tmp_path / "tasks.jsonl"))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(TaskError, match=r"tasks\.jsonl: is not UTF-8 text"):
        load_swe(str(tmp_path / "tasks.jsonl"))


def test_a_task_that_occurs_twice_is_refused(tmp_path: Path, lines: list[Json]) -> None:
    with pytest.raises(TaskError, match=r"tasks\.jsonl: task \S+ occurs more than once"):
        load(tmp_path, [*lines, lines[0]])


def _slotted(task: Json) -> Json:
    step: Json = next(step for step in task["steps"] if step["slots"])
    return step


def _swap(task: Json) -> Json:
    step: Json = next(step for step in task["steps"] if " swap " in step["command"])
    return step


def _slot(task: Json) -> Json:
    slot: Json = _slotted(task)["slots"][0]
    return slot


def _first(values: Json) -> Json:
    value: Json = next(iter(values.values()))
    return value


def _needed(task: Json) -> Json:
    fact: Json = task["facts"][_first(task["checks"])["needs"][0]]
    return fact


BREAKS: dict[str, tuple[Callable[[Json], object], str]] = {
    "an id with a slash": (lambda task: task.update(id="a/b"), "id: 'a/b' has other characters"),
    "no group": (lambda task: task.update(group=" "), "group: is empty"),
    "no problem": (lambda task: task.update(problem=""), "problem: is empty"),
    "an image with a space": (lambda task: task.update(image="a b", files={}), "image: 'a b' is no image's name"),
    "an image beside files": (lambda task: task.update(image="a"), "files: there has to be either"),
    "neither files nor an image": (lambda task: task.update(files={}), "files: there has to be either"),
    "a path out of the repository": (lambda task: task["files"].update({"../x": ""}), r"files: '\.\./x' is no path"),
    "an absolute path": (lambda task: task["files"].update({"/etc/x": ""}), "files: '/etc/x' is no path"),
    "a path that reads as an option": (lambda task: task["files"].update({"-x": ""}), "files: '-x' is no path"),
    "a null character": (lambda task: task["files"].update({"x": "\0"}), "files: a null character"),
    "too large a file": (lambda task: task["files"].update({"x": "x" * 10**6}), "files: they have more than 1,000,000"),
    "no patch": (lambda task: task.update(patch=""), "patch: is empty"),
    "a patch of nothing": (lambda task: task.update(patch="x"), "patch: it changes no file"),
    "a patch of another file": (lambda task: task.update(patch="--- a/x\n+++ b/x\n"), "patch: there is no file 'x'"),
    "a file that is a folder": (lambda task: task["files"].update({"x": "", "x/y": ""}), "files: 'x' is a file and"),
    "no test command": (lambda task: task.update(test_command=""), "test_command: '' is empty"),
    "a quote without an end": (lambda task: task.update(test_command="sh 'x"), 'test_command: "sh \'x" is empty, or a'),
    "half a character": (lambda task: task.update(fail_to_pass=["\ud800"]), "task: half a character"),
    "no test that fails": (lambda task: task.update(fail_to_pass=[]), "fail_to_pass: there has to be 1"),
    "a test that fails and passes": (
        lambda task: task.update(pass_to_pass=task["fail_to_pass"]),
        "pass_to_pass: 'test_.*' is in fail_to_pass too",
    ),
    "no step": (lambda task: task.update(steps=[]), "steps: there has to be 1 or more"),
    "no stage": (lambda task: task.update(stages=0), "stages: 0; the last step is of stage"),
    "another number of stages": (lambda task: task.update(stages=99), "stages: 99; the last step is of stage"),
    "a step of no stage": (lambda task: task["steps"][0].update(stage=-1), r"steps\.0\.stage: -1 is none of"),
    "stages backwards": (lambda task: task["steps"][0].update(stage=3), r"steps\.1\.stage: \d comes after stage 3"),
    "an empty command": (lambda task: task["steps"][0].update(command=" "), r"steps\.0\.command: is empty"),
    "a slot of no check": (lambda task: _slot(task).update(check="?"), r"slots: there is no check '\?'"),
    "a slot of another name": (lambda task: _slot(task).update(name="x"), r"right: has values of .*; the slots are x"),
    "a slot twice": (
        lambda task: _slotted(task).update(slots=_slotted(task)["slots"] * 2),
        r"checks\.\w+: 2 slots ask it; each has a check of its own",
    ),
    "two slots of a name": (
        lambda task: _swap(task)["slots"][0].update(name="function"),
        r"steps\.\d+\.slots: function, function.*; each has a name of its own",
    ),
    "a slot that the command lacks": (
        lambda task: _slotted(task).update(command="ls"),
        r"steps\.\d+\.slots: \{\w+\} does not stand in the step",
    ),
    "a value that no answer can be": (
        lambda task: _slotted(task)["right"].update({_slot(task)["name"]: " 5 "}),
        r"steps\.\d+\.right\.\w+: ' 5 ' is empty, or has spaces",
    ),
    "a fact of another id": (lambda task: _first(task["facts"]).update(id="b"), r"facts\..*\.id: is 'b'"),
    "a fact of no stage": (lambda task: _first(task["facts"]).update(since=99), r"facts\..*\.since: 99 is none"),
    "a fact without a text": (lambda task: _first(task["facts"]).update(text=""), r"facts\..*\.text: is empty"),
    "a fact that ends too early": (
        lambda task: _needed(task).update(until=0),
        r"facts\..*\.until: 0 is no stage after",
    ),
    "no facts": (lambda task: task["facts"].clear(), r"checks\.\S+\.needs: there is no fact '"),
    "no check": (
        lambda task: (task["checks"].clear(), [s.update(slots=[], right={}) for s in task["steps"]]),
        "checks: there has to be 1 or more",
    ),
    "a check that nothing asks": (
        lambda task: task["checks"].update(more={**_first(task["checks"]), "id": "more"}),
        r"checks\.more: 0 slots ask it; each has a check of its own",
    ),
    "a check of another id": (lambda task: _first(task["checks"]).update(id="b"), r"checks\.\S+\.id: is 'b'"),
    "a check without a text": (lambda task: _first(task["checks"]).update(text=""), r"checks\.\S+\.text: is empty"),
    "a check that needs nothing": (lambda task: _first(task["checks"]).update(needs=[]), "there is no fact named"),
    "a chance above 1": (lambda task: _first(task["checks"]).update(chance=2), r"chance: 2\.0 is not in \[0, 1\]"),
    "a check before its fact": (
        lambda task: _needed(task).update(since=task["stages"] - 1),
        r"needs: '\w+' is told after stage \d",
    ),
    "a check after its fact was overwritten": (
        lambda task: _needed(task).update(since=0, until=1),
        r"needs: '\w+' does not hold any more at stage \d",
    ),
    "a check of another stage": (
        lambda task: _first(task["checks"]).update(stage=task["stages"] - 1),
        r"slots: check '\w+' is of another stage",
    ),
    "a stage that is no number": (lambda task: task.update(stages="many"), "stages: "),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_task_that_does_not_hold_together_is_refused_in_one_line(
    tmp_path: Path, lines: list[Json], name: str
) -> None:
    change, problem = BREAKS[name]
    change(lines[1]["task"])
    with pytest.raises(TaskError, match=rf"tasks\.jsonl: row 1: .*{problem}") as caught:
        load(tmp_path, lines)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_row_becomes_a_task_without_a_plan(tmp_path: Path, name: str) -> None:
    (task,) = load_rows(tmp_path, ROW, name=name)
    assert (task.id, task.group, task.stages) == ("Acme__gizmo-17", "Acme/gizmo", 1)
    assert (task.steps, dict(task.facts), dict(task.checks), dict(task.files)) == ((), {}, {}, {})
    assert task.fail_to_pass == ("test_gizmo.py::test_right",)
    assert task.pass_to_pass == ("test_gizmo.py::test_straight",)
    assert task.base == ROW["base_commit"]
    assert (task.problem, task.patch, task.test_patch) == (ROW["problem_statement"], ROW["patch"], ROW["test_patch"])


def test_rows_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([ROW]), tmp_path / "rows.parquet")
    (task,) = load_swe(f"rows:{tmp_path / 'rows.parquet'}")
    assert swe_task(task) == load_rows(tmp_path, ROW)[0]


@pytest.mark.parametrize(
    ("changes", "image"),
    [
        ({}, "xingyaoww/sweb.eval.x86_64.acme_s_gizmo-17"),
        ({"image_name": "here/gizmo:1"}, "here/gizmo:1"),
        (
            {"instance_id": "django__django-11099", "repo": "django/django"},
            "swebench/sweb.eval.x86_64.django_1776_django-11099",
        ),
    ],
)
def test_an_image_is_named_by_the_row_or_by_the_published_rule(tmp_path: Path, changes: Json, image: str) -> None:
    assert load_rows(tmp_path, ROW | changes)[0].image == image


def test_a_task_of_a_row_can_be_written_and_read(tmp_path: Path) -> None:
    rows = load_rows(tmp_path, ROW)
    write_tasks(tmp_path / "tasks.jsonl", rows, track="swe")
    assert [swe_task(task) for task in load_swe(str(tmp_path / "tasks.jsonl"))] == rows


@pytest.mark.parametrize("field", ["instance_id", "repo", "problem_statement", "patch", "FAIL_TO_PASS"])
def test_a_row_without_a_field_is_refused(tmp_path: Path, field: str) -> None:
    with pytest.raises(TaskError, match=rf"rows\.jsonl: row 1: {field}: Field required"):
        load_rows(tmp_path, ROW, {name: value for name, value in ROW.items() if name != field})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"instance_id": "a b"}, "instance_id: "),
        ({"instance_id": "a;b"}, "instance_id: "),
        ({"repo": "gizmo"}, "repo: "),
        ({"problem_statement": "  "}, "problem_statement: "),
        ({"patch": ""}, "patch: "),
        ({"FAIL_TO_PASS": "test_a"}, "FAIL_TO_PASS: .*neither a list nor a JSON text"),
        ({"FAIL_TO_PASS": []}, "FAIL_TO_PASS: "),
        ({"FAIL_TO_PASS": '{"a": 1}'}, "FAIL_TO_PASS: "),
        ({"PASS_TO_PASS": [1]}, r"PASS_TO_PASS\.0: "),
        ({"PASS_TO_PASS": None}, "PASS_TO_PASS: "),
        ({"PASS_TO_PASS": ROW["FAIL_TO_PASS"]}, "PASS_TO_PASS: .* is in FAIL_TO_PASS too"),
        ({"image_name": "a b"}, "image_name: "),
    ],
)
def test_a_bad_row_is_refused_in_one_line(tmp_path: Path, changes: Json, problem: str) -> None:
    with pytest.raises(TaskError, match=rf"rows\.jsonl: row 1: {problem}") as caught:
        load_rows(tmp_path, {**ROW, "instance_id": "a__b-1"}, ROW | changes)
    assert "\n" not in str(caught.value)


def test_a_row_that_is_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"rows\.jsonl: row 0: row: "):
        load_rows(tmp_path, 5)


def test_rows_of_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"rows:.*none\.jsonl: there is no such file"):
        load_swe(f"rows:{tmp_path / 'none.jsonl'}")
