"""Knobs that are searched only where a limit names them.

Invariants:

1. Samplers that search none of them draw what they drew without them.
2. What is not searched is the parent's.
"""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.optimizer.proposers.numbers import NumberSampler, anywhere, apply_point
from mnemotune.policies import load_policy
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.space import Space

NAMED: dict[str, Any] = {"keep_first": [0, 4], "mask": [0, 20], "summary_tokens": [100, 400]}
SUMMARY: dict[str, Any] = {"write": {"mode": "summary"}, "update_every": 2, "buffer_size": 8}
SCHEMA: dict[str, Any] = {
    "write": {"mode": "profile", "labels": ["wishes", "done so far"]},
    "update_every": 2,
    "buffer_size": 8,
    "store": "context",
}


def test_a_sampler_draws_the_same_points_as_ever_invariant_1() -> None:
    rng = random.Random(5)
    points = json.dumps([anywhere(Space(), rng) for _ in range(300)])
    assert hashlib.sha256(points.encode()).hexdigest()[:12] == "79db02f76bc6"


def test_what_is_named_is_searched() -> None:
    space = Space.within({**NAMED, "modes": ["none", "summary"]})
    assert {key: space.limits[key] for key in NAMED} == {key: tuple(limits) for key, limits in NAMED.items()}
    assert Space.within(space.limits) == space
    for seed in range(20):
        point = NumberSampler(space, [], seed=seed).jump()
        policy = apply_point(point, space, {})
        assert space.point_of(policy) == point
        assert policy.write.mode in ("none", "summary")


@given(st.integers(0, 8), st.integers(0, 30), st.integers(16, 999))
def test_what_is_not_searched_is_the_parent_s_invariant_2(first: int, mask: int, tokens: int) -> None:
    write = {"mode": "summary", "tokens": tokens}
    parent = MemoryPolicy.model_validate({**SUMMARY, "write": write, "keep_first": first, "mask": mask})
    space = Space.within({"modes": ["summary", "facts"]})
    point = space.point_of(parent)
    assert point is not None
    assert apply_point(point, space, {}, parent) == parent
    moved = apply_point({**point, "buffer_size": 3}, space, {}, parent)
    assert moved == parent.model_copy(update={"buffer_size": 3})
    facts = {"mode": "facts", "update_every": 2, "buffer_size": 4, "roles": "both", "store": "context"}
    other = apply_point(facts, space, {}, parent)
    assert (other.keep_first, other.mask, other.write.tokens) == (first, mask, 300)


def test_a_schema_goes_on_with_its_profile() -> None:
    parent = MemoryPolicy.model_validate(SCHEMA)
    point = Space().point_of(parent)
    assert point is not None
    texts = parent.prompts.model_dump(exclude_none=True)
    assert apply_point({**point, "buffer_size": 3}, Space(), texts, parent).write.labels == parent.write.labels


@pytest.mark.parametrize(
    "name",
    [
        "adaptive_token_budget",
        "llm_summarizing",
        "masking_then_summarizing",
        "observation_masking",
        "sliding_window_summary",
        "structured_summary",
    ],
)
def test_memgym_s_compaction_strategies_are_points_of_a_space_that_names_their_knobs(name: str) -> None:
    modes, numbers = ["none", "profile", "summary"], {"update_every": [2, 40], "buffer_size": [0, 80]}
    space = Space.within(
        {"modes": modes, **numbers, "keep_first": [0, 2], "mask": [0, 100], "summary_tokens": [100, 2500]}
    )
    policy = load_policy(name)
    point = space.point_of(policy)
    assert point is not None
    assert apply_point(point, space, policy.prompts.model_dump(exclude_none=True), policy) == policy
