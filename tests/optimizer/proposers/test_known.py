"""The named strategies as candidates.

Invariants:
1. Each is proposed with its numbers and the leader's prompts, where they are of its kinds.
2. One that a trial has tried, with whatever prompts, is not proposed again; one outside the space never is.
"""

from __future__ import annotations

from typing import Any

import pytest

from mnemotune.optimizer.proposers.known import STRATEGIES, USERS_MESSAGES
from mnemotune.optimizer.study import Trial
from mnemotune.policies.files import load_policy
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates

NAMED = (*STRATEGIES, *USERS_MESSAGES)


def proposed_one_after_another(bench: Any, trials: list[Trial], *, seed: int = 0, **search: Any) -> list[Any]:
    """Let all that are left be proposed, each as the next trial."""
    trials, made = list(trials), []
    while bench.ready("known", trials, **search):
        found = bench.propose("known", trials, seed=seed, **search)
        trials.append(bench.kit.trial(len(trials), policy=found.policy, train={"train0": -1.0, "train1": -1.0}))
        made.append(found)
    return made


def test_each_strategy_is_proposed_once_invariants_1_2(bench: Any) -> None:
    trials = [bench.trial(policy=bench.facts(top_k=7))]
    made = {found.change: found for found in proposed_one_after_another(bench, trials)}
    assert set(made) == {f"the strategy {name}" for name in NAMED}
    own = made["the strategy users_messages"].policy
    assert (own.label, own.write.roles) == ("verbatim+context(2,0)", "user")
    searched = made["the strategy users_messages_searched"].policy
    assert (searched.label, searched.write.roles) == ("verbatim+external(2,0,30)", "user")
    renewed = made["the strategy users_messages_renewed"].policy
    assert renewed.label == "verbatim+external(2,0,45,diversity=50,recency=30)"
    for name in STRATEGIES:
        found, strategy = made[f"the strategy {name}"], load_policy(name)
        assert found.parent == 0
        found_again = {"reply": bench.facts().prompts.reply} if strategy.store == "external" else {}
        own = strategy.prompts.model_copy(update=found_again)
        assert found.policy == strategy.model_copy(update={"prompts": own})


def test_a_strategy_that_is_refused_is_not_proposed_again_invariant_2(bench: Any) -> None:
    trials = [bench.trial(policy=bench.facts(top_k=7))]
    refused = bench.propose("known", trials)
    trials.append(Trial(1, 1, None, 0, refused.change, "check"))
    left = {found.change for found in proposed_one_after_another(bench, trials)}
    assert left == {f"the strategy {name}" for name in NAMED} - {refused.change}


def test_a_template_s_own_prompt_is_no_evolved_one_and_is_never_too_long(bench: Any) -> None:
    made = proposed_one_after_another(bench, [bench.trial(policy=bench.facts(top_k=7))], longest_prompt=10)
    assert len(made) == len(NAMED)
    assert all(found.policy is not None for found in made)


def test_a_strategy_whose_memory_is_another_says_so(bench: Any) -> None:
    made = proposed_one_after_another(bench, [bench.trial(policy=bench.facts(backend="linked-facts", top_k=7))])
    backends = {found.change.removeprefix("the strategy "): found.policy.backend for found in made}
    assert backends["awe, with backend: linked-facts"] == "linked-facts"
    assert backends["rag"] is None


def test_prompts_are_those_of_the_leader_where_they_fit_invariant_1(bench: Any) -> None:
    better = bench.facts(90, top_k=7, prompts={"write": "Mine: {conversation}"})
    trials = [bench.trial(), bench.trial(1, policy=better, train={"train0": 0.9, "train1": 0.9})]
    made = {found.change: found for found in proposed_one_after_another(bench, trials)}
    assert {found.parent for found in made.values()} == {1}
    assert made["the strategy awe"].policy.prompts == better.prompts
    assert made["the strategy awi"].policy.prompts.write == Templates.bundled().starting("write_profile")
    external = [found.policy for found in made.values() if found.policy.store == "external"]
    assert {policy.prompts.reply for policy in external} == {better.prompts.reply}


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_was_tried_with_other_prompts_is_not_tried_again_invariant_2(bench: Any, name: str) -> None:
    strategy = load_policy(name)
    own = {slot: text and f"Mine.\n{text}" for slot, text in strategy.prompts.model_dump().items()}
    made = proposed_one_after_another(
        bench, [bench.trial(policy=MemoryPolicy.model_validate(strategy.model_dump() | {"prompts": own}))]
    )
    assert {found.change for found in made} == {f"the strategy {other}" for other in NAMED if other != name}


@pytest.mark.parametrize(
    ("space", "left"),
    [
        ({"modes": ("facts", "profile")}, {"awe", "awi"}),
        ({"stores": ("context",)}, {"native", "awi", "users_messages"}),
        ({"top_k": (2, 5), "modes": ("verbatim", "facts")}, {"users_messages"}),
    ],
)
def test_what_is_outside_the_space_is_never_proposed_invariant_2(
    bench: Any, space: dict[str, Any], left: set[str]
) -> None:
    made = proposed_one_after_another(bench, [bench.trial(policy=bench.facts(top_k=7))], space=space)
    assert {found.change.removeprefix("the strategy ") for found in made} == left


def test_where_backends_are_searched_their_presets_are_strategies_invariants_1_2(bench: Any) -> None:
    trials = [bench.trial(policy=bench.facts(top_k=7))]
    made = proposed_one_after_another(bench, trials, space={"backends": ("builtin", "linked-facts", "playbook")})
    by_name = {found.change.removeprefix("the strategy "): found.policy for found in made}
    assert by_name.keys() == {*NAMED, "mem0", "ace"}
    for name in ("mem0", "ace"):
        preset = load_policy(name)
        assert (by_name[name].backend, by_name[name].prompts.write) == (preset.backend, preset.prompts.write)
        assert by_name[name].prompts.merge == preset.prompts.merge


def test_the_order_is_drawn(bench: Any) -> None:
    trials = [bench.trial(policy=bench.facts(top_k=7))]
    firsts = {proposed_one_after_another(bench, trials, seed=seed)[0].change for seed in range(40)}
    assert len(firsts) == len(NAMED)
