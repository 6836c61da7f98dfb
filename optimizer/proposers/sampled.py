"""Numbers and structure: drawn by TPE, at random, or far from all that was tried."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from ...policies.policy import prompt_kinds
from ...policies.prompts import Templates
from ..config import SearchConfig
from ..study import Trial
from .numbers import Draw, NumberSampler, anywhere, place_of, point_of, values_at
from .proposer import Candidate, candidate, inherit, pick_parent, policy_of

JUMPS = 1 / 2
"""Share of TPE's draws that may be anywhere in the space; the others stay near the parent's."""
DRAWN = 500
"""Points of which the one farthest from all that were tried is taken."""
TWEAKED = 2
"""Most parameters that a step near the parent draws anew."""


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


class Tpe(_Sampler):
    """Optuna's multivariate TPE over the conditional space, taught by all races; prompts are the parent's."""

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Draw a step near a parent, or now and then a point anywhere."""
        parent = pick_parent(trials, rng)
        sampler = NumberSampler(self.search.space, trials, seed=rng.randrange(2**31))
        here = point_of(policy_of(parent), self.search.space)
        jump, free = rng.random() < JUMPS, rng.randint(1, TWEAKED)
        drawn = sampler.jump() if jump or here is None else sampler.tweak(here, free=free, rng=rng)
        return at_point(parent, drawn, search=self.search, templates=self.templates)


class Random(_Sampler):
    """Points drawn anywhere in the space; prompts are the parent's, where they fit."""

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Draw a point without looking at scores."""
        parent = pick_parent(trials, rng)
        return at_point(parent, anywhere(self.search.space, rng), search=self.search, templates=self.templates)


class Spread(_Sampler):
    """The point farthest from all that were tried, of some drawn anywhere; prompts are the parent's, where they fit.

    A space-filling (maximin) design: the ends of each range, in each other's company, come first.
    """

    explores = True

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Draw points without looking at scores; take the one whose nearest that was tried is farthest."""
        space, parent = self.search.space, pick_parent(trials, rng)
        policies = [trial.policy for trial in trials if trial.policy is not None]
        tried = [place_of(here.point, space) for policy in policies if (here := point_of(policy, space)) is not None]
        drawn = [anywhere(space, rng) for _ in range(DRAWN)]
        if tried:
            places = np.array([place_of(one.point, space) for one in drawn])
            nearest = cdist(places, np.array(tried)).min(axis=1)
            drawn = [drawn[int(nearest.argmax())]]
        return at_point(parent, drawn[0], search=self.search, templates=self.templates)


def at_point(parent: Trial, drawn: Draw, *, search: SearchConfig, templates: Templates) -> Candidate:
    """Move a parent's policy to a point of the space."""
    base = policy_of(parent)
    kinds = prompt_kinds(drawn.point["mode"], drawn.point.get("store"))
    read_budget = base.read.budget_tokens if drawn.point["mode"] != "none" else None
    values = values_at(drawn.point, inherit(base, kinds, templates), read_budget=read_budget)
    here = point_of(base, search.space)
    before = {} if here is None else here.point
    changed = [f"{name} {value}" for name, value in drawn.point.items() if before.get(name) != value]
    told = "numbers: " + (", ".join(changed) or "as they were")
    return candidate(parent, told, values, longest_prompt=search.longest_prompt)
