"""What every track's rollouts share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Generic, TypeVar

from ..data.task import Task
from ..policies.lm import EndpointDown, LanguageModelError, Metered, MeteredEmbedder, Refused
from ..policies.lm.ledger import merged
from ..policies.policy import MemoryPolicy
from .concurrency import side_by_side
from .episode import Episode, StageRecord
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
        self.model, self.user = Metered(cast.assistant), Metered(cast.user)
        self.embedder = MeteredEmbedder(cast.embedder)
        self.assistant = cast.assistant_under(policy.with_hints(hints), self.model, self.embedder)
        self.records: list[StageRecord] = []
        self.reward: float | None = None
        self._failure: LanguageModelError | OutsideFault | None = None

    async def run(self, stages: int | None = None) -> Episode:
        """Go on until this many stages are over, as ``Rollout`` has it."""
        if self._failure is None:
            with self.noting_failure():
                await self.go_on(self.task.stages if stages is None else min(stages, self.task.stages))
        ledger = merged([self.model.ledger, self.user.ledger, self.embedder.ledger])
        return Episode(
            self.task.id,
            self.policy.key,
            tuple(self.records),
            ledger,
            failure=None if self._failure is None else str(self._failure),
            refused=isinstance(self._failure, Refused),
            uses=dict(self.assistant.uses),
            reward=self.reward,
            stored=self._stored(),
        )

    def _stored(self) -> Stored | None:
        if len(self.records) < self.task.stages:
            return None
        writes = [write for record in self.records for write in record.writes]
        return Stored.of(self.task, writes[-1].after if writes else ())

    @abstractmethod
    async def go_on(self, end: int) -> None:
        """Record stages until ``end`` of them are over."""

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        """Note a call or a place that fails for good as what ended the episode; what ends everything is raised."""
        try:
            yield
        except EndpointDown:
            raise
        except (LanguageModelError, OutsideFault) as error:
            self._failure = error

    async def in_line(self, questions: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Ask a list of questions side by side, none of which is made before few other lists are under way.

        It is for questions that the task does not wait for: they would pile up.
        """
        async with self._question_lists or nullcontext():
            return await side_by_side(questions)

    async def aclose(self) -> None:
        """Release the memory."""
        await self.assistant.memory.aclose()
