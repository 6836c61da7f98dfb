"""AMemGym's agent configs: read as memory policies, and written for its own code to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .policy import MemoryPolicy

KINDS: Mapping[str, Mapping[str, Any]] = {
    "native": {"write": {"mode": "none"}},
    "awi": {"write": {"mode": "profile"}, "store": "context"},
    "rag": {"write": {"mode": "verbatim"}, "store": "external"},
    "awe": {"write": {"mode": "facts"}, "store": "external"},
}
"""What each of its agents is as a policy."""


def is_agent_config(values: Any) -> bool:
    """Tell an AMemGym agent config from a policy."""
    return isinstance(values, Mapping) and "llm_config" in values and "type" in values


def policy_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy that an agent config asks for. Raises ValueError when there is none."""
    kind = config["type"]
    if kind not in KINDS:
        raise ValueError(f"type: no policy is like {kind!r}; those that have one are {', '.join(KINDS)}")
    if kind == "native":
        return dict(KINDS[kind])
    given = config.get("agent_config")
    if not isinstance(given, Mapping):
        raise ValueError("agent_config: missing")
    names = {"update_bsz": "update_every", "local_length": "buffer_size"}
    names |= {"top_k": "top_k"} if KINDS[kind]["store"] == "external" else {}
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"agent_config: lacks {', '.join(missing)}")
    return {**KINDS[kind], **{ours: given[theirs] for theirs, ours in names.items()}}


def agent_config(policy: MemoryPolicy, *, name: str, model: str) -> dict[str, Any]:
    """Return the agent config that is nearest to a policy; its prompts and other numbers have no place there."""
    shape = {"write": {"mode": policy.write.mode}} | ({"store": policy.store} if policy.store else {})
    kind = next((kind for kind, known in KINDS.items() if known == shape), policy.label)
    numbers = {"update_bsz": policy.update_every, "local_length": policy.buffer_size, "top_k": policy.top_k}
    numbers |= {"enable_llm_mem_policy": policy.write.mode == "facts"} if policy.store == "external" else {}
    return {
        "type": kind,
        "name": name,
        "llm_config": {"base_url": None, "api_key": None, "llm_model": model, "temperature": 0.0, "max_tokens": 8192},
        "agent_config": {key: value for key, value in numbers.items() if value is not None},
    }
