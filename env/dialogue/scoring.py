"""Scores of one episode: accuracy, baselines, memory score and where memory failed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from ...data.dialogue.scenario import Question, Scenario
from ..episode import Answer, Episode, PeriodRecord, UpperBound
from ..statistics import nan_mean
from .compat import NONE, Compat

Metric = Literal["accuracy", "hamming", "jaccard"]
"""How alike two states are, in [0, 1], after AMemGym: all values equal or not; the share of equal values; equal values
over all different ones."""
METRICS: tuple[Metric, ...] = get_args(Metric)


def similarity(one: Sequence[str], other: Sequence[str], metric: Metric) -> float:
    """Return how alike two states are, whose values are aligned."""
    equal = sum(a == b for a, b in zip(one, other, strict=True))
    if metric == "accuracy":
        return float(equal == len(one))
    return equal / len(one) if metric == "hamming" else equal / (2 * len(one) - equal)


@dataclass(frozen=True, slots=True)
class Level:
    """The similarity of the states answered to the right ones, beside its baselines."""

    score: float
    """In [0, 1]; NaN when nothing was scored."""
    random: float
    """Expected of a blind choice."""
    upper_bound: float
    """With the states given."""

    @property
    def memory_score(self) -> float:
        """``(score - random) / (upper_bound - random)``: 0 is chance, 1 the upper bound; NaN where the two are equal.

        An upper bound below chance turns it round: then the model cannot do the task, and being wrong scores well.
        """
        headroom = self.upper_bound - self.random
        return math.nan if abs(headroom) < 1e-12 else (self.score - self.random) / headroom


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
    """Answers that could not be read."""
    others: Mapping[Metric, Level] = field(default_factory=dict)
    """The metrics besides accuracy."""

    @property
    def memory_score(self) -> float:
        """Accuracy's, as ``Level`` has it."""
        return self.level("accuracy").memory_score

    def level(self, metric: Metric) -> Level:
        """Return a metric beside its baselines."""
        if metric == "accuracy":
            return Level(self.diagnosis.accuracy, self.random, self.upper_bound)
        return self.others[metric]


@dataclass(frozen=True, slots=True)
class UserScore:
    """Scores of one user, period by period."""

    user: str
    periods: tuple[PeriodScore, ...]
    guarded: bool = True
    """Whether periods without a memory score are left out of its mean; else one makes the mean NaN."""

    @property
    def memory_score(self) -> float:
        """Mean over periods; higher is better."""
        return self.mean_memory_score("accuracy")

    def mean_memory_score(self, metric: Metric) -> float:
        """Return the mean over periods of a metric's memory score."""
        scores = [period.level(metric).memory_score for period in self.periods]
        return math.nan if not self.guarded and any(map(math.isnan, scores)) else nan_mean(scores)

    @property
    def accuracy(self) -> float:
        """Mean over periods."""
        return nan_mean([period.diagnosis.accuracy for period in self.periods])


def score_episode(episode: Episode, scenario: Scenario, upper_bound: UpperBound, *, compat: Compat = NONE) -> UserScore:
    """Score every recorded period of an episode."""
    periods = (_score_period(episode, p, scenario, upper_bound, compat) for p in range(len(episode.periods)))
    return UserScore(episode.user, tuple(periods), guarded="unguarded_score" not in compat)


def _score_period(episode: Episode, p: int, scenario: Scenario, upper_bound: UpperBound, compat: Compat) -> PeriodScore:
    answers, state = episode.periods[p].answers, scenario.periods[p].state
    bounds = _bounds(scenario, p, answers, upper_bound, compat)
    asked = [
        _Asked(question, state, answer, bound)
        for question, answer, bound in zip(scenario.qas, answers, bounds, strict=True)
        if answer.gold is not None
    ]
    levels = {metric: _level(asked, metric) for metric in METRICS}
    return PeriodScore(
        random=levels["accuracy"].random,
        upper_bound=levels["accuracy"].upper_bound,
        diagnosis=_diagnose(episode.periods, p, scenario),
        unparsable=sum(one.answer.choice is None or one.answer.guessed for one in asked),
        others={metric: levels[metric] for metric in METRICS if metric != "accuracy"},
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    """What was answered with the present states of a question given; ``question`` is the one that it was asked for."""

    answer: Answer
    question: Question

    def similarity(self, metric: Metric) -> float:
        return _answered(self.answer, self.question, metric)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A scored question at the end of a period."""

    question: Question
    state: Mapping[str, str]
    answer: Answer
    bound: _Bound

    def chance(self, metric: Metric) -> float:
        now = [self.state[info] for info in self.question.required_info]
        return nan_mean([similarity(now, choice.state, metric) for choice in self.question.answer_choices])


def _level(asked: Sequence[_Asked], metric: Metric) -> Level:
    return Level(
        score=nan_mean([_answered(one.answer, one.question, metric) for one in asked]),
        random=nan_mean([one.chance(metric) for one in asked]),
        upper_bound=nan_mean([one.bound.similarity(metric) for one in asked]),
    )


def _answered(answer: Answer, question: Question, metric: Metric) -> float:
    if answer.gold is None:
        return math.nan
    if answer.choice is None:
        return 0.0
    choices = question.answer_choices
    return similarity(choices[answer.gold].state, choices[answer.choice].state, metric)


def _bounds(
    scenario: Scenario, p: int, answers: Sequence[Answer], upper_bound: UpperBound, compat: Compat
) -> list[_Bound]:
    """Return for each question what was answered with the states of its right choice given."""
    own = [
        _Bound(bounds[answer.gold or 0], question)
        for question, answer, bounds in zip(scenario.qas, answers, upper_bound, strict=True)
    ]
    if "shared_upper_bound" not in compat:
        return own
    shared = {
        tuple(choice.state): _Bound(bound, question)
        for question, bounds in zip(scenario.qas, upper_bound, strict=True)
        for choice, bound in zip(question.answer_choices, bounds, strict=True)
    }
    state = scenario.periods[p].state
    present = [tuple(state[info] for info in question.required_info) for question in scenario.qas]
    return [shared.get(values, bound) for values, bound in zip(present, own, strict=True)]


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
    undiagnosed = not periods[p].probes
    for q, answer in enumerate(periods[p].answers):
        if answer.gold is None:
            continue
        scored += 1
        if answer.score == 1:
            right += 1
        elif not undiagnosed:
            to_write, to_read, to_utilisation = failure_weights(periods, p, q, scenario)
            write, read, utilisation = write + to_write, read + to_read, utilisation + to_utilisation
    if scored == 0:
        return Diagnosis(math.nan, math.nan, math.nan, math.nan, 0)
    if undiagnosed:
        return Diagnosis(right / scored, math.nan, math.nan, math.nan, scored)
    return Diagnosis(right / scored, write / scored, read / scored, utilisation / scored, scored)
