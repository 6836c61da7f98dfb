"""Numbers and structure: by a Gaussian process or TPE, at random, or far from all that was tried."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from ...env.statistics import nan_mean
from ...policies.knob import Point
from ...policies.policy import prompt_kinds
from ...policies.prompts import Templates
from ...policies.space import nested
from ..config import SearchConfig
from ..study import Trial
from .gaussian_process import Floats, expected_improvement
from .numbers import (
    STARTUP_TRIALS,
    NumberSampler,
    anywhere,
    gains,
    nearby,
    standing,
)
from .proposer import Candidate, candidate, inherit, pick_parent, policy_of

JUMPS = 1 / 2
"""Share of TPE's draws that may be anywhere in the space; the others stay near the parent's."""
DRAWN, NEARBY = 500, 200
"""Points of which one is taken: drawn anywhere, and near the parent."""
TWEAKED = 2
"""Most parameters that a step near the parent draws anew."""
TIED = 1e-9
"""Share of the highest by which another may be lower and they still tie: how a machine rounds decides nothing."""


@dataclass(frozen=True, slots=True)
class _Sampler:
    """Proposes at any time; prompts are the parent's, where they fit."""

    search: SearchConfig
    templates: Templates
    alone = False
    explores = False

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell that it always is."""
        return True

    def close(self) -> None:
        """Release nothing: it holds nothing."""

    def _places(self, points: Sequence[Point]) -> Floats:
        return np.array([self.search.space.coordinates(point) for point in points])


class Tpe(_Sampler):
    """Optuna's multivariate TPE over the conditional space, taught by all races; prompts are the parent's."""

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Draw a step near a parent, or now and then a point anywhere."""
        parent = pick_parent(trials, rng)
        sampler = NumberSampler(self.search.space, trials, seed=rng.randrange(2**31))
        here = self.search.space.point_of(policy_of(parent))
        jump, free = rng.random() < JUMPS, rng.randint(1, TWEAKED)
        drawn = sampler.jump() if jump or here is None else sampler.tweak(here, free=free, rng=rng)
        return at_point(parent, drawn, search=self.search, templates=self.templates)


class Gp(_Sampler):
    """The point with the highest expected improvement by a Gaussian process, which all races teach.

    It chooses among points drawn anywhere and near a parent, so that two slots rarely get the same; prompts are the
    parent's, where they fit.
    """

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Draw points, and take the most promising; where too few were raced, any."""
        space, parent = self.search.space, pick_parent(trials, rng)
        here = space.point_of(policy_of(parent))
        drawn = [anywhere(space, rng) for _ in range(DRAWN)]
        if here is not None:
            drawn += [nearby(here, space, free=rng.randint(1, TWEAKED), rng=rng) for _ in range(NEARBY)]
        raced = {trial.policy: trial for trial in trials if trial.policy is not None and gains(trial, trials[0])}
        known = [(trial, place) for policy, trial in raced.items() if (place := space.point_of(policy)) is not None]
        best = 0 if len(known) < STARTUP_TRIALS else self._most_promising(drawn, known, seed=trials[0])
        return at_point(parent, drawn[best], search=self.search, templates=self.templates)

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


class Random(_Sampler):
    """Points drawn anywhere in the space; prompts are the parent's, where they fit."""

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Draw a point without looking at scores."""
        parent = pick_parent(trials, rng)
        return at_point(parent, anywhere(self.search.space, rng), search=self.search, templates=self.templates)


class Spread(_Sampler):
    """The point that keeps most clear of all that were tried, of some drawn anywhere; prompts are the parent's.

    A space-filling design (Audze and Eglais 1977): the ends of each range, in each other's company, come first.
    """

    explores = True

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Draw points without looking at scores; take the one with the least sum of inverse squared distances."""
        space, parent = self.search.space, pick_parent(trials, rng)
        policies = [trial.policy for trial in trials if trial.policy is not None]
        tried = [here for policy in policies if (here := space.point_of(policy)) is not None]
        drawn = [anywhere(space, rng) for _ in range(DRAWN)]
        place = _clearest(self._places(drawn), self._places(tried)) if tried else 0
        return at_point(parent, drawn[place], search=self.search, templates=self.templates)


def _clearest(places: Floats, tried: Floats) -> int:
    """Return which place has the least sum of inverse squared distances from what was tried."""
    with np.errstate(divide="ignore"):
        crowding = (1 / cdist(places, tried, "sqeuclidean")).sum(axis=1)
    return highest(-crowding)


def highest(values: Floats) -> int:
    """Return which value, of shape ``(values,)``, is the highest; in a tie, the first."""
    top = values.max()
    return int(np.flatnonzero(values >= top - TIED * abs(top))[0])


def at_point(parent: Trial, point: Point, *, search: SearchConfig, templates: Templates) -> Candidate:
    """Move a parent's policy to a point of the space."""
    base, space = policy_of(parent), search.space
    values = nested(space.values_at(point))
    values["prompts"] = inherit(base, prompt_kinds(point["mode"], point.get("store")), templates)
    before = space.point_of(base) or {}
    changed = [f"{name} {value}" for name, value in point.items() if before.get(name) != value]
    change = "numbers: " + (", ".join(changed) or "as they were")
    return candidate(parent, change, values, longest_prompt=search.longest_prompt)
