"""When a candidate is accepted: paired by user, at a level that pays for every look, and not if a slice gets worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..data.scenario import Question, Scenario
from ..env import Evaluation
from ..env.statistics import Estimate, nan_mean, paired_difference, paired_test
from .study import Trial

ALPHA = 0.05
"""Chance that a search in which no candidate is better accepts one all the same, at most."""
FEWEST_USERS = 5
"""Users that a slice needs to be judged."""

PROMISING = 0.1
"""One-sided p on train users up to which a candidate is worth a look at validation users."""

Slices = Mapping[str, Mapping[str, float]]
"""Scores by user, for parts of what is asked; higher is better."""


def level(trials: Sequence[Trial]) -> float:
    """Return the one-sided level of the next look at the validation users.

    The k-th look since the last acceptance gets ``ALPHA / (k (k + 1))``: the levels of all looks before the first
    acceptance sum to at most ``ALPHA``, and each acceptance earns it anew (alpha investing; Foster and Stine, 2008).
    """
    looks = 1
    for trial in reversed(trials):
        if trial.accepted:
            break
        looks += trial.stage == "validate"
    return ALPHA / (looks * (looks + 1))


def promising(scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
    """Tell whether train scores above the best's are worth a look, of which each makes the next dearer.

    Train users say nothing of validation users but through the policies, so that this choice costs no level. With fewer
    than two users, anything better is.
    """
    _, p = paired_test(scores, best)
    return math.isnan(p) or p < PROMISING


@dataclass(frozen=True, slots=True)
class Look:
    """What a candidate's scores on validation users say against those of the best policy so far."""

    gain: Estimate
    """Mean difference by user, with its 95% interval."""
    effect: float
    """The mean difference in standard deviations of the differences (Cohen's d for pairs); NaN where all are equal."""
    p: float
    """One-sided, of no gain; NaN with fewer than two users."""
    level: float
    """``p`` at which the gain counts as sure, after the looks before."""
    slices: Mapping[str, Estimate] = field(default_factory=dict)
    """Difference on each slice, with an interval that holds for all of them together at 95%."""

    @property
    def sure(self) -> bool:
        """Whether the gain is above zero at the level of this look."""
        return self.p < self.level

    @property
    def regressions(self) -> list[str]:
        """Slices that got surely worse, the worst first."""
        worse = [name for name, difference in self.slices.items() if difference.high < 0]
        return sorted(worse, key=lambda name: self.slices[name].mean)

    def as_json(self) -> dict[str, Any]:
        """Return the look as plain JSON values; NaN becomes null."""
        return {
            "gain": _interval(self.gain),
            "effect": _number(self.effect),
            "p": _number(self.p),
            "level": self.level,
            "slices": {name: _interval(difference) for name, difference in self.slices.items()},
            "regressions": self.regressions,
        }


def look(
    scores: Mapping[str, float], others: Mapping[str, float], *, level: float, slices: Slices, other_slices: Slices
) -> Look:
    """Compare two policies on the users that both have a score for."""
    effect, p = paired_test(scores, others)
    common = [name for name in slices if len(slices[name].keys() & other_slices.get(name, {}).keys()) >= FEWEST_USERS]
    together = 1 - 0.05 / max(1, len(common))
    differences = {name: paired_difference(slices[name], other_slices[name], level=together) for name in common}
    return Look(paired_difference(scores, others), effect, p, level, differences)


def slices_of(evaluation: Evaluation, scenarios: Sequence[Scenario]) -> Slices:
    """Return a policy's scores by user on early, middle and late periods, on each topic, and for each failure stage.

    A stage's score is the share of answers that it did not cost. A topic is the first word of a question's states.
    """
    by_id = {scenario.id: scenario for scenario in scenarios}
    found: dict[str, dict[str, float]] = {}
    for user in evaluation.users:
        third = math.ceil(len(user.periods) / 3)
        for name, part in (
            ("early", user.periods[:third]),
            ("middle", user.periods[third:-third]),
            ("late", user.periods[-third:]),
        ):
            found.setdefault(f"{name} periods", {})[user.user] = nan_mean([p.diagnosis.accuracy for p in part])
        for stage in ("write", "read", "utilisation"):
            lost = nan_mean([getattr(p.diagnosis, stage) for p in user.periods])
            found.setdefault(f"{stage} failures", {})[user.user] = 1 - lost
    for episode in evaluation.episodes:
        if episode.user in evaluation.by_user:
            for topic, scores in _by_topic(episode.periods, by_id[episode.user]).items():
                found.setdefault(f"topic {topic}", {})[episode.user] = nan_mean(scores)
    return found


def _by_topic(periods: Sequence[Any], scenario: Scenario) -> dict[str, list[float]]:
    scores: dict[str, list[float]] = {}
    for record in periods:
        for question, answer in zip(scenario.qas, record.answers, strict=True):
            scores.setdefault(topic_of(question), []).append(answer.score)
    return scores


def topic_of(question: Question) -> str:
    """Return what a question is about: the first word of the name of its first state."""
    return question.required_info[0].split("_")[0]


def _interval(estimate: Estimate) -> list[float | None]:
    return [_number(estimate.mean), _number(estimate.low), _number(estimate.high)]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
