"""When a candidate is accepted: surely better than the seed policy, likely better than the best, and nowhere worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...data.dialogue.scenario import Question, Scenario
from ...env import Evaluation
from ...env.statistics import nan_mean, paired_difference, paired_test
from ..look import Comparison, Look
from ..study import Trial

ALPHA_AT_THE_END = 0.025
"""Level of the last look, which every search has: where it is met, the 95% interval of the gain lies above zero."""
ALPHA_ON_THE_WAY = 0.01
"""Sum of the levels of all looks before it."""
FEWEST_USERS = 5
"""Users that a slice needs to be judged."""

PROMISING = 0.1
"""One-sided p of no gain over the best policy, on train users, up to which a candidate is worth a look."""

Slices = Mapping[str, Mapping[str, float]]
"""Scores by user, for parts of what is asked; higher is better."""


def level(trials: Sequence[Trial], *, last: bool) -> float:
    """Return the one-sided level at which the next look must find a gain over the seed policy.

    The k-th look on the way gets ``ALPHA_ON_THE_WAY / (k (k + 1))``, and so do the last looks of a search that went on
    after its last look. So where no candidate is better than the seed policy, all looks together accept one with a
    chance of 3.5% at most, however many there are.
    """
    looks = [trial.look for trial in trials if trial.look is not None]
    if last and not any(look.last for look in looks):
        return ALPHA_AT_THE_END
    k = 1 + len(looks)
    return ALPHA_ON_THE_WAY / (k * (k + 1))


def promising(scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
    """Tell whether train scores above the best's are worth a look, of which each makes the next dearer.

    Train users say nothing of validation users but through the policies, so that this choice costs no level. With fewer
    than two users, anything better is.
    """
    _, p = paired_test(scores, best)
    return math.isnan(p) or p < PROMISING


def look(
    scores: Mapping[str, float], slices: Slices, *, seed: Trial, best: Trial, level: float, last: bool = False
) -> Look:
    """Compare a candidate's validation scores with those of the seed policy and of the best so far."""
    common = [
        name
        for name in slices
        if name in best.slices and paired_difference(slices[name], best.slices[name]).users >= FEWEST_USERS
    ]
    together = 1 - 0.05 / max(1, len(common))
    differences = {name: paired_difference(slices[name], best.slices[name], level=together) for name in common}
    over_seed, over_best = (Comparison.of(scores, trial.validation) for trial in (seed, best))
    return Look(over_seed, over_best, level, last, differences)


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
