"""Numbers and structure: Optuna searches the conditional space of policies."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial

from ...env.statistics import nan_mean
from ...policies.policy import MemoryPolicy
from ..config import SpaceConfig
from ..search.study import Trial, quiet_optuna

STARTUP_TRIALS = 6
"""Random draws before the sampler trusts its model."""

A_ROUND = 2
"""Messages of one round: with fewer evicted at once the buffer would grow, since each round adds two."""
BUFFER_SIZES = ("buffer_size", "none.buffer_size")
EVERY = dict.fromkeys(
    ("mode", "none.window", "none.buffer_size", "update_every", "buffer_size", "roles", "store", "top_k", "order")
)
"""All parameters, as a point that has no values."""
WINDOWS, ROLES, ORDERS = ("all", "last"), ("user", "both"), ("time", "relevance")

Point = Mapping[str, Any]
"""A policy's numbers and structure by parameter name; names depend on what is written and where."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A point of the space, as Optuna keeps it."""

    point: dict[str, Any]
    distributions: dict[str, BaseDistribution]


class NumberSampler:
    """Optuna's TPE over the conditional space, taught by the finished trials.

    The same trials, seed and order of questions give the same points.
    """

    def __init__(self, space: SpaceConfig, trials: Sequence[Trial], *, seed: int) -> None:
        """Learn from ``trials``."""
        self._space = space
        with quiet_optuna():
            self._tpe = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True, group=True, constant_liar=True
            )
            self._study = optuna.create_study(direction="maximize", sampler=self._tpe)
            known = [_as_sampled(trial, standing(trial, trials[0]), space) for trial in trials]
            self._study.add_trials([one for one in known if one is not None])

    def jump(self) -> Draw:
        """Draw a point anywhere in the space."""
        return self._ask({})

    def tweak(self, here: Draw, *, free: int, rng: random.Random) -> Draw:
        """Draw a point that differs from ``here`` in at most ``free`` parameters and what depends on them."""
        return self._ask(_most_of(here, free, rng))

    def _ask(self, fixed: Point) -> Draw:
        with quiet_optuna():
            tpe, given = self._tpe, _shifted(fixed, 1)
            self._study.sampler = optuna.samplers.PartialFixedSampler(given, tpe) if given else tpe
            trial = self._study.ask()
            _walk(trial, self._space)
            point = _shifted(trial.params, -1)
            return Draw(point, _distributions(point, self._space))


def _shifted(point: Point, by: int) -> dict[str, Any]:
    """Move buffer sizes by 1, so that the sampler sees them on a log scale although they start at 0."""
    return {name: value + by if name in BUFFER_SIZES else value for name, value in point.items()}


def gains(trial: Trial, seed: Trial) -> list[float]:
    """Return by how much a trial beat the seed for each train user, as far as both went; NaN is left out."""
    found = [
        nan_mean(scores) - nan_mean(seed.series[user][: len(scores)])
        for user, scores in trial.series.items()
        if seed.series.get(user)
    ]
    return [gain for gain in found if not math.isnan(gain)]


def standing(trial: Trial, seed: Trial) -> float:
    """Return what a trial's mean over all train users would be if it went on as it began beside the seed's.

    A whole race's is its score; NaN where nothing was raced.
    """
    return seed.score + nan_mean(gains(trial, seed))


def _as_sampled(trial: Trial, value: float, space: SpaceConfig) -> FrozenTrial | None:
    """Return a trial as the sampler's own study has it; None when there is nothing to learn from it."""
    place = None if trial.policy is None else point_of(trial.policy, space)
    if place is None or math.isnan(value):
        return None
    distributions = place.distributions | {
        name: IntDistribution(space.buffer_size[0] + 1, space.buffer_size[1] + 1, log=True)
        for name in BUFFER_SIZES
        if name in place.point
    }
    return optuna.create_trial(value=value, params=_shifted(place.point, 1), distributions=distributions)


def _most_of(here: Draw, free: int, rng: random.Random) -> Point:
    """Return a point without ``free`` of its parameters, or without any where it has no more."""
    left = set(rng.sample(sorted(here.point), min(free, len(here.point))))
    return {name: value for name, value in here.point.items() if name not in left}


class Dice:
    """Draws parameters at random, whole numbers on a log scale where asked: what Optuna takes milliseconds for."""

    def __init__(self, rng: random.Random, fixed: Point) -> None:
        """Draw with ``rng`` what is not fixed."""
        self._rng = rng
        self._fixed = fixed
        self.params: dict[str, Any] = {}

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> str:
        """Draw one of the choices, each as likely."""
        self.params[name] = self._fixed[name] if name in self._fixed else self._rng.choice(choices)
        return str(self.params[name])

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """Draw from ``low`` to ``high``, both included."""
        if name in self._fixed:
            self.params[name] = self._fixed[name]
        elif not log:
            self.params[name] = self._rng.randint(low, high)
        else:
            drawn = math.exp(self._rng.uniform(math.log(low - 0.5), math.log(high + 0.5)))
            self.params[name] = min(high, max(low, round(drawn)))
        return int(self.params[name])


def anywhere(space: SpaceConfig, rng: random.Random) -> Draw:
    """Draw a point of the space at random."""
    return _rolled(Dice(rng, {}), space)


