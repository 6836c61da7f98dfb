"""Where episodes run: in this process, or elsewhere behind the same protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ..data import heap
from ..data.task import Task, grouped
from ..policies.lm import EndpointDown, LanguageModelError, Ledger, Metered, MeteredEmbedder
from ..policies.lm.ledger import merged
from ..policies.policy import MemoryPolicy
from .concurrency import side_by_side
from .episode import Bounds, Episode, RecordError, folded
from .outside import OutsideFault
from .track import Cast, Rollout, Track

MOST_UNDER_WAY = 64
"""Tasks that one process plays side by side: enough to keep an endpoint busy, and few enough for its memory."""
QUESTIONS_A_TASK = 4
"""Questions that wait for an endpoint at once, for each task that is played: talk goes first, so that they pile up.

As many lists of questions are under way: each has one at least, so that no place for a question stays empty.
"""
EPISODES_BETWEEN_TRIMS = 64
"""Episodes that stop or end before freed memory goes back to the system again."""


class EpisodeRunner(Protocol):
    """Plays episodes, and keeps those that have stopped after some stages."""

    async def run(
        self,
        policy: MemoryPolicy,
        tasks: Sequence[Task],
        *,
        replays: Mapping[str, Episode] | None = None,
        stages: int | None = None,
        done: Callable[[Episode], None] = lambda _: None,
    ) -> list[Episode]:
        """Play the policy in every task as ``Evaluator.evaluate`` has it; return the episodes in the tasks' order."""

    async def bounds(self, task: Task) -> tuple[Bounds | LanguageModelError | OutsideFault, Ledger]:
        """Find a task's bounds, or why there are none, and what that took. Raises BudgetExhausted and EndpointDown."""

    async def leave(self, policy: MemoryPolicy) -> None:
        """End a policy's episodes that have stopped."""


class Here(EpisodeRunner):
    """Plays episodes in this process, so many side by side."""

    def __init__(self, track: Track, cast: Cast, *, most: int = MOST_UNDER_WAY) -> None:
        """Play tasks of this track with this cast, ``most`` at once."""
        self.track = track
        questions, lists = (asyncio.Semaphore(QUESTIONS_A_TASK * most) for _ in range(2))
        self.cast = replace(cast, questions=questions, question_lists=lists)
        self._places = asyncio.Semaphore(most)
        self._stopped: dict[tuple[str, str], Rollout] = {}
        """By policy key and task."""
        self._played = 0

    async def run(
        self,
        policy: MemoryPolicy,
        tasks: Sequence[Task],
        *,
        replays: Mapping[str, Episode] | None = None,
        stages: int | None = None,
        done: Callable[[Episode], None] = lambda _: None,
    ) -> list[Episode]:
        """Play the policy in every task, side by side unless the track has it in turn."""
        stopping = {group.id for group in grouped(tasks) if stages is not None and stages < group.stages}
        stops = {task.id: stages if task.group in stopping else None for task in tasks}
        await self._check_replays(policy, tasks, replays)
        if self.track.in_turn(policy):
            before: Rollout | None = None
            episodes = []
            for task in tasks:
                before = self._rollout(policy, task, replays, after=before)
                episodes.append(await self._play(policy, task, before, stops[task.id], done))
            return episodes

        async def run(task: Task) -> Episode:
            async with self._places:
                rollout = self._rollout(policy, task, replays)
                return await self._play(policy, task, rollout, stops[task.id], done)

        return await side_by_side(map(run, tasks))

    async def bounds(self, task: Task) -> tuple[Bounds | LanguageModelError | OutsideFault, Ledger]:
        """Find a task's bounds."""
        model, user = Metered(self.cast.assistant), Metered(self.cast.user)
        embedder = MeteredEmbedder(self.cast.embedder)
        cast = replace(self.cast, assistant=model, user=user, embedder=embedder).of_group(task.group)
        bounds: Bounds | LanguageModelError | OutsideFault
        async with self._places:
            try:
                bounds = await self.track.bounds(task, cast)
            except EndpointDown:
                raise
            except (LanguageModelError, OutsideFault) as error:
                bounds = error
        return bounds, merged([model.ledger, user.ledger, embedder.ledger])

    async def leave(self, policy: MemoryPolicy) -> None:
        """End a policy's episodes that have stopped."""
        for place in [place for place in self._stopped if place[0] == policy.key]:
            await self._stopped.pop(place).aclose()

    async def aclose(self) -> None:
        """End all episodes that have stopped."""
        while self._stopped:
            await self._stopped.popitem()[1].aclose()

    def _rollout(
        self,
        policy: MemoryPolicy,
        task: Task,
        replays: Mapping[str, Episode] | None,
        *,
        after: Rollout | None = None,
    ) -> Rollout:
        stopped = self._stopped.pop((policy.key, task.id), None)
        if stopped is not None:
            return stopped
        replay = None if replays is None else replays[task.id]
        return self.track.begin(task, policy, self.cast.of_group(task.group), replay=replay, after=after)

    async def _play(
        self, policy: MemoryPolicy, task: Task, rollout: Rollout, stop: int | None, done: Callable[[Episode], None]
    ) -> Episode:
        try:
            episode = folded(await rollout.run(stop))
        except BaseException:
            await rollout.aclose()
            raise
        self._played += 1
        if self._played % EPISODES_BETWEEN_TRIMS == 0:
            heap.trim()
        if stop is not None:
            self._stopped[policy.key, task.id] = rollout
        else:
            await rollout.aclose()
            done(episode)
        return episode

    async def _check_replays(
        self, policy: MemoryPolicy, tasks: Sequence[Task], replays: Mapping[str, Episode] | None
    ) -> None:
        """Raise RecordError, before any call, when a task's episode is missing or another task's."""
        for task in tasks if replays is not None else ():
            if replays is not None and task.id not in replays:
                raise RecordError(f"{task.id}: no episode is recorded; there are {len(replays)} others")
            if (policy.key, task.id) not in self._stopped:
                await self._rollout(policy, task, replays).aclose()
