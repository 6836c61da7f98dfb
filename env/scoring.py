"""Scores of one episode: accuracy, baselines, memory score and where memory failed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..data.scenario import Question, Scenario
from .episode import Episode, PeriodRecord
from .statistics import nan_mean

Ceiling = Sequence[Sequence[float]]
"""Upper bound: for each question and each of its choices, 1 if it is chosen when its state is given, else 0."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Say where memory failed in one period.

    The shares partition all scored answers: ``accuracy + write + read + utilisation == 1``. After AMemGym (ICLR 2026),
    section on diagnosis; a wrong answer whose states are known counts as utilisation, any other is split between write
    and read in proportion to the states that were unknown already at their last change, and those that were known then.
    """

    accuracy: float
    write: float
    """Share of answers lost because the state was never recorded, in [0, 1]."""
    read: float
    """Share lost because the state was recorded and later not found, in [0, 1]."""
    utilisation: float
    """Share lost although the state was known, in [0, 1]."""
    questions: int
    """Number of scored answers that the shares are taken over."""


@dataclass(frozen=True, slots=True)
class PeriodScore:
    """Scores of one user at the end of one period; NaN where nothing could be scored."""

    random: float
    """Expected accuracy of a blind choice, in [0, 1]."""
    upper_bound: float
    """Accuracy with the states given, in [0, 1]."""
    diagnosis: Diagnosis
    unparsable: int
    """Answers that could not be read; they count as wrong."""

    @property
    def memory_score(self) -> float:
        """``(accuracy - random) / (upper_bound - random)``; 0 is chance, 1 the upper bound.

        NaN without headroom: where the upper bound is not above chance, the model cannot do the task, and the ratio
        would reward wrong answers.
        """
        headroom = self.upper_bound - self.random
        if math.isnan(headroom) or headroom < 1e-12:
            return math.nan
        return (self.diagnosis.accuracy - self.random) / headroom


@dataclass(frozen=True, slots=True)
class UserScore:
    """Scores of one user, period by period."""

    user: str
    periods: tuple[PeriodScore, ...]

    @property
    def memory_score(self) -> float:
        """Mean over periods; higher is better."""
        return nan_mean([period.memory_score for period in self.periods])

    @property
    def accuracy(self) -> float:
        """Mean over periods."""
        return nan_mean([period.diagnosis.accuracy for period in self.periods])


def score_episode(episode: Episode, scenario: Scenario, ceiling: Ceiling) -> UserScore:
    """Score every recorded period of an episode."""
    scores = []
    for p, record in enumerate(episode.periods):
        golds = [answer.gold for answer in record.answers]
        scored = [(q, gold) for q, gold in enumerate(golds) if gold is not None]
        scores.append(
            PeriodScore(
                random=nan_mean([_chance(scenario.qas[q], gold) for q, gold in scored]),
                upper_bound=nan_mean([ceiling[q][gold] for q, gold in scored]),
                diagnosis=_diagnose(episode.periods, p, scenario),
                unparsable=sum(record.answers[q].choice is None for q, _ in scored),
            )
        )
    return UserScore(episode.user, tuple(scores))


def _chance(question: Question, gold: int) -> float:
    """Return the share of choices that a blind guess would score with."""
    states = [choice.state for choice in question.answer_choices]
    return states.count(states[gold]) / len(states)


def failure_weights(periods: Sequence[PeriodRecord], p: int, q: int, scenario: Scenario) -> tuple[float, float, float]:
    """Return how much of a wrong answer falls to write, read and utilisation; the three sum to 1."""
    unknown = [info for info, known in periods[p].probes[q].right.items() if not known]
    if not unknown:
        return 0.0, 0.0, 1.0
    never = sum(not periods[last_change(scenario, info, p)].probes[q].right[info] for info in unknown)
    return never / len(unknown), 1 - never / len(unknown), 0.0


def last_change(scenario: Scenario, info: str, now: int) -> int:
    """Return the last period up to ``now`` in which a state was set or changed."""
    return max((p for p in range(now + 1) if info in scenario.periods[p].updates), default=0)


def _diagnose(periods: Sequence[PeriodRecord], p: int, scenario: Scenario) -> Diagnosis:
    right = write = read = utilisation = 0.0
    scored = 0
    for q, answer in enumerate(periods[p].answers):
        if answer.gold is None:
            continue
        scored += 1
        if answer.score == 1:
            right += 1
        else:
            to_write, to_read, to_utilisation = failure_weights(periods, p, q, scenario)
            write, read, utilisation = write + to_write, read + to_read, utilisation + to_utilisation
    if scored == 0:
        return Diagnosis(math.nan, math.nan, math.nan, math.nan, 0)
    return Diagnosis(right / scored, write / scored, read / scored, utilisation / scored, scored)
