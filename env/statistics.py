"""Means with intervals, clustered by user."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over users with its 95% interval (Student's t over users' means)."""

    mean: float
    low: float
    """Lower end; NaN with fewer than two users."""
    high: float
    users: int
    """Users that the mean is taken over."""


def estimate(by_user: Sequence[float], *, level: float = 0.95) -> Estimate:
    """Return the mean over users and its interval; users with NaN are left out."""
    values = np.array([value for value in by_user if not math.isnan(value)], dtype=float)
    count = len(values)
    if count == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(values.mean())
    if count == 1:
        return Estimate(mean, math.nan, math.nan, 1)
    half = _quantile(count - 1, level) * float(values.std(ddof=1)) / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half, count)


def estimate_repeated(runs: Sequence[Mapping[str, float]], *, level: float = 0.95) -> Estimate:
    """Return the mean of values by user over several runs, and its interval for new users and new runs.

    Each user counts once; NaN is left out. The variances of the means of users and of runs add up, with Satterthwaite's
    degrees of freedom; where runs vary by their noise alone, the interval is a little too wide. A single run has an
    interval over users, and a single user over runs.
    """
    known = [{user: value for user, value in run.items() if not math.isnan(value)} for run in runs]
    users = sorted({user for run in known for user in run})
    by_user = [nan_mean([run.get(user, math.nan) for run in known]) for user in users]
    by_run = [nan_mean(list(run.values())) for run in known if run]
    mean = nan_mean(by_user)
    variances = [(float(np.var(m, ddof=1)) / len(m), len(m) - 1) for m in (by_user, by_run) if len(m) > 1]
    variance = sum(part for part, _ in variances)
    half = 0.0 if variances else math.nan
    if variance > 0:
        freedom = variance**2 / sum(part**2 / degrees for part, degrees in variances)
        half = _quantile(freedom, level) * math.sqrt(variance)
    return Estimate(mean, mean - half, mean + half, len(users))


def _quantile(freedom: float, level: float) -> float:
    """Return half the width of Student's interval in standard errors."""
    from scipy.special import stdtrit  # imported late: SciPy takes a while that most commands do not need

    return float(stdtrit(freedom, (1 + level) / 2))


def paired_difference(a: Mapping[str, float], b: Mapping[str, float], *, level: float = 0.95) -> Estimate:
    """Return how much ``a`` scores above ``b``, over the users that both have a score for."""
    return estimate([a[user] - b[user] for user in a if user in b], level=level)


def shared_means(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[float, float]:
    """Return the means of two policies' scores by user, over the users that both have one for; NaN without any."""
    users = [user for user in a if not math.isnan(a[user] - b.get(user, math.nan))]
    return nan_mean([a[user] for user in users]), nan_mean([b[user] for user in users])


def paired_test(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[float, float]:
    """Return the gain of ``a`` over ``b`` in standard deviations of the differences, and the one-sided p of no gain.

    Student's t over users that both have a score for; NaN with fewer than two. Where all differences are equal, p is 0
    above zero and 1 elsewhere, and the effect NaN.
    """
    values = np.array([a[user] - b[user] for user in a if user in b], dtype=float)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return math.nan, math.nan
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    if deviation < 1e-12:
        return math.nan, 0.0 if mean > 1e-12 else 1.0
    from scipy.special import stdtr  # imported late: SciPy takes a while that most commands do not need

    effect = mean / deviation
    return effect, float(stdtr(len(values) - 1, -effect * math.sqrt(len(values))))


def nan_mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN; NaN when there are none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
