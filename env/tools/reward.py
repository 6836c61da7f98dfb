"""Rewards of a finished dialogue, as tau2-bench has them (v1.0.1, evaluator)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...data.tools.row import Action, Basis, Criteria
from ...data.tools.task import ToolsTask
from ...data.tools.world import World
from ..planned import Answers
from .agent import Call, PlannedAgent


@dataclass(frozen=True, slots=True)
class Reward:
    """What a dialogue is worth."""

    parts: dict[Basis, float]
    """By what is rewarded: 1 where it is as wanted, 0 where it is not."""
    left_out: tuple[Basis, ...] = ()
    """What only a judge could tell."""

    @property
    def value(self) -> float:
        """The product of the parts."""
        return math.prod(self.parts.values())

    @classmethod
    def of_all(cls, rewards: Sequence[Reward]) -> Reward:
        """Return what several dialogues are worth together: a part is 1 where it is in each that has it."""
        parts: dict[Basis, float] = {}
        for reward in rewards:
            parts |= {basis: min(part, parts.get(basis, 1.0)) for basis, part in reward.parts.items()}
        return cls(parts, tuple(dict.fromkeys(basis for reward in rewards for basis in reward.left_out)))


Hashes = tuple[str, str]
"""Of the agent's database and of the customer's."""


def reward_of(task: ToolsTask, answers: Answers, *, gold: Sequence[Hashes] | None = None) -> Reward:
    """Return what the planned agent earns with these answers; the task is played again in a fresh world.

    ``gold`` has what ``gold_hashes`` returns of each dialogue, where that is known already.
    """
    return _of_each(task, gold, lambda agent: agent.play(answers))


def gold_answers(task: ToolsTask) -> dict[str, str]:
    """Return the right answer to every check."""
    return {check.id: str(task.right(check)) for check in task.checks.values()}


def idle_reward(task: ToolsTask, *, gold: Sequence[Hashes] | None = None) -> Reward:
    """Return what an agent earns that calls no tool and tells nothing, beyond what was done before the dialogue."""
    return _of_each(task, gold, _do_what_was_before)


def _of_each(task: ToolsTask, gold: Sequence[Hashes] | None, play: Callable[[PlannedAgent], None]) -> Reward:
    rewards = []
    for number, dialogue in enumerate(task.dialogues):
        agent = PlannedAgent(dialogue)
        play(agent)
        hashes = gold[number] if gold else None
        rewards.append(rewarded(dialogue, agent.world, agent.calls, agent.replies, gold=hashes))
    return Reward.of_all(rewards)


def _do_what_was_before(agent: PlannedAgent) -> None:
    for step in agent.task.steps:
        if step.before:
            agent.do(step, {})


def rewarded(
    task: ToolsTask, world: World, calls: Sequence[Call], replies: Sequence[str], *, gold: Hashes | None = None
) -> Reward:
    """Return what one dialogue is worth that has left the world so, with these calls and replies of the agent's.

    Raises ValueError where the task has several dialogues: ``task.dialogues`` has each.
    """
    if task.later:
        raise ValueError(f"{task.id}: has {1 + len(task.later)} dialogues; reward each")
    criteria = task.row.evaluation_criteria
    if criteria is None:
        return Reward({})
    parts: dict[Basis, float] = {}
    left_out: list[Basis] = []
    for basis in criteria.reward_basis:
        if basis == "NL_ASSERTION" and criteria.nl_assertions:
            left_out.append(basis)
        else:
            met = (
                _databases_are_right(task, world, gold)
                if basis == "DB"
                else _is_met(basis, criteria, world, calls, replies)
            )
            parts[basis] = float(met)
    return Reward(parts, tuple(left_out))


def _databases_are_right(task: ToolsTask, world: World, gold: Hashes | None) -> bool:
    criteria = task.row.evaluation_criteria
    if criteria is None or (criteria.actions is None and criteria.env_assertions is None):
        return True
    return world.hashes == (gold or gold_hashes(task))


def _is_met(basis: Basis, criteria: Criteria, world: World, calls: Sequence[Call], replies: Sequence[str]) -> bool:
    if basis == "ENV_ASSERTION":
        return all(world.holds(assertion) for assertion in criteria.env_assertions or ())
    if basis == "ACTION":
        return all(any(_matches(action, call) for call in calls) for action in criteria.actions or ())
    if basis == "COMMUNICATE":
        said = [reply.lower().replace(",", "") for reply in replies]
        return all(any(info.lower() in reply for reply in said) for info in criteria.communicate_info or ())
    return True


def gold_hashes(task: ToolsTask) -> Hashes:
    """Return the hashes of the databases after what was done before one dialogue, and its gold plan."""
    agent = PlannedAgent(task)
    _do_what_was_before(agent)
    criteria = task.row.evaluation_criteria
    for action in (criteria and criteria.actions) or ():
        agent.world.call(action.name, action.arguments, action.requestor)
    return agent.world.hashes


def _matches(action: Action, call: Call) -> bool:
    if action.name != call.name:
        return False
    compared = call.arguments.keys() if action.compare_args is None else action.compare_args
    ours = {name: value for name, value in call.arguments.items() if name in compared}
    return not compared or ours == {name: value for name, value in action.arguments.items() if name in compared}


def pass_hat_k(successes: int, trials: int, k: int) -> float:
    """Return the chance that ``k`` of the trials, drawn without replacement, all succeed (tau-bench's pass^k).

    Raises ValueError where there are fewer trials than ``k``.
    """
    if not 1 <= k <= trials:
        raise ValueError(f"pass^{k} needs {k} trials or more, and at least 1; there are {trials}")
    return math.comb(successes, k) / math.comb(trials, k)
