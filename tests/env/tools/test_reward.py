"""Rewards: the right answers earn everything, wrong ones do not, and doing nothing earns nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mnemotune.data.tools.load import load_tools
from mnemotune.data.tools.row import Criteria
from mnemotune.data.tools.task import ToolsTask, tools_task
from mnemotune.env.tools.agent import Call, PlannedAgent
from mnemotune.env.tools.reward import gold_answers, idle_reward, pass_hat_k, reward_of, rewarded

TASKS = [tools_task(task) for task in load_tools("workshop")]


def test_the_right_answers_are_rewarded_in_full_in_every_task() -> None:
    assert {task.id: reward_of(task, gold_answers(task)).value for task in TASKS} == {t.id: 1.0 for t in TASKS}


def test_doing_nothing_is_rewarded_in_no_task() -> None:
    assert {idle_reward(task).value for task in TASKS} == {0.0}


def test_a_wrong_argument_of_a_write_or_a_reply_loses_the_reward() -> None:
    for task in TASKS[:8]:
        for step in task.steps:
            changes = step.kind == "reply" or step.tool in {
                "move_repair",
                "order_part",
                "redirect_order",
                "return_part",
            }
            for slot in step.slots if changes else ():
                answers = {**gold_answers(task), slot.check: "X-1"}
                assert reward_of(task, answers).value == 0, (task.id, slot)


def test_where_actions_are_rewarded_a_wrong_argument_of_a_read_loses_the_reward_too() -> None:
    task = next(task for task in TASKS if task.id.endswith("across"))
    read = next(step for step in task.steps if step.tool == "get_customer")
    assert reward_of(task, {**gold_answers(task), read.slots[0].check: "X-1"}).parts["ACTION"] == 0


def test_an_unread_answer_is_an_empty_argument() -> None:
    task = TASKS[0]
    assert reward_of(task, dict.fromkeys(task.checks)).value == 0


def with_criteria(task: ToolsTask, **changes: object) -> ToolsTask:
    criteria = task.row.evaluation_criteria
    assert criteria is not None
    return replace(task, row=task.row.model_copy(update={"evaluation_criteria": criteria.model_copy(update=changes)}))


def test_the_reward_is_the_product_of_what_is_rewarded() -> None:
    task = with_criteria(TASKS[0], reward_basis=("DB", "COMMUNICATE"), communicate_info=("nobody says this",))
    reward = reward_of(task, gold_answers(task))
    assert reward.parts == {"DB": 1.0, "COMMUNICATE": 0.0}
    assert reward.value == 0


def test_an_assertion_that_only_a_judge_can_tell_is_left_out_and_said() -> None:
    task = with_criteria(TASKS[0], reward_basis=("DB", "NL_ASSERTION"), nl_assertions=("The agent is polite.",))
    reward = reward_of(task, gold_answers(task))
    assert (reward.parts, reward.left_out) == ({"DB": 1.0}, ("NL_ASSERTION",))


def test_no_assertion_for_a_judge_is_met() -> None:
    task = with_criteria(TASKS[0], reward_basis=("NL_ASSERTION",), nl_assertions=None)
    assert reward_of(task, gold_answers(task)).parts == {"NL_ASSERTION": 1.0}


def test_without_criteria_everything_is_right() -> None:
    task = replace(TASKS[0], row=TASKS[0].row.model_copy(update={"evaluation_criteria": None}))
    assert idle_reward(task).value == 1


def test_only_the_named_arguments_of_an_action_are_compared() -> None:
    task = TASKS[0]
    criteria = task.row.evaluation_criteria
    assert criteria is not None
    assert criteria.actions is not None
    action = criteria.actions[0]
    agent = PlannedAgent(task)
    call = [Call(action.name, {"phone": "another"})]
    for compared, met in ((None, 0.0), (("phone",), 0.0), ((), 1.0)):
        actions = (action.model_copy(update={"compare_args": compared}),)
        changed = with_criteria(task, reward_basis=("ACTION",), actions=actions)
        assert rewarded(changed, agent.world, call, ()).parts == {"ACTION": met}


def test_what_is_told_is_found_without_its_commas_and_in_any_case() -> None:
    task = with_criteria(TASKS[0], reward_basis=("COMMUNICATE",), communicate_info=("1200 Crowns",))
    assert rewarded(task, PlannedAgent(task).world, (), ["It costs 1,200 crowns."]).value == 1


def test_criteria_reward_the_databases_and_what_is_told_by_default() -> None:
    assert Criteria().reward_basis == ("DB", "COMMUNICATE")


@pytest.mark.parametrize(
    ("successes", "k", "chance"), [(4, 1, 1.0), (2, 1, 0.5), (2, 2, 1 / 6), (1, 2, 0.0), (0, 4, 0.0)]
)
def test_pass_hat_k_is_the_chance_that_k_trials_succeed(successes: int, k: int, chance: float) -> None:
    assert pass_hat_k(successes, 4, k) == pytest.approx(chance)


def test_pass_hat_k_needs_k_trials() -> None:
    with pytest.raises(ValueError, match=r"pass\^5 needs 5 trials"):
        pass_hat_k(1, 4, 5)
