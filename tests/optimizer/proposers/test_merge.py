"""Crossing of two policies that win on different users.

Invariants, for any two raced policies:
1. Every part of a child is one of its parents', and what is written and where is the first one's.
2. A mate is better than the parent for some user, and lends at least one part in which it differs.
3. What may not change is never lent.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mnemotune.optimizer.study import Trial
from mnemotune.policies.policy import MemoryPolicy

PARTS = {
    "reply prompt": ("prompts.reply",),
    "write prompt": ("prompts.write", "prompts.merge"),
    "roles": ("write.roles",),
    "update_every": ("update_every",),
    "buffer_size": ("buffer_size",),
    "retrieval": ("top_k", "read.order"),
}
SHAPES: tuple[dict[str, Any], ...] = (
    {"mode": "none"},
    {"mode": "none", "buffer_size": 6, "update_every": 2},
    {"mode": "verbatim", "update_every": 2, "buffer_size": 4, "store": "external", "top_k": 20},
    {"mode": "verbatim", "update_every": 4, "buffer_size": 2, "store": "context"},
    {"mode": "facts", "update_every": 2, "buffer_size": 4, "store": "external", "top_k": 30},
    {
        "mode": "facts",
        "write": {"mode": "facts", "roles": "user"},
        "update_every": 6,
        "buffer_size": 0,
        "store": "external",
        "top_k": 5,
        "read": {"order": "relevance"},
        "prompts": {"write": "Mine: {conversation}", "merge": "{memories}{facts}", "reply": "Mine: {memories}"},
    },
    {"mode": "facts", "update_every": 3, "buffer_size": 8, "store": "context"},
    {"mode": "profile", "update_every": 2, "buffer_size": 0, "store": "context"},
)
FACTS, OWN_FACTS = SHAPES[4], SHAPES[5]

scores = st.integers(-4, 4).map(lambda value: value / 4)


def two(bench: Any, one: dict[str, Any], other: dict[str, Any], **mate: Any) -> list[Trial]:
    """Make a study of two raced policies that ask for different care."""
    given = {"train": {"train0": 0.1, "train1": 0.9}} | mate
    return [
        bench.trial(policy=bench.kit.policy(30, **one), train={"train0": 0.9, "train1": 0.1}),
        bench.trial(1, policy=bench.kit.policy(60, **other), **given),
    ]


def value(policy: MemoryPolicy, place: str) -> Any:
    found: Any = policy.model_dump()
    for name in place.split("."):
        found = found[name]
    return found


def lent(found: Any) -> list[str]:
    """Return the parts that a child has from its mate, as its change says."""
    names: list[str] = found.change.split("from which it has: ")[1].split(", ")
    return names


@settings(deadline=None)
@given(
    one=st.sampled_from(SHAPES), other=st.sampled_from(SHAPES), train=st.tuples(scores, scores), seed=st.integers(0, 99)
)
def test_a_child_has_every_part_from_one_of_its_parents_invariants_1_2(
    bench: Any, one: dict[str, Any], other: dict[str, Any], train: tuple[float, float], seed: int
) -> None:
    trials = two(bench, one, other, train=dict(zip(("train0", "train1"), train, strict=True)))
    assume(bench.ready("merge", trials))
    found = bench.propose("merge", trials, seed=seed)
    parent, mate = trials[found.parent], trials[1 - found.parent]
    assert f"crossed with trial {mate.number}" in found.change
    assert any(mate.train[user] > score for user, score in parent.train.items())
    assert found.policy is not None
    assert (found.policy.write.mode, found.policy.store) == (parent.policy.write.mode, parent.policy.store)
    of_mate = set(lent(found))
    assert of_mate
    for part, places in PARTS.items():
        giver = mate if part in of_mate else parent
        assert all(value(found.policy, place) == value(giver.policy, place) for place in places)
    assert found.policy not in {parent.policy, None}


def test_each_part_can_be_lent(bench: Any) -> None:
    """Guards the invariants against a proposer that only ever lends one thing."""
    parts: Counter[str] = Counter()
    for seed in range(60):
        parts.update(lent(bench.propose("merge", two(bench, FACTS, OWN_FACTS), seed=seed)))
    assert set(parts) == set(PARTS)


@pytest.mark.parametrize(
    ("search", "allowed"),
    [
        ({"prompts": False}, {"roles", "update_every", "buffer_size", "retrieval"}),
        ({"numbers": False}, {"reply prompt", "write prompt"}),
        ({"numbers": False, "slots": ("reply",)}, {"reply prompt"}),
        ({"numbers": False, "slots": ("write",)}, {"write prompt"}),
        ({"numbers": False, "slots": ("merge",)}, {"write prompt"}),
    ],
)
def test_what_may_not_change_is_never_lent_invariant_3(bench: Any, search: dict[str, Any], allowed: set[str]) -> None:
    found = {
        part
        for seed in range(30)
        for part in lent(bench.propose("merge", two(bench, FACTS, OWN_FACTS), seed=seed, **search))
    }
    assert found == allowed


@pytest.mark.parametrize(("slot", "other"), [("write", "merge"), ("merge", "write")])
def test_of_the_prompts_that_go_together_only_the_slots_that_are_named_are_lent_invariant_3(
    bench: Any, slot: str, other: str
) -> None:
    trials = two(bench, FACTS, OWN_FACTS)
    found = bench.propose("merge", trials, numbers=False, slots=(slot,))
    parent, mate = (trials[number].policy.prompts.model_dump() for number in (found.parent, 1 - found.parent))
    child = found.policy.prompts.model_dump()
    assert child[slot] == mate[slot] != parent[slot]
    assert child[other] == parent[other] != mate[other]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (2, 3, {"update_every", "buffer_size"}),
        (3, 7, {"reply prompt", "update_every", "buffer_size"}),
        (4, 7, {"buffer_size"}),
        (2, 5, {"reply prompt", "roles", "update_every", "buffer_size", "retrieval"}),
        (5, 6, {"write prompt", "roles", "update_every", "buffer_size"}),
    ],
)
def test_only_what_means_the_same_in_both_is_lent(bench: Any, one: int, other: int, shared: set[str]) -> None:
    trials = two(bench, SHAPES[one], SHAPES[other])
    made = [bench.propose("merge", trials, seed=seed) for seed in range(60)]
    assert {part for found in made for part in lent(found)} == shared
    assert all(found.policy is not None for found in made)


LINKED: dict[str, Any] = {**FACTS, "backend": "linked-facts", "knobs": {"links": 3}}


@pytest.mark.parametrize(
    ("one", "other"),
    [(FACTS, LINKED), (LINKED, FACTS), ({**FACTS, "store": "context", "top_k": None}, LINKED), (SHAPES[6], LINKED)],
)
def test_a_backend_comes_over_with_what_only_it_has(bench: Any, one: dict[str, Any], other: dict[str, Any]) -> None:
    """Its prompts, and its numbers as far as they have an effect with the parent's store."""
    trials = two(bench, one, other)
    parents = {trial.policy.backend: trial.policy for trial in trials}
    space = {"backends": ["builtin", "linked-facts"]}
    crossed = [bench.propose("merge", trials, seed=seed, space=space) for seed in range(40)]
    assert all(found.policy is not None for found in crossed)
    over = [found for found in crossed if "backend" in lent(found)]
    assert over
    for found in over:
        child, parent = found.policy, trials[found.parent].policy
        giver = parents[child.backend]
        assert child.backend != parent.backend
        assert (child.prompts.write, child.prompts.merge) == (giver.prompts.write, giver.prompts.merge)
        links = child.backend is not None and child.store == "external"
        assert child.knobs.values == ({"links": 3} if links else {})


