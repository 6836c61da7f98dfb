"""On-policy against off-policy: whether recorded talks of one policy rank others as their own talks do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...env import Evaluation
from ...env.statistics import Estimate, paired_difference
from ...env.summary import score_json


@dataclass(frozen=True, slots=True)
class Ranked:
    """One policy in both rankings; rank 1 has the highest memory score, equal scores share a rank."""

    policy: str
    on_policy: Estimate
    off_policy: Estimate
    on_rank: int
    off_rank: int
    difference: Estimate
    """Off-policy minus on-policy, paired by user."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; what is not known is null."""
        scores = {"on_policy": self.on_policy, "off_policy": self.off_policy, "difference": self.difference}
        figures = {name: score_json(score) for name, score in scores.items()}
        return {"policy": self.policy, "on_rank": self.on_rank, "off_rank": self.off_rank, **figures}


def rank(on_policy: Mapping[str, Evaluation], off_policy: Mapping[str, Evaluation]) -> list[Ranked]:
    """Rank the same policies both ways, the best on-policy first. Policies without a score come last."""
    on_places, off_places = _places(on_policy), _places(off_policy)
    ranked = [
        Ranked(
            policy=name,
            on_policy=evaluation.memory_score,
            off_policy=off_policy[name].memory_score,
            on_rank=on_places[name],
            off_rank=off_places[name],
            difference=paired_difference(off_policy[name].by_group, evaluation.by_group),
        )
        for name, evaluation in on_policy.items()
    ]
    return sorted(ranked, key=lambda row: row.on_rank)


def _places(evaluations: Mapping[str, Evaluation]) -> dict[str, int]:
    means = {name: evaluation.memory_score.mean for name, evaluation in evaluations.items()}
    scores = {name: -math.inf if math.isnan(mean) else mean for name, mean in means.items()}
    return {name: 1 + sum(other > score for other in scores.values()) for name, score in scores.items()}
