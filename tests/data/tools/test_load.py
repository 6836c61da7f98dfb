"""Files of tasks: what does not hold together is refused, with the file, the row and the field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.task import TaskError
from mnemotune.data.task_files import write_tasks
from mnemotune.data.tools.load import load_tools

Json = dict[str, Any]


@pytest.fixture
def lines(tmp_path: Path) -> list[Json]:
    file = tmp_path / "made.jsonl"
    write_tasks(file, [task.opened for task in load_tools("generated:1@3")], track="tools")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def load(folder: Path, lines: list[Json]) -> None:
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    load_tools(str(file))


def test_a_file_that_is_whole_is_read(tmp_path: Path, lines: list[Json]) -> None:
    load(tmp_path, lines)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"tasks\.jsonl: has no task"):
        load(tmp_path, [])


def test_a_task_that_occurs_twice_is_refused(tmp_path: Path, lines: list[Json]) -> None:
    with pytest.raises(TaskError, match=r"tasks\.jsonl: task C-\S+-inside occurs more than once"):
        load(tmp_path, [*lines, lines[0]])


def _first(values: Json) -> Any:
    return next(iter(values.values()))


def _call(task: Json) -> Json:
    return next(step for step in task["steps"] if step["kind"] == "call")


def _slots(task: Json) -> list[Json]:
    slots: list[Json] = next(step["slots"] for step in task["steps"] if step["slots"])
    return slots


def _begins(**state: Any) -> Callable[[Json], None]:
    return lambda task: task["row"].update(initial_state=state)


def _action(name: str, **arguments: Any) -> Json:
    return {"env_type": "assistant", "func_name": name, "arguments": arguments}


def _asking(task: Json) -> Json:
    """Return the first step with a slot."""
    step: Json = next(step for step in task["steps"] if step.get("slots"))
    return step


# what plans of all tracks promise is tested with the files of the swe track
BREAKS: dict[str, tuple[Callable[[Json], object], str]] = {
    "no step": (lambda task: task["steps"].clear(), "steps: there has to be 1 or more"),
    "too many stages": (lambda task: task.update(stages=10**12), "stages: 1000000000000; the last step is of stage 3"),
    "an unknown tool": (lambda task: _call(task).update(tool="sell"), r"steps\.1\.tool: there is no tool 'sell' of"),
    "an unknown caller": (lambda task: _call(task).update(requestor="cat"), r"steps\.1\.requestor: "),
    "a slot of no argument": (
        lambda task: _slots(task)[0].update(path=["x", 0]),
        r"steps\.1\.slots: nothing stands at x\.0 of the arguments",
    ),
    "a check that nothing asks": (
        lambda task: task["checks"].update(more={**_first(task["checks"]), "id": "more"}),
        r"checks\.more: 0 slots ask it",
    ),
    "a fact of no stage": (lambda task: _first(task["facts"]).update(since=-1), r"facts\..*\.since: -1 is none"),
    "a fact that nothing tells": (
        lambda task: _first(task["facts"]).update(sources=["What?"]),
        r"facts\..*\.sources: stage 0 does not tell it",
    ),
    "another domain": (lambda task: task.update(domain="workshop:x:1"), "domain: is not of workshop"),
    "an unknown initial action": (
        _begins(initialization_actions=[_action("burn")]),
        r"row\.initial_state: burn: there is no tool burn",
    ),
    "an initial action with a wrong argument": (
        _begins(initialization_actions=[_action("get_order", order_id=["R-1"])]),
        r"row\.initial_state: get_order: get_order: order_id is no string",
    ),
    "initial data of another form": (
        _begins(initialization_data={"agent_data": {"customers": 3}}),
        r"row\.initial_state: customers: 3 is no object",
    ),
    "a message without a role": (
        _begins(message_history=[{"content": "Hello."}]),
        r"row\.initial_state\.message_history\.0\.role: Field required",
    ),
    "a slot at no place": (
        lambda task: _asking(task)["slots"][0].update(path=[]),
        r"slots: nothing stands at no place",
    ),
    "a slot within a text": (
        lambda task: _asking(task)["slots"][0].update(path=["customer_id", 0]),
        r"slots: nothing stands at customer_id\.0",
    ),
    "a slot of what was before": (
        lambda task: _asking(task).update(before=True),
        r"slots: nobody answers for what is said",
    ),
    "rows of later calls": (lambda task: task.update(later=[task["row"]]), "later: only calls of a checkout"),
    "an unknown assertion": (
        lambda task: task["row"]["evaluation_criteria"].update(env_assertions=[_action("sun_shines")]),
        r"row\.evaluation_criteria\.env_assertions\.0: there is no assertion sun_shines",
    ),
    "an assertion of other arguments": (
        lambda task: task["row"]["evaluation_criteria"].update(env_assertions=[_action("order_goes_to", x=1)]),
        r"env_assertions\.0: order_goes_to cannot look at x",
    ),
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
