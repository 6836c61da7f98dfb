"""A track whose agent follows a plan: the plan says what is done when, and memory answers its slots."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ..data.plan import PlannedStep
from ..data.task import Check, Fact, Task
from ..policies.assistant import Assistant
from ..policies.files import load_policy
from ..policies.forms import ReplyForm
from ..policies.lm import Message
from ..policies.policy import MemoryPolicy
from ..policies.prompts import Templates
from ..policies.text import stems
from .calls import recorded
from .concurrency import side_by_side
from .episode import HEARD, Bounds, Episode, Event, EventKind, Mark, RecordError, StageRecord
from .evidence import evidence, pieces_of
from .outside import Outside
from .reading import ObservingTrack, ReadingRollout
from .slot import SLOT_FORM, read_slot, slot_query, slot_query_reworded
from .statistics import nan_mean
from .summary import json_number
from .track import Cast, FactPrompt, Rollout, memory_calls

Answers = Mapping[str, str | None]
"""What slots were answered, by check; None where a reply named no value."""


StepT = TypeVar("StepT", bound=PlannedStep)
StepU = TypeVar("StepU", bound=PlannedStep, contravariant=True)
Seen = tuple[EventKind, Message]
"""What memory observes, and what it is to the agent."""


class Desk(Protocol[StepU]):
    """Where an agent works in one episode: databases, a container, a browser."""

    async def do(self, step: StepU, answers: Answers) -> Sequence[Seen]:
        """Do a step with the answers in its slots, right or wrong; return what memory observes, one after another.

        Raises OutsideFault for what fails and is nobody's mistake, and OutsideSilent.
        """

    async def rest(self) -> None:
        """Let others have the place, as nothing is done here for a while."""

    def fork(self, outside: Outside) -> Desk[StepU]:
        """Return a desk of its own that has the same steps behind it; where it needs a place, ``outside`` has it."""

    async def reward(self) -> float | None:
        """Return what the work is worth once all steps are done, in [0, 1]; None where nothing tells."""

    async def aclose(self) -> None:
        """Release the place; also in the middle of the work."""


class PlannedTrack(ObservingTrack[Task], Generic[StepT]):
    """A track whose planning is held constant; what differs between two policies is what memory carried.

    A wrong answer is used as it is, with what follows from it. The floor pays for its errors in the same way.
    """

    agent = "planned"

    def __init__(self, templates: Templates) -> None:
        """Ask with these texts."""
        self.templates = templates

    @abstractmethod
    def steps(self, task: Task) -> Sequence[StepT]:
        """Return the plan, in its order."""

    @abstractmethod
    def right(self, task: Task, check: Check) -> str:
        """Return the right answer to a check."""

    @abstractmethod
    def most_seen(self, task: Task, step: StepT) -> int:
        """Return how many messages memory observes in a step at most."""

    @abstractmethod
    def desk(self, task: Task, outside: Outside) -> Desk[StepT]:
        """Return a place to work at, which opens what it needs once a step is done."""

    def is_right(self, task: Task, check: Check, value: str) -> bool:
        """Tell whether an answer is the right one."""
        return value == self.right(task, check)

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
        if replay is not None and not self.is_of(task, replay):
            raise RecordError(f"{self.noun} {task.group}, task {task.id}: another {self.noun} is recorded")
        return PlannedRollout(self, task, policy, cast, replay=replay)

    def is_of(self, task: Task, episode: Episode) -> bool:
        """Tell whether a recorded episode is of a task."""
        return episode.task == task.id and len(episode.stages) == task.stages

    def heard(self, task: Task, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return nothing: what memory observes is known once a step is done."""
        return ()

    def at(self, task: Task, stage: int) -> list[StepT]:
        """Return the steps of a stage."""
        return [step for step in self.steps(task) if step.stage == stage]

    def query(self, task: Task, check: Check) -> str:
        """Return how a slot is asked for."""
        return slot_query(check.text, self.templates)

    def reworded(self, task: Task, check: Check) -> str | None:
        """Return how it is asked for in other words."""
        return slot_query_reworded(check.text, self.templates)

    def form(self, task: Task, check: Check) -> ReplyForm:
        """Return the form of a slot's answer."""
        return SLOT_FORM

    def mark(self, task: Task, check: Check, raw: str) -> Mark:
        """Score an answer: it is the right one, or it is not."""
        value = read_slot(raw)
        right = value is not None and self.is_right(task, check, value)
        return Mark(check.id, raw, float(right), readable=value is not None)

    async def floor(self, task: Task, cast: Cast) -> list[Mark]:
        """Follow the plan with nothing but the newest observations that fit the budget."""
        assistant = cast.assistant_under(load_policy("window"), cast.assistant, cast.embedder)
        marks: list[Mark] = []
        desk = self.desk(task, cast.outside)
        try:
            for step in self.steps(task):
                checks = [task.checks[slot.check] for slot in step.slots]
                shown = [(await assistant.context(self.query(task, check))).render() for check in checks]
                answered = await side_by_side(
                    self.asked(task, check, newest, cast.assistant) for check, newest in zip(checks, shown, strict=True)
                )
                for _, message in await desk.do(step, answers_of(answered)):
                    await assistant.memory.observe([message])
                marks += answered
        finally:
            await desk.aclose()
        return marks

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return those of memory, and a call for each slot and each probe."""
        messages = sum(self.most_seen(task, step) for step in self.steps(task))
        questions = self.question_calls(task)
        return questions + memory_calls(policy, messages=messages, searches=questions)

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong answer: what was asked, what had told it, and what it was answered."""
        check = task.checks[mark.check]
        told = [f'It was told by: "{task.facts[fact].text}"' for fact in check.needs]
        answer = read_slot(mark.raw)
        chosen = "none, the reply could not be read" if answer is None else answer
        right = self.right(task, check)
        return "\n".join([f"Question: {check.text}", *told, f"Chosen answer: {chosen}", f"Right answer: {right}"])

    def fact_prompts(self, task: Task, fact: Fact) -> Iterator[FactPrompt]:
        """Yield each question that needs the fact."""
        checks = {check.question: check for check in reversed(list(task.checks.values())) if fact.id in check.needs}
        for check in checks.values():
            yield FactPrompt(self.query(task, check), partial(self._is_right, task, check), SLOT_FORM)

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return who acts, and what whole episodes are worth, where anything tells."""
        rewards = {episode.task: episode.reward for episode in episodes if episode.reward is not None}
        return {"agent": self.agent, "reward": json_number(nan_mean(list(rewards.values()))), "rewards": rewards}

    def states(self, task: Task, fact: Fact, text: str) -> bool:
        """Tell whether a line of a text has the value, and a word of what is asked beside it."""
        check = next(check for check in task.checks.values() if fact.id in check.needs)
        value, asked = self.right(task, check), set(stems(check.text.replace("_", " ")))
        lines = (line for line in text.splitlines() if value in line)
        return any(not asked.isdisjoint(stems(line.replace(value, " ").replace("_", " "))) for line in lines)


class PlannedRollout(ReadingRollout[Task], Generic[StepT]):
    """One episode under way. Off-policy, where there is a ``replay``: memory observes what it observed there."""

    def __init__(
        self, track: PlannedTrack[StepT], task: Task, policy: MemoryPolicy, cast: Cast, *, replay: Episode | None = None
    ) -> None:
        """Begin with the first stage."""
        super().__init__(track, task, policy, cast)
        self._planned, self._replay = track, replay
        self._desk = track.desk(task, cast.outside)

    async def go_on(self, end: int) -> None:
        """Follow the plan until ``end`` stages are over."""
        for stage in range(len(self.records), end):
            self.records.append(await self._followed(stage))
        if len(self.records) == self.task.stages:
            self.reward = await self._desk.reward()
        await self._desk.rest()

    async def aclose(self) -> None:
        """Release the memory and the desk."""
        await super().aclose()
        await self._desk.aclose()

    async def _followed(self, stage: int) -> StageRecord:
        events, marks, reworded = list[Event](), list[Mark](), list[Mark]()
        recorded = self._recorded(stage)
        for number, step in enumerate(self._planned.at(self.task, stage)):
            first, again = await self._answers(self.assistant, [self.task.checks[slot.check] for slot in step.slots])
            marks += first
            reworded += again
            seen = await self._desk.do(step, answers_of(first))
            for kind, message in seen if recorded is None else recorded[number]:
                events += await self.observed(number, kind, [message])
        recalled = await self._recalled(await self.assistant.fork(), stage)
        return StageRecord(tuple(events), tuple(marks), recalled, reworded=tuple(reworded))

    def _recorded(self, stage: int) -> Mapping[int, list[Seen]] | None:
        """Return what memory observed in each step of a recorded stage; None where there is no record."""
        if self._replay is None:
            return None
        observed: defaultdict[int, list[Seen]] = defaultdict(list)
        for event in self._replay.stages[stage].events:
            if event.kind in HEARD:
                observed[event.step] += [(event.kind, message) for message in event.seen]
        return observed


async def probed(track: PlannedTrack[Any], task: Task, check: Check, asker: Assistant) -> Mark:
    """Return the mark of a question for the facts that a check needs; a bare one where it needs none."""
    if not check.needs:
        return Mark(check.id, "", math.nan)
    with recorded() as calls:
        raw, context = await asker.answer_and_context(track.query(task, check), role="probe", form=SLOT_FORM)
    shown = evidence(task, check, context, states=partial(track.states, task))
    mark = track.mark(task, check, raw)
    recalled = dict.fromkeys(check.needs, mark.score == 1)
    return replace(mark, recalled=recalled, shown=shown, context=pieces_of(context), calls=tuple(calls))


def answers_of(marks: Sequence[Mark]) -> dict[str, str | None]:
    """Return what slots were answered, by check."""
    return {mark.check: read_slot(mark.raw) for mark in marks}
