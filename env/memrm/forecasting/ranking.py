"""Whether a forecast ranks policies as their true memory scores do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...statistics import nan_mean
from ..evaluation.metrics import Floats, interval, resampled
from ..model.scoring import RewardModel
from ..rows.showings import Showing
from .forecast import Forecast
from .recalling import recall


@dataclass(frozen=True, slots=True)
class Ranked:
    """One policy."""

    policy: str
    """Its key."""
    memory_score: float
    """On-policy, mean over users; NaN where it has none."""
    forecast: float
    """Share of right answers to expect, mean over users; NaN where nothing can be told."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Policies, and how well their forecasts are in the order of their scores."""

    policies: tuple[Ranked, ...]
    spearman: float
    """Rank correlation of forecast and memory score over policies that have both, in [-1, 1]; NaN for fewer than 3."""
    interval: tuple[float, float]
    """95%, bootstrapped over policies."""


def rank(showings: Sequence[Showing], reward: RewardModel, forecast: Forecast) -> Ranking:
    """Rank the policies of some showings."""
    forecasts = [forecast.score(recall([shown for shown, _ in one.shown()], reward)) for one in showings]
    policies = []
    for key in dict.fromkeys(one.policy for one in showings):
        of_it = [(one, told) for one, told in zip(showings, forecasts, strict=True) if one.policy == key]
        score = nan_mean([math.nan if one.memory_score is None else one.memory_score for one, _ in of_it])
        policies.append(Ranked(key, score, nan_mean([told for _, told in of_it])))
    known = [one for one in policies if not math.isnan(one.memory_score + one.forecast)]
    pairs = np.array([(one.memory_score, one.forecast) for one in known]).reshape(-1, 2)
    samples = resampled([one.policy for one in known])
    return Ranking(tuple(policies), spearman(pairs), interval([spearman(pairs[some]) for some in samples]))


def spearman(pairs: Floats) -> float:
    """Return the rank correlation of pairs, shape ``(n, 2)``; NaN for fewer than 3, or where one side is constant."""
    from scipy.stats import spearmanr  # imported late: SciPy takes a while that most commands do not need

    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return math.nan
    return float(spearmanr(pairs[:, 0], pairs[:, 1]).statistic)
