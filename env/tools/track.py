"""The tools track: a stage is a call or a turn of the customer's, and a check is an argument of the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...data.task import Check, Fact, Task
from ...data.tools.load import load_tools
from ...data.tools.task import like, tools_task
from ...policies.files import load_policy
from ...policies.forms import ReplyForm
from ...policies.lm import Message
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates
from ...policies.text import stems
from ..concurrency import side_by_side
from ..episode import Bounds, Episode, Mark, RecordError
from ..reading import ObservingTrack
from ..slot import SLOT_FORM, read_slot, slot_query, slot_query_reworded
from ..statistics import nan_mean
from ..summary import json_number
from ..track import Cast, FactPrompt, Rollout, Usual
from .agent import PlannedAgent, gold_messages, most_heard
from .reward import Reward, gold_hashes, idle_reward, reward_of
from .rollout import ToolsRollout


class ToolsTrack(ObservingTrack[Task]):
    """An agent follows a plan with tools; what the plan's arguments are is answered from memory. After tau2-bench."""

    name, noun, stage_noun = "tools", "customer", "stage"
    usual = Usual(data="workshop", context_tokens=500, embedder="lexical:1024")
    agent = "planned"

    def __init__(self, templates: Templates) -> None:
        """Ask with these texts."""
        self.templates = templates

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Task]:
        """Return the tasks that a source names, as ``load_tools`` has it. Raises TaskError."""
        return load_tools(source, customers=groups)

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> Rollout:
        """Set up an episode. Raises RecordError where ``replay`` is of another task."""
        if replay is not None and (len(replay.stages) != task.stages or [*_said(replay)] != [*self._spoken(task)]):
            raise RecordError(f"{self.noun} {task.group}, task {task.id}: another customer is recorded")
        return ToolsRollout(self, task, policy, cast, replay=replay)

    def heard(self, task: Task, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return what memory observes in a stage where every slot is right."""
        return [(message,) for step in tools_task(task).at(stage) for message in gold_messages(step)]

    def query(self, task: Task, check: Check) -> str:
        """Return how an argument is asked for."""
        return slot_query(check.text, self.templates)

    def reworded(self, task: Task, check: Check) -> str | None:
        """Return how it is asked for in other words."""
        return slot_query_reworded(check.text, self.templates)

    def form(self, task: Task, check: Check) -> ReplyForm:
        """Return the form of an argument."""
        return SLOT_FORM

    def mark(self, task: Task, check: Check, raw: str) -> Mark:
        """Score an argument: it is the right one, or it is not."""
        value = read_slot(raw)
        right = tools_task(task).right(check)
        return Mark(check.id, raw, float(value is not None and like(value, right) == right), readable=value is not None)

    async def floor(self, task: Task, cast: Cast) -> list[Mark]:
        """Follow the plan with nothing but the newest observations that fit the budget."""
        assistant = cast.assistant_under(load_policy("window"), cast.assistant, cast.embedder)
        opened, marks = tools_task(task), list[Mark]()
        agent = PlannedAgent(opened)
        for step in opened.steps:
            checks = [opened.checks[slot.check] for slot in step.slots]
            shown = [(await assistant.context(self.query(task, check))).render() for check in checks]
            answered = await side_by_side(
                self.asked(task, check, newest, cast.assistant) for check, newest in zip(checks, shown, strict=True)
            )
            for message in agent.do(step, {mark.check: read_slot(mark.raw) for mark in answered}):
                await assistant.memory.observe([message])
            marks += answered
        return marks

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return a write of two calls for each message, and a call for each argument and each probe."""
        opened = tools_task(task)
        messages = sum(most_heard(opened, step) for step in opened.steps)
        return self.question_calls(task) + (2 * messages if policy.write.mode != "none" else 0)

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong argument: what was asked, what had told it, and what it was answered."""
        check = task.checks[mark.check]
        told = [f'It was told by: "{task.facts[fact].text}"' for fact in check.needs]
        answer = read_slot(mark.raw)
        chosen = "none, the reply could not be read" if answer is None else answer
        right = tools_task(task).right(check)
        return "\n".join([f"Question: {check.text}", *told, f"Chosen answer: {chosen}", f"Right answer: {right}"])

    def fact_prompts(self, task: Task, fact: Fact) -> Iterator[FactPrompt]:
        """Yield each question that needs the fact."""
        checks = {check.question: check for check in reversed(list(task.checks.values())) if fact.id in check.needs}
        for check in checks.values():
            yield FactPrompt(self.query(task, check), partial(self._is_right, task, check), SLOT_FORM)

    def states(self, task: Task, fact: Fact, text: str) -> bool:
        """Tell whether a line of a text has the value, and a word of what is asked beside it."""
        check = next(check for check in task.checks.values() if fact.id in check.needs)
        value, asked = str(tools_task(task).right(check)), set(stems(check.text.replace("_", " ")))
        lines = (line for line in text.splitlines() if value in line)
        return any(not asked.isdisjoint(stems(line.replace(value, " ").replace("_", " "))) for line in lines)

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
                reward, floor, ceiling = (
                    reward_of(opened, {mark.check: read_slot(mark.raw) for mark in marks}, gold=gold) for marks in sides
                )
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