def test_a_backend_that_is_not_searched_or_may_not_change_stays_invariant_3(bench: Any) -> None:
    for search in ({}, {"space": {"backends": ["builtin", "linked-facts"]}, "numbers": False}):
        for seed in range(20):
            found = bench.propose("merge", two(bench, FACTS, {**LINKED, "top_k": 9}), seed=seed, **search)
            assert "backend" not in lent(found)


@pytest.mark.parametrize(("one", "other"), [(0, 1), (0, 4), (1, 3)])
def test_two_that_have_no_part_in_common_are_not_crossed(bench: Any, one: int, other: int) -> None:
    """A policy that writes nothing has no prompt, and its buffer is another knob than that of one that writes."""
    assert not bench.ready("merge", two(bench, SHAPES[one], SHAPES[other]))


def test_the_mate_that_is_better_by_more_is_the_likelier(bench: Any) -> None:
    trials = [
        bench.trial(train={"train0": 0.9, "train1": 0.0}),
        bench.trial(1, policy=bench.kit.policy(40), train={"train0": 0.0, "train1": 0.1}),
        bench.trial(2, policy=bench.kit.policy(50), train={"train0": 0.0, "train1": 0.9}),
    ]
    of_seed = [found for seed in range(150) if (found := bench.propose("merge", trials, seed=seed)).parent == 0]
    with_better = sum("crossed with trial 2" in found.change for found in of_seed)
    assert with_better / len(of_seed) == pytest.approx(0.9, abs=0.08)


def test_there_must_be_two_that_differ_and_each_has_something_to_learn(bench: Any) -> None:
    one = {"train0": 0.5, "train1": 0.5}
    better, worse, unknown = (dict.fromkeys(one, score) for score in (0.9, 0.1, math.nan))
    assert not bench.ready("merge", [bench.trial()])
    assert not bench.ready("merge", two(bench, {}, {})[:1] + bench.study()[2:6]), "lost races are no parents"
    for train in (better, worse):
        assert bench.ready("merge", [bench.trial(train=one), bench.trial(1, policy=bench.kit.policy(60), train=train)])
    for train in (one, unknown):
        trials = [bench.trial(train=one), bench.trial(1, policy=bench.kit.policy(60), train=train)]
        assert not bench.ready("merge", trials)


def test_two_that_differ_only_in_what_may_not_change_are_not_crossed(bench: Any) -> None:
    prompts = two(bench, FACTS, FACTS)
    assert bench.ready("merge", prompts)
    assert not bench.ready("merge", prompts, prompts=False)
    assert not bench.ready("merge", prompts, slots=("write", "merge"))
    numbers = [bench.trial(policy=bench.facts()), bench.trial(1, policy=bench.facts(top_k=5), train={"train0": 0.9})]
    assert bench.ready("merge", numbers)
    assert not bench.ready("merge", numbers, numbers=False)
