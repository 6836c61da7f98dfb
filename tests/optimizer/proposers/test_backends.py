"""Searches that mix memories.

1. Only what the config names is tried; unless it names any, a candidate has its parent's.
2. A candidate with another memory starts from that one's prompts.
"""

from __future__ import annotations

from typing import Any

import pytest

from mnemotune.policies.prompts import Templates

SAMPLERS = ("tpe", "gp", "random", "spread")
MIXED = {"modes": ["facts"], "backends": ["builtin", "linked-facts", "playbook"], "links": [2, 4]}


def proposed(bench: Any, name: str, parent: Any, space: dict[str, Any]) -> list[Any]:
    trials = [bench.trial(policy=parent)]
    found = [bench.propose(name, trials, seed=seed, space=space) for seed in range(12)]
    assert [one.problem for one in found] == [""] * len(found)
    return [one.policy for one in found]


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_draw_the_memories_that_are_named_invariants_1_2(bench: Any, name: str) -> None:
    parent, texts = bench.facts(prompts={"write": "Mine: {conversation}"}), Templates.bundled()
    policies = proposed(bench, name, parent, MIXED)
    assert len({policy.backend for policy in policies}) > 1
    for policy in policies:
        assert policy.backend in (None, "linked-facts", "playbook")
        own = policy.backend is None
        assert policy.prompts.write == (parent.prompts.write if own else texts.starting(policy.prompt_kinds["write"]))
        linked = policy.backend == "linked-facts" and policy.store == "external"
        assert (policy.knobs.values.get("links", 0) >= 2) == linked


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("backend", [None, "linked-facts", "notebook"])
def test_unless_any_is_named_the_memory_is_the_parent_s_invariant_1(bench: Any, name: str, backend: str | None) -> None:
    parent = bench.facts(backend=backend)
    for policy in proposed(bench, name, parent, {"modes": ["facts", "profile"]}):
        ships_for_facts = backend == "linked-facts" and policy.write.mode != "facts"
        assert policy.backend == (None if ships_for_facts else backend)
