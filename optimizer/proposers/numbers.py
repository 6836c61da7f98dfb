"""Numbers and structure: Optuna searches the conditional space of policies."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from ...policies.policy import MemoryPolicy
from ..config import SpaceConfig
from ..study import Trial, quiet_optuna

STARTUP_TRIALS = 6
"""Random draws before the sampler trusts its model."""

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
            self._study.add_trials([t.as_optuna() for t in trials if t.finished_race and t.params])

    def jump(self) -> Draw:
        """Draw a point anywhere in the space."""
        return self._ask({})

    def tweak(self, here: Draw, *, free: int, rng: random.Random) -> Draw:
        """Draw a point that differs from ``here`` in at most ``free`` parameters and what depends on them."""
        drawn = set(rng.sample(sorted(here.point), min(free, len(here.point))))
        return self._ask({name: value for name, value in here.point.items() if name not in drawn})

    def _ask(self, fixed: Mapping[str, Any]) -> Draw:
        with quiet_optuna():
            self._study.sampler = optuna.samplers.PartialFixedSampler(dict(fixed), self._tpe) if fixed else self._tpe
            return _walk(self._study.ask(), self._space)


def _walk(trial: optuna.Trial, space: SpaceConfig) -> Draw:
    mode = trial.suggest_categorical("mode", space.modes)
    low, high = space.buffer_size
    if mode == "none":
        if trial.suggest_categorical("none.window", ("all", "last")) == "last":
            trial.suggest_int("none.buffer_size", low, high)
    else:
        trial.suggest_int("update_every", *space.update_every, log=True)
        trial.suggest_int("buffer_size", low, high)
        trial.suggest_categorical("roles", ("user", "both"))
        if trial.suggest_categorical("store", space.stores) == "external":
            trial.suggest_int("top_k", *space.top_k, log=True)
            trial.suggest_categorical("order", ("time", "relevance"))
    return Draw(dict(trial.params), dict(trial.distributions))


def point_of(policy: MemoryPolicy, space: SpaceConfig) -> Draw | None:
    """Return where a policy stands in the space; None when it stands outside."""
    mode = policy.write.mode
    wide: dict[str, tuple[Any, BaseDistribution]] = {"mode": (mode, CategoricalDistribution(space.modes))}
    if mode == "none":
        window = "all" if policy.buffer_size is None else "last"
        wide["none.window"] = (window, CategoricalDistribution(("all", "last")))
        if policy.buffer_size is not None:
            wide["none.buffer_size"] = (policy.buffer_size, IntDistribution(*space.buffer_size))
    else:
        wide["update_every"] = (policy.update_every, IntDistribution(*space.update_every, log=True))
        wide["buffer_size"] = (policy.buffer_size, IntDistribution(*space.buffer_size))
        wide["roles"] = (policy.write.roles, CategoricalDistribution(("user", "both")))
        wide["store"] = (policy.store, CategoricalDistribution(space.stores))
        if policy.store == "external":
            wide["top_k"] = (policy.top_k, IntDistribution(*space.top_k, log=True))
            wide["order"] = (policy.read.order, CategoricalDistribution(("time", "relevance")))
    inside = all(_contains(distribution, value) for value, distribution in wide.values())
    return Draw({k: v for k, (v, _) in wide.items()}, {k: d for k, (_, d) in wide.items()}) if inside else None


def _contains(distribution: BaseDistribution, value: Any) -> bool:
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    return isinstance(distribution, IntDistribution) and distribution.low <= value <= distribution.high


def apply_point(point: Point, prompts: Mapping[str, str], *, read_budget: int | None = None) -> MemoryPolicy:
    """Make the policy at a point, with these prompts by slot."""
    mode = point["mode"]
    if mode == "none":
        window = {} if point["none.window"] == "all" else {"buffer_size": point["none.buffer_size"], "update_every": 1}
        return MemoryPolicy.model_validate({"write": {"mode": mode}, **window, "prompts": dict(prompts)})
    external = point["store"] == "external"
    return MemoryPolicy.model_validate(
        {
            "write": {"mode": mode, "roles": point["roles"]},
            "update_every": point["update_every"],
            "buffer_size": point["buffer_size"],
            "store": point["store"],
            **({"top_k": point["top_k"]} if external else {}),
            "read": {"order": point["order"] if external else "time", "budget_tokens": read_budget},
            "prompts": dict(prompts),
        }
    )
