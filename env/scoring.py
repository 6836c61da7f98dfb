"""Scores of episodes: how well checks were answered, between which bounds, and where memory failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ..data.folded import opened
from ..data.task import Check, Task
from .episode import Bounds, Episode, Mark, StageRecord
from .evidence import recall
from .statistics import nan_mean

FailureKind = Literal["write", "read", "utilisation"]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)

LEAST_HEADROOM = 0.05
"""Ceiling less floor below which a stage is unscored, as it cannot show what memory adds."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Say where memory failed in one stage.

    The shares partition all scored checks: ``accuracy + write + read + utilisation == 1``. A loss whose facts are all
    recalled is utilisation. Any other loss is split by its unknown facts: write has those that were unknown at the end
    of the stage that told them, and read those that were known then; where that was not asked, all shares are NaN.
    After AMemGym (ICLR 2026), section on diagnosis.
    """

    accuracy: float
    """Mean score, in [0, 1]."""
    write: float
    """Share lost because the fact was never recorded, in [0, 1]."""
    read: float
    """Share lost because the fact was recorded and later not found, in [0, 1]."""
    utilisation: float
    """Share lost although the facts were known, in [0, 1]."""
    checks: int
    """Number of scored checks that the shares are taken over."""


@dataclass(frozen=True, slots=True)
class StageScore:
    """Scores of one group at the end of one stage; NaN where nothing could be scored."""

    floor: float
    """Mean score without memory, in [0, 1]."""
    ceiling: float
    """Mean score with exactly the needed facts, in [0, 1]."""
    diagnosis: Diagnosis
    unparsable: int
    """Replies that could not be read as an answer."""
    evidence: float = math.nan
    """Share of the needed facts whose evidence memory put before the model, mean over checks, in [0, 1]."""
    least_headroom: float | None = LEAST_HEADROOM
    """None scores any headroom but zero, as AMemGym does; then a ceiling below the floor turns the score round."""

    @property
    def accuracy(self) -> float:
        """Mean score of the checks, in [0, 1]."""
        return self.diagnosis.accuracy

    @property
    def headroom(self) -> float:
        """Ceiling less floor."""
        return self.ceiling - self.floor

    @property
    def is_scored(self) -> bool:
        """Whether there is room between floor and ceiling for memory to be seen."""
        if self.least_headroom is None:
            return abs(self.headroom) >= 1e-12
        return self.headroom >= self.least_headroom - 1e-12

    @property
    def memory_score(self) -> float:
        """``(accuracy - floor) / (ceiling - floor)``: 0 is the floor, 1 the ceiling; NaN where it is not scored."""
        return (self.accuracy - self.floor) / self.headroom if self.is_scored else math.nan


Measure = Callable[[StageScore], float]
"""What policies are compared by at a stage; higher is better, NaN where it is not known."""


def memory_score(stage: StageScore) -> float:
    """Return a stage's memory score."""
    return stage.memory_score


@dataclass(frozen=True, slots=True)
class GroupScore:
    """Scores of one group, stage by stage."""

    group: str
    stages: tuple[StageScore, ...]
    guarded: bool = True
    """Whether the mean leaves out stages without a memory score; else such a stage makes the mean NaN."""

    @property
    def memory_score(self) -> float:
        """Mean over stages; higher is better."""
        return self.mean_of(memory_score)

    def mean_of(self, measure: Measure) -> float:
        """Return the mean of a measure over stages."""
        return mean_over_stages([measure(stage) for stage in self.stages], guarded=self.guarded)

    @property
    def accuracy(self) -> float:
        """Mean over stages."""
        return nan_mean([stage.accuracy for stage in self.stages])

    @property
    def evidence(self) -> float:
        """Evidence recall: mean over stages; NaN where it is not known."""
        return nan_mean([stage.evidence for stage in self.stages])

    @property
    def without_headroom(self) -> tuple[int, ...]:
        """The stages, 0-based, in which something was answered and whose ceiling is hardly above the floor."""
        flat = (not stage.is_scored and not math.isnan(stage.headroom) for stage in self.stages)
        return tuple(number for number, is_flat in enumerate(flat) if is_flat)


def mean_over_stages(scores: Sequence[float], *, guarded: bool) -> float:
    """Return the mean of the known scores; unless ``guarded``, an unknown score makes it NaN."""
    return math.nan if not guarded and any(map(math.isnan, scores)) else nan_mean(scores)


