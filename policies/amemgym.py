"""AMemGym's agent configs: read as memory policies, and written for its own code to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .policy import MemoryPolicy

KINDS: Mapping[str, Mapping[str, Any]] = {
    "native": {"write": {"mode": "none"}},
    "awi": {"write": {"mode": "profile"}, "store": "context"},
    "rag": {"write": {"mode": "verbatim"}, "store": "external"},
    "awe": {"write": {"mode": "facts"}, "store": "external"},
}
"""What each of its agents is as a policy."""
NUMBERS = {"update_bsz": "update_every", "local_length": "buffer_size", "top_k": "top_k"}
WRITTEN_BY_MODEL = "enable_llm_mem_policy"
"""Tells AWE from RAG there, whatever the type says: both are one agent."""
ORACLE = "awi-hack"
EVOLVING: Mapping[str, str] = {"awi-evolve": "awi", "rag-evolve": "awe", "mem0-evolution": "awe"}
"""Its agents that rewrite their own prompts, and what they are otherwise."""
TARGETS: Mapping[str, str] = {
    "memory_update_prompt": "write",
    "fact_extraction_prompt": "write",
    "update_memory_prompt": "merge",
}
FEEDBACK: Mapping[str, Mapping[str, Any]] = {
    "vanilla_question_only": {"feedback": "question_only"},
    "vanilla": {"feedback": "complete"},
    "with_answer": {"ground_truth": True},
    "with_exposed_states": {"exposed_states": True},
}


def is_agent_config(values: Any) -> bool:
    """Tell an AMemGym agent config from a policy."""
    return isinstance(values, Mapping) and "llm_config" in values and "type" in values


def policy_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy that an agent config asks for. Raises ValueError when there is none."""
    kind = config["type"]
    if kind == ORACLE:
        return {**policy_values({**config, "type": "awi"}), "prompts": {"info_types": "{schema_list}"}}
    if kind in EVOLVING:
        return policy_values({**config, "type": EVOLVING[kind]}) | _evolution_values(config)
    if kind not in KINDS:
        known = (*KINDS, ORACLE, *EVOLVING)
        raise ValueError(f"type: no policy is like {kind!r}; those that have one are {', '.join(known)}")
    if kind == "native":
        return dict(KINDS[kind])
    given = config.get("agent_config")
    if not isinstance(given, Mapping):
        raise ValueError("agent_config: missing")
    names = {name: ours for name, ours in NUMBERS.items() if name != "top_k" or KINDS[kind]["store"] == "external"}
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"agent_config: lacks {', '.join(missing)}")
    if KINDS[kind]["store"] == "external" and isinstance(given.get(WRITTEN_BY_MODEL), bool):
        kind = "awe" if given[WRITTEN_BY_MODEL] else "rag"
    return {**KINDS[kind], **{ours: given[theirs] for theirs, ours in names.items()}}


def _evolution_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an evolving agent's config says about its prompts: where they start, and how they are rewritten."""
    given = config.get("evolution_config")
    if not isinstance(given, Mapping):
        raise ValueError("evolution_config: missing")
    start = given.get("init_prompt_type")
    initial = {"initial": start} if start in {"minimal", "medium"} else {}
    cadence = given.get("cadence", "no_evolution")
    if cadence == "no_evolution":
        return initial
    if cadence != "period":
        raise ValueError(f"evolution_config.cadence: {cadence!r} is neither 'period' nor 'no_evolution'")
    feedback, targets = given.get("feedback_types", []), given.get("targets", [])
    unknown = [name for name in feedback if name not in FEEDBACK] + [name for name in targets if name not in TARGETS]
    if unknown:
        raise ValueError(f"evolution_config: does not know {', '.join(map(repr, unknown))}")
    if "vanilla" not in feedback and "vanilla_question_only" not in feedback:
        raise ValueError("evolution_config.feedback_types: needs 'vanilla' or 'vanilla_question_only'")
    evolution: dict[str, Any] = {}
    for name in ("vanilla", "vanilla_question_only", "with_answer", "with_exposed_states"):  # the second one wins
        evolution |= FEEDBACK[name] if name in feedback else {}
    evolution["targets"] = [TARGETS[name] for name in targets]
    if start in {"info_type", "guided_info_type"}:
        evolution["targets"] = ["info_types"]
        evolution["guided"] = start == "guided_info_type"
    return {**initial, "evolution": evolution}


def agent_config(policy: MemoryPolicy, *, name: str, model: str) -> dict[str, Any]:
    """Return the agent config that is nearest to a policy; its prompts and other numbers have no place there."""
    shape = {"write": {"mode": policy.write.mode}} | ({"store": policy.store} if policy.store else {})
    kind = next((kind for kind, known in KINDS.items() if known == shape), policy.label)
    numbers = {theirs: getattr(policy, ours) for theirs, ours in NUMBERS.items()}
    numbers |= {WRITTEN_BY_MODEL: policy.write.mode == "facts"} if policy.store == "external" else {}
    evolving = _evolution_config(policy)
    if evolving:
        kind = "awi-evolve" if kind == "awi" else "rag-evolve"
    elif policy.oracle:
        kind = ORACLE
    return {
        "type": kind,
        "name": name,
        "llm_config": {"base_url": None, "api_key": None, "llm_model": model, "temperature": 0.0, "max_tokens": 8192},
        "agent_config": {key: value for key, value in numbers.items() if value is not None},
        **evolving,
    }


def _evolution_config(policy: MemoryPolicy) -> dict[str, Any]:
    """Return the part of an agent config about evolution; empty for a policy that does not evolve."""
    evolution = policy.evolution
    if evolution is None:
        return {}
    profile = policy.write.mode == "profile"
    given = evolution.model_dump()
    feedback = [name for name, said in FEEDBACK.items() if said.items() <= given.items()]
    names = {"merge": "update_memory_prompt"}
    targets = [names.get(t, "memory_update_prompt" if profile else "fact_extraction_prompt") for t in evolution.targets]
    by_types = "guided_info_type" if evolution.guided else "info_type"
    start = by_types if "info_types" in evolution.targets else "default"
    values = {"cadence": "period", "feedback_types": feedback, "targets": targets, "init_prompt_type": start}
    return {"evolution_config": values}
