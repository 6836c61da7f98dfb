"""A policy's scores on a set of tasks."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ..data.folded import FoldedMap
from ..data.task import Task, checks_at, grouped
from ..policies.lm import CallRole, Ledger
from ..policies.lm.chain import NO_CALLS, Chain, chain
from ..policies.lm.ledger import merged
from ..policies.policy import MemoryPolicy
from .concurrency import both, side_by_side
from .episode import Bounds, Episode, Mark, StageRecord
from .runner import EpisodeRunner, Here
from .scoring import GroupScore, Measure, by_stage, score_group, value_of
from .statistics import Estimate, estimate, nan_mean
from .track import Cast, Track


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A policy's scores on a set of tasks, with intervals clustered by group, diagnosis and cost."""

    policy: MemoryPolicy
    groups: tuple[GroupScore, ...]
    """Groups none of whose episodes was lost. What an episode that was refused did not come to counts as wrong."""
    episodes: tuple[Episode, ...] = field(repr=False, default=())
    """One for each task, in their order, failed ones included."""
    group_of: Mapping[str, str] = field(repr=False, default_factory=dict)
    """Each task's group."""
    ledger: Ledger = field(default_factory=Ledger)
    turn: CallRole = "reply"
    """The role of the calls that are turns."""
    readers: Mapping[str, str] = field(repr=False, default_factory=dict)
    """Who of the model's family played with each group; empty where it is no family."""
    bounds: Mapping[str, Bounds] = field(repr=False, default_factory=dict)
    """By task, where they could be found."""
    reworded: tuple[GroupScore, ...] = ()
    """Scores of the same groups when each check is asked in other words; none where nothing was asked so."""
    extras: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """Further figures of the track's, as JSON values."""
    compat: AbstractSet[str] = frozenset()
    """Defects of a reference implementation that are reproduced."""
    wall_s: float = 0.0
    critical_path: Chain = NO_CALLS
    """The longest chain of dependent calls that were sent."""

    @property
    def failures(self) -> dict[str, str]:
        """Why episodes failed, by group; a group has a score all the same where they were refused."""
        return {self.group_of[e.task]: e.failure for e in reversed(self.episodes) if e.failure is not None}

    @property
    def by_group(self) -> dict[str, float]:
        """Each group's memory score."""
        return {score.group: score.memory_score for score in self.groups}

    def measured(self, measure: Measure) -> dict[str, float]:
        """Return each group's mean of a measure over its stages."""
        return {score.group: score.mean_of(measure) for score in self.groups}

    @property
    def memory_score(self) -> Estimate:
        """Mean over groups of their mean over stages; 0 is the floor, 1 the ceiling."""
        return mean_over_groups(self.groups, [score.memory_score for score in self.groups])

    @property
    def without_headroom(self) -> Mapping[str, tuple[int, ...]]:
        """The stages, 0-based, that are unscored as their ceiling is hardly above their floor, by group."""
        return {score.group: score.without_headroom for score in self.groups if score.without_headroom}

    def mean(self, name: str) -> float:
        """Return the mean over groups and stages of ``accuracy``, ``floor``, ``ceiling`` or a kind of failure."""
        return nan_mean([nan_mean([value_of(stage, name) for stage in score.stages]) for score in self.groups])

    def stage_means(self, name: str) -> list[float]:
        """Return the mean over groups for each stage; ``name`` as in ``mean``, or ``memory_score``."""
        return by_stage(self.groups, name)


def mean_over_groups(groups: Sequence[GroupScore], scores: Sequence[float]) -> Estimate:
    """Return the mean of scores, aligned with groups, and its interval; NaN where an unguarded one is."""
    if any(math.isnan(score) and not group.guarded for group, score in zip(groups, scores, strict=True)):
        return Estimate(math.nan, math.nan, math.nan, len(scores))
    return estimate(scores)


