"""Whether a forecast ranks policies as their true memory scores do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...statistics import nan_mean
from ..evaluation.metrics import Floats, bootstrap_samples, interval
from ..model.scoring import RewardModel
from ..rows.retrievals import RetrievalLog
from .forecast import Forecast, features_of


@dataclass(frozen=True, slots=True)
class PolicyForecast:
    """One policy."""

    policy: str
    """Its key."""
    memory_score: float
    """On-policy, mean over users; NaN where it has none."""
    forecast: float
    """Share of right answers to expect, mean over users; NaN where there is no forecast."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Policies, and how well their forecasts are in the order of their scores."""

    policies: tuple[PolicyForecast, ...]
    spearman: float
    """Rank correlation of forecast and memory score over policies that have both, in [-1, 1]; NaN for fewer than 3."""
    interval: tuple[float, float]
    """95%, bootstrapped over policies."""


def rank(logs: Sequence[RetrievalLog], reward: RewardModel, forecast: Forecast) -> Ranking:
    """Rank the policies of some episodes."""
    forecasts = [forecast.score(features_of([retrieval for retrieval, _ in log.retrievals()], reward)) for log in logs]
    policies = []
    for key in dict.fromkeys(log.policy for log in logs):
        own = [(log.memory_score, value) for log, value in zip(logs, forecasts, strict=True) if log.policy == key]
        score = nan_mean([math.nan if memory_score is None else memory_score for memory_score, _ in own])
        policies.append(PolicyForecast(key, score, nan_mean([value for _, value in own])))
    known = [policy for policy in policies if not math.isnan(policy.memory_score + policy.forecast)]
    pairs = np.array([(policy.memory_score, policy.forecast) for policy in known]).reshape(-1, 2)
    samples = bootstrap_samples([policy.policy for policy in known])
    return Ranking(tuple(policies), spearman(pairs), interval([spearman(pairs[sample]) for sample in samples]))


def spearman(pairs: Floats) -> float:
    """Return the rank correlation of pairs, shape ``(n, 2)``; NaN for fewer than 3, or where one side is constant."""
    from scipy.stats import spearmanr  # imported late: SciPy takes a while that most commands do not need

    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return math.nan
    return float(spearmanr(pairs[:, 0], pairs[:, 1]).statistic)
