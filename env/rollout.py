"""What every track's rollouts share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any, Generic, TypeVar

from ..data.task import Task
from ..policies.lm import EndpointDown, LanguageModelError, Message, Metered, MeteredEmbedder, Refused
from ..policies.lm.ledger import merged
from ..policies.memory import MemoryFault
from ..policies.policy import MemoryPolicy
from .calls import Call, Recorder, recorded
from .concurrency import side_by_side
from .episode import Episode, Event, EventKind, StageRecord
from .forgetting import forgetting
from .outside import OutsideFault
from .stored import Stored
from .track import Cast

TaskT = TypeVar("TaskT", bound=Task)
T = TypeVar("T")


class AssistantRollout(ABC, Generic[TaskT]):
    """One episode under way: an assistant under a policy, whose calls are counted, and what was recorded so far."""

    def __init__(self, task: TaskT, policy: MemoryPolicy, cast: Cast, hints: Mapping[str, str]) -> None:
        """Begin with the first stage."""
        self.task, self.policy, self.reworded = task, policy, cast.reworded
        self._question_lists = cast.question_lists
        models = cast.assistant, cast.user
        self.model, self.user = (Metered(Recorder(m) if task.group in cast.recorded else m) for m in models)
        self.embedder = MeteredEmbedder(cast.embedder)
        self.assistant = cast.assistant_under(policy.with_hints(hints), self.model, self.embedder)
        self.records: list[StageRecord] = []
        self.reward: float | None = None
        self._calls = list[Call]()
        """Those since the last event, questions left out."""
        self._failure: LanguageModelError | MemoryFault | OutsideFault | None = None

    async def run(self, stages: int | None = None) -> Episode:
        """Go on until this many stages are over, as ``Rollout`` has it."""
        if self._failure is None:
            with self.noting_failure(), recorded(self._calls):
                await self.go_on(self.task.stages if stages is None else min(stages, self.task.stages))
        stored = await self._stored()
        ledger = merged([self.model.ledger, self.user.ledger, self.embedder.ledger])
        return Episode(
            self.task.id,
            self.policy.key,
            tuple(self.records),
            ledger,
            failure=None if self._failure is None else str(self._failure),
            refused=isinstance(self._failure, Refused | MemoryFault),
            memory_failed=isinstance(self._failure, MemoryFault),
            uses=dict(self.assistant.uses),
            reward=self.reward,
            stored=stored,
        )

    async def _stored(self) -> Stored | None:
        if len(self.records) < self.task.stages:
            return None
        writes = [write for record in self.records for write in record.writes]
        stored = Stored.of(self.task, writes[-1].after if writes else ())
        try:
            done = await forgetting(self.task, self.assistant.memory)
        except EndpointDown:
            raise
        except (LanguageModelError, MemoryFault):  # a memory that asks a model or a package how to forget
            return stored
        return replace(stored, unforgotten=done.unforgotten, taken_along=done.taken_along)

    @abstractmethod
    async def go_on(self, end: int) -> None:
        """Record stages until ``end`` of them are over."""

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        """Note a call, a place or a memory that fails as what ended the episode; what ends everything is raised."""
        try:
            yield
        except EndpointDown:
            raise
        except (LanguageModelError, MemoryFault, OutsideFault) as error:
            self._failure = error

    async def observed(self, step: int, kind: EventKind, messages: Sequence[Message]) -> list[Event]:
        """Let memory observe messages; return what it met and wrote, with the calls since the event before."""
        before = tuple(self._calls)
        self._calls.clear()
        with recorded() as calls:
            writes = await self.assistant.memory.observe(messages)
        rest = iter(calls)
        written = [Event(step, "write", write=w, calls=tuple(islice(rest, len(w.raw)))) for w in writes]
        return [Event(step, kind, tuple(messages), calls=(*before, *rest)), *written]

    async def in_line(self, questions: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Ask a list of questions side by side, none of which is made before few other lists are under way.

        It is for questions that the task does not wait for: they would pile up.
        """
        async with self._question_lists or nullcontext():
            return await side_by_side(questions)

    async def aclose(self) -> None:
        """Release the memory."""
        await self.assistant.memory.aclose()
