"""An episode of the tools track: an agent follows its plan, and memory observes what comes of it."""

from __future__ import annotations

from collections import defaultdict

from ...data.task import Task
from ...data.tools.task import tools_task
from ...policies.lm import Message
from ...policies.policy import MemoryPolicy
from ..episode import HEARD, Episode, Event, EventKind, Mark, StageRecord
from ..reading import ReadingRollout, ReadingTrack
from ..slot import read_slot
from ..track import Cast
from .agent import PlannedAgent

_KINDS: dict[str, EventKind] = {"say": "say", "call": "observe", "reply": "act"}


class ToolsRollout(ReadingRollout[Task]):
    """One episode under way. Off-policy, where there is a ``replay``: memory observes what it observed there."""

    def __init__(
        self, track: ReadingTrack[Task], task: Task, policy: MemoryPolicy, cast: Cast, *, replay: Episode | None = None
    ) -> None:
        """Begin with the first stage."""
        super().__init__(track, task, policy, cast)
        self._task, self._replay = tools_task(task), replay
        self._agent = PlannedAgent(self._task)

    async def _stage(self, stage: int) -> StageRecord:
        """Follow the plan until a stage is over."""
        events, marks, reworded = list[Event](), list[Mark](), list[Mark]()
        recorded = self._recorded(stage)
        for number, step in enumerate(self._task.at(stage)):
            first, again = await self._answers(self.assistant, [self._task.checks[slot.check] for slot in step.slots])
            marks += first
            reworded += again
            messages = self._agent.do(step, {mark.check: read_slot(mark.raw) for mark in first})
            for message in messages if recorded is None else recorded[number]:
                writes = await self.assistant.memory.observe([message])
                events.append(Event(number, _KINDS[step.kind], (message,)))
                events += [Event(number, "write", write=write) for write in writes]
        recalled = await self._recalled(await self.assistant.fork(), stage)
        return StageRecord(tuple(events), tuple(marks), recalled, reworded=tuple(reworded))

    def _recorded(self, stage: int) -> dict[int, list[Message]] | None:
        """Return what memory observed in each step of a recorded stage; None where there is no record."""
        if self._replay is None:
            return None
        observed: defaultdict[int, list[Message]] = defaultdict(list)
        for event in self._replay.stages[stage].events:
            if event.kind in HEARD:
                observed[event.step] += event.seen
        return observed
