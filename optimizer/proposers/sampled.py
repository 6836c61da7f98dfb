"""Numbers and structure: by a Gaussian process or TPE, at random, or far from all that was tried."""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import ndtr

from ...env.statistics import nan_mean
from ...policies.knob import Point
from ..study import Trial
from .numbers import STARTUP_TRIALS, NumberSampler, anywhere, gains, located, nearby, standing
from .proposer import BaseProposer, Candidate, Means, candidate, moved, pick_parent, policy_of

Floats = NDArray[np.float64]

JUMPS = 1 / 2
"""Share of TPE's draws that may be anywhere in the space; the others stay near the parent's."""
DRAWN, NEARBY = 500, 200
"""Points of which one is taken: drawn anywhere, and near the parent."""
TWEAKED = 2
"""Most parameters that a step near the parent draws anew."""
TIED = 1e-9
"""Share of the highest by which another may be lower and they still tie: how a machine rounds decides nothing."""
TREND = 1 / 2
"""Share of a linear trend in the covariance; the rest is Matern's with nu 5/2 and a length of 1, a range's width."""
LEAST_SIGNAL = 1 / 4
"""Share of the values' variance that the points account for at least, however much noise there seems to be."""
LEAST_VARIANCE = 1e-9
"""Of signal and of noise: where all values are the same, or without noise, equations can still be solved."""


class _Sampler(BaseProposer):
    """Moves a parent to a point that it draws; prompts are the parent's, where they fit."""

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Draw a point."""
        parent = pick_parent(trials, rng)
        here = self.search.space.point_of(policy_of(parent))
        return at_point(parent, self.draw(trials, here, rng), self.means)

    @abstractmethod
    def draw(self, trials: Sequence[Trial], here: Point | None, rng: random.Random) -> Point:
        """Draw a point; the parent stands ``here``, or outside the space."""

    def _places(self, points: Sequence[Point]) -> Floats:
        return np.array([self.search.space.coordinates(point) for point in points])


class Tpe(_Sampler):
    """Optuna's multivariate TPE over the conditional space, taught by all races; prompts are the parent's."""

    def draw(self, trials: Sequence[Trial], here: Point | None, rng: random.Random) -> Point:
        """Draw a step near a parent, or now and then a point anywhere."""
        sampler = NumberSampler(self.search.space, trials, seed=rng.randrange(2**31))
        jump, free = rng.random() < JUMPS, rng.randint(1, TWEAKED)
        return sampler.jump() if jump or here is None else sampler.tweak(here, free=free, rng=rng)


class Gp(_Sampler):
    """The point with the highest expected improvement by a Gaussian process, which all races teach.

    It chooses among points drawn anywhere and near a parent, so that two slots rarely get the same; prompts are the
    parent's, where they fit.
    """

    def draw(self, trials: Sequence[Trial], here: Point | None, rng: random.Random) -> Point:
        """Draw points, and take the most promising; where too few were raced, any."""
        space = self.search.space
        drawn = [anywhere(space, rng) for _ in range(DRAWN)]
        if here is not None:
            drawn += [nearby(here, space, free=rng.randint(1, TWEAKED), rng=rng) for _ in range(NEARBY)]
        raced = {trial.policy: trial for trial in trials if trial.policy is not None and gains(trial, trials[0])}
        known = located(raced.values(), space)
        return drawn[0 if len(known) < STARTUP_TRIALS else self._most_promising(drawn, known, seed=trials[0])]

    def _most_promising(self, drawn: Sequence[Point], known: Sequence[tuple[Trial, Point]], *, seed: Trial) -> int:
        periods = np.array([sum(map(len, trial.series.values())) for trial, _ in known])
        noise = nan_mean([_noise_of_a_period(trial, seed) for trial, _ in known if trial is not seed])
        improvement = expected_improvement(
            self._places(drawn),
            tried=self._places([place for _, place in known]),
            values=np.array([standing(trial, seed) for trial, _ in known]),
            variances=np.nan_to_num(noise) / periods,
        )
        return highest(improvement)


def _noise_of_a_period(trial: Trial, seed: Trial) -> float:
    """Return the variance that a single period's gain over the seed would have; NaN where one user says too little."""
    differences, periods = gains(trial, seed), sum(map(len, trial.series.values()))
    return float(np.var(differences, ddof=1)) * periods / len(differences) if len(differences) > 1 else math.nan


