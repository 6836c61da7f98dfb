"""Numbers and structure: points of the conditional space of policies, drawn by Optuna or at random."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from ...env.statistics import nan_mean
from ...policies.knob import Choices, Knob, Point, Range
from ...policies.policy import MemoryPolicy
from ...policies.space import Space, nested
from ..study import Trial, quiet_optuna

STARTUP_TRIALS = 6
"""Random draws before the sampler trusts its model."""


class NumberSampler:
    """Optuna's TPE over the conditional space, taught by the finished trials.

    The same trials, seed and order of questions give the same points.
    """

    def __init__(self, space: Space, trials: Sequence[Trial], *, seed: int) -> None:
        """Learn from ``trials``."""
        self._space = space
        with quiet_optuna():
            self._tpe = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True, group=True, constant_liar=True
            )
            self._study = optuna.create_study(direction="maximize", sampler=self._tpe)
            for trial, point in located(trials, space):
                value, ranges = standing(trial, trials[0]), distributions(point, space, shifted=True)
                if not math.isnan(value):
                    params = _shifted(point, space)
                    self._study.add_trial(optuna.create_trial(value=value, params=params, distributions=ranges))

    def jump(self) -> Point:
        """Draw a point anywhere in the space."""
        return self._ask({})

    def tweak(self, here: Point, *, free: int, rng: random.Random) -> Point:
        """Draw a point that differs from ``here`` in at most ``free`` knobs and what depends on them."""
        return self._ask(_most_of(here, free, rng))

    def _ask(self, fixed: Point) -> Point:
        with quiet_optuna():
            tpe, given = self._tpe, _shifted(fixed, self._space)
            self._study.sampler = optuna.samplers.PartialFixedSampler(given, tpe) if given else tpe
            return self._space.drawn(_suggesting(self._study.ask()))


def _shifted(point: Point, space: Space) -> dict[str, Any]:
    """Return a point as samplers see it: numbers that start at 0 are moved, so that they have a logarithm."""
    shifts = {knob.name: domain.shift for knob, domain in space.searched if isinstance(domain, Range)}
    return {name: value + shifts[name] if name in shifts else value for name, value in point.items()}


def gains(trial: Trial, seed: Trial) -> list[float]:
    """Return by how much a trial beat the seed for each train user, as far as both went; NaN is left out."""
    every = [
        nan_mean(scores) - nan_mean(seed.series[user][: len(scores)])
        for user, scores in trial.series.items()
        if seed.series.get(user)
    ]
    return [gain for gain in every if not math.isnan(gain)]


def standing(trial: Trial, seed: Trial) -> float:
    """Return a trial's expected mean over all train users, if its gain over the seed stays as it is.

    For a whole race it is the trial's score; NaN where nothing was raced.
    """
    return seed.score + nan_mean(gains(trial, seed))


def located(trials: Iterable[Trial], space: Space) -> list[tuple[Trial, Point]]:
    """Return the trials whose policies stand in a space, and where."""
    places = [(trial, space.point_of(trial.policy)) for trial in trials if trial.policy is not None]
    return [(trial, point) for trial, point in places if point is not None]


def _most_of(here: Point, free: int, rng: random.Random) -> Point:
    """Return a point without ``free`` of its knobs, or without any where it has no more."""
    left = set(rng.sample(sorted(here), min(free, len(here))))
    return {name: value for name, value in here.items() if name not in left}


def anywhere(space: Space, rng: random.Random) -> Point:
    """Draw a point of the space at random."""
    return space.drawn(_rolling(rng, {}))


def nearby(here: Point, space: Space, *, free: int, rng: random.Random) -> Point:
    """Draw a point that differs from ``here`` in at most ``free`` knobs and what depends on them, at random."""
    return space.drawn(_rolling(rng, _most_of(here, free, rng)))


Drawing = Callable[[Knob, Choices | Range], Any]
"""Draws the value of a knob within a domain."""


def _suggesting(trial: optuna.Trial) -> Drawing:
    """Return what lets a trial suggest values."""

    def draw(knob: Knob, domain: Choices | Range) -> Any:
        if isinstance(domain, Choices):
            return trial.suggest_categorical(knob.name, domain.limits)
        low, high = (limit + domain.shift for limit in domain.limits)
        return trial.suggest_int(knob.name, low, high, log=domain.log) - domain.shift

    return draw


def _rolling(rng: random.Random, fixed: Point) -> Drawing:
    """Return what draws at random all that is not fixed, a thousand times faster than Optuna."""

    def draw(knob: Knob, domain: Choices | Range) -> Any:
        if knob.name in fixed:
            return fixed[knob.name]
        if isinstance(domain, Choices):
            return rng.choice(domain.limits)
        if not domain.log:
            return rng.randint(*domain.limits)
        low, high = (limit + domain.shift for limit in domain.limits)
        drawn = math.exp(rng.uniform(math.log(low - 0.5), math.log(high + 0.5)))
        return min(high, max(low, round(drawn))) - domain.shift

    return draw


def distributions(point: Point, space: Space, *, shifted: bool = False) -> dict[str, BaseDistribution]:
    """Return where each of a point's knobs is searched, as a study keeps it or, ``shifted``, as samplers see it."""

    def distribution(domain: Choices | Range) -> BaseDistribution:
        if isinstance(domain, Choices):
            return CategoricalDistribution(domain.limits)
        shift = domain.shift if shifted else 0
        low, high = (limit + shift for limit in domain.limits)
        return IntDistribution(low, high, log=domain.log and shift == domain.shift)

    return {knob.name: distribution(domain) for knob, domain in space.searched if knob.name in point}


def apply_point(
    point: Point, space: Space, prompts: Mapping[str, str], parent: MemoryPolicy | None = None
) -> MemoryPolicy:
    """Make the policy at a point, with these prompts by slot; what is not searched is the parent's."""
    values = space.values_at(point, None if parent is None else parent.values)
    return MemoryPolicy.model_validate(nested(values) | {"prompts": dict(prompts)})
