"""Sources of tasks; files of tasks whose parts do not hold together are refused with file, row and field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.task import TaskError
from mnemotune.data.task_files import write_tasks
from mnemotune.data.tools.load import load_tools
from mnemotune.data.web.load import load_web
from mnemotune.data.web.task import web_task

Json = dict[str, Any]


@pytest.fixture
def lines(tmp_path: Path) -> list[Json]:
    file = tmp_path / "made.jsonl"
    write_tasks(file, [task.opened for task in load_web("generated:2@3")], track="web")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def load(folder: Path, lines: list[Json]) -> Any:
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return load_web(str(file))


def test_a_file_that_was_written_has_the_same_tasks(tmp_path: Path, lines: list[Json]) -> None:
    assert [web_task(task) for task in load(tmp_path, lines)] == [web_task(t) for t in load_web("generated:2@3")]


def test_generated_instances_have_seed_0_where_none_is_given() -> None:
    assert load_web("generated:2") == load_web("generated:2@0") == load_web("desks")[:4]


def test_instances_can_be_chosen() -> None:
    tasks = load_web("desks", instances=["hall-0-3", "depot-0-17"])
    assert [task.group for task in tasks] == ["hall-0-3"] * 2 + ["depot-0-17"] * 2


def test_an_unknown_instance_is_refused() -> None:
    with pytest.raises(TaskError, match=r"generated:1@3: no instance attic-1; there are depot-3-0"):
        load_web("generated:1@3", instances=["attic-1"])


@pytest.mark.parametrize("source", ["", "desk", "generated:0", "generated:10001", "generated:x", "a/b"])
def test_another_source_is_refused_and_the_sources_are_named(source: str) -> None:
    with pytest.raises(TaskError, match=r"write desks, generated:INSTANCES@SEED with at most 10,000 instances"):
        load_web(source)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"tasks\.jsonl: has no task"):
        load(tmp_path, [])


def test_a_task_that_occurs_twice_is_refused(tmp_path: Path, lines: list[Json]) -> None:
    with pytest.raises(TaskError, match=r"tasks\.jsonl: task depot-3-0-counter occurs more than once"):
        load(tmp_path, [*lines, lines[0]])


def test_another_track_s_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tools.jsonl"
    write_tasks(file, [task.opened for task in load_tools("generated:1@3")], track="tools")
    with pytest.raises(TaskError, match=r"row 0: is a task of the track 'tools', not of web"):
        load_web(str(file))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"{", "is not JSON: line 1"),
        (b"7\n", "row 0: was not written by `data generate --track web`"),
        (b"\xff", "is not UTF-8 text"),
        (b'{"mnemotune": "web", "task": {}}', "row 0: "),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: bytes, problem: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(text)
    with pytest.raises(TaskError, match=problem) as raised:
        load_web(str(tmp_path / "x.jsonl"))
    assert "\n" not in str(raised.value)


def _first(values: Json) -> Any:
    return next(iter(values.values()))


def _step(task: Json, action: str) -> Json:
    found: Json = next(step for step in task["steps"] if step["action"] == action)
    return found


def _asking(task: Json) -> Json:
    found: Json = next(step for step in task["steps"] if step["slots"])
    return found


# what plans of all tracks promise is tested with the files of the swe track
BREAKS: dict[str, tuple[Callable[[Json], object], str]] = {
    "an app that does not ship": (lambda t: t.update(app="/etc"), "app: there is no '/etc' among depot, hall"),
    "another app's state": (lambda t: t.update(app="hall"), r"state\.app: is 'depot', not 'hall'"),
    "no instruction": (lambda t: t.update(instruction=" "), "instruction: is empty"),
    "a state that is no object": (lambda t: t.update(state=[1]), "state: "),
    "a verifier that is code": (lambda t: t.update(verify="import os"), "verify: is no list of"),
    "a verifier of another state": (lambda t: t["state"].update(parcels=[]), "verify: is no list of"),
    "nothing to be changed": (lambda t: t.update(verify="[]"), "verify: nothing has to be changed"),
    "no step": (lambda t: t["steps"].clear(), "steps: there has to be 1 or more"),
    "an unknown action": (lambda t: t["steps"][0].update(action="hover"), r"steps\.0\.action: "),
    "no end": (lambda t: t["steps"][-1].update(action="back"), r"steps\.\d+\.action: back; the last step is done"),
    "an early end": (lambda t: t["steps"][0].update(action="fail", target=""), r"steps\.0\.action: fail; the last"),
    "a target without a role": (lambda t: t["steps"][0].update(target="Arrivals"), r"steps\.0\.target: 'Arrivals' is"),
    "a click on nothing": (lambda t: t["steps"][0].update(target=""), r"steps\.0\.target: '' is no role"),
    "nothing that is typed": (lambda t: _step(t, "type").update(value=""), "value: is empty"),
    "a page elsewhere": (
        lambda t: t["steps"][0].update(action="goto", target="", value="http://elsewhere.example/"),
        r"steps\.0\.value: 'http://elsewhere\.example/' is no page of the app",
    ),
    "a scroll to nowhere": (lambda t: _step(t, "scroll").update(value="left"), "value: 'left' is none of up, down"),
    "a slot of no place": (lambda t: _asking(t).update(value="x"), r"slots: \{value\} does not stand in the step"),
    "a check that nothing asks": (
        lambda t: t["checks"].update(more={**_first(t["checks"]), "id": "more"}),
        r"checks\.more: 0 slots ask it",
    ),
    "a check that needs nothing": (lambda t: _first(t["checks"]).update(needs=[]), "needs: there is no fact named"),
    "a check of another fact": (
        lambda t: list(t["checks"].values())[-1].update(needs=_first(t["checks"])["needs"]),
        r"no check needs it|does not tell",
    ),
    "a fact that does not tell the answer": (
        lambda t: _first(t["facts"]).update(text="row"),
        r"needs: '.*' does not tell '",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_task_that_does_not_hold_together_is_refused_in_one_line(
    tmp_path: Path, lines: list[Json], name: str
) -> None:
    spoil, problem = BREAKS[name]
    spoil(lines[0]["task"])
    with pytest.raises(TaskError, match=problem) as raised:
        load(tmp_path, lines)
    assert str(raised.value).startswith(f"{tmp_path / 'tasks.jsonl'}: row 0: ")
    assert "\n" not in str(raised.value)
