"""The named strategies, tried before others are made up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...policies.files import load_policy
from ...policies.knob import Point
from ...policies.prompts import Templates
from ..config import SearchConfig
from ..study import Trial, leader
from .proposer import Candidate, Proposer
from .sampled import at_point

STRATEGIES = ("native", "rag", "awe", "awi")
"""After AMemGym (ICLR 2026), the section on memory implementations."""


@dataclass(frozen=True, slots=True)
class Known(Proposer):
    """Proposes native, RAG, AWE and AWI where they lie within the space; prompts are the leader's, where they fit."""

    search: SearchConfig
    templates: Templates
    explores = True

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether any of them is untried."""
        return bool(self._left(trials))

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Propose an untried strategy."""
        left = self._left(trials)
        name = rng.choice(sorted(left))
        candidate = at_point(leader(trials), left[name], search=self.search, templates=self.templates)
        return replace(candidate, change=f"the strategy {name}")

    def _left(self, trials: Sequence[Trial]) -> dict[str, Point]:
        """Return where those strategies stand that no trial has tried, with whatever prompts."""
        space = self.search.space
        tried = [space.point_of(trial.policy) for trial in trials if trial.policy is not None]
        points = {name: space.point_of(load_policy(name, templates=self.templates)) for name in STRATEGIES}
        return {name: point for name, point in points.items() if point is not None and point not in tried}
