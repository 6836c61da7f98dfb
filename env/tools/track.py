"""The tools track: a stage is a call or a turn of the customer's, and a check is an argument of the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from ...data.task import Check, Task
from ...data.tools.load import load_tools
from ...data.tools.task import Step, like, tools_task
from ...policies.lm import Message
from ..episode import HEARD, Bounds, Episode
from ..outside import Outside
from ..planned import Answers, Desk, PlannedTrack, Seen, answers_of
from ..statistics import nan_mean
from ..summary import json_number
from ..track import Usual
from .agent import KINDS, PlannedAgent, gold_messages, most_heard
from .reward import Reward, gold_hashes, idle_reward, reward_of


class ToolsDesk(Desk[Step]):
    """The databases of one episode."""

    def __init__(self, agent: PlannedAgent) -> None:
        """Work as this agent does."""
        self._agent = agent

    async def do(self, step: Step, answers: Answers) -> Sequence[Seen]:
        """Do a step."""
        return [(KINDS[step.kind], message) for message in self._agent.do(step, answers)]

    async def rest(self) -> None:
        """Keep the databases: nobody waits for them."""

    def fork(self, outside: Outside) -> ToolsDesk:
        """Copy the databases."""
        return ToolsDesk(deepcopy(self._agent))

    async def reward(self) -> None:
        """Leave it to the figures of an evaluation, which have it for the bounds too."""

    async def aclose(self) -> None:
        """Release nothing."""


class ToolsTrack(PlannedTrack[Step]):
    """An agent follows a plan with tools; what the plan's arguments are is answered from memory. After tau2-bench."""

    name, noun, stage_noun = "tools", "customer", "stage"
    usual = Usual(data="workshop", context_tokens=500)

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Task]:
        """Return the tasks that a source names, as ``load_tools`` has it. Raises TaskError."""
        return load_tools(source, customers=groups)

    def steps(self, task: Task) -> Sequence[Step]:
        """Return the plan, with what the customer does."""
        return tools_task(task).steps

    def right(self, task: Task, check: Check) -> str:
        """Return the right argument as text."""
        return str(tools_task(task).right(check))

    def is_right(self, task: Task, check: Check, value: str) -> bool:
        """Tell whether an answer is the right argument, once it is of its kind."""
        right = tools_task(task).right(check)
        return bool(like(value, right) == right)

    def heard(self, task: Task, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return what memory observes in a stage where every slot is right."""
        return [(message,) for step in self.at(task, stage) for message in gold_messages(step)]

    def most_seen(self, task: Task, step: Step) -> int:
        """Return how many messages memory observes in a step at most."""
        return most_heard(tools_task(task), step)

    def desk(self, task: Task, outside: Outside) -> Desk[Step]:
        """Open the task's databases."""
        return ToolsDesk(PlannedAgent(tools_task(task)))

    def is_of(self, task: Task, episode: Episode) -> bool:
        """Tell whether a recorded episode is of a task: its customer says the same, and its steps are the plan's."""
        if len(episode.stages) != task.stages or [*_said(episode)] != [*self._spoken(task)]:
            return False
        plan = [[KINDS[step.kind] for step in self.at(task, stage)] for stage in range(task.stages)]
        return all(
            event.step < len(kinds) and kinds[event.step] == event.kind
            for kinds, record in zip(plan, episode.stages, strict=True)
            for event in record.events
            if event.kind in HEARD
        )

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return the agent, and the rewards of whole episodes beside those of the bounds."""
        rewards: dict[str, Reward] = {}
        edges: dict[str, tuple[float, float]] = {}
        idle: list[str] = []
        for task, episode in zip(tasks, episodes, strict=True):
            if episode.failure is None and len(episode.stages) == task.stages and task.id in bounds:
                opened, bound = tools_task(task), bounds[task.id]
                sides = (
                    [mark for stage in episode.stages for mark in stage.marks],
                    bound.floor.values(),
                    bound.ceiling.values(),
                )
                gold = [gold_hashes(dialogue) for dialogue in opened.dialogues]
                reward, floor, ceiling = (reward_of(opened, answers_of([*marks]), gold=gold) for marks in sides)
                rewards[task.id], edges[task.id] = reward, (floor.value, ceiling.value)
                idle += [task.id] if idle_reward(opened, gold=gold).value == 1 else []
        return {
            "agent": self.agent,
            "reward": json_number(nan_mean([reward.value for reward in rewards.values()])),
            "floor_reward": json_number(nan_mean([floor for floor, _ in edges.values()])),
            "ceiling_reward": json_number(nan_mean([ceiling for _, ceiling in edges.values()])),
            "rewards": {name: reward.value for name, reward in rewards.items()},
            "rewarded_without_memory": sorted(name for name, (floor, _) in edges.items() if floor == 1),
            "rewarded_idle": sorted(idle),
            "not_judged": sorted(name for name, reward in rewards.items() if reward.left_out),
        }

    def _spoken(self, task: Task) -> Iterator[str]:
        """Yield what the customer says."""
        return (text for step in tools_task(task).steps if step.kind == "say" for text in step.heard)


def _said(episode: Episode) -> Iterator[str]:
    for stage in episode.stages:
        for event in stage.events:
            if event.kind == "say":
                yield from (message.content for message in event.seen)
