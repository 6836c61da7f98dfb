"""A checkout of tau2-bench: its rows become tasks, and its own tools play them."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checkout import DATABASE, ROWS, action, write_checkout
from mnemotune.data.task import TaskError
from mnemotune.data.tools import tau2
from mnemotune.data.tools.load import load_tools
from mnemotune.data.tools.task import ToolsTask, tools_task
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.tools.agent import PlannedAgent
from mnemotune.env.tools.model import ModelToolsTrack
from mnemotune.env.tools.reward import gold_answers, idle_reward, reward_of, rewarded
from mnemotune.env.tools.talk import Talk
from mnemotune.env.tools.track import ToolsTrack
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request, ToolCall
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates


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
    with pytest.raises(TaskError, match=r"tasks\.json: row 0, task x: user_scenario"):
        tasks_of(checkout)
    file.write_text("version https://git-lfs.github.com/spec/v1", encoding="utf-8")
    with pytest.raises(TaskError, match=r"tasks\.json: is missing, or no JSON; large files .* git lfs"):
        tasks_of(checkout)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["back"], r"tasks\.json: row 0: row: Input should be"),
        ("back", r"tasks\.json: row 0: row: Input should be"),
        ([ROWS[0], None], r"tasks\.json: row 1: row: Input should be"),
        ([{"id": "x"}], r"tasks\.json: row 0, task x: user_scenario: Field required"),
        ([{**ROWS[0], "id": 3}], r"tasks\.json: row 0, task 3: id: Input should be a valid string"),
        ([{**ROWS[0], "initial_state": [1]}], r"tasks\.json: row 0, task back: initial_state"),
    ],
)
def test_a_row_of_another_form_is_explained_in_one_line(checkout: Path, rows: object, problem: str) -> None:
    (checkout / "data" / "tau2" / "domains" / "shop" / "tasks.json").write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(TaskError, match=problem) as caught:
        tasks_of(checkout)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"content": "Hello."}, r"0\.role: Field required"),
        ({"role": "bird", "content": "Hello."}, r"0\.role: Input should be 'system', 'user'"),
        ({"role": "user", "content": 3}, r"0\.content: Input should be a valid string"),
        ({"role": "user", "tool_calls": [{"arguments": {}}]}, r"0\.tool_calls\.0\.name: Field required"),
        ({"role": "user", "tool_calls": [{"name": "a", "arguments": 3}]}, r"0\.tool_calls\.0\.arguments: "),
        ("Hello.", r"0: Input should be"),
    ],
)
def test_a_message_history_of_another_form_names_the_message_and_the_field(
    checkout: Path, message: object, problem: str
) -> None:
    row = {**ROWS[0], "initial_state": {"message_history": [message]}}
    (checkout / "data" / "tau2" / "domains" / "shop" / "tasks.json").write_text(json.dumps([row]), encoding="utf-8")
    with pytest.raises(TaskError, match=rf"tasks\.json: row 0, task back: initial_state\.message_history\.{problem}"):
        tasks_of(checkout)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no JSON"),
        ("null", "is no JSON"),
        ("[]", "splits: Input should be"),
        ('{"base": "back"}', "base: Input should be"),
        ('{"base": [1]}', r"base\.\S+: Input should be"),
    ],
)
def test_broken_splits_are_not_read_as_none(checkout: Path, text: str, problem: str) -> None:
    (checkout / "data" / "tau2" / "domains" / "shop" / "split_tasks.json").write_text(text, encoding="utf-8")
    with pytest.raises(TaskError, match=rf"split_tasks\.json: {problem}.*; it has to hold the ids of each split"):
        tasks_of(checkout)


@pytest.mark.parametrize(("splits", "tasks"), [({"train": ["back"]}, 2), ({"base": ["back"]}, 1)])
def test_the_base_split_is_read_where_there_is_one(checkout: Path, splits: object, tasks: int) -> None:
    file = checkout / "data" / "tau2" / "domains" / "shop" / "split_tasks.json"
    file.write_text(json.dumps(splits), encoding="utf-8")
    assert len(tasks_of(checkout)) == tasks


def test_an_unknown_initial_action_names_the_task(checkout: Path) -> None:
    action = {"env_type": "assistant", "func_name": "burn", "arguments": {}}
    row = {**ROWS[0], "initial_state": {"initialization_actions": [action]}}
    (checkout / "data" / "tau2" / "domains" / "shop" / "tasks.json").write_text(json.dumps([row]), encoding="utf-8")
    with pytest.raises(TaskError, match=r"shop, task back: initial_state: .*burn"):
        tasks_of(checkout)


def test_a_value_that_no_question_tells_from_another_is_not_asked_for(checkout: Path) -> None:
    database = json.loads(json.dumps(DATABASE))
    database["orders"]["#W200"]["items"][0]["name"] = "blue hat"
    (checkout / "data" / "tau2" / "domains" / "shop" / "db.json").write_text(json.dumps(database), encoding="utf-8")
    task = tasks_of(checkout)["shop/back"]
    assert [task.right(check) for check in task.checks.values()] == ["ada_1", "#W200", "#W200"]
    assert reward_of(task, gold_answers(task)).value == 1


AGAIN = {
    **ROWS[0],
    "id": "again",
    "user_scenario": {"instructions": "You are ada_1. Now the red hat, item-77, has to go as well."},
    "evaluation_criteria": {
        "actions": [
            action(0, "get_user", user_id="ada_1"),
            action(1, "give_back", order_id="#W200", item_id="item-77"),
        ],
        "reward_basis": ["DB"],
    },
}


def chains_of(checkout: Path, rows: list[object]) -> list[ToolsTask]:
    (checkout / "data" / "tau2" / "domains" / "shop" / "tasks.json").write_text(json.dumps(rows), encoding="utf-8")
    return [tools_task(task) for task in load_tools(f"tau2-across:{checkout}/shop")]


def test_dialogues_of_one_customer_are_calls_and_what_an_earlier_one_said_is_not_said_again(checkout: Path) -> None:
    [task] = chains_of(checkout, [*ROWS, AGAIN])
    assert (task.id, task.group, task.stages) == ("shop/ada_1-across", "shop/ada_1", 2)
    assert [step.text for step in task.steps if step.kind == "say"] == [
        "Hello, I need your help.\nThe user id is ada_1.",
        "Hello, it is me again.\nThe item id is item-77.",
    ]
    asked = [(check.text, task.right(check), task.facts[check.needs[0]].since) for check in task.checks.values()]
    assert [each for each, check in zip(asked, task.checks.values(), strict=True) if check.stage == 1] == [
        ("What is the user id?", "ada_1", 0),
        ("What is the orders place 2 for ada_1?", "#W200", 1),
        ("What is the item id?", "item-77", 1),
    ]
    assert any("politely" in text for text in task.script)
    assert any("has to go as well" in text for text in task.script)


def test_each_call_begins_with_databases_of_its_own_and_all_have_to_be_right(checkout: Path) -> None:
    [task] = chains_of(checkout, [*ROWS, AGAIN])
    agent, alone = PlannedAgent(task), PlannedAgent(task.dialogues[1])
    agent.play(gold_answers(task))
    alone.play(gold_answers(task))
    assert (agent.world.hashes, agent.calls) == (alone.world.hashes, alone.calls)
    assert reward_of(task, gold_answers(task)).parts == {"DB": 1.0, "COMMUNICATE": 1.0, "NL_ASSERTION": 1.0}
    returned = [check.id for check in task.checks.values() if str(task.right(check)).startswith("item-")]
    assert [task.checks[name].stage for name in returned] == [0, 0, 1]
    for name in returned:
        assert reward_of(task, {**gold_answers(task), name: "item-99"}).value == 0
    assert idle_reward(task).value == 0
    with pytest.raises(ValueError, match="shop/ada_1-across: has 2 dialogues; reward each"):
        rewarded(task, agent.world, agent.calls, agent.replies)


async def test_a_chain_of_calls_is_played_and_rewarded_like_any_task(checkout: Path) -> None:
    tasks = chains_of(checkout, [*ROWS, AGAIN])
    track, model = ToolsTrack(Templates.bundled()), EmbeddedModel()
    evaluator = Evaluator(track, Cast(model, model, LexicalEmbedder(), context_tokens=400))
    evaluation = await evaluator.evaluate(load_policy("window"), tasks)
    assert evaluation.mean("accuracy") == evaluation.mean("floor")
    assert set(evaluation.extras["rewards"]) == {"shop/ada_1-across"}


def test_customers_who_call_once_or_need_nothing_of_an_earlier_call_are_counted(
    checkout: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = {**AGAIN, "user_scenario": {"instructions": "The red hat, item-77, has to go as well."}}
    with caplog.at_level(logging.WARNING), pytest.raises(TaskError, match="has no task"):
        chains_of(checkout, [*ROWS[:2], other])
    assert "of shop, 1 customers who call once are left out, and 1 who need nothing of an earlier call" in caplog.text


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


class Talkers(LanguageModel):
    """Plays the customer, who turns the light on when told so, and the agent, who asks first and then looks."""

    name = "talkers"

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def complete(self, request: Request) -> Completion:
        text = "\n".join(message.text for message in request.messages)
        done = [call.name for message in request.messages for call in message.tool_calls]
        if request.form is not None:
            return said('{"value": "#W200"}')
        if request.role == "user":
            if "Agent: Well" in text:
                return said("DONE")
            return said("It is on.") if done else said("", ToolCall("1", "turn_light", "{}"))
        self.shown.append(text)
        if "It is on." not in text:
            return said("Turn your light on, please.")
        return said("Well.") if done else said("", ToolCall("1", "get_order", '{"order_id": "#W200"}'))


def said(text: str, *calls: ToolCall) -> Completion:
    return Completion(text, Usage(1, 1), calls)


async def test_an_agent_that_plans_hears_of_the_customer_s_tools_from_the_customer_alone(checkout: Path) -> None:
    track = ModelToolsTrack(Templates.bundled())
    task = next(task for task in track.load(f"tau2:{checkout}/shop") if task.id == "shop/begun")
    model = Talkers()
    cast = Cast(model, model, LexicalEmbedder())
    episode = await track.begin(task, load_policy("window"), cast).run()
    assert (episode.failure, episode.reward) == (None, 1.0)
    assert not any("I have done turn light" in text for text in model.shown)
    assert "Be kind." in model.shown[0]
    assert [mark.score for stage in episode.stages for mark in stage.marks] == [1]


def test_what_the_customer_s_own_tools_are_called_with_is_no_argument_of_the_agent_s(checkout: Path) -> None:
    task = tasks_of(checkout)["shop/back"]
    theirs = replace(task, steps=tuple(replace(step, requestor="user") for step in task.steps))
    talk = Talk(theirs, Templates.bundled(), EmbeddedModel())
    assert all(math.isnan(talk.mark(check).score) for check in theirs.checks.values())
