"""Numbers and structure by a Gaussian process or TPE, at random, or far from all that was tried.

Invariants:
1. No prompt is edited: each is the parent's where it is of the same kind, and the given texts' where it is not.
2. What is drawn is inside the space, also where the parent is not.
3. Rounding does not decide which point is taken: of those that differ by it alone, the first is.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from mnemotune.optimizer.proposers.numbers import anywhere
from mnemotune.optimizer.proposers.sampled import TWEAKED, highest
from mnemotune.optimizer.study import Trial
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates
from mnemotune.policies.space import Space

EACH = pytest.mark.parametrize("name", ["gp", "tpe", "random"])
SPACE = Space()


def made(bench: Any, name: str, trials: list[Trial], *, seed: int = 0, **parts: Any) -> MemoryPolicy:
    policy: MemoryPolicy | None = bench.propose(name, trials, seed=seed, **parts).policy
    assert policy is not None
    return policy


def point(policy: MemoryPolicy) -> dict[str, Any]:
    point = SPACE.point_of(policy)
    assert point is not None
    return point


@EACH
def test_it_is_always_ready(bench: Any, name: str) -> None:
    assert bench.ready(name, [bench.trial(evidence=())])


@EACH
def test_a_prompt_that_the_parent_has_not_is_the_one_of_the_texts_given_invariant_1(bench: Any, name: str) -> None:
    own = {"write_facts": "Mine: {conversation}", "merge": "{memories}{facts}", "reply_external": "{memories}"}
    texts = Templates.bundled().model_copy(update=own)
    space = {"modes": ["facts"], "stores": ["external"]}
    policy = made(bench, name, [bench.trial()], templates=texts, space=space)
    assert (policy.prompts.write, policy.prompts.merge, policy.prompts.reply) == tuple(own.values())


@EACH
def test_a_change_of_mode_keeps_the_prompts_that_still_fit_invariant_1(bench: Any, name: str) -> None:
    """A reply prompt goes along wherever memories are stored alike; a write prompt is made for one mode."""
    own = bench.facts(prompts={"write": "My facts: {conversation}"})
    modes = set()
    for seed in range(40):
        policy = made(bench, name, [bench.trial(policy=own)], seed=seed)
        modes.add(policy.write.mode)
        replies = {"external": own.prompts.reply, "context": Templates.bundled().reply_context, None: None}
        assert policy.prompts.reply == replies[policy.store]
        if policy.write.mode == "facts" and policy.store == "external":
            assert policy.prompts == own.prompts
        elif policy.write.mode == "facts":
            assert policy.prompts.write == own.prompts.write
        elif policy.write.mode == "profile":
            assert policy.prompts.write == Templates.bundled().starting("write_profile")
        else:
            assert policy.prompts.write is None
    assert modes == {"none", "verbatim", "facts", "profile"}


@EACH
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_the_change_names_the_numbers_that_differ(bench: Any, name: str, seed: int) -> None:
    found = bench.propose(name, [bench.trial(policy=bench.facts())], seed=seed)
    before, after = point(bench.facts()), point(found.policy)
    differ = [f"{key} {value}" for key, value in after.items() if before.get(key) != value]
    assert found.change == f"numbers: {', '.join(differ) or 'as they were'}"


@EACH
def test_a_parent_outside_the_space_leads_back_into_it_invariant_2(bench: Any, name: str) -> None:
    outside = bench.facts(top_k=500)
    assert SPACE.point_of(outside) is None
    for seed in range(10):
        assert point(made(bench, name, [bench.trial(policy=outside)], seed=seed))


def test_tpe_mostly_takes_a_small_step_and_now_and_then_a_jump(bench: Any) -> None:
    """A step draws few parameters anew, and what depends on them; a jump draws all."""
    here = point(bench.facts())
    steps = 0
    for seed in range(60):
        there = point(made(bench, "tpe", [bench.trial(policy=bench.facts())], seed=seed))
        kept = here.keys() & there.keys()
        steps += sum(here[name] != there[name] for name in kept) <= TWEAKED
    assert 30 < steps < 60


def test_random_draws_anywhere_whatever_the_scores_say(bench: Any) -> None:
    high = [bench.trial(), *(bench.trial(n, policy=bench.facts(n), train={"train0": -9.0}) for n in range(1, 12))]
    low = [bench.trial(), *(bench.trial(n, policy=bench.facts(n), train={"train0": -1.0}) for n in range(1, 12))]
    one, other = ([made(bench, "random", trials, seed=seed) for seed in range(40)] for trials in (high, low))
    assert one == other
    modes = Counter(policy.write.mode for policy in one)
    assert all(4 <= modes[mode] <= 18 for mode in SPACE.limits["modes"])


@pytest.mark.exhaustive("name")
@pytest.mark.parametrize("name", ["gp", "tpe"])
def test_they_learn_where_scores_are_high(bench: Any, name: str) -> None:
    """The parent is always the seed, which is outside the space; what differs is which of two modes scored well."""
    space = {"modes": ["verbatim", "profile"]}

    def drawn(good: str) -> Counter[str]:
        trials = [bench.trial(policy=bench.kit.policy(mode="none"), train={"train0": 1.0, "train1": 1.0})]
        for number in range(1, 25):
            mode = ("verbatim", "profile")[number % 2]
            policy = bench.kit.policy(mode=mode, update_every=2, buffer_size=number, store="context")
            score = 0.9 if mode == good else -0.9
            trials.append(bench.trial(number, policy=policy, train={"train0": score, "train1": score}))
        return Counter(made(bench, name, trials, seed=seed, space=space).write.mode for seed in range(60))

    for good, bad in [("profile", "verbatim"), ("verbatim", "profile")]:
        modes = drawn(good)
        assert modes[good] > 2 * modes[bad]


def test_a_gaussian_process_puts_together_what_was_good_apart(bench: Any) -> None:
    """Neither a large buffer nor verbatim notes were tried together, and each was better than its opposite."""
    trials = [bench.trial(policy=bench.kit.policy(mode="profile", update_every=4, buffer_size=4, store="context"))]
    tried = [(mode, size) for mode in ("facts", "profile") for size in (0, 8, 30)] + [("verbatim", 0), ("verbatim", 2)]
    for number, (mode, size) in enumerate(tried, 1):
        policy = bench.kit.policy(mode=mode, update_every=4, buffer_size=size, store="context")
        score = size / 60 + 0.3 * (mode == "verbatim")
        trials.append(bench.trial(number, policy=policy, train={"train0": score, "train1": score}))
    policies = [made(bench, "gp", trials, seed=seed) for seed in range(10)]
    assert all(policy.write.mode == "verbatim" and (policy.buffer_size or 0) >= 16 for policy in policies)


def test_before_anything_is_known_a_gaussian_process_draws_anywhere(bench: Any) -> None:
    trials = [bench.trial(), *(bench.trial(n, policy=bench.facts(n), train={"train0": 0.1 * n}) for n in (1, 2, 3))]
    modes = Counter(made(bench, "gp", trials, seed=seed).write.mode for seed in range(80))
    assert all(8 <= modes[mode] <= 36 for mode in SPACE.limits["modes"])


def test_a_gaussian_process_proposes_also_where_all_scores_are_the_same(bench: Any) -> None:
    trials = [bench.trial(), *(bench.trial(n, policy=bench.facts(n), train={"train0": 0.5}) for n in range(1, 12))]
    assert len({made(bench, "gp", trials, seed=seed) for seed in range(5)}) > 1


def test_points_spread_out_are_far_from_each_other_and_from_what_was_tried(bench: Any) -> None:
    trials = [bench.trial(policy=bench.facts())]
    for number in range(1, 9):
        trials.append(bench.trial(number, policy=made(bench, "spread", trials, seed=number)))
    places = np.array([SPACE.coordinates(point(trial.policy)) for trial in trials])
    alike = np.array([SPACE.coordinates(anywhere(SPACE, random.Random(seed))) for seed in range(9)])
    assert pdist(places).min() > 1.5 * pdist(alike).min()


@given(
    values=st.lists(st.integers(-5, 5).map(lambda n: n / 3), min_size=1, max_size=8),
    noise=st.lists(st.floats(-1e-13, 1e-13), min_size=8, max_size=8),
)
def test_rounding_decides_no_tie_invariant_3(values: list[float], noise: list[float]) -> None:
    rounded = np.array(values) * (1 + np.array(noise[: len(values)]))
    assert highest(rounded) == values.index(max(values))


def test_what_is_clearly_higher_comes_before_what_is_first() -> None:
    assert highest(np.array([0.5, 0.5001, 0.4])) == 1
    assert highest(np.array([-2.0, -1.0, -np.inf])) == 1
    assert highest(np.array([-np.inf, -np.inf])) == 0
