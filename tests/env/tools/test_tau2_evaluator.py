"""Rewards beside those of tau2-bench's own evaluators, which are imported from a local checkout.

``MNEMOTUNE_TAU2`` names the checkout, whose source's packages are installed; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from mnemotune.data.tools import tau2
from mnemotune.data.tools.task import ToolsTask
from mnemotune.data.tools.tau2_tasks import task_of
from mnemotune.env.tools.agent import PlannedAgent
from mnemotune.env.tools.reward import Hashes, gold_answers, gold_hashes, rewarded

CHECKOUT = os.environ.get("MNEMOTUNE_TAU2", "")
MUTATED = 100
"""Trajectories of each domain in which one thing is not as in the gold plan."""
WRONG = "X-1"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not CHECKOUT, reason="MNEMOTUNE_TAU2 names no checkout of tau2-bench")
@pytest.mark.parametrize(
    ("domain", "tasks", "gold", "idle"),
    [
        ("airline", 50, 50, 23),
        ("retail", 114, 114, 11),
        ("telecom", 114, 114, 0),
        ("banking_knowledge", 97, 97, 0),
        ("mock", 10, 8, 1),
    ],
)
def test_the_reward_is_tau2_bench_s_own_with_the_gold_plan_with_ok_only_and_with_something_wrong(
    domain: str, tasks: int, gold: int, idle: int
) -> None:
    [(checkout, _)] = tau2.places_of(f"tau2:{CHECKOUT}/{domain}")
    evaluator = Evaluator(checkout, domain)
    rewards: dict[str, dict[str, float]] = {"gold": {}, "ok": {}}
    different, mutable = [], []
    for row in tau2.rows_of(checkout, domain):
        task = task_of(row, checkout, domain)
        hashes = gold_hashes(task)
        for name, agent in (("gold", played(task)), ("ok", only_ok(task))):
            ours, theirs = evaluator.both(agent, hashes)
            rewards[name][task.id] = ours
            different += [(task.id, name, ours, theirs)] if ours != theirs else []
        if list(mutations(task)):
            mutable.append((task, hashes))
    assert different == []
    assert {name: (len(each), sum(each.values())) for name, each in rewards.items()} == {
        "gold": (tasks, gold),
        "ok": (tasks, idle),
    }
    rng, mutated = random.Random(domain), Counter[float]()
    for _ in range(MUTATED):
        task, hashes = rng.choice(mutable)
        name, mutation = rng.choice(list(mutations(task)))
        ours, theirs = evaluator.both(mutation(rng), hashes)
        mutated[ours] += 1
        different += [(task.id, name, ours, theirs)] if ours != theirs else []
    assert different == []
    print(f"{domain}: of {MUTATED} mutated trajectories {mutated[1.0]} are rewarded")  # noqa: T201 - shown by -s


class Evaluator:
    """Rewards trajectories of a domain as we do and as tau2-bench does."""

    def __init__(self, checkout: Path, domain: str) -> None:
        tau2._import_from(checkout)
        self._checkout, self._domain = checkout, domain
        folder = checkout / "data" / "tau2" / "domains" / domain
        files = sorted((folder / "tasks").glob("task_*.json")) or [folder / "tasks.json"]
        read = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        self._rows = {str(row["id"]): row for rows in read for row in (rows if isinstance(rows, list) else [rows])}

    def both(self, agent: PlannedAgent, gold: Hashes) -> tuple[float, float]:
        """Return our reward and tau2-bench's; a database that its assertion cannot look at is worth nothing."""
        ours = rewarded(agent.task, agent.world, agent.calls, agent.replies, gold=gold).value
        try:
            return ours, self._theirs(agent)
        except ValueError as error:
            if "Tool call" in str(error):  # its replay of the recorded calls differs
                raise
            return ours, 0.0

    def _theirs(self, agent: PlannedAgent) -> float:
        tasks, parts = tau2._module("data_model.tasks"), tau2._module("evaluator.evaluator_env")
        actions, told = tau2._module("evaluator.evaluator_action"), tau2._module("evaluator.evaluator_communicate")
        task = tasks.Task.model_validate(self._rows[agent.task.row.id])
        if task.evaluation_criteria is None:
            return 1.0
        messages, basis = self._messages(agent, task), {part.value for part in task.evaluation_criteria.reward_basis}
        reward = 1.0
        if basis & {"DB", "ENV_ASSERTION"}:
            reward *= parts.EnvironmentEvaluator.calculate_reward(self._constructor(agent.task), task, messages).reward
        if "ACTION" in basis:
            reward *= actions.ActionEvaluator.calculate_reward(task, messages).reward
        if "COMMUNICATE" in basis:
            reward *= told.CommunicateEvaluator.calculate_reward(task, messages).reward
        return reward

    def _messages(self, agent: PlannedAgent, task: Any) -> list[Any]:
        """Return the trajectory as tau2-bench records it: the history, then each call with its result, the replies."""
        messages, state = tau2._module("data_model.message"), task.initial_state
        trajectory = list((state and state.message_history) or ())
        world = self._constructor(agent.task)()
        world.set_state(state and state.initialization_data, state and state.initialization_actions, trajectory)
        before = [step for step in agent.task.steps if step.before]
        for number, call in enumerate(agent.calls[sum(step.kind == "call" for step in before) :]):
            called = messages.ToolCall(
                id=f"call {number}", name=call.name, arguments=dict(call.arguments), requestor=call.requestor
            )
            kind = messages.UserMessage if call.requestor == "user" else messages.AssistantMessage
            trajectory += [kind(role=call.requestor, tool_calls=[called]), world.get_response(called)]
        replies = agent.replies[sum(step.kind == "reply" for step in before) :]
        return trajectory + [messages.AssistantMessage(role="assistant", content=text) for text in replies]

    def _constructor(self, task: ToolsTask) -> Callable[..., Any]:
        return lambda solo_mode=False: tau2.open_checkout(self._checkout, self._domain, task.row)._environment


def played(
    task: ToolsTask, answers: Mapping[str, str] | None = None, *, times: Mapping[int, int] = MappingProxyType({})
) -> PlannedAgent:
    """Play a task with the right answers but for these, each step once but for these."""
    agent = PlannedAgent(task)
    for place, step in enumerate(task.steps):
        for _ in range(times.get(place, 1)):
            agent.do(step, gold_answers(task) | dict(answers or {}))
    return agent


def only_ok(task: ToolsTask) -> PlannedAgent:
    """Say ok and do nothing."""
    agent = played(task, times={place: 0 for place, step in enumerate(task.steps) if not step.before})
    agent.replies.append("ok")
    return agent


def mutations(task: ToolsTask) -> Iterator[tuple[str, Callable[[random.Random], PlannedAgent]]]:
    """Yield the ways in which one thing can go wrong."""
    right = gold_answers(task)
    steps = [place for place, step in enumerate(task.steps) if step.kind != "say" and not step.before]
    if right:
        yield "wrong argument", lambda rng: played(task, _one_wrong(right, rng))
    if steps:
        yield "step left out", lambda rng: played(task, times={rng.choice(steps): 0})
        yield "step done twice", lambda rng: played(task, times={rng.choice(steps): 2})


def _one_wrong(right: Mapping[str, str], rng: random.Random) -> dict[str, str]:
    check = rng.choice(list(right))
    return {check: rng.choice([WRONG, *(value for value in right.values() if value != right[check])])}
