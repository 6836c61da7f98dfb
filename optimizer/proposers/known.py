"""The named strategies, tried as they are before others are made up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ...policies.policy import MemoryPolicy, load_policy
from ...policies.prompts import Templates
from ..config import SearchConfig
from ..study import Trial
from .numbers import point_of
from .proposer import Candidate, candidate, leader

STRATEGIES = ("native", "rag", "awe", "awi")
"""After AMemGym (ICLR 2026), the section on memory implementations."""


@dataclass(frozen=True, slots=True)
class Known:
    """Proposes native, RAG, AWE and AWI where they lie within the space."""

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
        return candidate(
            leader(trials), f"the strategy {name}", left[name].model_dump(), longest_prompt=self.search.longest_prompt
        )

    def _left(self, trials: Sequence[Trial]) -> dict[str, MemoryPolicy]:
        """Return the strategies within the space that no trial has."""
        policies = {name: load_policy(name, templates=self.templates) for name in STRATEGIES}
        tried = {trial.policy for trial in trials}
        return {
            name: policy
            for name, policy in policies.items()
            if policy not in tried and point_of(policy, self.search.space) is not None
        }
