"""The swe track with an agent that plans by itself: a model runs the shell commands that it chooses."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...data.folded import FoldedTask
from ...data.swe.load import load_swe
from ...data.swe.task import SweTask, swe_task
from ...data.task import Check, Task
from ...data.words import has_words
from ...policies.files import load_policy
from ...policies.lm import CallRole, Completion, LanguageModel, Message, Request, Tool
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates, render
from ..agent import MOST_PIECES as MOST_SAID
from ..agent import AsBound, ModelAgent, Observe, Think, no_memory, refuse_replay, thought
from ..concurrency import both, side_by_side
from ..episode import Bounds, Episode, Event, EventKind, Mark, StageRecord
from ..outside import Outside
from ..planned import probed
from ..rollout import AssistantRollout
from ..track import Cast, Rollout, memory_calls
from .desk import course_of, problem, rewarded
from .observation import MOST_PIECES, pieces
from .track import SweTrack

MOST_COMMANDS = 50
"""Of a task without a plan; else three times as many as the plan has."""
SOLVED = "solved"
"""The only check of a task without a plan: whether the tests pass in the end."""
_SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
RUN = Tool("run", "Runs a shell command in the repository's root; returns what it writes.", json.dumps(_SCHEMA))


class ModelSweTrack(SweTrack):
    """The swe track whose agent is a model; a check is whether a command that it has run has the value of the plan's.

    A task without a plan has one check: whether the tests pass in the end. All of a task is one stage.
    """

    agent = "model"
    turn: CallRole = "reply"

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Task]:
        """Return the tasks that a source names, each of one stage. Raises TaskError."""
        return [FoldedTask.of(whole(swe_task(task))) for task in load_swe(source, groups=groups)]

    def right(self, task: Task, check: Check) -> str:
        """Return the right value."""
        return "yes" if check.id == SOLVED else super().right(task, check)

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> ModelSweRollout:
        """Set up an episode. Raises RecordError where there is a ``replay``."""
        refuse_replay(replay, task=task)
        return ModelSweRollout(self, task, policy, cast)

    def reworded(self, task: Task, check: Check) -> None:
        """Return nothing: the agent is not asked for a value."""

    async def bounds(self, task: Task, cast: Cast) -> Bounds:
        """Play the task with the newest messages that fit the budget, and with exactly the facts that it needs.

        That the tests can pass is known of the reference repair: the ceiling of a task without a plan is 1.
        """
        model = AsBound(cast.assistant)
        window = cast.assistant_under(load_policy("window"), model, cast.embedder)

        async def observe(kind: EventKind, message: Message) -> None:
            await window.memory.observe([message])

        opened = swe_task(task)
        floor = self._marks(opened, cast, partial(thought, window, role="reply"), observe)
        if SOLVED in opened.checks:
            return Bounds(await floor, {SOLVED: Mark(SOLVED, "", 1.0)})
        return Bounds(*await both(floor, self._marks(opened, cast, _with_facts(opened, model), no_memory)))

    async def _marks(self, task: SweTask, cast: Cast, think: Think, observe: Observe) -> dict[str, Mark]:
        """Return the marks of an agent that goes on as ``think`` does."""
        work = Work(task, self.templates, cast.outside)
        try:
            await work.play(think, observe)
            return {check.id: await work.mark(check) for check in task.checks.values()}
        finally:
            await work.aclose()

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a value that was not used, which need not be a wrong answer, or a repair that failed."""
        if mark.check == SOLVED:
            events = (event for event in episode.stages[stage].events if event.kind == "observe")
            seen = [message.content for event in events for message in event.seen]
            opened = swe_task(task)
            tests = f"These tests do not all pass: {', '.join(opened.fail_to_pass[:5])}"
            return "\n".join([f"Problem: {opened.problem[:600]}", tests, "What was seen last:", *seen[-3:]])
        *lines, _, right = super().tell(task, episode, stage, mark).split("\n")
        return "\n".join([*lines, "The agent has run no command with it", right])

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return those of the agent, a call for each check with a value, and those of memory."""
        most = most_commands(swe_task(task))
        heard = 2 * MOST_SAID + most * MOST_PIECES
        asked = most + 1 + sum(bool(check.needs) for check in task.checks.values())
        return asked + memory_calls(policy, messages=heard, searches=asked)

    def bound_calls(self, task: Task) -> int:
        """Return those of two agents, or of one where the ceiling is known."""
        return (1 if SOLVED in task.checks else 2) * (most_commands(swe_task(task)) + 1)


class Work:
    """What an agent does on a bug by itself."""

    def __init__(self, task: SweTask, templates: Templates, outside: Outside) -> None:
        """Begin with the repository as it is."""
        self._task, self._templates = task, templates
        self._course = course_of(task, outside)
        self._commands: list[str] = []
        self._reward: float | None = None

    async def play(self, think: Think, observe: Observe) -> None:
        """Let the agent run commands until it replies, or may run no more."""
        prompt = render(self._templates.engineer, problem=self._task.problem)
        agent = ModelAgent(think, observe, self._run, [RUN])
        await agent.turn(prompt, self._task.problem, heard=problem(self._task), most=most_commands(self._task))

    async def reward(self) -> float:
        """Return 1 where all tests that count pass in the end, else 0; the tests are run once."""
        if self._reward is None:
            self._reward = await rewarded(self._task, self._course)
        return self._reward

    async def mark(self, check: Check) -> Mark:
        """Tell whether the value that a check asks for stands in a command, or whether the tests pass."""
        if check.id == SOLVED:
            reward = await self.reward()
            return Mark(check.id, str(reward), reward)
        right = self._task.right(check)
        used = any(has_words(command, right) for command in self._commands)
        return Mark(check.id, json.dumps({"value": right if used else None}), float(used))

    async def aclose(self) -> None:
        """Remove the container, if there is one."""
        await self._course.aclose()

    async def _run(self, name: str, arguments: Mapping[str, Any]) -> Sequence[str]:
        command = arguments.get("command")
        if name != RUN.name or not isinstance(command, str) or not command.strip():
            return [f"Error: there is {RUN.name}(command) alone"]
        self._commands.append(command)
        return pieces(command, await self._course.act(command))


class ModelSweRollout(AssistantRollout[Task]):
    """One episode under way."""

    def __init__(self, track: ModelSweTrack, task: Task, policy: MemoryPolicy, cast: Cast) -> None:
        """Begin with the repository as it is."""
        super().__init__(task, policy, cast, track.hints(task))
        self._track = track
        self._work = Work(swe_task(task), track.templates, cast.outside)

    async def go_on(self, end: int) -> None:
        """Let the agent work, where that is not over."""
        if end and not self.records:
            self.records.append(await self._stage())
            self.reward = await self._work.reward()

    async def aclose(self) -> None:
        """Release the memory and the container."""
        await super().aclose()
        await self._work.aclose()

    async def _stage(self) -> StageRecord:
        events: list[Event] = []

        async def observe(kind: EventKind, message: Message) -> None:
            events.extend(await self.observed(len(events), kind, [message]))

        await self._work.play(partial(thought, self.assistant, role="reply"), observe)
        asker, checks = await self.assistant.fork(), list(self.task.checks.values())
        probes = await side_by_side(probed(self._track, self.task, check, asker) for check in checks)
        marks = [
            (await self._work.mark(check)).with_facts_of(probe) for check, probe in zip(checks, probes, strict=True)
        ]
        return StageRecord(tuple(events), tuple(marks), {})


def whole(task: SweTask) -> SweTask:
    """Return a task as one stage, with the facts that are needed in the end; without a plan, with the check SOLVED."""
    checks = {check.id: replace(check, stage=0) for check in task.checks.values()}
    solved = Check(SOLVED, SOLVED, 0, needs=(), chance=0.0, text="Do the tests pass?")
    needed = {fact for check in checks.values() for fact in check.needs}
    facts = {name: replace(fact, since=0, until=None) for name, fact in task.facts.items() if name in needed}
    return replace(task, stages=1, checks=checks or {SOLVED: solved}, facts=facts)


def most_commands(task: SweTask) -> int:
    """Return how many commands an agent may run."""
    return 3 * len(task.steps) or MOST_COMMANDS


def _with_facts(task: SweTask, model: LanguageModel) -> Think:
    """Return how an agent goes on that sees exactly the facts of a task."""
    shown = Message("system", "\n".join(dict.fromkeys(fact.text for fact in task.facts.values())))

    async def think(newest: Sequence[Message], query: str, tools: Sequence[Tool]) -> Completion:
        return await model.complete(Request((shown, *newest), role="reply", tools=tuple(tools)))

    return think
