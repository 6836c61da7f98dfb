"""The named strategies, tried before others are made up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...policies.files import load_policy
from ...policies.prompts import Templates
from ..config import SearchConfig
from ..search.study import Trial
from .numbers import Draw, point_of
from .proposer import Candidate, leader
from .sampled import at_point

STRATEGIES = ("native", "rag", "awe", "awi")
"""After AMemGym (ICLR 2026), the section on memory implementations."""


@dataclass(frozen=True, slots=True)
class Known:
    """Proposes native, RAG, AWE and AWI where they lie within the space; prompts are the leader's, where they fit."""

    search: SearchConfig
    templates: Templates
    alone = False
    explores = True

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether one is left."""
        return bool(self._left(trials))

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Propose one that was not tried."""
        left = self._left(trials)
        name = rng.choice(sorted(left))
        made = at_point(leader(trials), left[name], search=self.search, templates=self.templates)
        return replace(made, change=f"the strategy {name}")

    def _left(self, trials: Sequence[Trial]) -> dict[str, Draw]:
        """Return where those strategies stand that no trial has tried, with whatever prompts."""
        policies = [trial.policy for trial in trials if trial.policy is not None]
        tried = [place.point for policy in policies if (place := point_of(policy, self.search.space)) is not None]
        places = {name: point_of(load_policy(name, templates=self.templates), self.search.space) for name in STRATEGIES}
        return {name: place for name, place in places.items() if place is not None and place.point not in tried}
