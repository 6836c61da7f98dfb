"""When a candidate is accepted: surely better than the seed policy, likely better than the best, and nowhere worse."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ...data.task import Task, topic_of
from ...env import Evaluation
from ...env.evaluation import with_the_rest_wrong
from ...env.scoring import FAILURE_KINDS
from ...env.statistics import nan_mean, paired_difference, paired_test
from ...env.stored import StoredFigure
from ..looks import Comparison, Look
from ..study import Trial

ALPHA_AT_THE_END = 0.025
"""Level of the last look of a search: where it is met, the 95% interval of the gain lies above zero."""
ALPHA_ON_THE_WAY = 0.01
"""Sum of the levels of all looks before it."""
FEWEST_USERS = 5
"""Users that a slice needs to be judged."""

PROMISING = 0.1
"""One-sided p of no gain over the best policy, on train users, up to which a candidate is worth a look."""


def over_limits(trial: Trial, most: Mapping[StoredFigure, float]) -> str:
    """Say which of the limits on what memory holds a raced trial is over, and by what; empty where it keeps them."""
    held = {} if trial.summary is None else {name: figure.mean for name, figure in trial.summary.stored.items()}
    over = (name for name in most if held.get(name, math.nan) > most[name])
    return ", ".join(f"{name} {held[name]:,.4g} of at most {most[name]:,.4g}" for name in over)


Slices = Mapping[str, Mapping[str, float]]
"""Scores by user, for parts of what is asked; higher is better."""


def level(trials: Sequence[Trial], *, last: bool) -> float:
    """Return the one-sided level at which the next look must find a gain over the seed policy.

    The k-th look on the way gets ``ALPHA_ON_THE_WAY / (k (k + 1))``, and so do the last looks of a search that went on
    after its last look. Where no candidate is better than the seed policy, any number of looks together accepts a
    candidate with a chance of 3.5% at most.
    """
    looks = [trial.look for trial in trials if trial.look is not None]
    if last and not any(look.last for look in looks):
        return ALPHA_AT_THE_END
    k = 1 + len(looks)
    return ALPHA_ON_THE_WAY / (k * (k + 1))


def promising(scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
    """Tell whether a candidate's train scores, above the best's, are worth a look; each look makes the next dearer.

    Train users say nothing of validation users but through the policies, so that this choice costs no level. With fewer
    than two users, every candidate is promising.
    """
    _, p = paired_test(scores, best)
    return math.isnan(p) or p < PROMISING


def look(
    scores: Mapping[str, float],
    slices: Slices,
    *,
    seed: Trial,
    best: Trial,
    level: float,
    last: bool = False,
    readers: Mapping[str, str] = MappingProxyType({}),
) -> Look:
    """Compare a candidate's validation scores with those of the seed policy and of the best so far.

    ``readers`` are those of the model's family by user.
    """
    pairs = {name: (slices[name], best.slices[name]) for name in slices if name in best.slices}
    pairs = {name: pair for name, pair in pairs.items() if paired_difference(*pair).users >= FEWEST_USERS}
    together = 1 - 0.05 / max(1, len(pairs))
    differences = {name: paired_difference(*pair, level=together) for name, pair in pairs.items()}
    over_seed, over_best = (Comparison.of(scores, trial.validation) for trial in (seed, best))
    return Look(over_seed, over_best, level, last, differences, _without_reader(scores, seed.validation, readers))


def _without_reader(
    scores: Mapping[str, float], others: Mapping[str, float], readers: Mapping[str, str]
) -> dict[str, float]:
    names = sorted({readers[user] for user in scores if user in readers})
    rest = {name: {user: score for user, score in scores.items() if readers.get(user) != name} for name in names}
    return {name: paired_difference(left, others).mean for name, left in rest.items() if left}


def slices_of(evaluation: Evaluation, tasks: Sequence[Task], *, stage_noun: str) -> Slices:
    """Return a policy's scores by group on early, middle and late stages, on each topic, for each kind of failure.

    A kind's score is the share of answers that it did not cost. A check's topic is its own, or else that of the first
    fact it needs.
    """
    slices: dict[str, dict[str, float]] = defaultdict(dict)
    for group in evaluation.groups:
        third, stages = math.ceil(len(group.stages) / 3), group.stages
        for name, part in (("early", stages[:third]), ("middle", stages[third:-third]), ("late", stages[-third:])):
            slices[f"{name} {stage_noun}s"][group.group] = nan_mean([stage.accuracy for stage in part])
        for kind in FAILURE_KINDS:
            lost = nan_mean([getattr(stage.diagnosis, kind) for stage in stages])
            slices[f"{kind} failures"][group.group] = 1 - lost
    scored, by_id = {group.group for group in evaluation.groups}, {task.id: task for task in tasks}
    by_topic: dict[tuple[str, str], list[float]] = defaultdict(list)
    for task, episode in ((by_id[episode.task], episode) for episode in evaluation.episodes):
        stages_asked = with_the_rest_wrong(episode, task).stages
        for mark in (mark for stage in stages_asked for mark in stage.marks if task.group in scored):
            by_topic[topic_of(task, task.checks[mark.check]), task.group].append(mark.score)
    for (topic, user), scores in by_topic.items():
        slices[f"topic {topic}"][user] = nan_mean(scores)
    return dict(slices)
