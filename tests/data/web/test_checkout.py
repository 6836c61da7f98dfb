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
from mnemotune.data.web.checkout import run_verifier
from mnemotune.data.web.load import load_web
from mnemotune.data.web.server import AppServer
from mnemotune.data.web.task import web_task
from mnemotune.data.web.verifier import verify_at
from web_driver import browsing, launched

ROWS: list[dict[str, Any]] = [
    {"id": "task_1", "difficulty": "easy", "instruction": "Turn on the lamp.", "verify": "real-tasks/task_1.py"}
]
LAMP = """
import json
from urllib.request import urlopen

def verify(server_url):
    state = json.load(urlopen(server_url + "/api/state"))
    print("looked at the lamp")
    return state["lamp"]["on"], "the lamp is " + ("on" if state["lamp"]["on"] else "off")
"""
WHERE = os.environ.get("MNEMOTUNE_WEBARENA", "")
checkout = pytest.mark.skipif(not WHERE, reason="set MNEMOTUNE_WEBARENA=PATH of a checkout of webarena-infinity")


def make(root: Path, *, rows: Any = ROWS, name: str = "lamps", verifier: str = LAMP) -> Path:
    app = root / "apps" / name
    (app / "real-tasks").mkdir(parents=True)
    (app / "index.html").write_text("<p>lamps</p>", encoding="utf-8")
    (app / "real-tasks.json").write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    (app / "real-tasks" / "task_1.py").write_text(verifier, encoding="utf-8")
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


@pytest.mark.parametrize("part", ["", "/apps", "/apps/stoves", "/nowhere"])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, part: str) -> None:
    (tmp_path / "apps" / "stoves").mkdir(parents=True)
    with pytest.raises(TaskError, match="no checkout of WebArena-Infinity with apps/APP, nor an app of one"):
        load_web(f"webarena-infinity:{tmp_path}{part}")


def test_a_verifier_looks_at_the_app_that_is_served(tmp_path: Path) -> None:
    app = make(tmp_path)
    (task,) = map(web_task, load_web(f"webarena-infinity:{tmp_path}"))
    with AppServer(app, state={"lamp": {"on": False}}) as server:
        assert verify_at(task, server.url) == (False, "the lamp is off")
        server.set(b'{"lamp": {"on": true}}')
        assert verify_at(task, server.url) == (True, "the lamp is on")
        server.set(b"{}")
        assert verify_at(task, server.url) == (False, "the verifier failed: KeyError: 'lamp'")


@pytest.mark.parametrize(
    ("verifier", "problem"),
    [
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("def verify(", "SyntaxError"),
        ("import sys; sys.exit(0)", "it said nothing"),
    ],
)
def test_a_verifier_that_cannot_be_run_is_an_error_and_no_score(tmp_path: Path, verifier: str, problem: str) -> None:
    app = make(tmp_path, verifier=verifier)
    with pytest.raises(TaskError, match=rf"task_1\.py: the verifier cannot be run: .*{problem}"):
        run_verifier(app / "real-tasks" / "task_1.py", "http://127.0.0.1:9")


@checkout
def test_all_tasks_of_the_checkout_are_read() -> None:
    tasks = load_web(f"webarena-infinity:{WHERE}")
    assert Counter(task.id.split("/")[1] for task in tasks) == {"real": 1620, "function": 737}
    assert len({task.group for task in tasks}) == 13


@checkout
async def test_an_app_of_the_checkout_runs_on_our_server_and_is_verified() -> None:
    task = web_task(load_web(f"webarena-infinity:{WHERE}/gmail")[0])
    async with launched() as browser, browsing(browser, task.app) as driver:
        async with driver.page.expect_response("**/api/state"):
            await driver.page.goto(driver.server.url)
        state = driver.server.state
        assert not verify_at(task, driver.server.url)[0]
        next(email for email in state["emails"] if email["id"] == 1).update(isStarred=True, starType="yellow-star")
        driver.server.set(json.dumps(state).encode())
        assert verify_at(task, driver.server.url)[0]
        driver.server.reset()
        assert not verify_at(task, driver.server.url)[0]