def nearby(here: Draw, space: SpaceConfig, *, free: int, rng: random.Random) -> Draw:
    """Draw a point that differs from ``here`` in at most ``free`` parameters and what depends on them, at random."""
    return _rolled(Dice(rng, _shifted(_most_of(here, free, rng), 1)), space)


def _rolled(dice: Dice, space: SpaceConfig) -> Draw:
    _walk(dice, space)
    point = _shifted(dice.params, -1)
    return Draw(point, _distributions(point, space))


def place_of(point: Point, space: SpaceConfig) -> list[float]:
    """Return a point's place for measuring distances: each parameter counts as much, numbers on a log scale.

    Between two choices there is a distance of 1, as between the ends of a range. A number that has no effect at the
    point is in the middle.
    """
    place: list[float] = []
    for name, distribution in _distributions(EVERY, space).items():
        if isinstance(distribution, CategoricalDistribution):
            place += [math.sqrt(1 / 2) * (point.get(name) == choice) for choice in distribution.choices]
        elif isinstance(distribution, IntDistribution):
            low, high = math.log(distribution.low + 1), math.log(distribution.high + 1)
            place.append((math.log(point[name] + 1) - low) / (high - low) if name in point and high > low else 1 / 2)
    return place


class _Asked(Protocol):
    """What parameters are asked for: an Optuna trial, or dice."""

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> Any: ...
    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int: ...


def _walk(trial: _Asked, space: SpaceConfig) -> None:
    """Ask for every parameter that has an effect."""
    low, high = space.buffer_size
    mode = trial.suggest_categorical("mode", space.modes)
    if mode == "none":
        if trial.suggest_categorical("none.window", WINDOWS) == "last":
            trial.suggest_int("none.buffer_size", low + 1, high + 1, log=True)
    else:
        trial.suggest_int("update_every", *space.update_every, log=True)
        trial.suggest_int("buffer_size", low + 1, high + 1, log=True)
        trial.suggest_categorical("roles", ROLES)
        if trial.suggest_categorical("store", space.stores) == "external":
            trial.suggest_int("top_k", *space.top_k, log=True)
            trial.suggest_categorical("order", ORDERS)


def _distributions(point: Point, space: SpaceConfig) -> dict[str, BaseDistribution]:
    """Return where each of a point's parameters is searched."""
    known: dict[str, BaseDistribution] = {
        "mode": CategoricalDistribution(space.modes),
        "none.window": CategoricalDistribution(WINDOWS),
        "none.buffer_size": IntDistribution(*space.buffer_size),
        "update_every": IntDistribution(*space.update_every, log=True),
        "buffer_size": IntDistribution(*space.buffer_size),
        "roles": CategoricalDistribution(ROLES),
        "store": CategoricalDistribution(space.stores),
        "top_k": IntDistribution(*space.top_k, log=True),
        "order": CategoricalDistribution(ORDERS),
    }
    return {name: known[name] for name in point}


def point_of(policy: MemoryPolicy, space: SpaceConfig) -> Draw | None:
    """Return where a policy stands in the space; None when it stands outside."""
    point: dict[str, Any] = {"mode": policy.write.mode}
    if policy.write.mode == "none":
        point["none.window"] = "all" if policy.buffer_size is None else "last"
        if policy.buffer_size is not None:
            point["none.buffer_size"] = policy.buffer_size
        if policy.update_every not in {None, A_ROUND}:  # how many go at once is not searched where none is written
            return None
    else:
        point["update_every"] = policy.update_every
        point["buffer_size"] = policy.buffer_size
        point["roles"] = policy.write.roles
        point["store"] = policy.store
        if policy.store == "external":
            point["top_k"] = policy.top_k
            point["order"] = policy.read.order
    distributions = _distributions(point, space)
    inside = all(_contains(distributions[name], value) for name, value in point.items())
    return Draw(point, distributions) if inside else None


def _contains(distribution: BaseDistribution, value: Any) -> bool:
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    return isinstance(distribution, IntDistribution) and distribution.low <= value <= distribution.high


def values_at(point: Point, prompts: Mapping[str, str], *, read_budget: int | None = None) -> dict[str, Any]:
    """Return the values of the policy at a point, with these prompts by slot."""
    mode = point["mode"]
    if mode == "none":
        window = {}
        if point["none.window"] == "last":
            window = {"buffer_size": point["none.buffer_size"], "update_every": A_ROUND}
        return {"write": {"mode": mode}, **window, "prompts": dict(prompts)}
    external = point["store"] == "external"
    return {
        "write": {"mode": mode, "roles": point["roles"]},
        "update_every": point["update_every"],
        "buffer_size": point["buffer_size"],
        "store": point["store"],
        **({"top_k": point["top_k"]} if external else {}),
        "read": {"order": point["order"] if external else "time", "budget_tokens": read_budget},
        "prompts": dict(prompts),
    }


def apply_point(point: Point, prompts: Mapping[str, str], *, read_budget: int | None = None) -> MemoryPolicy:
    """Make the policy at a point, with these prompts by slot."""
    return MemoryPolicy.model_validate(values_at(point, prompts, read_budget=read_budget))
