"""AMemGym's further metrics: how alike the state answered and the right one are, beside their baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from operator import eq
from typing import Literal, get_args

from ...data.dialogue.scenario import Question, Scenario
from ..episode import Episode
from ..scoring import mean_over_stages
from ..statistics import nan_mean
from .compat import Compat
from .record import Answer, PeriodRecord, UpperBound

Metric = Literal["accuracy", "hamming", "jaccard"]
"""How alike two states are, in [0, 1], after AMemGym: all values equal or not; the share of equal values; equal values
over all different ones."""
METRICS: tuple[Metric, ...] = get_args(Metric)


def similarity(values: Sequence[str], others: Sequence[str], metric: Metric) -> float:
    """Return how alike two states are, whose values are aligned."""
    equal: int = sum(starmap(eq, zip(values, others, strict=True)))
    if metric == "accuracy":
        return float(equal == len(values))
    return equal / len(values) if metric == "hamming" else equal / (2 * len(values) - equal)


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
        """``(score - random) / (upper_bound - random)``; NaN where the two are equal."""
        headroom = self.upper_bound - self.random
        return math.nan if abs(headroom) < 1e-12 else (self.score - self.random) / headroom


def levels(episode: Episode, scenario: Scenario, bounds: UpperBound, metric: Metric, *, compat: Compat) -> list[Level]:
    """Return a metric for each recorded period of an episode."""
    return [
        _level(record, p, scenario, bounds, metric, compat)
        for p, record in enumerate(episode.stages)
        if isinstance(record, PeriodRecord)
    ]


def mean_memory_score(levels: Sequence[Level], *, compat: Compat) -> float:
    """Return the mean over periods of a metric's memory score."""
    return mean_over_stages([level.memory_score for level in levels], guarded="unguarded_score" not in compat)


def mean_level(levels: Sequence[Sequence[Level]]) -> Level:
    """Return the means over users of their means over periods."""
    return Level(
        score=nan_mean([nan_mean([level.score for level in user]) for user in levels]),
        random=nan_mean([nan_mean([level.random for level in user]) for user in levels]),
        upper_bound=nan_mean([nan_mean([level.upper_bound for level in user]) for user in levels]),
    )


def _level(
    record: PeriodRecord, p: int, scenario: Scenario, bounds: UpperBound, metric: Metric, compat: Compat
) -> Level:
    given = upper_bound_answers(scenario, p, [answer.gold for answer in record.answers], bounds, compat)
    scored = [
        (question, answer, bound)
        for question, answer, bound in zip(scenario.qas, record.answers, given, strict=True)
        if answer.gold is not None
    ]
    state = scenario.periods[p].state
    return Level(
        score=nan_mean([_answered(answer, question, metric) for question, answer, _ in scored]),
        random=nan_mean([_chance(question, state, metric) for question, _, _ in scored]),
        upper_bound=nan_mean([_answered(*bound, metric) for _, _, bound in scored]),
    )


def _chance(question: Question, state: Mapping[str, str], metric: Metric) -> float:
    now = [state[info] for info in question.required_info]
    return nan_mean([similarity(now, choice.state, metric) for choice in question.answer_choices])


def _answered(answer: Answer, question: Question, metric: Metric) -> float:
    if answer.gold is None:
        return math.nan
    if answer.choice is None:
        return 0.0
    choices = question.answer_choices
    return similarity(choices[answer.gold].state, choices[answer.choice].state, metric)


def upper_bound_answers(
    scenario: Scenario, p: int, golds: Sequence[int | None], upper_bound: UpperBound, compat: Compat
) -> list[tuple[Answer, Question]]:
    """Return, for each question, the answer with its present states given, and the question that it answers."""
    own = [
        (bounds[gold or 0], question) for question, gold, bounds in zip(scenario.qas, golds, upper_bound, strict=True)
    ]
    if "shared_upper_bound" not in compat:
        return own
    shared = {
        tuple(choice.state): (bound, question)
        for question, bounds in zip(scenario.qas, upper_bound, strict=True)
        for choice, bound in zip(question.answer_choices, bounds, strict=True)
    }
    state = scenario.periods[p].state
    present = [tuple(state[info] for info in question.required_info) for question in scenario.qas]
    return [shared.get(values, bound) for values, bound in zip(present, own, strict=True)]
