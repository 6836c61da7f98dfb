"""AMemGym's agent configs are policies, and policies are agent configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnemotune.policies import PolicyError, load_policy, presets
from mnemotune.policies.amemgym import agent_config, is_agent_config, policy_values
from mnemotune.policies.policy import MemoryPolicy

MODEL = {"base_url": None, "api_key": None, "llm_model": "gpt-4.1-mini", "temperature": 0.0, "max_tokens": 8192}
NUMBERS = {"update_bsz": 2, "local_length": 4, "top_k": 30}


def write(path: Path, **config: Any) -> Path:
    path.write_text(json.dumps({"name": "mine", "llm_config": MODEL, **config}), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["native", "rag", "awe", "awi"])
def test_an_agent_config_is_the_preset_of_its_name(kind: str, tmp_path: Path) -> None:
    assert load_policy(write(tmp_path / "agent.json", type=kind, agent_config=NUMBERS)) == load_policy(kind)


def test_its_numbers_are_the_policys(tmp_path: Path) -> None:
    numbers = {"update_bsz": 6, "local_length": 2, "top_k": 7}
    policy = load_policy(write(tmp_path / "agent.json", type="rag", agent_config=numbers))
    assert (policy.update_every, policy.buffer_size, policy.top_k) == (6, 2, 7)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"type": "awi-hack", "agent_config": NUMBERS},
            r"type: no policy is like 'awi-hack'; .* native, awi, rag, awe",
        ),
        ({"type": "awi"}, "agent_config: missing"),
        ({"type": "rag", "agent_config": {"update_bsz": 2}}, "agent_config: lacks local_length, top_k"),
        ({"type": "awi", "agent_config": {"update_bsz": 0, "local_length": 4}}, "update_every"),
    ],
)
def test_an_agent_config_that_is_no_policy_is_told_with_its_file(
    config: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(PolicyError, match=said) as caught:
        load_policy(write(tmp_path / "agent.json", **config))
    assert "agent.json: " in str(caught.value)


@pytest.mark.parametrize("preset", presets())
def test_a_policy_comes_back_from_its_agent_config(preset: str) -> None:
    policy = load_policy(preset)
    config = agent_config(policy, name="mine", model="m")
    assert is_agent_config(config)
    assert (config["type"], config["name"], config["llm_config"]["llm_model"]) == (preset, "mine", "m")
    assert MemoryPolicy.model_validate(policy_values(config)) == policy


def test_a_policy_without_a_like_is_called_by_its_label() -> None:
    policy = MemoryPolicy.model_validate(
        {"write": {"mode": "facts"}, "update_every": 2, "buffer_size": 0, "store": "context"}
    )
    assert agent_config(policy, name="mine", model="m")["type"] == "facts+context(2,0)"


def test_a_policy_is_no_agent_config() -> None:
    assert not is_agent_config(load_policy("awi").model_dump())
    assert not is_agent_config(["type", "llm_config"])
