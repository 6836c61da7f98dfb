"""A checkout of tau2-bench: its rows become tasks, and its own tools play them.

``MNEMOTUNE_TAU2`` names a real checkout, whose source's packages are installed; without it those tests are skipped.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkout import write_checkout
from mnemotune.data.task import TaskError
from mnemotune.data.tools import tau2
from mnemotune.data.tools.load import load_tools
from mnemotune.data.tools.task import ToolsTask, tools_task
from mnemotune.env.tools.reward import gold_answers, idle_reward, reward_of

CHECKOUT = os.environ.get("MNEMOTUNE_TAU2", "")


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget what was imported from other checkouts."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    tau2._environment.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == tau2.PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def checkout(tmp_path: Path, fresh: None) -> Path:
    return write_checkout(tmp_path)


def tasks_of(checkout: Path) -> dict[str, ToolsTask]:
    return {task.id: tools_task(task) for task in load_tools(f"tau2:{checkout}/shop")}


def test_tasks_without_anything_to_remember_are_left_out_by_name(
    checkout: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert list(tasks_of(checkout)) == ["shop/back", "shop/begun"]
    assert "1 tasks of shop need no memory: nothing" in caplog.text


def test_values_come_from_what_the_customer_says_or_from_what_a_tool_gave_back_last(checkout: Path) -> None:
    task = tasks_of(checkout)["shop/back"]
    asked = [(check.stage, check.text, task.right(check)) for check in task.checks.values()]
    assert asked == [
        (0, "What is the user id?", "ada_1"),
        (1, "What is the orders place 2 for ada_1?", "#W200"),
        (2, "What is the orders place 2 for ada_1?", "#W200"),
        (2, "What is the item id beside blue hat for #W200?", "item-88"),
        (2, "What is the item id beside blue hat for #W200?", "item-88"),
    ]
    assert (task.group, task.stages, task.domain) == ("shop/ada_1", 3, f"tau2:{checkout}/shop")
    facts = [task.facts[check.needs[0]] for check in task.checks.values()]
    assert [fact.since for fact in facts] == [0, 0, 0, 1, 1]
    assert facts[-1].text == 'items {"item_id": "item-88", "name": "blue hat"}'


def test_the_customer_says_values_in_words_that_are_not_the_script_s(checkout: Path) -> None:
    task = tasks_of(checkout)["shop/back"]
    assert task.steps[0].heard == ("Hello, I need your help.\nThe user id is ada_1.",)
    assert not any("politely" in text for step in task.steps for text in step.heard)


def test_the_right_answers_are_rewarded_and_wrong_ones_change_the_databases(checkout: Path) -> None:
    task = tasks_of(checkout)["shop/back"]
    reward = reward_of(task, gold_answers(task))
    assert reward.parts == {"DB": 1.0, "COMMUNICATE": 1.0, "NL_ASSERTION": 1.0}
    wrong = {**gold_answers(task), "3.item_id": "item-77"}
    assert reward_of(task, wrong).parts == {"DB": 0.0, "COMMUNICATE": 1.0, "NL_ASSERTION": 1.0}
    assert idle_reward(task).value == 0


def test_the_message_history_is_played_before_the_agent_and_counts_for_everybody(checkout: Path) -> None:
    task = tasks_of(checkout)["shop/begun"]
    assert [(step.kind, step.before) for step in task.steps] == [
        ("say", True), ("call", True), ("reply", True), ("say", False), ("call", False), ("say", False), ("call", False)
    ]  # fmt: skip
    assert task.steps[2].heard == ("The red hat {is} back.",)
    assert task.steps[5].text == "I have done turn light. I see:\nThe light is False"
    reward = reward_of(task, gold_answers(task))
    assert reward.parts == {"DB": 1.0, "ENV_ASSERTION": 1.0, "ACTION": 1.0}
    assert reward.left_out == ("NL_ASSERTION",)
    assert idle_reward(task).parts == {"DB": 0.0, "ENV_ASSERTION": 1.0, "ACTION": 0.0}


def test_a_wrong_call_is_an_error_of_the_checkout_s_own(checkout: Path) -> None:
    task = tasks_of(checkout)["shop/back"]
    row = task.row
    world = tau2.open_checkout(checkout, "shop", row)
    assert (world.call("get_order", {"order_id": "X"}).value, world.call("get_order", {"order_id": "X"}).error) == (
        "Order not found",
        True,
    )


def test_a_place_that_is_no_checkout_and_an_unknown_domain_are_explained(tmp_path: Path, checkout: Path) -> None:
    with pytest.raises(TaskError, match="is no checkout of tau2-bench"):
        load_tools(f"tau2:{tmp_path / 'elsewhere' / 'far'}")
    with pytest.raises(TaskError, match="the checkout has no domain circus"):
        load_tools(f"tau2:{checkout}/circus")


def test_missing_tasks_and_a_row_of_another_form_name_the_file(checkout: Path) -> None:
    file = checkout / "data" / "tau2" / "domains" / "shop" / "tasks.json"
    file.write_text(json.dumps([{"id": "x", "user_scenario": {"instructions": 3}}]), encoding="utf-8")
    with pytest.raises(TaskError, match=r"tasks\.json, task x: user_scenario"):
        tasks_of(checkout)
    file.write_text("version https://git-lfs.github.com/spec/v1", encoding="utf-8")
    with pytest.raises(TaskError, match=r"tasks\.json: is missing, or no JSON; large files .* git lfs"):
        tasks_of(checkout)


def test_only_one_checkout_is_imported_in_a_process(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    tasks_of(checkout)
    other = write_checkout(tmp_path_factory.mktemp("other"))
    with pytest.raises(TaskError, match="use one in a process"):
        tasks_of(other)


def test_a_package_that_the_source_needs_is_named(checkout: Path) -> None:
    file = checkout / "src" / "tau2" / "domains" / "shop" / "environment.py"
    file.write_text("import no_such_package", encoding="utf-8")
    with pytest.raises(TaskError, match="needs no_such_package; run: pip install addict"):
        tasks_of(checkout)


@pytest.mark.slow
@pytest.mark.skipif(not CHECKOUT, reason="MNEMOTUNE_TAU2 names no checkout of tau2-bench")
@pytest.mark.parametrize(
    ("domain", "tasks"), [("airline", 50), ("retail", 114), ("telecom", 114), ("banking_knowledge", 97)]
)
def test_the_gold_plans_of_a_real_checkout_are_rewarded_in_full(domain: str, tasks: int, fresh: None) -> None:
    from mnemotune.data.tools.tau2_tasks import task_of

    [(place, name)] = tau2.places_of(f"tau2:{CHECKOUT}/{domain}")
    rewards = {}
    for row in tau2.rows_of(place, name):
        task = task_of(row, place, name)
        rewards[row.id] = reward_of(task, gold_answers(task)).value
    assert len(rewards) == tasks
    assert {name for name, reward in rewards.items() if reward != 1} == set()
