"""The tools track with an agent that plans and calls tools by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ...data.task import Check, Task, TaskError, checks_at
from ...data.tools.load import ACROSS
from ...data.tools.task import ToolsTask, tools_task
from ...policies.files import load_policy
from ...policies.lm import CallRole, Completion, LanguageModel, Message, Request, Tool
from ...policies.policy import MemoryPolicy
from ..agent import MOST_PIECES, AsBound, Observe, Think, no_memory, refuse_replay, thought
from ..concurrency import both, side_by_side
from ..episode import Bounds, Episode, Event, EventKind, Mark, StageRecord
from ..planned import probed
from ..reading import probes_at
from ..rollout import AssistantRollout
from ..slot import read_slot
from ..statistics import nan_mean
from ..summary import json_number
from ..track import Cast, Rollout, memory_calls
from .reward import idle_reward
from .talk import MOST_CUSTOMER_CALLS, Talk, calls_a_reply, most_exchanges, most_pieces, unasked
from .track import ToolsTrack


class ModelToolsTrack(ToolsTrack):
    """The tools track whose agent is a model; a check is whether an argument of the plan has been used as it should."""

    agent = "model"
    turn: CallRole = "reply"

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> ModelToolsRollout:
        """Set up an episode. Raises RecordError where there is a ``replay``."""
        refuse_replay(replay, task=task)
        return ModelToolsRollout(self, task, policy, cast)

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Task]:
        """Return the tasks that a source names. Raises TaskError, also where a task has several dialogues."""
        if source.startswith(ACROSS):
            raise TaskError(f"{source}: several dialogues of one customer have a planned agent; take tau2:PATH")
        return super().load(source, groups=groups)

    def reworded(self, task: Task, check: Check) -> None:
        """Return nothing: the agent is not asked for an argument."""

    async def bounds(self, task: Task, cast: Cast) -> Bounds:
        """Play the task with the newest messages that fit the budget, and with exactly the facts of each stage."""
        model = AsBound(cast.assistant)
        window = cast.assistant_under(load_policy("window"), model, cast.embedder)

        async def observe(kind: EventKind, message: Message) -> None:
            await window.memory.observe([message])

        opened = tools_task(task)
        floor, ceiling = await both(
            self._marks(opened, cast, [partial(thought, window, role="reply")] * task.stages, observe),
            self._marks(opened, cast, [_with_facts(opened, stage, model) for stage in range(task.stages)], no_memory),
        )
        return Bounds(floor, ceiling)

    async def _marks(self, task: ToolsTask, cast: Cast, minds: Sequence[Think], observe: Observe) -> dict[str, Mark]:
        """Return the marks of a talk with an agent that goes on in each stage as the stage's mind does."""
        talk, marks = Talk(task, self.templates, cast.user), dict[str, Mark]()
        for stage, think in enumerate(minds):
            await talk.stage(stage, think, observe)
            marks |= {check.id: talk.mark(check) for check in checks_at(task, stage)}
        return marks

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe an argument that was not used as it should, which need not be a wrong answer."""
        *lines, _, right = super().tell(task, episode, stage, mark).split("\n")
        used = read_slot(mark.raw)
        what = "The agent has used nothing there" if used is None else f"The agent has used: {used}"
        return "\n".join([*lines, what, right])

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return the calls of the talk, a call for each check and probe, and those of memory."""
        opened, probes = tools_task(task), sum(len(probes_at(task, stage)) for stage in range(task.stages))
        heard = sum(len(step.heard) for stage in range(task.stages) for step in unasked(opened, stage))
        heard += _exchanges(opened) * (calls_a_reply(opened) * most_pieces(opened) + 2 * MOST_PIECES)
        asked = self._talk_calls(opened) + len(task.checks) + probes
        return asked + memory_calls(policy, messages=heard, searches=asked)

    def bound_calls(self, task: Task) -> int:
        """Return those of two talks."""
        return 2 * self._talk_calls(tools_task(task))

    def _talk_calls(self, task: ToolsTask) -> int:
        return _exchanges(task) * (calls_a_reply(task) + 1 + MOST_CUSTOMER_CALLS)

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return the agent, and the rewards of whole episodes; of these, which were not judged, or are idle agents'."""
        rewards = {episode.task: episode.reward for episode in episodes if episode.reward is not None}
        idle = {task.id: idle_reward(tools_task(task)) for task in tasks if task.id in rewards}
        return {
            "agent": self.agent,
            "reward": json_number(nan_mean(list(rewards.values()))),
            "rewards": rewards,
            "rewarded_idle": sorted(name for name, reward in idle.items() if reward.value == 1),
            "not_judged": sorted(name for name, reward in idle.items() if reward.left_out),
        }


class ModelToolsRollout(AssistantRollout[Task]):
    """One episode under way."""

    def __init__(self, track: ModelToolsTrack, task: Task, policy: MemoryPolicy, cast: Cast) -> None:
        """Begin with the first stage."""
        super().__init__(task, policy, cast, track.hints(task))
        self._track = track
        self._talk = Talk(tools_task(task), track.templates, self.user)

    async def go_on(self, end: int) -> None:
        """Talk until ``end`` stages are over."""
        while len(self.records) < end:
            self.records.append(await self._stage(len(self.records)))
        if len(self.records) == self.task.stages:
            self.reward = self._talk.reward.value

    async def _stage(self, stage: int) -> StageRecord:
        events: list[Event] = []

        async def observe(kind: EventKind, message: Message) -> None:
            events.extend(await self.observed(len(events), kind, [message]))

        await self._talk.stage(stage, partial(thought, self.assistant, role="reply"), observe)
        asker, checks = await self.assistant.fork(), checks_at(self.task, stage)
        now, later = await both(
            side_by_side(probed(self._track, self.task, check, asker) for check in checks),
            side_by_side(probed(self._track, self.task, check, asker) for check in probes_at(self.task, stage)),
        )
        marks = [self._talk.mark(check).with_facts_of(probe) for check, probe in zip(checks, now, strict=True)]
        recalled = {fact: bool(known) for probe in later for fact, known in probe.recalled.items()}
        return StageRecord(tuple(events), tuple(marks), recalled)


def _exchanges(task: ToolsTask) -> int:
    """Return how often somebody says something to the agent at most."""
    steps = (step for stage in range(task.stages) for step in unasked(task, stage))
    return most_exchanges(task) * sum(step.kind == "say" and not step.before for step in steps)


def _with_facts(task: ToolsTask, stage: int, model: LanguageModel) -> Think:
    """Return how an agent goes on that sees exactly the facts of a stage; of all where the first has the talk."""
    checks = checks_at(task, stage) if task.is_scripted else list(task.checks.values())
    facts = list(dict.fromkeys(task.facts[fact].text for check in checks for fact in check.needs))
    shown = Message("system", "\n".join(facts))

    async def think(newest: Sequence[Message], query: str, tools: Sequence[Tool]) -> Completion:
        return await model.complete(Request((shown, *newest), role="reply", tools=tuple(tools)))

    return think
