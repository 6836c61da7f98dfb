"""Tracks in which memory only reads: what comes next depends on nothing that the assistant says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..data.task import Check, Fact, Task, checks_at
from ..policies.assistant import Assistant
from ..policies.lm import EndpointDown, LanguageModel, LanguageModelError, Message, Metered, MeteredEmbedder, Request
from ..policies.lm.base import merged
from ..policies.memory import MemoryEvent
from ..policies.policy import MemoryPolicy
from .concurrency import both, side_by_side
from .episode import Bounds, Episode, Event, Mark, RecordError, StageRecord, read_heard
from .scoring import LEAST_HEADROOM
from .track import Cast, FactPrompt, Rollout

TaskT = TypeVar("TaskT", bound=Task)


class ReadingTrack(ABC, Generic[TaskT]):
    """Memory hears each stage's messages, and the assistant is asked each check with what memory brings back.

    A subclass says what is heard, how a check is put and how a reply is scored; it may override the rest.
    """

    name: str
    noun: str = "group"
    stage_noun: str = "stage"
    least_headroom: float | None = LEAST_HEADROOM
    compat: frozenset[str] = frozenset()

    @abstractmethod
    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[TaskT]:
        """Return the tasks that a source names. Raises TaskError."""

    @abstractmethod
    def heard(self, task: TaskT, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return the messages of a stage, those together that memory observes together."""

    @abstractmethod
    def query(self, task: TaskT, check: Check) -> str:
        """Return how a check is put."""

    def reworded(self, task: TaskT, check: Check) -> str | None:
        """Return how the sealed test also puts a check: in no other words."""
        return None

    @abstractmethod
    def mark(self, task: TaskT, check: Check, raw: str) -> Mark:
        """Score a reply; what is recalled is added by ``recalled``."""

    def recalled(self, task: TaskT, check: Check, mark: Mark) -> Mapping[str, bool | None]:
        """Return which facts a mark shows to be known: the only one that is needed, where the answer is right."""
        return {fact: mark.score == 1 if len(check.needs) == 1 else None for fact in check.needs}

    def given(self, task: TaskT, check: Check) -> tuple[Message, ...]:
        """Return what the model is shown for the ceiling: exactly the facts that the check needs."""
        return (Message("system", "\n".join(task.facts[fact].text for fact in check.needs)),)

    def begin(
        self,
        task: TaskT,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> ReadingRollout[TaskT]:
        """Set up an episode. Raises RecordError where ``replay`` is of another task."""
        if replay is not None and [list(stage.heard) for stage in replay.stages] != [
            list(self.heard(task, stage)) for stage in range(task.stages)
        ]:
            raise RecordError(f"{self.noun} {task.group}, task {task.id}: another text is recorded")
        return ReadingRollout(self, task, policy, cast)

    def in_turn(self, policy: MemoryPolicy) -> bool:
        """Tell that episodes are independent."""
        return False

    async def bounds(self, task: TaskT, cast: Cast) -> Bounds:
        """Ask each check with nothing but the facts that it needs; the floor is a blind guess."""
        marks = await side_by_side(self._with_facts(task, check, cast.assistant) for check in task.checks.values())
        return Bounds(
            {check.id: Mark(check.id, "", check.chance) for check in task.checks.values()},
            {mark.check: mark for mark in marks},
        )

    async def _with_facts(self, task: TaskT, check: Check, model: LanguageModel) -> Mark:
        messages = (*self.given(task, check), Message("user", self.query(task, check)))
        return self.mark(task, check, (await model.complete(Request(messages, role="upper_bound"))).text)

    def settle(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> tuple[Sequence[Episode], Mapping[str, Bounds]]:
        """Return both as they are."""
        return episodes, bounds

    def most_calls(self, task: TaskT, policy: MemoryPolicy) -> int:
        """Return a write of two calls for each message, and a call for each check."""
        messages = sum(len(together) for stage in range(task.stages) for together in self.heard(task, stage))
        return len(task.checks) + (2 * messages if policy.write.mode != "none" else 0)

    def bound_calls(self, task: TaskT) -> int:
        """Return a call for each check."""
        return len(task.checks)

    def tell(self, task: TaskT, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong answer: what was asked, what memory had heard, and what it was answered."""
        check = task.checks[mark.check]
        heard = [f'It was said: "{text}"' for fact in check.needs for text in task.facts[fact].sources[-1:]]
        return "\n".join([f"Question: {check.text}", *heard, f"Chosen answer: {mark.raw}"])

    def fact_prompts(self, task: TaskT, fact: Fact) -> Iterator[FactPrompt]:
        """Yield each question that needs the fact, after the other facts that it needs."""
        checks = {check.question: check for check in reversed(list(task.checks.values())) if fact.id in check.needs}
        for check in checks.values():
            others = [task.facts[need].text for need in check.needs if need != fact.id]
            yield FactPrompt("\n".join([*others, self.query(task, check)]), partial(self._is_right, task, check))

    def _is_right(self, task: TaskT, check: Check, reply: str) -> bool:
        return self.mark(task, check, reply).score == 1

    def hints(self, task: TaskT) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def replays(self, folder: Path) -> Mapping[str, Episode]:
        """Read recorded episodes by task. Raises RecordError."""
        return read_heard(folder)

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return nothing."""
        return {}


class ReadingRollout(Generic[TaskT]):
    """One episode under way."""

    def __init__(self, track: ReadingTrack[TaskT], task: TaskT, policy: MemoryPolicy, cast: Cast) -> None:
        """Begin with the first stage."""
        self._track, self._task, self._policy = track, task, policy
        self._model, self._embedder = Metered(cast.assistant), MeteredEmbedder(cast.embedder)
        self._reworded = cast.reworded
        own = policy.with_hints(track.hints(task))
        self._assistant = cast.assistant_under(own, self._model, self._embedder)
        self._records: list[StageRecord] = []
        self._failure: str | None = None

    async def run(self, stages: int | None = None) -> Episode:
        """Go on until this many stages are over, as ``Rollout`` has it."""
        end = self._task.stages if stages is None else min(stages, self._task.stages)
        try:
            while self._failure is None and len(self._records) < end:
                self._records.append(await self._stage(len(self._records)))
        except EndpointDown:
            raise
        except LanguageModelError as error:
            self._failure = str(error)
        return Episode(
            self._task.id,
            self._policy.key,
            tuple(self._records),
            merged([self._model.ledger, self._embedder.ledger]),
            self._failure,
            dict(self._assistant.uses),
        )

    async def aclose(self) -> None:
        """Release the memory."""
        await self._assistant.memory.aclose()

    async def _stage(self, stage: int) -> StageRecord:
        events: list[Event] = []
        for step, messages in enumerate(self._track.heard(self._task, stage)):
            writes: list[MemoryEvent] = await self._assistant.memory.observe(messages)
            events += [Event(step, "observe", messages), *(Event(step, "write", write=write) for write in writes)]
        asker, checks = await self._assistant.fork(), checks_at(self._task, stage)
        queries = [(check, self._track.query(self._task, check)) for check in checks]
        reworded = [(check, self._track.reworded(self._task, check)) for check in checks if self._reworded]
        marks, again = await both(
            side_by_side(self._answer(asker, check, text) for check, text in queries),
            side_by_side(self._answer(asker, check, text) for check, text in reworded if text is not None),
        )
        return StageRecord(tuple(events), tuple(marks), reworded=tuple(again))

    async def _answer(self, asker: Assistant, check: Check, text: str) -> Mark:
        raw = await asker.answer(text)
        mark = self._track.mark(self._task, check, raw)
        return replace(mark, recalled=self._track.recalled(self._task, check, mark))
