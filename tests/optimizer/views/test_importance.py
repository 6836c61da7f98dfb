"""Which numbers of a policy were important in a search."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from mnemotune.optimizer.views.importance import LEAST_TRIALS, importances, raced_numbers
from mnemotune.policies.files import load_policy
from mnemotune.policies.policy import MemoryPolicy


def policy_at(top_k: int, recency: int) -> MemoryPolicy:
    values = {"write": {"mode": "verbatim", "roles": "both"}, "update_every": 2, "buffer_size": 0, "store": "external"}
    return MemoryPolicy.model_validate(values | {"top_k": top_k, "read": {"recency": recency}})


@pytest.fixture
def trials_of(kit: Any) -> Callable[[int], list[Any]]:
    """Make a search in which ``top_k`` alone decides on the score."""

    def make(count: int) -> list[Any]:
        rng, trials = random.Random(0), [kit.trial(policy=policy_at(2, 0), train={"ann": 0.22})]
        for number in range(1, count):
            policy = policy_at(rng.randint(2, 60), rng.randint(0, 100))
            trials += [kit.trial(number, policy=policy, train={"ann": 0.2 + (policy.top_k or 0) / 100})]
        return trials

    return make


def test_the_number_that_decides_is_the_most_important(trials_of: Callable[[int], list[Any]]) -> None:
    shares = importances(trials_of(60))
    assert next(iter(shares)) == "top_k"
    assert 0.8 < shares["top_k"] <= 1


def test_a_number_that_only_some_structures_have_is_among_the_others(kit: Any) -> None:
    rng, trials = random.Random(0), [kit.trial(policy=policy_at(2, 0), train={"ann": 0.22})]
    for number in range(1, 60):
        if number % 2:
            policy = policy_at(rng.randint(2, 60), rng.randint(0, 100))
        else:
            policy = load_policy("awi").model_copy(update={"update_every": rng.randint(1, 20)})
        trials += [kit.trial(number, policy=policy, train={"ann": 0.2 + (policy.top_k or 0) / 100})]
    assert 0 < sum("top_k" in trial.params for trial in trials) < len(trials)
    shares = importances(trials)
    assert shares["top_k"] > 0.5
    assert {"top_k", "write.mode"} <= shares.keys()


@pytest.mark.filterwarnings("error")
def test_a_number_that_a_single_trial_lacks_is_no_cause_for_a_warning(trials_of: Any, kit: Any) -> None:
    trials = trials_of(40)
    lonely = kit.trial(len(trials), policy=load_policy("awi"), train={"ann": 0.3})
    assert lonely.params.keys() != trials[1].params.keys()
    assert importances([*trials, lonely])["top_k"] > 0.5


def test_few_trials_say_nothing(trials_of: Callable[[int], list[Any]]) -> None:
    trials = trials_of(LEAST_TRIALS - 1)
    assert importances(trials) == {}
    assert importances([*trials, *trials]) == {}, "a policy that comes back is no other"


def test_the_same_search_gives_the_same_importance(trials_of: Callable[[int], list[Any]]) -> None:
    trials = trials_of(40)
    assert importances(trials) == importances(trials)


def test_what_never_raced_does_not_count(trials_of: Callable[[int], list[Any]], kit: Any) -> None:
    trials = trials_of(5)
    unplayed = kit.trial(6, policy=policy_at(3, 3), train={}, summary=None)
    assert len(raced_numbers([*trials, unplayed])) == 5
