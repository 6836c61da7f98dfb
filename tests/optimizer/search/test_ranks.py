"""On-policy against off-policy ranks."""

from __future__ import annotations

import math

import pytest

from mnemotune.env import Evaluation
from mnemotune.env.scoring import Diagnosis, GroupScore, StageScore
from mnemotune.optimizer.search.ranks import rank
from mnemotune.policies import load_policy

NAN = math.nan


def scored(**by_group: float) -> Evaluation:
    """Make an evaluation with these memory scores: chance is 0 and the upper bound 1."""
    groups = (
        GroupScore(group, (StageScore(0.0, 1.0, Diagnosis(score, 1 - score, 0.0, 0.0, 4), unparsable=0),))
        for group, score in by_group.items()
    )
    return Evaluation(load_policy("native"), tuple(groups))


def test_policies_are_ranked_both_ways_the_best_on_policy_first() -> None:
    on = {"a": scored(ann=0.2, ben=0.4), "b": scored(ann=0.6, ben=0.6), "c": scored(ann=0.1, ben=0.1)}
    off = {"a": scored(ann=0.7, ben=0.9), "b": scored(ann=0.5, ben=0.5), "c": scored(ann=0.0, ben=0.2)}
    found = rank(on, off)
    assert [(one.policy, one.on_rank, one.off_rank) for one in found] == [("b", 1, 2), ("a", 2, 1), ("c", 3, 3)]
    assert [one.difference.mean for one in found] == pytest.approx([-0.1, 0.5, 0.0])
    paired = found[1].difference
    assert (paired.low, paired.high) == pytest.approx((0.5, 0.5)), "paired by user"


def test_a_group_that_one_policy_lost_counts_for_none() -> None:
    on = {"a": scored(ann=0.6, ben=0.1), "b": scored(ann=0.5)}
    found = rank(on, {"a": scored(ann=0.6, ben=0.1), "b": scored(ann=0.5, ben=0.1)})
    assert [(one.policy, one.on_policy.mean, one.off_policy.mean) for one in found] == [
        ("a", 0.6, 0.6),
        ("b", 0.5, 0.5),
    ]


def test_equal_scores_share_a_rank_and_one_without_a_score_comes_last() -> None:
    on = {"a": scored(ann=NAN), "b": scored(ann=0.5), "c": scored(ann=0.5)}
    found = rank(on, on)
    assert {one.policy: one.on_rank for one in found} == {"b": 1, "c": 1, "a": 3}
    assert found[-1].as_json()["on_policy"] == {"memory_score": None, "interval": [None, None]}
