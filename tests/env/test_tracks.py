"""Tracks are found by name, with who acts there."""

from __future__ import annotations

import pytest

from mnemotune.env.tracks import TRACKS
from mnemotune.policies.prompts import Templates


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
