"""Tasks of a checkout of WebArena-Infinity: in folders of its shape that are written here, and in a real one.

The real one is where MNEMOTUNE_WEBARENA says.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.task import TaskError
from mnemotune.data.web.checkout import PARTS
from mnemotune.data.web.load import load_web
from mnemotune.data.web.task import web_task

ROWS: list[dict[str, Any]] = [
    {"id": "task_1", "difficulty": "easy", "instruction": "Turn on the lamp.", "verify": "real-tasks/task_1.py"}
]
WHERE = os.environ.get("MNEMOTUNE_WEBARENA", "")
checkout = pytest.mark.skipif(not WHERE, reason="set MNEMOTUNE_WEBARENA=PATH of a checkout of webarena-infinity")


def make(root: Path, *, rows: Any = ROWS, name: str = "lamps") -> Path:
    app = root / "apps" / name
    (app / "real-tasks").mkdir(parents=True)
    for part in PARTS:
        (app / part).write_text("", encoding="utf-8")
    (app / "real-tasks.json").write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    (app / "real-tasks" / "task_1.py").write_text("", encoding="utf-8")
    return app


def test_a_task_has_no_plan_and_its_group_is_the_app(tmp_path: Path) -> None:
    app = make(tmp_path)
    (task,) = map(web_task, load_web(f"webarena-infinity:{tmp_path}"))
    assert (task.id, task.group, task.stages) == ("lamps/real/task_1", "lamps", 1)
    assert (task.app, task.instruction) == (str(app), "Turn on the lamp.")
    assert task.verify == str(app / "real-tasks" / "task_1.py")
    assert (task.state, task.steps, task.facts, task.checks) == ({}, (), {}, {})


def test_one_app_can_be_named_by_the_checkout_and_its_name_or_by_its_folder(tmp_path: Path) -> None:
    app = make(tmp_path)
    make(tmp_path, name="stoves")
    assert len(load_web(f"webarena-infinity:{tmp_path}")) == 2
    assert load_web(f"webarena-infinity:{tmp_path}/lamps") == load_web(f"webarena-infinity:{app}")


def test_both_lists_of_an_app_are_read(tmp_path: Path) -> None:
    app = make(tmp_path)
    (app / "function-tasks.json").write_text(json.dumps(ROWS), encoding="utf-8")
    ids = [task.id for task in load_web(f"webarena-infinity:{tmp_path}")]
    assert ids == ["lamps/real/task_1", "lamps/function/task_1"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"instruction": None}, "instruction: Input should be a valid string"),
        ({"instruction": " "}, "instruction: is empty"),
        ({"id": 7}, "id: Input should be a valid string"),
        ({"verify": "real-tasks/task_2.py"}, r"verify: 'real-tasks/task_2\.py' is no Python file of"),
        ({"verify": "../../../../../../../../etc/hostname"}, "verify: '.*' is no Python file of"),
        ({"verify": "index.html"}, r"verify: 'index\.html' is no Python file of"),
    ],
)
def test_a_bad_row_is_refused_with_file_row_and_field(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    app = make(tmp_path, rows=[ROWS[0], {**ROWS[0], "id": "task_2"} | change])
    with pytest.raises(TaskError, match=problem) as raised:
        load_web(f"webarena-infinity:{tmp_path}")
    assert str(raised.value).startswith(f"{app / 'real-tasks.json'}: row 1: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "problem"), [("{", "is not JSON"), ("{}", "has to be a list"), ("[7]", "row 0: row:")]
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, rows: str, problem: str) -> None:
    make(tmp_path, rows=rows)
    with pytest.raises(TaskError, match=rf"real-tasks\.json: {problem}"):
        load_web(f"webarena-infinity:{tmp_path}")


def test_an_app_without_its_server_is_none(tmp_path: Path) -> None:
    (make(tmp_path) / "server.py").unlink()
    with pytest.raises(
        TaskError, match=r"nor an app of one \(real-tasks\.json or .* beside index\.html and server\.py\)"
    ):
        load_web(f"webarena-infinity:{tmp_path}")


@pytest.mark.parametrize("part", ["", "/apps", "/apps/stoves", "/nowhere"])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, part: str) -> None:
    (tmp_path / "apps" / "stoves").mkdir(parents=True)
    with pytest.raises(TaskError, match="no checkout of WebArena-Infinity with apps/APP, nor an app of one"):
        load_web(f"webarena-infinity:{tmp_path}{part}")


@checkout
def test_all_tasks_of_the_checkout_are_read() -> None:
    tasks = load_web(f"webarena-infinity:{WHERE}")
    assert Counter(task.id.split("/")[1] for task in tasks) == {"real": 1620, "function": 737}
    assert len({task.group for task in tasks}) == 13