def expect(places: Floats, *, tried: Floats, values: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation that are to be expected at each place, both of shape ``(places,)``.

    ``places`` and ``tried`` are of shape ``(points, dimensions)``. Tried points have ``values``, with noise of these
    ``variances``, each of shape ``(tried,)``. Only scale and mean are fitted: a few points say too little of lengths.
    After Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), algorithm 2.1.
    """
    spread, middle, mean = float(values.var()), tried.mean(axis=0), float(values.mean())
    scale = max(spread - float(variances.mean()), LEAST_SIGNAL * spread, LEAST_VARIANCE)
    near, asked = tried - middle, places - middle
    known = scale * _alike(near, near) + np.diag(variances + LEAST_VARIANCE)
    root = np.linalg.cholesky(known)
    seen = np.linalg.solve(root, scale * _alike(near, asked))
    expected = np.linalg.solve(root, values - mean) @ seen
    variance = scale * _alike_itself(asked) - (seen**2).sum(axis=0)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    return mean + expected, deviation


def _alike(points: Floats, others: Floats) -> Floats:
    """Return the covariances of points with others, of shape ``(points, others)``, for a scale of 1."""
    far = math.sqrt(5) * cdist(points, others)
    matern = (1 + far + far**2 / 3) * np.exp(-far)
    covariances: Floats = TREND * points @ others.T + (1 - TREND) * matern
    return covariances


def _alike_itself(points: Floats) -> Floats:
    """Return the variances of points, of shape ``(points,)``, for a scale of 1."""
    variances: Floats = TREND * (points**2).sum(axis=1) + (1 - TREND)
    return variances


def expected_improvement(places: Floats, *, tried: Floats, values: Floats, variances: Floats) -> Floats:
    """Return by how much each place is expected to improve on the best that was tried, >= 0, of shape ``(places,)``.

    A tried point counts with its expected value, as its measured value is noisy. Arguments are those of ``expect``.
    """
    every = np.vstack([places, tried])
    mean, deviation = expect(every, tried=tried, values=values, variances=variances)
    gain = mean[: len(places)] - mean[len(places) :].max()
    doubt = np.maximum(deviation[: len(places)], LEAST_VARIANCE)
    density = np.exp(-((gain / doubt) ** 2) / 2) / np.sqrt(2 * np.pi)
    improvement: Floats = gain * ndtr(gain / doubt) + doubt * density
    return improvement


class Random(_Sampler):
    """Points drawn anywhere in the space; prompts are the parent's, where they fit."""

    def draw(self, trials: Sequence[Trial], here: Point | None, rng: random.Random) -> Point:
        """Draw a point without looking at scores."""
        return anywhere(self.search.space, rng)


class Spread(_Sampler):
    """The point that keeps most clear of all that were tried, of some drawn anywhere; prompts are the parent's.

    A space-filling design (Audze and Eglais 1977): the ends of each range, in each other's company, come first.
    """

    explores = True

    def draw(self, trials: Sequence[Trial], here: Point | None, rng: random.Random) -> Point:
        """Draw points without looking at scores; take the one with the least sum of inverse squared distances."""
        space = self.search.space
        tried = [point for _, point in located(trials, space)]
        drawn = [anywhere(space, rng) for _ in range(DRAWN)]
        if not tried:
            return drawn[0]
        with np.errstate(divide="ignore"):
            crowding = (1 / cdist(self._places(drawn), self._places(tried), "sqeuclidean")).sum(axis=1)
        return drawn[highest(-crowding)]


def highest(values: Floats) -> int:
    """Return which value, of shape ``(values,)``, is the highest; in a tie, the first."""
    top = values.max()
    return int(np.flatnonzero(values >= top - TIED * abs(top))[0])


def at_point(parent: Trial, point: Point, means: Means) -> Candidate:
    """Move a parent's policy to a point of the space; no prompt is new, so that none is too long."""
    base, space = policy_of(parent), means.search.space
    values = moved(base, point, space, means.templates)
    before = space.point_of(base) or {}
    changed = [f"{name} {value}" for name, value in point.items() if before.get(name) != value]
    change = "numbers: " + (", ".join(changed) or "as they were")
    return candidate(parent, change, values, longest_prompt=None)
