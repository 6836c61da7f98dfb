"""Tracks are found by name, with who acts there."""

from __future__ import annotations

import pytest

from mnemotune.env.track import memory_calls
from mnemotune.env.tracks import TRACKS
from mnemotune.policies import MemoryPolicy, load_policy
from mnemotune.policies.prompts import Templates
from mnemotune.policies.space import PACKAGES


@pytest.mark.parametrize("name", ["research", "tools"])
def test_a_plan_is_given_unless_a_model_is_to_plan(name: str) -> None:
    agents = [TRACKS.get(name)(Templates.bundled(), options).agent for options in ({}, {"agent": "model"})]
    assert agents == ["planned", "model"]


@pytest.mark.parametrize(
    ("name", "agent", "says"),
    [
        ("tools", "robot", "the tools track has no agent 'robot'; there are planned, model"),
        ("codeqa", "model", "the codeqa track has no agent 'model'; nobody acts there"),
        ("dialogue", "model", "the dialogue has no agent 'model'; nobody acts there"),
    ],
)
def test_other_agents_are_refused(name: str, agent: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TRACKS.get(name)(Templates.bundled(), {"agent": agent})


def test_memory_writes_each_message_alone_at_the_very_most() -> None:
    values = load_policy("rag").model_dump()
    packages = {name: MemoryPolicy.model_validate(values | {"backend": name}) for name in PACKAGES}
    policies = {name: load_policy(name) for name in ("window", "awe")} | packages
    assert {name: memory_calls(policy, messages=10, searches=3) for name, policy in policies.items()} == {
        "window": 0,
        "awe": 20,
        "mem0ai": 20,
        "mem0ai-kuzu": 53,
        "langmem": 20,
        "a-mem-package": 20,
        "nemori-package": 40,
    }
