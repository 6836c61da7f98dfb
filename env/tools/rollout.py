"""An episode of the tools track: an agent follows its plan, and memory observes what comes of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ...data.task import Check, Task, checks_at
from ...data.tools.task import Step, tools_task
from ...policies.assistant import Assistant
from ...policies.lm import Message
from ...policies.policy import MemoryPolicy
from ..concurrency import both, side_by_side
from ..episode import HEARD, Episode, Event, EventKind, Mark, StageRecord
from ..reading import ReadingTrack
from ..rollout import AssistantRollout
from ..slot import SLOT_FORM, read_slot
from ..track import Cast
from .agent import PlannedAgent

_KINDS: dict[str, EventKind] = {"say": "say", "call": "observe", "reply": "act"}


class ToolsRollout(AssistantRollout[Task]):
    """One episode under way. Off-policy, where there is a ``replay``: memory observes what it observed there."""

    def __init__(
        self, track: ReadingTrack[Task], task: Task, policy: MemoryPolicy, cast: Cast, *, replay: Episode | None = None
    ) -> None:
        """Begin with the first stage."""
        super().__init__(task, policy, cast, track.hints(task))
        self._track, self._task, self._replay = track, tools_task(task), replay
        self._agent = PlannedAgent(self._task)

    async def go_on(self, end: int) -> None:
        """Follow the plan until ``end`` stages are over."""
        while len(self.records) < end:
            self.records.append(await self._stage(len(self.records)))

    async def _stage(self, stage: int) -> StageRecord:
        events, marks, reworded = list[Event](), list[Mark](), list[Mark]()
        recorded = self._recorded(stage)
        for number, step in enumerate(self._task.at(stage)):
            first, again = await self._answered(step)
            marks += first
            reworded += again
            messages = self._agent.do(step, {mark.check: read_slot(mark.raw) for mark in first})
            for message in messages if recorded is None else recorded[number]:
                writes = await self.assistant.memory.observe([message])
                events.append(Event(number, _KINDS[step.kind], (message,)))
                events += [Event(number, "write", write=write) for write in writes]
        return StageRecord(tuple(events), tuple(marks), await self._recalled(stage), reworded=tuple(reworded))

    def _recorded(self, stage: int) -> dict[int, list[Message]] | None:
        """Return what memory observed in each step of a recorded stage; None where there is no record."""
        if self._replay is None:
            return None
        observed: defaultdict[int, list[Message]] = defaultdict(list)
        for event in self._replay.stages[stage].events:
            if event.kind in HEARD:
                observed[event.step] += event.seen
        return observed

    async def _answered(self, step: Step) -> tuple[list[Mark], list[Mark]]:
        """Ask for each slot of a step, and once more in other words where that is wanted."""
        checks = [self._task.checks[slot.check] for slot in step.slots]
        return await both(
            side_by_side(self._answer(self.assistant, check, self._track.query(self.task, check)) for check in checks),
            side_by_side(
                self._answer(self.assistant, check, text)
                for check in checks
                if self.reworded and (text := self._track.reworded(self.task, check)) is not None
            ),
        )

    async def _answer(self, asker: Assistant, check: Check, text: str) -> Mark:
        mark = self._track.mark(self.task, check, await asker.answer(text, form=SLOT_FORM))
        return replace(mark, recalled=self._track.recalled(self.task, check, mark))

    async def _recalled(self, stage: int) -> dict[str, bool]:
        """Ask at the end of a stage for what it has told and later stages need."""
        probes = probes_at(self.task, stage)
        asker = await self.assistant.fork()
        raws = await side_by_side(
            asker.answer(self._track.query(self.task, check), role="probe", form=SLOT_FORM) for check in probes
        )
        return {
            check.needs[0]: self._track.mark(self.task, check, raw).score == 1
            for check, raw in zip(probes, raws, strict=True)
        }


def probes_at(task: Task, stage: int) -> list[Check]:
    """Return a check for each fact that a stage tells, and that only later stages ask for."""
    asked = {need for check in checks_at(task, stage) for need in check.needs}
    first = {need: check for check in reversed(list(task.checks.values())) for need in check.needs}
    return [first[fact.id] for fact in task.facts.values() if fact.since == stage and fact.id not in asked]
