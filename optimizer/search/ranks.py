"""On-policy against off-policy: whether recorded talks of one policy rank others as their own talks do."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Rank policies both ways, on ``shared_groups``, the best on-policy first; those without a score come last."""
    shared = shared_groups([*on_policy.values(), *off_policy.values()])
    on_policy = {name: _only(evaluation, shared) for name, evaluation in on_policy.items()}
    off_policy = {name: _only(evaluation, shared) for name, evaluation in off_policy.items()}
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


def shared_groups(evaluations: Sequence[Evaluation]) -> set[str]:
    """Return the groups that all evaluations have which have any: only they tell policies apart."""
    known = [set(evaluation.by_group) for evaluation in evaluations if evaluation.groups]
    return set.intersection(*known) if known else set()


def _only(evaluation: Evaluation, groups: Collection[str]) -> Evaluation:
    return replace(evaluation, groups=tuple(score for score in evaluation.groups if score.group in groups))


def _places(evaluations: Mapping[str, Evaluation]) -> dict[str, int]:
    means = {name: evaluation.memory_score.mean for name, evaluation in evaluations.items()}
    scores = {name: -math.inf if math.isnan(mean) else mean for name, mean in means.items()}
    return {name: 1 + sum(other > score for other in scores.values()) for name, score in scores.items()}