class Evaluator:
    """Evaluates policies; a task's bounds are found once and billed to the evaluation that needed them first."""

    def __init__(
        self,
        track: Track,
        cast: Cast,
        *,
        runner: EpisodeRunner | None = None,
        joined: Callable[[], None] = lambda: None,
        bounds: Mapping[str, Bounds] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Evaluate tasks of this track with this cast, in this process unless a ``runner`` says where.

        ``joined`` is called when all episodes of an evaluation are here, and may end it. ``bounds`` by task are known,
        ``clock`` is in seconds.
        """
        self.track = track
        self.cast = cast
        self.runner = runner or Here(track, cast)
        self._joined = joined
        self._clock = clock
        self._bounds = FoldedMap(bounds)
        self._finding = asyncio.Lock()

    async def evaluate(
        self,
        policy: MemoryPolicy,
        tasks: Sequence[Task],
        *,
        replays: Mapping[str, Episode] | None = None,
        stages: int | None = None,
        done: Callable[[Episode], None] = lambda _: None,
    ) -> Evaluation:
        """Run the policy in every task side by side; ``done`` hears of each finished episode.

        Where only the first ``stages`` are asked for, a later evaluation of the same policy goes on from there, unless
        it is left with ``leave``. Off-policy where ``replays`` by task are given. Raises RecordError, before any call,
        when one is missing or another task's.
        A failed episode is kept; its group goes unscored, unless the endpoint refused what the policy asks, or the
        policy's memory failed.
        Raises BudgetExhausted when the budget ends it, and EndpointDown when no call gets through.
        """
        start, before = self._clock(), chain()
        running = self.runner.run(policy, tasks, replays=replays, stages=stages, done=done)
        episodes, (problems, ledger) = await both(running, self._find_bounds(tasks))
        self._joined()
        episodes = [
            replace(episode, failure=f"bounds: {problems[episode.task]}", refused=False)
            if (episode.failure is None or episode.refused) and episode.task in problems
            else episode
            for episode in episodes
        ]
        known = self._bounds.only(task.id for task in tasks)
        settled, bounds = self.track.settle(tasks, episodes, known)
        ended = [
            with_the_rest_wrong(episode, task, stages, reworded=self.cast.reworded)
            for task, episode in zip(tasks, settled, strict=True)
        ]
        asked_again = self.cast.reworded and any(stage.reworded for episode in ended for stage in episode.stages)
        return Evaluation(
            policy=policy,
            groups=score_groups(self.track, tasks, ended, bounds),
            reworded=score_groups(self.track, tasks, ended, bounds, reworded=True) if asked_again else (),
            bounds=bounds,
            extras=self.track.extras(tasks, settled, bounds),
            compat=self.track.compat,
            turn=self.track.turn,
            episodes=tuple(settled),
            group_of={task.id: task.group for task in tasks},
            readers={task.group: self.cast.readers[task.group] for task in tasks if task.group in self.cast.readers},
            ledger=merged([ledger, *(episode.ledger for episode in episodes)]),
            wall_s=self._clock() - start,
            critical_path=Chain(chain().seconds - before.seconds, chain().calls - before.calls),
        )

    @property
    def bounds(self) -> Mapping[str, Bounds]:
        """Those that were found, by task."""
        return self._bounds

    async def leave(self, policy: MemoryPolicy) -> None:
        """End a policy's episodes that are under way."""
        await self.runner.leave(policy)

    async def _find_bounds(self, tasks: Sequence[Task]) -> tuple[Mapping[str, Exception], Ledger]:
        """Find the bounds that are not known yet; return why some could not be found, and what it took."""
        async with self._finding:
            new, problems = [task for task in tasks if task.id not in self._bounds], dict[str, Exception]()

            async def find(task: Task) -> Ledger:
                found, ledger = await self.runner.bounds(task)
                if isinstance(found, Bounds):
                    self._bounds[task.id] = found  # folded at once: those of many tasks take much memory
                else:
                    problems[task.id] = found
                return ledger

            return problems, merged(await side_by_side(map(find, new)))


def score_groups(
    track: Track,
    tasks: Sequence[Task],
    episodes: Sequence[Episode],
    bounds: Mapping[str, Bounds],
    *,
    reworded: bool = False,
) -> tuple[GroupScore, ...]:
    """Return the scores of the groups none of whose episodes, aligned with ``tasks``, was lost.

    Where ``reworded``, they are those of the answers to reworded checks.
    """
    answered = _reworded if reworded else _as_asked
    by_task = {episode.task: episode for episode in episodes}
    return tuple(
        score_group(
            group.id,
            [(task, answered(by_task[task.id]), bounds[task.id]) for task in group.tasks],
            least_headroom=track.least_headroom,
        )
        for group in grouped(tasks)
        if all(by_task[task.id].failure is None or by_task[task.id].refused for task in group.tasks)
    )


def with_the_rest_wrong(episode: Episode, task: Task, stages: int | None = None, *, reworded: bool = False) -> Episode:
    """Return an episode that was refused with all checks of the stages that it did not come to answered wrong.

    Memory is not at fault for what cannot be asked: the loss is one of utilisation. Where memory itself has failed, no
    fact is recalled from then on. Memory has shown no evidence of what was not asked, if the track tells that at all.
    """
    if not episode.refused:
        return episode
    asked = [mark for stage in episode.stages for mark in stage.marks if mark.recalled]
    told = not asked or any(mark.shown for mark in asked)
    end = task.stages if stages is None else min(stages, task.stages)
    missing = []
    for stage in range(len(episode.stages), end):
        checks = checks_at(task, stage)
        marks = tuple(
            Mark(
                c.id,
                "",
                0.0,
                dict.fromkeys(c.needs, not episode.memory_failed),
                readable=False,
                shown=dict.fromkeys(c.needs if told else (), False),
            )
            for c in checks
        )
        missing.append(StageRecord(marks=marks, reworded=marks if reworded else ()))
    return replace(episode, stages=(*episode.stages, *missing))


def _as_asked(episode: Episode) -> Episode:
    return episode


def _reworded(episode: Episode) -> Episode:
    """Return an episode with the answers to reworded checks in place of the others."""
    return replace(episode, stages=tuple(replace(stage, marks=stage.reworded) for stage in episode.stages))
