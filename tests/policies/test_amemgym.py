"""AMemGym's agent configs are policies, and policies are agent configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnemotune.policies import PolicyError, load_policy
from mnemotune.policies.amemgym import agent_config, is_agent_config, policy_values
from mnemotune.policies.policy import Evolution, MemoryPolicy
from mnemotune.policies.prompts import Templates

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


@pytest.mark.parametrize(("by_model", "preset"), [(True, "awe"), (False, "rag")])
@pytest.mark.parametrize("kind", ["rag", "awe"])
def test_a_flag_tells_rag_from_awe_whatever_the_type_says(
    kind: str, by_model: bool, preset: str, tmp_path: Path
) -> None:
    numbers = NUMBERS | {"enable_llm_mem_policy": by_model}
    assert load_policy(write(tmp_path / "agent.json", type=kind, agent_config=numbers)) == load_policy(preset)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"type": "nemori", "agent_config": NUMBERS},
            r"type: no policy is like 'nemori'; .* native, awi, rag, awe, awi-hack, awi-evolve",
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


AGENTS = ("awe", "awi", "awi_complete", "awi_question_only", "native", "rag", "window")
TYPES = {"awi_question_only": "awi-evolve", "awi_complete": "awi-evolve", "window": "native"}


@pytest.mark.parametrize("preset", AGENTS)
def test_a_policy_comes_back_from_its_agent_config(preset: str) -> None:
    policy = load_policy(preset)
    config = agent_config(policy, name="mine", model="m")
    assert is_agent_config(config)
    assert (config["type"], config["name"], config["llm_config"]["llm_model"]) == (
        TYPES.get(preset, preset),
        "mine",
        "m",
    )
    assert MemoryPolicy.model_validate(policy_values(config)) == policy


def test_a_policy_without_a_like_is_called_by_its_label() -> None:
    policy = MemoryPolicy.model_validate(
        {"write": {"mode": "facts"}, "update_every": 2, "buffer_size": 0, "store": "context"}
    )
    assert agent_config(policy, name="mine", model="m")["type"] == "facts+context(2,0)"


def test_a_policy_is_no_agent_config() -> None:
    assert not is_agent_config(load_policy("awi").model_dump())
    assert not is_agent_config(["type", "llm_config"])


# Agents that evolve


def evolving_config(**told: Any) -> dict[str, Any]:
    evolution = {
        "cadence": "period",
        "feedback_types": ["vanilla"],
        "targets": ["memory_update_prompt"],
        "init_prompt_type": "info_type",
    }
    return {"type": "awi-evolve", "agent_config": NUMBERS, "evolution_config": evolution | told}


@pytest.mark.parametrize(
    ("told", "evolution"),
    [
        ({}, {"feedback": "complete"}),
        ({"feedback_types": ["vanilla_question_only"]}, {"feedback": "question_only"}),
        ({"feedback_types": ["vanilla", "vanilla_question_only"]}, {"feedback": "question_only"}),
        (
            {"feedback_types": ["vanilla", "with_answer", "with_exposed_states"]},
            {"feedback": "complete", "ground_truth": True, "exposed_states": True},
        ),
        ({"init_prompt_type": "guided_info_type"}, {"guided": True}),
        ({"init_prompt_type": "default"}, {"targets": ("write",)}),
    ],
)
def test_an_evolving_agents_config_is_a_policy_with_an_evolution(
    told: dict[str, Any], evolution: dict[str, Any], tmp_path: Path
) -> None:
    policy = load_policy(write(tmp_path / "agent.json", **evolving_config(**told)))
    assert policy.evolution == Evolution(**evolution)
    assert policy.label == "profile+context(2,4) evolving"


def test_without_a_cadence_an_evolving_agent_is_the_plain_one(tmp_path: Path) -> None:
    file = write(tmp_path / "agent.json", **evolving_config(cadence="no_evolution"))
    assert load_policy(file) == load_policy("awi")


@pytest.mark.parametrize(
    ("kind", "start", "text"),
    [
        ("awi-evolve", "minimal", "write_profile_minimal"),
        ("rag-evolve", "minimal", "write_facts_minimal"),
        ("mem0-evolution", "medium", "write_facts_medium"),
    ],
)
def test_an_agent_starts_from_the_text_that_it_names(kind: str, start: str, text: str, tmp_path: Path) -> None:
    target = "memory_update_prompt" if kind == "awi-evolve" else "fact_extraction_prompt"
    config = evolving_config(init_prompt_type=start, targets=[target]) | {"type": kind}
    policy = load_policy(write(tmp_path / "agent.json", **config))
    assert policy.prompts.write == getattr(Templates.bundled(), text)
    assert policy.evolution is not None
    assert policy.evolution.targets == ("write",)


def test_both_prompts_of_facts_can_be_rewritten_and_come_back(tmp_path: Path) -> None:
    targets = ["fact_extraction_prompt", "update_memory_prompt"]
    config = evolving_config(init_prompt_type="default", targets=targets) | {"type": "rag-evolve"}
    policy = load_policy(write(tmp_path / "agent.json", **config))
    assert policy.evolution is not None
    assert policy.evolution.targets == ("write", "merge")
    assert policy_of(agent_config(policy, name="mine", model="m")) == policy


def test_the_hack_is_the_oracle_and_comes_back(tmp_path: Path) -> None:
    policy = load_policy(write(tmp_path / "agent.json", type="awi-hack", agent_config=NUMBERS))
    assert policy.oracle
    assert "{schema_list}" in (policy.prompts.write or "")
    config = agent_config(policy, name="mine", model="m")
    assert config["type"] == "awi-hack"
    assert policy_of(config) == policy


def policy_of(config: dict[str, Any]) -> MemoryPolicy:
    return MemoryPolicy.model_validate(policy_values(config))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"cadence": "hourly"}, "evolution_config.cadence: 'hourly'"),
        ({"feedback_types": ["with_answer"]}, "evolution_config.feedback_types: needs 'vanilla'"),
        ({"feedback_types": ["vanilla", "scolding"]}, "does not know 'scolding'"),
        ({"targets": ["soul"]}, "does not know 'soul'"),
        ({"init_prompt_type": "medium"}, "initial: write.mode: profile can start from default, minimal"),
        ({"init_prompt_type": "default", "targets": []}, "evolution.targets"),
        ({"init_prompt_type": "default", "targets": ["update_memory_prompt"]}, "has no prompt 'merge'"),
    ],
)
def test_an_evolution_that_cannot_be_is_told(told: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=said):
        load_policy(write(tmp_path / "agent.json", **evolving_config(**told)))


def test_an_evolving_agent_without_its_config_is_told(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"agent\.json: evolution_config: missing"):
        load_policy(write(tmp_path / "agent.json", type="awi-evolve", agent_config=NUMBERS))