def score_group(
    group: str,
    played: Sequence[tuple[Task, Episode, Bounds]],
    *,
    least_headroom: float | None = LEAST_HEADROOM,
) -> GroupScore:
    """Score every recorded stage of a group's episodes; checks of its tasks at the same stage are pooled."""
    known = [(opened(task), replace(episode, stages=tuple(episode.stages)), bounds) for task, episode, bounds in played]
    longest = max(len(episode.stages) for _, episode, _ in known)
    stages = tuple(_score_stage(known, stage, least_headroom) for stage in range(longest))
    return GroupScore(group, stages, guarded=least_headroom is not None)


@dataclass(frozen=True, slots=True)
class _Scored:
    """A scored check at the end of a stage, and how much of its loss falls to each kind of failure."""

    mark: Mark
    floor: float
    ceiling: float
    failures: tuple[float, float, float]
    """Of write, read and utilisation; NaN where memory was not probed, now or when it was told."""


def _score_stage(
    played: Sequence[tuple[Task, Episode, Bounds]], stage: int, least_headroom: float | None
) -> StageScore:
    scored = [
        _scored(check, mark, task, episode.stages, bounds)
        for task, episode, bounds in played
        if stage < len(episode.stages)
        for check, mark in marked(task, episode, stage)
        if not math.isnan(mark.score)
    ]
    return StageScore(
        floor=nan_mean([item.floor for item in scored]),
        ceiling=nan_mean([item.ceiling for item in scored]),
        diagnosis=_diagnose(scored),
        unparsable=sum(not item.mark.readable for item in scored),
        evidence=nan_mean([recall(item.mark.shown) for item in scored]),
        least_headroom=least_headroom,
    )


def marked(task: Task, episode: Episode, stage: int) -> list[tuple[Check, Mark]]:
    """Return the checks of a recorded stage with their marks."""
    return [(task.checks[mark.check], mark) for mark in episode.stages[stage].marks]


def _scored(check: Check, mark: Mark, task: Task, stages: Sequence[StageRecord], bounds: Bounds) -> _Scored:
    loss = 1 - mark.score
    write, read, utilisation = failure_weights(check, mark, task, stages)
    failures = (loss * write, loss * read, loss * utilisation)
    return _Scored(mark, bounds.floor[check.id].score, bounds.ceiling[check.id].score, failures)


def failure_weights(check: Check, mark: Mark, task: Task, stages: Sequence[StageRecord]) -> tuple[float, float, float]:
    """Return how much of a check's loss falls to write, read and utilisation; the three sum to 1.

    All are NaN where it was not asked whether a fact that the check needs is known, or whether a fact that is unknown
    now was known at first.
    """
    if any(mark.recalled.get(fact) is None for fact in check.needs):
        return math.nan, math.nan, math.nan
    unknown = [fact for fact, known in mark.recalled.items() if not known]
    if not unknown:
        return 0.0, 0.0, 1.0
    first = [known_at_first(fact, check, task, stages) for fact in unknown]
    if None in first:
        return math.nan, math.nan, math.nan
    never = first.count(False)
    return never / len(unknown), 1 - never / len(unknown), 0.0


def failure_kind(check: Check, mark: Mark, task: Task, stages: Sequence[StageRecord]) -> FailureKind | None:
    """Return to which kind most of a check's loss falls, the earlier one in a tie; None where that is not known."""
    write, read, utilisation = failure_weights(check, mark, task, stages)
    if math.isnan(write):
        return None
    return "utilisation" if utilisation > 0 else "read" if read > write else "write"


def known_at_first(fact: str, check: Check, task: Task, stages: Sequence[StageRecord]) -> bool | None:
    """Tell whether a fact was known at the end of the stage that told it, by the same question if it was asked then.

    None where it was not asked.
    """
    then = stages[task.facts[fact].since]
    same = (mark.recalled.get(fact) for mark in then.marks if task.checks[mark.check].question == check.question)
    return next((known for known in same if known is not None), then.recalled.get(fact))


def _diagnose(scored: Sequence[_Scored]) -> Diagnosis:
    if not scored:
        return Diagnosis(math.nan, math.nan, math.nan, math.nan, 0)
    count = len(scored)
    accuracy = sum(item.mark.score for item in scored) / count
    write, read, utilisation = (sum(lost) / count for lost in zip(*(item.failures for item in scored), strict=True))
    return Diagnosis(accuracy, write, read, utilisation, count)


def by_stage(scores: Sequence[GroupScore], name: str) -> list[float]:
    """Return the mean over groups of a stage's figure, for each stage."""
    longest = max((len(score.stages) for score in scores), default=0)
    return [
        nan_mean([value_of(score.stages[s], name) for score in scores if s < len(score.stages)]) for s in range(longest)
    ]


def value_of(stage: StageScore, name: str) -> float:
    """Return a stage's figure: a failure kind, or a field of ``StageScore`` by name."""
    return float(getattr(stage.diagnosis if name in FAILURE_KINDS else stage, name))
